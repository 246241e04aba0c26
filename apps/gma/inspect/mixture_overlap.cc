// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "inspect/mixture_overlap.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gma::app {
namespace {

double sum_of_logs(std::span<const float> variances) {
  double sum = 0.0;
  for (const float variance : variances) sum += std::log(static_cast<double>(variance));
  return sum;
}

/// With the sums of the logarithms of both components' variances.
double overlap(const MixtureView& mixture, std::size_t a, std::size_t b, double logs_a,
               double logs_b) {
  double distance = 0.0, product = 1.0, logs = 0.0;
  for (std::size_t d = 0; d < mixture.size; ++d) {
    const std::size_t at = a * mixture.size + d, other = b * mixture.size + d;
    const double mean = 0.5 * (static_cast<double>(mixture.variances[at]) +
                               static_cast<double>(mixture.variances[other]));
    const double gap = static_cast<double>(mixture.means[at] - mixture.means[other]);
    distance += gap * gap / mean;
    product *= mean;
    // One logarithm for several factors, before their product leaves the range of a double.
    if (product < 1e-150 || product > 1e150 || d + 1 == mixture.size) {
      logs += std::log(product);
      product = 1.0;
    }
  }
  return std::exp(-distance / 8.0 - 0.5 * (logs - 0.5 * (logs_a + logs_b)));
}

std::span<const float> variances_of(const MixtureView& mixture, std::size_t component) {
  return mixture.variances.subspan(component * mixture.size, mixture.size);
}

}  // namespace

double overlap(const MixtureView& mixture, std::size_t a, std::size_t b) {
  return overlap(mixture, a, b, sum_of_logs(variances_of(mixture, a)),
                 sum_of_logs(variances_of(mixture, b)));
}

OverlapSummary overlap_summary(const MixtureView& mixture) {
  std::vector<double> logs;
  for (std::size_t k = 0; k < mixture.components; ++k) {
    logs.push_back(sum_of_logs(variances_of(mixture, k)));
  }
  OverlapSummary summary;
  double sum = 0.0;
  std::size_t pairs = 0;
  for (std::size_t a = 0; a < mixture.components; ++a) {
    for (std::size_t b = a + 1; b < mixture.components; ++b) {
      const double value = overlap(mixture, a, b, logs[a], logs[b]);
      sum += value;
      ++pairs;
      summary.largest = std::max(summary.largest, value);
    }
  }
  summary.mean = pairs > 0 ? sum / static_cast<double>(pairs) : 0.0;
  return summary;
}

}  // namespace gma::app
