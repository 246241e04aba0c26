// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/routing_monitor.h"

#include <gma_torch/nn/readouts.h>

#include <algorithm>
#include <cmath>

#include "inspect/routing_statistics.h"

namespace gma::app {
namespace {

using torch::Tensor;

// As many tokens as take no time beside a step: some places of some sequences.
constexpr std::int64_t kSequences = 8;
constexpr std::int64_t kPlaces = 64;

Tensor some(const Tensor& x) {
  const std::int64_t step = std::max<std::int64_t>(1, x.size(1) / kPlaces);
  return x.detach()
      .narrow(0, 0, std::min(x.size(0), kSequences))
      .slice(1, 0, std::min(x.size(1), step * kPlaces), step);
}

/// Mean over heads of entropies (heads), over log K.
double mean_entropy(const Tensor& entropies, std::int64_t components) {
  if (components < 2) return 0.0;
  return entropies.mean().item<double>() / std::log(static_cast<double>(components));
}

/// Terms of the entropy of distributions.
Tensor surprise(const Tensor& shares) { return -torch::xlogy(shares, shares); }

}  // namespace

RoutingMonitor::RoutingMonitor(torch::nn::Module& model) {
  for (const auto& module : model.modules()) {
    if (auto* const layer = dynamic_cast<Layer*>(module.get())) layers_.push_back(layer);
  }
}

RoutingMonitor::~RoutingMonitor() {
  for (Layer* const layer : layers_) layer->set_observer({});
}

void RoutingMonitor::watch() {
  queries_.assign(layers_.size(), {});
  keys_.assign(layers_.size(), {});
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->set_observer(
        [this, i](const Tensor& query, const Tensor& key, const std::optional<Tensor>& mask) {
          see(i, query, key, mask);
        });
  }
}

void RoutingMonitor::see(std::size_t layer, const Tensor& query, const Tensor& key,
                         const std::optional<Tensor>& key_padding_mask) {
  const torch::NoGradGuard no_grad;
  const auto [of_queries, of_keys] = layers_[layer]->responsibilities_of(some(query), some(key));
  std::optional<Tensor> mask;
  if (key_padding_mask) mask = some(*key_padding_mask);
  queries_[layer] = side_of(of_queries, mask);
  keys_[layer] = side_of(of_keys, mask);
}

RoutingMonitor::Side RoutingMonitor::side_of(const Tensor& responsibilities,
                                             const std::optional<Tensor>& padding_mask) {
  const Tensor gamma = responsibilities.to(torch::kFloat64);
  // The mean of the terms is, over components, the mean entropy.
  return {gma_torch::nn::component_usage(gamma, padding_mask),
          gma_torch::nn::component_usage(surprise(gamma), padding_mask).sum(1)};
}

std::optional<RoutingHealth> RoutingMonitor::health() {
  const torch::NoGradGuard no_grad;
  for (Layer* const layer : layers_) layer->set_observer({});
  if (layers_.empty() || keys_.size() != layers_.size() || !keys_.back().usage.defined()) {
    return std::nullopt;
  }
  RoutingHealth health{.variance_min = HUGE_VAL};
  const double share = 0.5 / static_cast<double>(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::int64_t heads = keys_[i].usage.size(0), components = keys_[i].usage.size(1);
    for (const Side* const side : {&queries_[i], &keys_[i]}) {
      const double usage = mean_entropy(surprise(side->usage).sum(1), components);
      health.usage_entropy += share * usage;
      health.routing_information +=
          share * std::max(usage - mean_entropy(side->entropies, components), 0.0);
    }
    const Tensor of_group = queries_[i].usage.view({heads, -1, components}).amax(1);
    const Tensor is_dead =
        torch::maximum(of_group, keys_[i].usage) < kDeadShare / static_cast<double>(components);
    health.dead_components += is_dead.sum().item<std::int64_t>();
    const Tensor variances = layers_[i]->variances();
    health.variance_min = std::min(health.variance_min, variances.min().item<double>());
    health.variance_max = std::max(health.variance_max, variances.max().item<double>());
  }
  return health;
}

}  // namespace gma::app
