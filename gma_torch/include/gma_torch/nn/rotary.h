// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Rotary positions: the pair (x_2i, x_2i+1) of a head, as a complex number, is multiplied by
// exp(j position base^(-2i/D)).
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace gma_torch::nn {

/// Phases of every position, computed in double and shared by all layers of the process.
class Rotary {
 public:
  /// `head_size` must be even.
  Rotary(std::int64_t head_size, double base) : head_size_(head_size), base_(base) {}

  /// Phases (T, 1, D/2) of the positions `first`, `first` + 1, ..., for tensors like `x`.
  torch::Tensor phases(std::int64_t first, std::int64_t length, const torch::Tensor& x) const;
  /// Phases (B, T, 1, D/2) of the given positions (B, T), int64, all below `end`.
  torch::Tensor phases(const torch::Tensor& positions, std::int64_t end,
                       const torch::Tensor& x) const;

 private:
  std::int64_t head_size_;
  double base_;
};

/// x (B, T, H, D) rotated, in its own dtype; differentiable in x.
torch::Tensor apply_rotary(const torch::Tensor& x, const torch::Tensor& phases);

}  // namespace gma_torch::nn
