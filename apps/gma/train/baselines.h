// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "train/task.h"

namespace gma::app {

/// Accuracies that need no model, by name, on the test data or, without it, the held-out data:
/// "majority", the most frequent label of the training data; for ListOps also "root_operator" and
/// "root_digits", see ListOpsBaselines.
nlohmann::ordered_json shortcut_baselines(const LabelledCorpus& corpus);

}  // namespace gma::app
