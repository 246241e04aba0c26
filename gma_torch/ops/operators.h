// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The operators as the dispatcher knows them. Only this file and operators.cc spell the argument
// lists out: kernels take Arguments, and are registered through the adapters below.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>

#include "ops/arguments.h"

namespace gma_torch::ops {

/// output, final S and final Z; the state is undefined unless it was asked for.
using AttentionResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// Output, S, Z, and gma::Saved: normalizer, segment_s, segment_z.
using ForwardResult =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Gradients of query, key, value, means, variances, prior_logits, initial S and initial Z.
using BackwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor,
                                  at::Tensor, at::Tensor, at::Tensor>;

/// output (B, Hq, Dv), and the new S and Z.
using StepResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// Calls through the dispatcher.
AttentionResult call_attention(const Arguments& args, bool return_state);
ForwardResult call_forward(const Arguments& args, bool return_state);
BackwardResult call_backward(const Arguments& args, const Upstream& upstream);
StepResult call_step(const StepArguments& args);

using OptionalTensor = std::optional<at::Tensor>;

/// Optional tensors are saved undefined where they are not given.
inline at::Tensor or_undefined(const OptionalTensor& tensor) {
  return tensor.value_or(at::Tensor());
}

inline OptionalTensor or_none(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

/// For gaussian_mixture_attention and _forward, which differ in what they return.
template <class Result, Result (*Kernel)(const Arguments&, bool)>
Result attention_adapter(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const at::Tensor& means, const at::Tensor& variances,
                         const at::Tensor& prior_logits, bool is_causal,
                         const OptionalTensor& key_padding_mask, const OptionalTensor& cu_seqlens_q,
                         const OptionalTensor& cu_seqlens_k, const OptionalTensor& initial_s,
                         const OptionalTensor& initial_z, bool return_state, double eps,
                         double dropout_p, c10::SymInt dropout_seed) {
  return Kernel({query, key, value, means, variances, prior_logits, is_causal, key_padding_mask,
                 cu_seqlens_q, cu_seqlens_k, initial_s, initial_z, eps, dropout_p, dropout_seed},
                return_state);
}

template <BackwardResult (*Kernel)(const Arguments&, const Upstream&)>
BackwardResult backward_adapter(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& means, const at::Tensor& variances, const at::Tensor& prior_logits,
    bool is_causal, const OptionalTensor& key_padding_mask, const OptionalTensor& cu_seqlens_q,
    const OptionalTensor& cu_seqlens_k, const OptionalTensor& initial_s,
    const OptionalTensor& initial_z, double eps, double dropout_p, c10::SymInt dropout_seed,
    const at::Tensor& normalizer, const at::Tensor& segment_s, const at::Tensor& segment_z,
    const OptionalTensor& grad_output, const OptionalTensor& grad_final_s,
    const OptionalTensor& grad_final_z, std::array<bool, 7> needs) {
  return Kernel({query, key, value, means, variances, prior_logits, is_causal, key_padding_mask,
                 cu_seqlens_q, cu_seqlens_k, initial_s, initial_z, eps, dropout_p, dropout_seed},
                {normalizer, segment_s, segment_z, grad_output, grad_final_s, grad_final_z, needs});
}

template <StepResult (*Kernel)(const StepArguments&)>
StepResult step_adapter(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const at::Tensor& means, const at::Tensor& variances,
                        const at::Tensor& prior_logits, const at::Tensor& s, const at::Tensor& z,
                        double eps) {
  return Kernel({query, key, value, means, variances, prior_logits, s, z, eps});
}

}  // namespace gma_torch::ops
