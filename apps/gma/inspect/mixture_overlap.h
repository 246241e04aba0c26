// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace gma::app {

/// One head's mixture, each variance spelled out: means and variances (K, D) in rows.
struct MixtureView {
  std::size_t components = 0, size = 0;
  std::span<const float> means, variances;
};

/// Bhattacharyya coefficient of components a and b: the integral of the root of the product of
/// their densities, 1 for equal ones and near 0 for such as lie apart (Kailath 1967).
double overlap(const MixtureView& mixture, std::size_t a, std::size_t b);

/// overlap() of all pairs: their mean, and the largest.
struct OverlapSummary {
  double mean = 0.0, largest = 0.0;  ///< 0 where there is one component alone
};
OverlapSummary overlap_summary(const MixtureView& mixture);

}  // namespace gma::app
