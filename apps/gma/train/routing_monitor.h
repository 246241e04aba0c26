// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gma_torch/nn/gaussian_mixture_attention.h>
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "train/routing_health.h"

namespace gma::app {

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

  /// What one side of a layer showed.
  struct Side {
    torch::Tensor usage;      ///< (heads, K), mean responsibilities
    torch::Tensor entropies;  ///< (heads), mean entropy of a token's responsibilities
  };
  static Side side_of(const torch::Tensor& responsibilities,
                      const std::optional<torch::Tensor>& padding_mask);

  std::vector<Layer*> layers_;
  std::vector<Side> queries_, keys_;
};

}  // namespace gma::app
