// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The operators' schemas, registered once for C++ and Python, and the calls through the dispatcher.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/version.h>

#include <string>

#include "ops/operators.h"

namespace gma_torch::ops {
namespace {

/// The operator of this name, with the C++ signature of its adapter.
template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

template <class Result>
Result call(const c10::TypedOperatorHandle<decltype(attention_adapter<Result, nullptr>)>& op,
            const Arguments& args, bool return_state) {
  return op.call(args.query, args.key, args.value, args.means, args.variances, args.prior_logits,
                 args.is_causal, args.key_padding_mask, args.cu_seqlens_q, args.cu_seqlens_k,
                 args.initial_s, args.initial_z, return_state, args.eps, args.dropout_p,
                 args.dropout_seed);
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace

AttentionResult call_attention(const Arguments& args, bool return_state) {
  static const auto op = find<decltype(attention_adapter<AttentionResult, nullptr>)>(
      "gma::gaussian_mixture_attention");
  return call<AttentionResult>(op, args, return_state);
}

ForwardResult call_forward(const Arguments& args, bool return_state) {
  static const auto op =
      find<decltype(attention_adapter<ForwardResult, nullptr>)>("gma::_attention_forward");
  return call<ForwardResult>(op, args, return_state);
}

BackwardResult call_backward(const Arguments& args, const Upstream& upstream) {
  static const auto op = find<decltype(backward_adapter<nullptr>)>("gma::_attention_backward");
  return op.call(args.query, args.key, args.value, args.means, args.variances, args.prior_logits,
                 args.is_causal, args.key_padding_mask, args.cu_seqlens_q, args.cu_seqlens_k,
                 args.initial_s, args.initial_z, args.eps, args.dropout_p, args.dropout_seed,
                 upstream.normalizer, upstream.segment_s, upstream.segment_z, upstream.grad_output,
                 upstream.grad_final_s, upstream.grad_final_z, upstream.needs);
}

StepResult call_step(const StepArguments& args) {
  static const auto op =
      find<decltype(step_adapter<nullptr>)>("gma::gaussian_mixture_attention_step");
  return op.call(args.query, args.key, args.value, args.means, args.variances, args.prior_logits,
                 args.s, args.z, args.eps);
}

TORCH_LIBRARY(gma, m) {
  const std::string attention =
      "(Tensor query, Tensor key, Tensor value, Tensor means, Tensor variances, "
      "Tensor prior_logits, *, bool is_causal=False, Tensor? key_padding_mask=None, "
      "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? initial_s=None, "
      "Tensor? initial_z=None, bool return_state=False, float eps=1e-6, float dropout_p=0.0, "
      "SymInt dropout_seed=0) -> (Tensor output, Tensor final_s, Tensor final_z)";
  m.def(("gaussian_mixture_attention" + attention).c_str());
  m.def(("_attention_composite" + attention).c_str());
  m.def(
      "gaussian_mixture_attention_step(Tensor query, Tensor key, Tensor value, Tensor means, "
      "Tensor variances, Tensor prior_logits, Tensor s, Tensor z, *, float eps=1e-6) "
      "-> (Tensor output, Tensor s, Tensor z)");
  m.def(
      "responsibilities(Tensor x, Tensor means, Tensor variances, Tensor prior_logits) -> Tensor");
  m.def(
      "_attention_forward(Tensor query, Tensor key, Tensor value, Tensor means, Tensor variances, "
      "Tensor prior_logits, bool is_causal, Tensor? key_padding_mask, Tensor? cu_seqlens_q, "
      "Tensor? cu_seqlens_k, Tensor? initial_s, Tensor? initial_z, bool return_state, float eps, "
      "float dropout_p, SymInt dropout_seed) -> (Tensor output, Tensor final_s, Tensor final_z, "
      "Tensor normalizer, Tensor segment_s, Tensor segment_z)");
  m.def(
      "_attention_backward(Tensor query, Tensor key, Tensor value, Tensor means, "
      "Tensor variances, Tensor prior_logits, bool is_causal, Tensor? key_padding_mask, "
      "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? initial_s, Tensor? initial_z, "
      "float eps, float dropout_p, SymInt dropout_seed, Tensor normalizer, "
      "Tensor segment_s, Tensor segment_z, Tensor? grad_output, Tensor? grad_final_s, "
      "Tensor? grad_final_z, bool[7] needs) -> (Tensor grad_query, Tensor grad_key, "
      "Tensor grad_value, Tensor grad_means, Tensor grad_variances, Tensor grad_prior_logits, "
      "Tensor grad_initial_s, Tensor grad_initial_z)");
  m.def("_torch_version() -> str", &torch_version);
}

}  // namespace gma_torch::ops
