// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The linear attention operators as the dispatcher knows them: as operators.h, with features given
// instead of a mixture.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <tuple>

#include "ops/operators.h"

namespace gma_torch::ops::linear {

/// Names and shapes as in gma::LinearAttentionArgs.
struct Arguments {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  bool is_causal = false;
  OptionalTensor key_padding_mask{};
  OptionalTensor initial_s{};
  OptionalTensor initial_z{};
  double eps = 1e-6;
};

/// As ops::Upstream; `needs` stands for query, key, value, and the initial state's two together.
struct Upstream {
  at::Tensor normalizer;
  at::Tensor segment_s;
  at::Tensor segment_z;
  OptionalTensor grad_output{};
  OptionalTensor grad_final_s{};
  OptionalTensor grad_final_z{};
  std::array<bool, 4> needs{};
};

/// Gradients of query, key, value, initial S and initial Z.
using BackwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// As the functions of the same name in arguments.h.
void check_tensors(const Arguments& args);
void check(const Arguments& args);
void check(const Arguments& args, const Upstream& upstream);

/// Whether libgma computes with this device and dtype; the composite path takes the others.
bool has_kernel(const at::Tensor& query);

/// The composite path, in plain ATen.
AttentionResult composite(const Arguments& args, bool return_state);

/// Calls through the dispatcher.
AttentionResult call_attention(const Arguments& args, bool return_state);
ForwardResult call_forward(const Arguments& args, bool return_state);
BackwardResult call_backward(const Arguments& args, const Upstream& upstream);

/// For linear_attention and _linear_attention_forward, which differ in what they return.
template <class Result, Result (*Kernel)(const Arguments&, bool)>
Result attention_adapter(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         bool is_causal, const OptionalTensor& key_padding_mask,
                         const OptionalTensor& initial_s, const OptionalTensor& initial_z,
                         bool return_state, double eps) {
  return Kernel({query, key, value, is_causal, key_padding_mask, initial_s, initial_z, eps},
                return_state);
}

template <BackwardResult (*Kernel)(const Arguments&, const Upstream&)>
BackwardResult backward_adapter(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, bool is_causal,
                                const OptionalTensor& key_padding_mask,
                                const OptionalTensor& initial_s, const OptionalTensor& initial_z,
                                double eps, const at::Tensor& normalizer,
                                const at::Tensor& segment_s, const at::Tensor& segment_z,
                                const OptionalTensor& grad_output,
                                const OptionalTensor& grad_final_s,
                                const OptionalTensor& grad_final_z, std::array<bool, 4> needs) {
  return Kernel({query, key, value, is_causal, key_padding_mask, initial_s, initial_z, eps},
                {normalizer, segment_s, segment_z, grad_output, grad_final_s, grad_final_z, needs});
}

}  // namespace gma_torch::ops::linear
