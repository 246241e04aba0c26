// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The operators on the CPU: views of the tensors, handed to libgma.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <cstdint>
#include <vector>

#include "gma/attention.h"
#include "ops/dtype.h"
#include "ops/executor.h"
#include "ops/kernel_call.h"
#include "ops/operators.h"
#include "ops/outputs.h"
#include "ops/view.h"

namespace gma_torch::ops {
namespace {

/// Runs `body(T{})` for libgma's type of the inputs.
template <class Body>
void run_kernel(at::ScalarType dtype, Body&& body) {
  with_value_errors([&] { with_type(dtype, body); });
}

/// gma::AttentionArgs of a call, and the boundaries that it refers to.
template <class T>
class KernelArguments {
 public:
  using A = gma::accumulate_t<T>;

  explicit KernelArguments(const Arguments& args) {
    if (args.is_packed()) {
      cu_seqlens_q_ = read_boundaries("cu_seqlens_q", *args.cu_seqlens_q, args.query.size(1));
      cu_seqlens_k_ = read_boundaries("cu_seqlens_k", *args.cu_seqlens_k, args.key.size(1));
    }
    args_ = {.query = view<const T, 4>(args.query),
             .key = view<const T, 4>(args.key),
             .value = view<const T, 4>(args.value),
             .means = view<const A, 3>(args.means),
             .variances = view<const A, 3>(args.variances),
             .prior_logits = view<const A, 2>(args.prior_logits),
             .is_causal = args.is_causal,
             .key_padding_mask = view<const bool, 2>(args.key_padding_mask),
             .cu_seqlens_q = cu_seqlens_q_,
             .cu_seqlens_k = cu_seqlens_k_,
             .initial_state = state_view<const A>(args.initial_s, args.initial_z),
             .eps = args.eps,
             .dropout_p = args.dropout_p,
             .dropout_seed = static_cast<std::uint64_t>(args.dropout_seed.expect_int()),
             .executor = aten_executor()};
  }
  KernelArguments(const KernelArguments&) = delete;
  KernelArguments& operator=(const KernelArguments&) = delete;

  const gma::AttentionArgs<T>& operator*() const { return args_; }

 private:
  std::vector<std::int64_t> cu_seqlens_q_;
  std::vector<std::int64_t> cu_seqlens_k_;
  gma::AttentionArgs<T> args_;
};

template <class T, class A>
gma::Saved<A> saved_view(const gma::AttentionArgs<T>& args, const at::Tensor& normalizer,
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
    using A = gma::accumulate_t<T>;
    const KernelArguments<T> kernel_args(args);
    gma::forward<T>(*kernel_args,
                    {.output = view<T, 4>(output),
                     .final_state = state_view<A>(final_s, final_z),
                     .saved = saved_view<T, A>(*kernel_args, normalizer, segment_s, segment_z)});
  });
  return result;
}

AttentionResult cpu_attention(const Arguments& args, bool return_state) {
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

  const auto [grad_s, grad_z] =
      state_gradient(upstream.grad_final_s, upstream.grad_final_z,
                     {args.num_sequences().expect_int(), args.means.size(0), args.means.size(1),
                      args.value.size(3)},
                     args.means.options());

  run_kernel(args.query.scalar_type(), [&]<class T>(T) {
    using A = gma::accumulate_t<T>;
    const KernelArguments<T> kernel_args(args);
    gma::backward<T>(*kernel_args,
                     {.saved = saved_view<T, const A>(*kernel_args, upstream.normalizer,
                                                      upstream.segment_s, upstream.segment_z),
                      .grad_output = view<const T, 4>(grad_output),
                      .grad_final_state = state_view<const A>(grad_s, grad_z)},
                     {.query = view<T, 4>(OptionalTensor(std::get<0>(result))),
                      .key = view<T, 4>(OptionalTensor(std::get<1>(result))),
                      .value = view<T, 4>(OptionalTensor(std::get<2>(result))),
                      .means = view<A, 3>(OptionalTensor(std::get<3>(result))),
                      .variances = view<A, 3>(OptionalTensor(std::get<4>(result))),
                      .prior_logits = view<A, 2>(OptionalTensor(std::get<5>(result))),
                      .initial_state = state_view<A>(std::get<6>(result), std::get<7>(result))});
  });
  return result;
}

StepResult cpu_step(const StepArguments& args) {
  check(args);
  StepResult result = empty_step(args);
  auto& [output, s, z] = result;
  s.copy_(args.s);
  z.copy_(args.z);
  run_kernel(args.query.scalar_type(), [&]<class T>(T) {
    using A = gma::accumulate_t<T>;
    gma::step<T>({.query = view<const T, 3>(args.query),
                  .key = view<const T, 3>(args.key),
                  .value = view<const T, 3>(args.value),
                  .means = view<const A, 3>(args.means),
                  .variances = view<const A, 3>(args.variances),
                  .prior_logits = view<const A, 2>(args.prior_logits),
                  .state = {view<A, 4>(s), view<A, 3>(z)},
                  .eps = args.eps,
                  .executor = aten_executor()},
                 view<T, 3>(output));
  });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(gma, CPU, m) {
  m.impl("gaussian_mixture_attention", &attention_adapter<AttentionResult, cpu_attention>);
  m.impl("gaussian_mixture_attention_step", &step_adapter<cpu_step>);
  m.impl("_attention_forward", &attention_adapter<ForwardResult, cpu_forward>);
  m.impl("_attention_backward", &backward_adapter<cpu_backward>);
}

}  // namespace gma_torch::ops
