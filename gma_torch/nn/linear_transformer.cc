// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/linear_transformer.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

// elu(x) + 1, as x + 1 for x > 0 and exp(x) otherwise: exp(x) - 1 + 1 would round small features to
// zero.
Tensor elu_plus_one(const Tensor& x) { return torch::relu(x) + x.clamp_max(0.0).exp(); }

}  // namespace

std::shared_ptr<torch::nn::Module> LinearTransformerImpl::make_alike() const {
  return std::make_shared<LinearTransformerImpl>(config());
}

Tensor LinearTransformerImpl::query_features(const Tensor& query) { return elu_plus_one(query); }

Tensor LinearTransformerImpl::key_features(const Tensor& key) { return elu_plus_one(key); }

}  // namespace gma_torch::nn
