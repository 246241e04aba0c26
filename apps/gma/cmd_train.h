// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "train/config.h"

namespace gma::app {

/// What `gma train TASK ARGUMENTS...` would train with, for a benchmark; nothing is trained. Throws
/// InvalidArgument for whatever that command would refuse before it reads data.
TrainConfig train_config(const std::string& task, const std::vector<std::string>& arguments);

}  // namespace gma::app
