// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gma_torch/nn/cloneable_module.h"
#include "gma_torch/nn/mixer.h"
#include "gma_torch/nn/short_conv.h"

namespace gma_torch::nn {

/// Sizes of a Mamba layer with what MixerConfig leaves to be chosen.
struct MambaSizes {
  std::int64_t hidden = 0;
  std::int64_t inner = 0;    ///< E
  std::int64_t state = 0;    ///< S
  std::int64_t dt_rank = 0;  ///< R
  std::int64_t conv_width = 0;

  /// An inner_size of 0 becomes the E whose layer, both directions counted, comes closest to the
  /// 4 hidden_size^2 parameters of an attention layer's projections: within 5 % from a hidden_size
  /// of 24 on. From 128 on it is a multiple of 8, which the products like. (Mamba itself stacks
  /// layers of E = 2 hidden_size without an MLP between them.)
  explicit MambaSizes(const MixerConfig& config);
};

/// One direction of a Mamba layer: convolution, selection and scan. Its parameters, with the
/// initial values of the authors' code:
///   conv     depthwise, causal, with bias, then SiLU
///   x_proj   (R + 2 S, E)  to the step size's factor, B and C; uniform within 1 / sqrt(E)
///   dt_proj  (E, R)        uniform within 1 / sqrt(R)
///   dt_bias  (E)           so that softplus of it is log-uniform between 0.001 and 0.1
///   a_log    (E, S)        log(1), ..., log(S), with A = -exp(a_log)
///   d        (E)           1
class SelectiveStateSpaceImpl : public CloneableModule {
 public:
  explicit SelectiveStateSpaceImpl(const MambaSizes& sizes);

  /// x (B, T, E), zero where padding_mask (B, T) is false, to the same shape. Padded tokens leave
  /// the state as it is. `tail` and `h`, both or neither, are the convolution's and the scan's
  /// state, and are moved on.
  torch::Tensor forward(const torch::Tensor& x, const std::optional<torch::Tensor>& padding_mask,
                        torch::Tensor* tail, torch::Tensor* h);

  torch::Tensor initial_tail(std::int64_t batch_size) const;
  torch::Tensor initial_h(std::int64_t batch_size) const;
  /// dt_bias, a_log and d.
  std::vector<torch::Tensor> scan_parameters() const { return {dt_bias_, a_log_, d_}; }

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;

  MambaSizes sizes_;
  ShortConv conv_{nullptr};
  torch::Tensor x_proj_, dt_proj_, dt_bias_, a_log_, d_;
};
TORCH_MODULE(SelectiveStateSpace);

/// Mamba, the selective state space layer S6 of Gu and Dao, "Mamba: Linear-Time Sequence Modeling
/// with Selective State Spaces" (2023): o_proj(scan(x) silu(z)) with (x, z) = in_proj of the
/// tokens.
///
/// Not causal, it scans in both directions, each with a SelectiveStateSpace of its own, and sums
/// them before the gate, as Zhu et al., "Vision Mamba: Efficient Visual Representation Learning
/// with Bidirectional State Space Model" (2024), do; in_proj and o_proj are shared.
///
/// Of MixerConfig it reads hidden_size, is_causal, short_conv_width (its convolution is always
/// there), state_size, inner_size and dt_rank. It has no heads, so grouped ones are refused, as is
/// attention_dropout: there is no affinity to drop from. Positions are in the recurrence:
/// use_rotary does not apply.
///
/// in_proj is a parameter rather than a torch::nn::Linear, and so are the projections above, so
/// that a model's initialisation of linear maps leaves Mamba's own. dt_bias, a_log and d are
/// float32 whatever the module is converted to (float64 in a float64 module), and are not to be
/// decayed. The state holds `conv`, the last short_conv_width - 1 inputs of the convolution, and
/// `ssm` (B, E, S): its size does not depend on the tokens seen.
class MambaImpl : public Mixer {
 public:
  explicit MambaImpl(const MixerConfig& config);

  torch::Tensor forward(const torch::Tensor& x,
                        const std::optional<torch::Tensor>& key_padding_mask = std::nullopt,
                        MixerState* state = nullptr) override;
  MixerState initial_state(std::int64_t batch_size) const override;
  std::vector<torch::Tensor> no_decay_parameters() const override;

  using Mixer::to;
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;

  MixerConfig config_;
  torch::Tensor in_proj_;
  SelectiveStateSpace scan_{nullptr};
  SelectiveStateSpace reverse_scan_{nullptr};  ///< absent in causal layers
  torch::nn::Linear o_proj_{nullptr};
};
TORCH_MODULE(Mamba);

}  // namespace gma_torch::nn
