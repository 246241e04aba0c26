// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The one interface of every sequence mixer, and their registry.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gma_torch/nn/cloneable_module.h"

namespace gma_torch::nn {

/// Everything a mixer may be built from. One struct for all, so that a config names each option
/// once; a mixer refuses what it cannot honour (for example is_causal for a bidirectional-only
/// mixer).
struct MixerConfig {
  std::int64_t hidden_size = 128;
  std::int64_t num_heads = 4;
  std::int64_t num_key_value_heads = 0;  ///< 0 = num_heads
  bool is_causal = false;
  bool use_rotary = true;  ///< rotary positions on query and key
  double rotary_base = 10000.0;
  bool use_short_conv = false;  ///< causal depthwise convolution and SiLU on query, key and value
  std::int64_t short_conv_width = 4;
  /// gma: on responsibilities; softmax, linformer: on the affinity; linear, performer: on features.
  double attention_dropout = 0.0;

  // gma
  std::int64_t num_components = 64;
  /// Which variances differ: "diag" (by component and channel), "tied" (by channel) or "spherical"
  /// (by component). The latter two have fewer parameters and cost less.
  std::string covariance_type = "diag";
  double initial_variance = 0.0;  ///< sigma^2 at the start; 0 = 4 sqrt(head size)
  double variance_floor = 1e-4;
  double eps = 1e-6;  ///< of the normaliser; also linear and performer

  // performer
  std::int64_t num_features = 0;             ///< random features; 0 = D log(D), rounded
  std::int64_t feature_redraw_interval = 0;  ///< training passes between new features; 0 = never

  // linformer
  std::int64_t projection_rank = 16;  ///< projected keys a head; 16 as in Long Range Arena
  std::int64_t max_length = 0;        ///< most tokens of a sequence; in a model, the model's

  // mamba; it has no heads, positions or dropout of its own: of the fields above, hidden_size,
  // is_causal and short_conv_width alone apply to it
  std::int64_t state_size = 16;  ///< numbers that each channel carries from token to token (S)
  std::int64_t inner_size = 0;   ///< channels; 0 = as many parameters as an attention layer
  std::int64_t dt_rank = 0;      ///< rank of the step sizes' projection; 0 = ceil(hidden_size / 16)

  std::int64_t head_size() const { return hidden_size / num_heads; }
  std::int64_t key_value_heads() const {
    return num_key_value_heads == 0 ? num_heads : num_key_value_heads;
  }
  /// Throws gma::InvalidArgument naming the first field that no mixer can use.
  void validate() const;
};

/// What one layer carries from token to token: named tensors, each with the batch as axis 0.
struct MixerState {
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  std::int64_t position = 0;  ///< tokens seen, padding included

  /// The tensor called `name`, or nullptr.
  const torch::Tensor* find(std::string_view name) const;
  /// The tensor called `name`; throws gma::InvalidArgument if there is none.
  const torch::Tensor& at(std::string_view name) const;
  /// Replaces or adds a tensor.
  void set(std::string_view name, torch::Tensor tensor);

  /// Keeps the rows `index` (int64) of every tensor: reordering for beam search, or selecting.
  /// Throws gma::InvalidArgument for a row that there is not.
  MixerState reorder(const torch::Tensor& index) const;
  MixerState clone() const;
};

/// Name, in a state, of the number of padded tokens in front of each row (B), where there are any.
inline constexpr const char* kPadding = "padding";

/// Maps (B, T, hidden_size) to the same shape.
class Mixer : public CloneableModule {
 public:
  /// key_padding_mask (B, T) bool, true = keep; kept tokens are numbered from 0 whatever the
  /// padding. With a state (causal mixers only), x continues the sequences that the state has seen
  /// and the state moves on past x; a mask is then legal in the first call only, with the padding
  /// in front. Throws gma::InvalidArgument for anything else; whatever is thrown, the state is as
  /// it was.
  virtual torch::Tensor forward(const torch::Tensor& x,
                                const std::optional<torch::Tensor>& key_padding_mask = std::nullopt,
                                MixerState* state = nullptr) = 0;

  /// The state before the first token, for sequences x of `batch_size`.
  virtual MixerState initial_state(std::int64_t batch_size) const = 0;

  /// Parameters that must not be decayed beyond biases and norms (mixture parameters, for gma).
  virtual std::vector<torch::Tensor> no_decay_parameters() const { return {}; }
};

/// Builds the mixer called `name`; throws gma::InvalidArgument listing the known names.
std::shared_ptr<Mixer> make_mixer(const std::string& name, const MixerConfig& config);

/// Registered names, sorted.
std::vector<std::string> mixer_names();

}  // namespace gma_torch::nn
