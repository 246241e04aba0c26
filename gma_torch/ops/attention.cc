// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The C++ interface: calls the registered operators.
#include "gma_torch/attention.h"

#include <ATen/ATen.h>

#include <limits>

#include "ops/composite.h"
#include "ops/operators.h"

namespace gma_torch {
namespace {

std::int64_t draw_seed() {
  return at::randint(std::numeric_limits<std::int64_t>::max(), {}, at::kLong).item<std::int64_t>();
}

}  // namespace

State State::reorder(const at::Tensor& index) const {
  return {s.index_select(0, index), z.index_select(0, index)};
}

State State::clone() const { return {s.clone(), z.clone()}; }

std::pair<at::Tensor, std::optional<State>> gaussian_mixture_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& means, const at::Tensor& variances, const at::Tensor& prior_logits,
    const AttentionOptions& options) {
  ops::Arguments args{.query = query,
                      .key = key,
                      .value = value,
                      .means = means,
                      .variances = variances,
                      .prior_logits = prior_logits,
                      .is_causal = options.is_causal,
                      .key_padding_mask = options.key_padding_mask,
                      .cu_seqlens_q = options.cu_seqlens_q,
                      .cu_seqlens_k = options.cu_seqlens_k,
                      .eps = options.eps,
                      .dropout_p = options.dropout_p};
  if (options.initial_state) {
    args.initial_s = options.initial_state->s;
    args.initial_z = options.initial_state->z;
  }
  if (options.dropout_p > 0) {
    args.dropout_seed = options.dropout_seed ? *options.dropout_seed : draw_seed();
  }
  const auto [output, s, z] = ops::call_attention(args, options.return_state);
  if (!options.return_state) return {output, std::nullopt};
  return {output, State{s, z}};
}

std::pair<at::Tensor, State> gaussian_mixture_attention_step(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& means, const at::Tensor& variances, const at::Tensor& prior_logits,
    const State& state, double eps) {
  const bool has_token_axis = query.dim() == 4;
  const auto token = [&](const char* name, const at::Tensor& tensor) {
    if (!has_token_axis) return tensor;
    TORCH_CHECK_VALUE(
        tensor.dim() == 4 && tensor.sym_size(1).sym_eq(1).expect_true(__FILE__, __LINE__), name,
        ": expected one token, (B, 1, H, D), got ", tensor.sym_sizes());
    return tensor.squeeze(1);
  };
  const auto [output, s, z] = ops::call_step({.query = token("query", query),
                                              .key = token("key", key),
                                              .value = token("value", value),
                                              .means = means,
                                              .variances = variances,
                                              .prior_logits = prior_logits,
                                              .s = state.s,
                                              .z = state.z,
                                              .eps = eps});
  return {has_token_axis ? output.unsqueeze(1) : output, State{s, z}};
}

at::Tensor responsibilities(const at::Tensor& x, const at::Tensor& means,
                            const at::Tensor& variances, const at::Tensor& prior_logits) {
  return ops::composite_responsibilities(x, means, variances, prior_logits);
}

}  // namespace gma_torch
