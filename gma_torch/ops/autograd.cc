// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Differentiation. On devices with kernels the backward pass is an operator of its own, so that
// torch.compile traces through; elsewhere autograd differentiates the composite path.
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "ops/composite.h"
#include "ops/operators.h"

namespace gma_torch::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Arguments that are no differentiable tensors.
void save_options(AutogradContext* ctx, const Arguments& args) {
  ctx->saved_data["is_causal"] = args.is_causal;
  ctx->saved_data["eps"] = args.eps;
  ctx->saved_data["dropout_p"] = args.dropout_p;
  ctx->saved_data["dropout_seed"] = args.dropout_seed;
}

class Attention : public torch::autograd::Function<Attention> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& /*query*/,
                               const at::Tensor& /*key*/, const at::Tensor& /*value*/,
                               const at::Tensor& /*means*/, const at::Tensor& /*variances*/,
                               const at::Tensor& /*prior_logits*/,
                               const OptionalTensor& /*initial_s*/,
                               const OptionalTensor& /*initial_z*/, const Arguments& args,
                               bool return_state) {
    const at::AutoDispatchBelowAutograd guard;
    const auto [output, final_s, final_z, normalizer, segment_s, segment_z] =
        call_forward(args, return_state);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({args.query, args.key, args.value, args.means, args.variances,
                            args.prior_logits, or_undefined(args.key_padding_mask),
                            or_undefined(args.cu_seqlens_q), or_undefined(args.cu_seqlens_k),
                            or_undefined(args.initial_s), or_undefined(args.initial_z), normalizer,
                            segment_s, segment_z});
    save_options(ctx, args);
    if (return_state) return {output, final_s, final_z};
    return {output};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const bool has_state = saved[9].defined();
    const bool state_given = gradients.size() > 1;
    const Arguments args{.query = saved[0],
                         .key = saved[1],
                         .value = saved[2],
                         .means = saved[3],
                         .variances = saved[4],
                         .prior_logits = saved[5],
                         .is_causal = ctx->saved_data["is_causal"].toBool(),
                         .key_padding_mask = or_none(saved[6]),
                         .cu_seqlens_q = or_none(saved[7]),
                         .cu_seqlens_k = or_none(saved[8]),
                         .initial_s = or_none(saved[9]),
                         .initial_z = or_none(saved[10]),
                         .eps = ctx->saved_data["eps"].toDouble(),
                         .dropout_p = ctx->saved_data["dropout_p"].toDouble(),
                         .dropout_seed = ctx->saved_data["dropout_seed"].toSymInt()};
    Upstream upstream{.normalizer = saved[11],
                      .segment_s = saved[12],
                      .segment_z = saved[13],
                      .grad_output = or_none(gradients[0]),
                      .grad_final_s = state_given ? or_none(gradients[1]) : std::nullopt,
                      .grad_final_z = state_given ? or_none(gradients[2]) : std::nullopt};
    for (std::size_t i = 0; i < 6; ++i) upstream.needs[i] = ctx->needs_input_grad(i);
    upstream.needs[6] = has_state && (ctx->needs_input_grad(6) || ctx->needs_input_grad(7));

    const auto [query, key, value, means, variances, prior_logits, initial_s, initial_z] =
        call_backward(args, upstream);
    return {query,        key,       value,     means,        variances,
            prior_logits, initial_s, initial_z, at::Tensor(), at::Tensor()};
  }
};

AttentionResult autograd_attention(const Arguments& args, bool return_state) {
  check_tensors(args);
  if (!has_kernel(args.query)) return composite_attention(args, return_state);
  if (!args.requires_grad()) {
    const at::AutoDispatchBelowAutograd guard;
    return call_attention(args, return_state);
  }
  const variable_list outputs =
      Attention::apply(args.query, args.key, args.value, args.means, args.variances,
                       args.prior_logits, args.initial_s, args.initial_z, args, return_state);
  if (return_state) return {outputs[0], outputs[1], outputs[2]};
  return {outputs[0], at::Tensor(), at::Tensor()};
}

/// The backward pass under create_graph=True: right as it is, but not to be differentiated again.
class Backward : public torch::autograd::Function<Backward> {
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
        "gaussian_mixture_attention: expected to be differentiated once, got a request for "
        "its second derivative: the kernels have only the first");
  }
};

BackwardResult autograd_backward(const Arguments& args, const Upstream& upstream) {
  check_tensors(args, upstream);
  variable_list inputs{args.query, args.key,       args.value,
                       args.means, args.variances, args.prior_logits};
  for (const OptionalTensor& tensor : {args.initial_s, args.initial_z, upstream.grad_output,
                                       upstream.grad_final_s, upstream.grad_final_z}) {
    if (is_given(tensor)) inputs.push_back(*tensor);
  }
  const bool recorded =
      at::GradMode::is_enabled() &&
      std::any_of(inputs.begin(), inputs.end(), [](const auto& t) { return t.requires_grad(); });
  if (!recorded) {
    const at::AutoDispatchBelowAutograd guard;
    return call_backward(args, upstream);
  }

  const variable_list computed = Backward::apply(at::TensorList(inputs), args, upstream);
  const bool state = upstream.needs[6];
  std::size_t next = 0;
  const auto take = [&](bool needed) { return needed ? computed[next++] : at::Tensor(); };
  BackwardResult result;
  std::get<0>(result) = take(upstream.needs[0]);
  std::get<1>(result) = take(upstream.needs[1]);
  std::get<2>(result) = take(upstream.needs[2]);
  std::get<3>(result) = take(upstream.needs[3]);
  std::get<4>(result) = take(upstream.needs[4]);
  std::get<5>(result) = take(upstream.needs[5]);
  std::get<6>(result) = take(state);
  std::get<7>(result) = take(state);
  return result;
}

StepResult autograd_step(const StepArguments& args) {
  check_tensors(args);
  if (has_kernel(args.query) && !args.requires_grad()) {
    const at::AutoDispatchBelowAutograd guard;
    return call_step(args);
  }
  check(args);
  const auto [output, s, z] = call_attention(args.as_attention(), true);
  return {output.squeeze(1), s, z};
}

}  // namespace

TORCH_LIBRARY_IMPL(gma, Autograd, m) {
  m.impl("gaussian_mixture_attention", &attention_adapter<AttentionResult, autograd_attention>);
  m.impl("gaussian_mixture_attention_step", &step_adapter<autograd_step>);
  m.impl("_attention_backward", &backward_adapter<autograd_backward>);
}

}  // namespace gma_torch::ops
