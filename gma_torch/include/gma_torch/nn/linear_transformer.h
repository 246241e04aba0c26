// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gma_torch/nn/feature_attention.h"

namespace gma_torch::nn {

/// Linear Transformer: phi(x) = elu(x) + 1, without scaling of query or key (Katharopoulos et al.,
/// "Transformers are RNNs", 2020, equation 7). As many features as channels.
class LinearTransformerImpl : public FeatureAttention {
 public:
  explicit LinearTransformerImpl(const MixerConfig& config) : FeatureAttention(config) {}

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;
  torch::Tensor query_features(const torch::Tensor& query) override;
  torch::Tensor key_features(const torch::Tensor& key) override;
  std::int64_t num_features() const override { return config().head_size(); }
};
TORCH_MODULE(LinearTransformer);

}  // namespace gma_torch::nn
