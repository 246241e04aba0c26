// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Gaussian mixture attention on torch tensors: the C++ face of the operators registered as
// torch.ops.gma.*. Shapes and symbols are those of gma/attention.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace gma_torch {

/// All that a sequence leaves behind. S (B, H, K, Dv) and Z (B, H, K), in float32 (float64 for
/// float64 input); one row a sequence, so cu_seqlens.size(0) - 1 rows when packed.
struct State {
  at::Tensor s;
  at::Tensor z;

  /// The rows `index` (int64): reordering for beam search, or selecting.
  State reorder(const at::Tensor& index) const;
  /// A copy that shares no memory.
  State clone() const;
};

struct AttentionOptions {
  bool is_causal = false;
  std::optional<at::Tensor> key_padding_mask = {};  ///< (B, Tk) bool, true = keep
  std::optional<at::Tensor> cu_seqlens_q = {};      ///< int32 or int64, from 0 to T, B = 1
  std::optional<at::Tensor> cu_seqlens_k = {};
  std::optional<State> initial_state = {};
  bool return_state = false;
  double eps = 1e-6;
  double dropout_p = 0.0;                         ///< dropout on responsibilities
  std::optional<std::int64_t> dropout_seed = {};  ///< drawn from torch's CPU generator if absent
};

/// output (B, Tq, Hq, Dv) in query's dtype, and the final state if asked for. Differentiable once
/// in query, key, value, means, variances, prior_logits and the initial state, through the output
/// and through the final state; a second derivative and forward mode are refused. query (B, Tq, Hq,
/// D), key (B, Tk, Hk, D), value (B, Tk, Hk, Dv) share a dtype; means (Hk, K, D), variances (Hk, K,
/// D), tied (Hk, 1, D) or spherical (Hk, K, 1), and prior_logits (Hk, K) are float32 (float64 for
/// float64 input). Throws c10::Error (a ValueError or TypeError in Python) naming the argument.
std::pair<at::Tensor, std::optional<State>> gaussian_mixture_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& means, const at::Tensor& variances, const at::Tensor& prior_logits,
    const AttentionOptions& options = {});

/// One decoding step: query, key (B, 1, H, D) and value (B, 1, H, Dv), or the same without the
/// token axis; returns the output in the form of the input, and the new state (the old one is
/// unchanged).
std::pair<at::Tensor, State> gaussian_mixture_attention_step(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& means, const at::Tensor& variances, const at::Tensor& prior_logits,
    const State& state, double eps = 1e-6);

/// Gamma(x): the posterior of each component for routing vectors x (B, T, H, D), as (B, T, H, K).
/// Plain ATen, differentiable, for inspection and for the composite path.
at::Tensor responsibilities(const at::Tensor& x, const at::Tensor& means,
                            const at::Tensor& variances, const at::Tensor& prior_logits);

}  // namespace gma_torch
