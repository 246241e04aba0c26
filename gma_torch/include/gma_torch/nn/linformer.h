// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gma_torch/nn/attention_mixer.h"

namespace gma_torch::nn {

/// Linformer: softmax attention over projection_rank learned sums of keys and values (Wang et al.,
/// "Linformer: Self-Attention with Linear Complexity", 2020, equation 7),
///   softmax(Q (E^T K)^T / sqrt(D)) (E^T V),
/// with E (max_length, projection_rank) one matrix for keys, values and all heads of a layer, drawn
/// from N(0, 1 / projection_rank). Row j of E belongs to the j-th kept token: padded keys and
/// values are left out of the sums, by selection. Shorter sequences use the first rows; longer ones
/// are refused.
///
/// Bidirectional only: each sum holds keys of all positions, so that masking future ones would
/// leave no matrix product to save; is_causal is refused. attention_dropout drops entries of the
/// softmax.
class LinformerImpl : public AttentionMixer {
 public:
  /// Throws gma::InvalidArgument for is_causal and for max_length 0.
  explicit LinformerImpl(const MixerConfig& config);

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;
  torch::Tensor attend(const Heads& heads, const std::optional<torch::Tensor>& key_padding_mask,
                       MixerState* state) override;
  void extend_initial_state(MixerState& state, std::int64_t batch_size,
                            const torch::TensorOptions& options) const override;

  torch::Tensor projection_;
};
TORCH_MODULE(Linformer);

}  // namespace gma_torch::nn
