// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What is to be said of options of `gma train` that are sound alone but not together.
#pragma once

#include <string>
#include <vector>

#include "option_binder.h"
#include "train/config.h"

namespace gma::app {

/// Throws InvalidArgument, with the names that the options have for a user.
void check_options(const OptionBinder& options, const TrainConfig& config);

/// A note for each option that was given but has no effect beside the others.
std::vector<std::string> notes_on_options(const OptionBinder& options, const TrainConfig& config);

}  // namespace gma::app
