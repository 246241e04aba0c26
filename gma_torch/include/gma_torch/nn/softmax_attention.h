// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gma_torch/nn/attention_mixer.h"

namespace gma_torch::nn {

/// Scaled dot-product attention, ATen's own. Its state is the keys and values so far, (B, T, H, D).
class SoftmaxAttentionImpl : public AttentionMixer {
 public:
  explicit SoftmaxAttentionImpl(const MixerConfig& config) : AttentionMixer(config) {}

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;
  torch::Tensor attend(const Heads& heads, const std::optional<torch::Tensor>& key_padding_mask,
                       MixerState* state) override;
  void extend_initial_state(MixerState& state, std::int64_t batch_size,
                            const torch::TensorOptions& options) const override;
};
TORCH_MODULE(SoftmaxAttention);

}  // namespace gma_torch::nn
