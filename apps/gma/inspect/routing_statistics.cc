// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "inspect/routing_statistics.h"

#include <algorithm>
#include <cmath>

namespace gma::app {

HeadStatistics::HeadStatistics(std::size_t components)
    : mass_(components), top_mass_(components), table_(components, kTokenCategories) {}

void HeadStatistics::add(std::span<const float> responsibilities, TokenCategory category) {
  // Less than this adds nothing to the entropy that the figures show.
  constexpr float kNegligible = 1e-12F;
  std::size_t top = 0;
  double token_entropy = 0.0;
  for (std::size_t k = 0; k < responsibilities.size(); ++k) {
    const float gamma = responsibilities[k];
    mass_[k] += static_cast<double>(gamma);
    if (gamma > responsibilities[top]) top = k;
    if (gamma > kNegligible) token_entropy -= static_cast<double>(gamma * std::log(gamma));
  }
  ++tokens_;
  entropy_ += token_entropy;
  top_ += static_cast<double>(responsibilities[top]);
  top_mass_[top] += static_cast<double>(responsibilities[top]);
  table_.add(top, static_cast<std::size_t>(category));
}

std::vector<double> HeadStatistics::usage() const {
  std::vector<double> usage = mass_;
  for (double& share : usage) share /= static_cast<double>(std::max<std::int64_t>(tokens_, 1));
  return usage;
}

std::vector<double> HeadStatistics::sharpness() const {
  std::vector<double> sharpness = top_mass_;
  const std::vector<double> counts = table_.row_sums();
  for (std::size_t k = 0; k < sharpness.size(); ++k) sharpness[k] /= std::max(counts[k], 1.0);
  return sharpness;
}

RoutingMetrics HeadStatistics::metrics() const {
  RoutingMetrics metrics;
  const std::size_t count = components();
  const std::vector<double> shares = usage(), assigned = table_.row_sums();
  const double dead = kDeadShare / static_cast<double>(count);
  metrics.components = static_cast<std::int64_t>(count);
  metrics.components_used = std::ranges::count_if(assigned, [](double n) { return n > 0.0; });
  metrics.components_dead = std::ranges::count_if(shares, [&](double u) { return u < dead; });
  metrics.usage_entropy = normalised_by_log(entropy(shares), count);
  metrics.assignment_entropy = normalised_by_log(entropy(assigned), count);
  metrics.effective_components = tokens_ > 0 ? std::exp(entropy(shares)) : 0.0;
  const auto tokens = static_cast<double>(std::max<std::int64_t>(tokens_, 1));
  metrics.responsibility_entropy = normalised_by_log(entropy_ / tokens, count);
  // Rounding alone makes it negative: entropy is concave.
  metrics.routing_information =
      std::max(metrics.usage_entropy - metrics.responsibility_entropy, 0.0);
  metrics.top_responsibility = top_ / tokens;
  metrics.categories = agreement(table_);
  return metrics;
}

RoutingMetrics summarise(std::span<const RoutingMetrics> heads) {
  RoutingMetrics summary;
  const double share = 1.0 / static_cast<double>(std::max<std::size_t>(heads.size(), 1));
  for (const RoutingMetrics& head : heads) {
    summary.components += head.components;
    summary.components_used += head.components_used;
    summary.components_dead += head.components_dead;
    summary.usage_entropy += share * head.usage_entropy;
    summary.assignment_entropy += share * head.assignment_entropy;
    summary.effective_components += share * head.effective_components;
    summary.responsibility_entropy += share * head.responsibility_entropy;
    summary.routing_information += share * head.routing_information;
    summary.top_responsibility += share * head.top_responsibility;
    summary.categories.nmi += share * head.categories.nmi;
    summary.categories.chance += share * head.categories.chance;
    summary.categories.adjusted += share * head.categories.adjusted;
  }
  return summary;
}

}  // namespace gma::app
