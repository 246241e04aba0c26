// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Linear attention on the CPU, and its shapes on meta tensors.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <cstdint>
#include <vector>

#include "gma/linear_attention.h"
#include "ops/dtype.h"
#include "ops/executor.h"
#include "ops/kernel_call.h"
#include "ops/linear_attention.h"
#include "ops/view.h"

namespace gma_torch::ops::linear {
namespace {

at::Tensor empty(const std::vector<c10::SymInt>& shape, const at::Tensor& like) {
  return at::empty_symint(shape, like.options());
}

at::Tensor empty_if(bool needed, const at::Tensor& like) {
  return needed ? at::empty_symint(like.sym_sizes(), like.options()) : at::Tensor();
}

/// Uninitialised; the state and what backward needs are undefined where they are not asked for.
ForwardResult empty_forward(const Arguments& args, bool return_state, bool save) {
  const at::Tensor& query = args.query;
  const c10::SymInt batch = query.sym_size(0);
  const c10::SymInt tokens = query.sym_size(1);
  const c10::SymInt heads = args.key.sym_size(2);
  const c10::SymInt features = query.sym_size(3);
  const c10::SymInt value_size = args.value.sym_size(3);
  const at::Tensor sums =
      at::empty({0}, query.options().dtype(accumulate_type(query.scalar_type())));

  ForwardResult result;
  auto& [output, final_s, final_z, normalizer, segment_s, segment_z] = result;
  output = empty({batch, tokens, query.sym_size(2), value_size}, query);
  if (return_state) {
    final_s = empty({batch, heads, features, value_size}, sums);
    final_z = empty({batch, heads, features}, sums);
  }
  if (save) {
    // At least gma::saved_segments(), from shapes alone; memory past those in use is not touched.
    const c10::SymInt step = gma::kMinSegmentTokens;
    const c10::SymInt segments =
        args.is_causal ? batch * ((args.key.sym_size(1) + step - 1) / step) : batch;
    normalizer = empty({batch, tokens, query.sym_size(2)}, sums);
    segment_s = empty({segments, heads, features, value_size}, sums);
    segment_z = empty({segments, heads, features}, sums);
  }
  return result;
}

BackwardResult empty_backward(const Arguments& args, const std::array<bool, 4>& needs) {
  const bool state = needs[3] && is_given(args.initial_s);
  return {empty_if(needs[0], args.query), empty_if(needs[1], args.key),
          empty_if(needs[2], args.value), state ? empty_if(true, *args.initial_s) : at::Tensor(),
          state ? empty_if(true, *args.initial_z) : at::Tensor()};
}

/// Runs `body(T{})` for the type of the inputs.
template <class Body>
void run_kernel(at::ScalarType dtype, const Body& body) {
  with_value_errors([&] {
    if (dtype == at::kDouble) return body(double{});
    TORCH_CHECK_TYPE(dtype == at::kFloat,
                     "query: expected dtype Float or Double for the fused kernel, got ", dtype);
    body(float{});
  });
}

template <class T>
gma::LinearAttentionArgs<T> kernel_arguments(const Arguments& args) {
  return {.query = view<const T, 4>(args.query),
          .key = view<const T, 4>(args.key),
          .value = view<const T, 4>(args.value),
          .is_causal = args.is_causal,
          .key_padding_mask = view<const bool, 2>(args.key_padding_mask),
          .initial_state = state_view<const T>(args.initial_s, args.initial_z),
          .eps = args.eps,
          .executor = aten_executor()};
}

template <class T, class A>
gma::Saved<A> saved_view(const gma::LinearAttentionArgs<T>& args, const at::Tensor& normalizer,
                         const at::Tensor& segment_s, const at::Tensor& segment_z) {
  if (!normalizer.defined()) return {};
  const std::int64_t segments = gma::saved_segments(args);
  TORCH_INTERNAL_ASSERT(segments <= segment_s.size(0));
  return {view<A, 3>(normalizer), view<A, 4>(segment_s.narrow(0, 0, segments)),
          view<A, 3>(segment_z.narrow(0, 0, segments))};
}

ForwardResult forward(const Arguments& args, bool return_state, bool save) {
  check(args);
  const ForwardResult result = empty_forward(args, return_state, save);
  const auto& [output, final_s, final_z, normalizer, segment_s, segment_z] = result;
  run_kernel(args.query.scalar_type(), [&]<class T>(T) {
    const gma::LinearAttentionArgs<T> kernel_args = kernel_arguments<T>(args);
    gma::linear_attention_forward<T>(
        kernel_args, {.output = view<T, 4>(output),
                      .final_state = state_view<T>(final_s, final_z),
                      .saved = saved_view<T, T>(kernel_args, normalizer, segment_s, segment_z)});
  });
  return result;
}

AttentionResult cpu_attention(const Arguments& args, bool return_state) {
  if (!has_kernel(args.query)) return composite(args, return_state);
  const ForwardResult result = forward(args, return_state, false);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

ForwardResult cpu_forward(const Arguments& args, bool return_state) {
  return forward(args, return_state, true);
}

BackwardResult cpu_backward(const Arguments& args, const Upstream& upstream) {
  check(args, upstream);
  const BackwardResult result = empty_backward(args, upstream.needs);
  const at::Tensor& query = args.query;
  const at::Tensor grad_output = gradient_or_zeros(
      upstream.grad_output, {query.size(0), query.size(1), query.size(2), args.value.size(3)},
      query.options());
  const auto [grad_s, grad_z] = state_gradient(
      upstream.grad_final_s, upstream.grad_final_z,
      {query.size(0), args.key.size(2), query.size(3), args.value.size(3)}, query.options());
  const OptionalTensor final_s = grad_s;
  const OptionalTensor final_z = grad_z;
  run_kernel(query.scalar_type(), [&]<class T>(T) {
    const gma::LinearAttentionArgs<T> kernel_args = kernel_arguments<T>(args);
    gma::linear_attention_backward<T>(
        kernel_args,
        {.saved = saved_view<T, const T>(kernel_args, upstream.normalizer, upstream.segment_s,
                                         upstream.segment_z),
         .grad_output = view<const T, 4>(grad_output),
         .grad_final_state = state_view<const T>(final_s, final_z)},
        {.query = view<T, 4>(OptionalTensor(std::get<0>(result))),
         .key = view<T, 4>(OptionalTensor(std::get<1>(result))),
         .value = view<T, 4>(OptionalTensor(std::get<2>(result))),
         .initial_state = state_view<T>(std::get<3>(result), std::get<4>(result))});
  });
  return result;
}

AttentionResult meta_attention(const Arguments& args, bool return_state) {
  check(args);
  const ForwardResult result = empty_forward(args, return_state, false);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

ForwardResult meta_forward(const Arguments& args, bool return_state) {
  check(args);
  return empty_forward(args, return_state, true);
}

BackwardResult meta_backward(const Arguments& args, const Upstream& upstream) {
  check(args, upstream);
  return empty_backward(args, upstream.needs);
}

}  // namespace

TORCH_LIBRARY_IMPL(gma, CPU, m) {
  m.impl("linear_attention", &attention_adapter<AttentionResult, cpu_attention>);
  m.impl("_linear_attention_forward", &attention_adapter<ForwardResult, cpu_forward>);
  m.impl("_linear_attention_backward", &backward_adapter<cpu_backward>);
}

TORCH_LIBRARY_IMPL(gma, Meta, m) {
  m.impl("linear_attention", &attention_adapter<AttentionResult, meta_attention>);
  m.impl("_linear_attention_forward", &attention_adapter<ForwardResult, meta_forward>);
  m.impl("_linear_attention_backward", &backward_adapter<meta_backward>);
}

}  // namespace gma_torch::ops::linear
