// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Differentiation of linear attention, and what it does under autocast.
#include <ATen/autocast_mode.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "ops/linear_attention.h"

namespace gma_torch::ops::linear {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool any_requires_grad(const variable_list& tensors) {
  return at::GradMode::is_enabled() && std::ranges::any_of(tensors, [](const at::Tensor& tensor) {
           return tensor.defined() && tensor.requires_grad();
         });
}

class LinearAttention : public torch::autograd::Function<LinearAttention> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& /*query*/,
                               const at::Tensor& /*key*/, const at::Tensor& /*value*/,
                               const OptionalTensor& /*initial_s*/,
                               const OptionalTensor& /*initial_z*/, const Arguments& args,
                               bool return_state) {
    const at::AutoDispatchBelowAutograd guard;
    const auto [output, final_s, final_z, normalizer, segment_s, segment_z] =
        call_forward(args, return_state);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({args.query, args.key, args.value, or_undefined(args.key_padding_mask),
                            or_undefined(args.initial_s), or_undefined(args.initial_z), normalizer,
                            segment_s, segment_z});
    ctx->saved_data["is_causal"] = args.is_causal;
    ctx->saved_data["eps"] = args.eps;
    if (return_state) return {output, final_s, final_z};
    return {output};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const bool state_given = gradients.size() > 1;
    const Arguments args{.query = saved[0],
                         .key = saved[1],
                         .value = saved[2],
                         .is_causal = ctx->saved_data["is_causal"].toBool(),
                         .key_padding_mask = or_none(saved[3]),
                         .initial_s = or_none(saved[4]),
                         .initial_z = or_none(saved[5]),
                         .eps = ctx->saved_data["eps"].toDouble()};
    Upstream upstream{.normalizer = saved[6],
                      .segment_s = saved[7],
                      .segment_z = saved[8],
                      .grad_output = or_none(gradients[0]),
                      .grad_final_s = state_given ? or_none(gradients[1]) : std::nullopt,
                      .grad_final_z = state_given ? or_none(gradients[2]) : std::nullopt};
    for (std::size_t i = 0; i < 3; ++i) upstream.needs[i] = ctx->needs_input_grad(i);
    upstream.needs[3] =
        saved[4].defined() && (ctx->needs_input_grad(3) || ctx->needs_input_grad(4));

    const auto [query, key, value, initial_s, initial_z] = call_backward(args, upstream);
    return {query, key, value, initial_s, initial_z, at::Tensor(), at::Tensor()};
  }
};

AttentionResult autograd_attention(const Arguments& args, bool return_state) {
  check_tensors(args);
  if (!has_kernel(args.query)) return composite(args, return_state);
  if (!any_requires_grad({args.query, args.key, args.value, or_undefined(args.initial_s),
                          or_undefined(args.initial_z)})) {
    const at::AutoDispatchBelowAutograd guard;
    return call_attention(args, return_state);
  }
  const variable_list outputs = LinearAttention::apply(
      args.query, args.key, args.value, args.initial_s, args.initial_z, args, return_state);
  if (return_state) return {outputs[0], outputs[1], outputs[2]};
  return {outputs[0], at::Tensor(), at::Tensor()};
}

/// The backward pass under create_graph=True: right as it is, but not to be differentiated again.
class LinearAttentionBackward : public torch::autograd::Function<LinearAttentionBackward> {
 public:
  static variable_list forward(AutogradContext* /*ctx*/, at::TensorList /*inputs*/,
                               const Arguments& args, const Upstream& upstream) {
    const at::AutoDispatchBelowAutograd guard;
    variable_list computed;
    std::apply(
        [&](const auto&... gradient) {
          (void(gradient.defined() ? computed.push_back(gradient) : void()), ...);
        },
        call_backward(args, upstream));
    return computed;
  }

  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*gradients*/) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        "linear_attention: expected to be differentiated once, got a request for its second "
        "derivative: the kernels have only the first");
  }
};

BackwardResult autograd_backward(const Arguments& args, const Upstream& upstream) {
  variable_list inputs{args.query, args.key, args.value};
  for (const OptionalTensor& tensor : {args.initial_s, args.initial_z, upstream.grad_output,
                                       upstream.grad_final_s, upstream.grad_final_z}) {
    if (is_given(tensor)) inputs.push_back(*tensor);
  }
  if (!any_requires_grad(inputs)) {
    const at::AutoDispatchBelowAutograd guard;
    return call_backward(args, upstream);
  }
  const variable_list computed =
      LinearAttentionBackward::apply(at::TensorList(inputs), args, upstream);
  std::size_t next = 0;
  const auto take = [&](bool needed) { return needed ? computed[next++] : at::Tensor(); };
  const bool state = upstream.needs[3] && is_given(args.initial_s);
  BackwardResult result;
  std::get<0>(result) = take(upstream.needs[0]);
  std::get<1>(result) = take(upstream.needs[1]);
  std::get<2>(result) = take(upstream.needs[2]);
  std::get<3>(result) = take(state);
  std::get<4>(result) = take(state);
  return result;
}

/// As for other sums of many terms, inputs are cast to float32.
AttentionResult autocast_attention(const Arguments& args, bool return_state) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  Arguments wide = args;
  const c10::DeviceType device = args.query.device().type();
  for (at::Tensor* tensor : {&wide.query, &wide.key, &wide.value}) {
    *tensor = at::autocast::cached_cast(at::kFloat, *tensor, device);
  }
  return call_attention(wide, return_state);
}

}  // namespace

TORCH_LIBRARY_IMPL(gma, Autograd, m) {
  m.impl("linear_attention", &attention_adapter<AttentionResult, autograd_attention>);
  m.impl("_linear_attention_backward", &backward_adapter<autograd_backward>);
}

TORCH_LIBRARY_IMPL(gma, AutocastCPU, m) {
  m.impl("linear_attention", &attention_adapter<AttentionResult, autocast_attention>);
}

TORCH_LIBRARY_IMPL(gma, AutocastCUDA, m) {
  m.impl("linear_attention", &attention_adapter<AttentionResult, autocast_attention>);
}

}  // namespace gma_torch::ops::linear
