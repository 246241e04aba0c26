// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace gma::app {

/// What a run has reached and what to try next, for the console. `final_record` is that of the log.
std::vector<std::string> summary(const TrainConfig& config, const Progress& progress,
                                 const nlohmann::ordered_json& final_record);

/// The command that goes on with the run: with more steps, minutes or patience where what it had is
/// used up.
std::string resume_command(const TrainConfig& config, const Progress& progress);

/// Whether nothing is left of the steps, the minutes or the patience.
bool is_complete(const TrainConfig& config, const Progress& progress);

}  // namespace gma::app
