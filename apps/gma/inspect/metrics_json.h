// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "inspect/inspection.h"

namespace gma::app {

void to_json(nlohmann::ordered_json& json, const RoutingMetrics& metrics);

/// Figures of the whole model, of both sides, and of each layer and head: docs/inspect.md lists
/// them.
nlohmann::ordered_json metrics_json(const Inspection& inspection);

}  // namespace gma::app
