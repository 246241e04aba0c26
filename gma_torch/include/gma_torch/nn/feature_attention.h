// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gma_torch/nn/attention_mixer.h"

namespace gma_torch::nn {

/// What mixers of the form phi(q) (phi(K)^T V) / (phi(q) phi(K)^T 1 + eps) share: the normalised
/// linear attention of gma/linear_attention.h between feature maps of query and key that a derived
/// mixer defines. Features and sums are float32 (float64 in a float64 module). The state is S and
/// Z, of constant size. Padded keys are left out of both. attention_dropout drops features, of
/// queries and of keys, as gma drops responsibilities.
class FeatureAttention : public AttentionMixer {
 protected:
  explicit FeatureAttention(const MixerConfig& config) : AttentionMixer(config) {}

  /// phi of query or key vectors (B, T, H, D), in the type of the sums: (B, T, H, num_features()),
  /// not negative.
  virtual torch::Tensor query_features(const torch::Tensor& query) = 0;
  virtual torch::Tensor key_features(const torch::Tensor& key) = 0;
  virtual std::int64_t num_features() const = 0;
  /// Called once before the features of each pass.
  virtual void begin_pass() {}

 private:
  torch::Tensor attend(const Heads& heads, const std::optional<torch::Tensor>& key_padding_mask,
                       MixerState* state) final;
  void extend_initial_state(MixerState& state, std::int64_t batch_size,
                            const torch::TensorOptions& options) const final;
};

/// The type of features and sums in a module of `dtype`: float64 for float64, otherwise float32.
torch::Dtype feature_dtype(torch::Dtype dtype);

}  // namespace gma_torch::nn
