// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "gma_torch/nn/cloneable_module.h"

namespace gma_torch::nn {

/// y[b,t,c] = sum_j weight[c,j] x[b, t + j - left, c] for t < length, where x is zero outside its
/// ends: a depthwise convolution over tokens. x (B, T, C), weight (C, W), y (B, length, C).
/// Differentiable once; a second derivative is refused. Throws gma::InvalidArgument for tensors of
/// other shapes.
torch::Tensor depthwise_conv(const torch::Tensor& x, const torch::Tensor& weight, std::int64_t left,
                             std::int64_t length);

/// Depthwise convolution over the last `width` tokens (causal) or over the nearest ones, then SiLU.
class ShortConvImpl : public CloneableModule {
 public:
  ShortConvImpl(std::int64_t channels, std::int64_t width, bool is_causal, bool has_bias = false);

  /// x (B, T, C) to the same shape. `tail` (B, width - 1, C), causal only, holds the tokens before
  /// x and is replaced by those before what follows x; gma::InvalidArgument for another shape.
  torch::Tensor forward(const torch::Tensor& x, torch::Tensor* tail = nullptr);

  /// The tail before the first token: zeros.
  torch::Tensor initial_tail(std::int64_t batch_size) const;

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;

  torch::Tensor activate(torch::Tensor convolved) const;

  std::int64_t left_;
  torch::Tensor weight_;
  torch::Tensor bias_;  ///< (C), before SiLU; undefined without
};
TORCH_MODULE(ShortConv);

}  // namespace gma_torch::nn
