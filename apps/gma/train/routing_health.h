// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gma::app {

/// How a model uses its mixtures: whether routing collapses shows here first.
struct RoutingHealth {
  /// Entropy of the mean responsibilities over log K, mean over layers, heads and sides.
  double usage_entropy = 0.0;
  /// What remains of it when the mean entropy of a token's responsibilities is taken away, mean as
  /// above: near 0 all tokens are routed alike, however even the usage.
  double routing_information = 0.0;
  /// Components whose mean responsibility is below kDeadShare / K on both sides.
  std::int64_t dead_components = 0;
  double variance_min = 0.0, variance_max = 0.0;
};

}  // namespace gma::app
