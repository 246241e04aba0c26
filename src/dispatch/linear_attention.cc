// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The public entry points of linear attention: validate, then hand over to a backend.
#include "gma/linear_attention.h"

#include <array>
#include <cstdint>

#include "common/checks.h"
#include "common/plan.h"
#include "cpu/cpu.h"
#include "dispatch/call_checks.h"
#include "dispatch/executor.h"
#include "reference/reference.h"

namespace gma {
namespace {

template <class T>
void validate(const LinearAttentionArgs<T>& args) {
  const auto& [batch, tokens_q, heads_q, features] = args.query.shape;
  const std::int64_t tokens_k = args.key.size(1);
  const std::int64_t heads_k = args.key.size(2);
  check_extents("query", args.query);
  check_extents("key", args.key);
  check_extents("value", args.value);
  check_present("query", args.query);
  check(features > 0, "query: expected at least one feature, got R = 0");
  check_shape("key", args.key, "(B, Tk, Hk, R)", {batch, tokens_k, heads_k, features});
  check_shape("value", args.value, "(B, Tk, Hk, Dv)",
              {batch, tokens_k, heads_k, args.value.size(3)});
  validate_heads(heads_q, heads_k);
  validate_causal(args.is_causal, tokens_q, tokens_k);
  check_optional("key_padding_mask", args.key_padding_mask, "(B, Tk)", {batch, tokens_k});
  validate_packing(args);
  validate_state("initial_state", args, args.initial_state);
  validate_eps(args.eps);
}

template <class T>
std::array<std::int64_t, 4> output_shape(const LinearAttentionArgs<T>& args) {
  return {args.query.size(0), args.query.size(1), args.query.size(2), args.value.size(3)};
}

template <class T>
LinearAttentionArgs<T> with_executor(const LinearAttentionArgs<T>& args) {
  const auto tokens = [](const View<const T, 4>& x) { return x.size(0) * x.size(1) * x.size(2); };
  const double token_work =
      static_cast<double>(args.key.size(3)) * static_cast<double>(args.value.size(3));
  return with_executor(args, tokens(args.query) + tokens(args.key), token_work);
}

}  // namespace

template <class T>
std::int64_t saved_segments(const LinearAttentionArgs<T>& args) {
  validate(args);
  return num_saved(args);
}

template <class T>
void linear_attention_forward(const LinearAttentionArgs<T>& args,
                              const AttentionOutputs<T>& outputs) {
  validate(args);
  check_shape("output", outputs.output, "(B, Tq, Hq, Dv)", output_shape(args));
  validate_state("final_state", args, outputs.final_state);
  validate_saved(args, outputs.saved);
  if (args.backend == Backend::reference) {
    return reference::linear_attention_forward(args, outputs);
  }
  cpu::linear_attention_forward(with_executor(args), outputs);
}

template <class T>
void linear_attention_backward(const LinearAttentionArgs<T>& args,
                               const AttentionUpstream<T>& upstream,
                               const LinearAttentionGradients<T>& gradients) {
  validate(args);
  check_shape("grad_output", upstream.grad_output, "(B, Tq, Hq, Dv)", output_shape(args));
  validate_saved(args, upstream.saved);
  validate_state("grad_final_state", args, upstream.grad_final_state);
  check_optional("gradients.query", gradients.query, "(B, Tq, Hq, R)", args.query.shape);
  check_optional("gradients.key", gradients.key, "(B, Tk, Hk, R)", args.key.shape);
  check_optional("gradients.value", gradients.value, "(B, Tk, Hk, Dv)", args.value.shape);
  validate_state("gradients.initial_state", args, gradients.initial_state);
  if (args.backend == Backend::reference) {
    return reference::linear_attention_backward(args, upstream, gradients);
  }
  check(static_cast<bool>(upstream.saved) || args.query.numel() == 0,
        "saved: expected what forward saved, got nothing");
  cpu::linear_attention_backward(with_executor(args), upstream, gradients);
}

#define GMA_INSTANTIATE(T)                                               \
  template std::int64_t saved_segments(const LinearAttentionArgs<T>&);   \
  template void linear_attention_forward(const LinearAttentionArgs<T>&,  \
                                         const AttentionOutputs<T>&);    \
  template void linear_attention_backward(const LinearAttentionArgs<T>&, \
                                          const AttentionUpstream<T>&,   \
                                          const LinearAttentionGradients<T>&)

GMA_INSTANTIATE(float);
GMA_INSTANTIATE(double);

#undef GMA_INSTANTIATE

}  // namespace gma
