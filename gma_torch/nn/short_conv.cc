// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/short_conv.h"

#include <cmath>

#include "nn/checks.h"

namespace gma_torch::nn {

using torch::Tensor;

ShortConvImpl::ShortConvImpl(std::int64_t channels, std::int64_t width, bool is_causal,
                             bool has_bias)
    : left_(is_causal ? width - 1 : width / 2) {
  weight_ = register_parameter("weight", torch::empty({channels, width}));
  const double bound = 1.0 / std::sqrt(static_cast<double>(width));
  torch::nn::init::uniform_(weight_, -bound, bound);
  if (!has_bias) return;
  bias_ = register_parameter("bias", torch::empty({channels}));
  torch::nn::init::uniform_(bias_, -bound, bound);
}

Tensor ShortConvImpl::forward(const Tensor& x, Tensor* tail) {
  if (tail == nullptr) return activate(depthwise_conv(x, weight_, left_, x.size(1)));
  check_state_shape("tail", *tail, {x.size(0), weight_.size(1) - 1, weight_.size(0)});
  const Tensor extended = torch::cat({*tail, x}, 1);
  *tail = extended.narrow(1, x.size(1), tail->size(1)).clone();
  return activate(depthwise_conv(extended, weight_, 0, x.size(1)));
}

Tensor ShortConvImpl::activate(Tensor convolved) const {
  if (bias_.defined()) convolved = convolved + bias_.to(convolved.scalar_type());
  return torch::silu(convolved);
}

std::shared_ptr<torch::nn::Module> ShortConvImpl::make_alike() const {
  const std::int64_t width = weight_.size(1);
  return std::make_shared<ShortConvImpl>(weight_.size(0), width, left_ == width - 1,
                                         bias_.defined());
}

Tensor ShortConvImpl::initial_tail(std::int64_t batch_size) const {
  return torch::zeros({batch_size, weight_.size(1) - 1, weight_.size(0)},
                      weight_.options().requires_grad(false));
}

}  // namespace gma_torch::nn
