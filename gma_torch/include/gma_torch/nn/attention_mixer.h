// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gma_torch/nn/mixer.h"
#include "gma_torch/nn/rotary.h"
#include "gma_torch/nn/short_conv.h"

namespace gma_torch::nn {

/// What every mixer of the form o_proj(attend(q, k, v)) shares: projections, grouped heads, the
/// short convolution, rotary positions, padding, and all of the state but attend's own. A mixer of
/// this form derives from it and defines attend().
class AttentionMixer : public Mixer {
 public:
  torch::Tensor forward(const torch::Tensor& x,
                        const std::optional<torch::Tensor>& key_padding_mask = std::nullopt,
                        MixerState* state = nullptr) override;

  /// Cross-attention, not causal: queries from x (B, Tq, hidden_size), keys and values from context
  /// (B, Tk, hidden_size) with context_padding_mask (B, Tk).
  torch::Tensor forward_cross(
      const torch::Tensor& x, const torch::Tensor& context,
      const std::optional<torch::Tensor>& context_padding_mask = std::nullopt);

  MixerState initial_state(std::int64_t batch_size) const override;

 protected:
  /// query (B, Tq, H, D); key, value (B, Tk, key_value_heads, D).
  struct Heads {
    torch::Tensor query, key, value;
  };

  explicit AttentionMixer(const MixerConfig& config);

  /// Tokens (B, T, hidden_size) and which of them are kept.
  struct Source {
    torch::Tensor tokens;
    std::optional<torch::Tensor> padding_mask;
  };

  /// Throws gma::InvalidArgument unless the tokens are (B, T, hidden_size) of the weights' dtype
  /// and device, and the mask fits them.
  void check_source(const char* name, const char* mask_name, const Source& source) const;

  /// Everything before attend(), from sources that have been checked; for self-attention both are
  /// one object.
  Heads project(const Source& queries, const Source& keys, MixerState* state);

  /// The output of every query head, (B, Tq, H, D). state->position still counts the tokens before.
  virtual torch::Tensor attend(const Heads& heads,
                               const std::optional<torch::Tensor>& key_padding_mask,
                               MixerState* state) = 0;
  /// Adds attend()'s tensors to an initial state; `options` are those of the projections.
  virtual void extend_initial_state(MixerState& state, std::int64_t batch_size,
                                    const torch::TensorOptions& options) const = 0;

  const MixerConfig& config() const { return config_; }

 private:
  // One of query, key, value: x projected, convolved and split into heads.
  torch::Tensor stream(torch::nn::Linear& projection, ShortConv& conv, std::int64_t heads,
                       const torch::Tensor& x, const char* tail_name, MixerState* state);
  // Rotary positions applied, where the mixer has them.
  torch::Tensor rotated(const torch::Tensor& heads,
                        const std::optional<torch::Tensor>& padding_mask,
                        const MixerState* state) const;

  MixerConfig config_;
  Rotary rotary_;
  torch::nn::Linear q_proj_{nullptr}, k_proj_{nullptr}, v_proj_{nullptr}, o_proj_{nullptr};
  ShortConv q_conv_{nullptr}, k_conv_{nullptr}, v_conv_{nullptr};
};

/// Positions (B, T) of the next T tokens where padding makes them differ between rows, kept tokens
/// numbered from 0; an undefined tensor where every row's are state->position (or 0) and up.
torch::Tensor padded_positions(std::int64_t length,
                               const std::optional<torch::Tensor>& padding_mask,
                               const MixerState* state);

}  // namespace gma_torch::nn
