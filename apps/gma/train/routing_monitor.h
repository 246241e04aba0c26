// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gma_torch/nn/gaussian_mixture_attention.h>
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace gma::app {

/// How a model uses its mixtures: whether routing collapses shows here first.
struct RoutingHealth {
  /// Entropy of the mean responsibilities over log K, mean over layers, heads and sides.
  double usage_entropy = 0.0;
  /// Components whose mean responsibility is below kDeadShare / K on both sides.
  std::int64_t dead_components = 0;
  double variance_min = 0.0, variance_max = 0.0;
};

/// Looks at some tokens of a pass through a model with Gaussian mixture attention. The model
/// computes the same bits, and no generator is used.
class RoutingMonitor {
 public:
  explicit RoutingMonitor(torch::nn::Module& model);
  ~RoutingMonitor();
  RoutingMonitor(const RoutingMonitor&) = delete;
  RoutingMonitor& operator=(const RoutingMonitor&) = delete;

  /// Looks at the passes that follow, until health().
  void watch();
  /// What the last pass showed; nothing without such layers, or without a pass.
  std::optional<RoutingHealth> health();

 private:
  using Layer = gma_torch::nn::GaussianMixtureAttentionImpl;

  void see(std::size_t layer, const torch::Tensor& query, const torch::Tensor& key,
           const std::optional<torch::Tensor>& key_padding_mask);

  std::vector<Layer*> layers_;
  std::vector<torch::Tensor> queries_, keys_;  ///< (heads, K), mean responsibilities
};

}  // namespace gma::app
