// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Differentiation of the selective scan. On devices with kernels the backward pass is an operator
// of its own, so that torch.compile traces through; elsewhere autograd differentiates the composite
// path.
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>

#include "ops/arguments.h"
#include "ops/dtype.h"
#include "ops/selective_scan.h"

namespace gma_torch::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::optional<at::Tensor> given_or_none(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

class SelectiveScan : public torch::autograd::Function<SelectiveScan> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& u, const at::Tensor& delta,
                               const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                               const at::Tensor& d, const std::optional<at::Tensor>& initial_state,
                               bool return_state) {
    const at::AutoDispatchBelowAutograd guard;
    const auto [y, final_state, saved] =
        call_scan_forward({u, delta, a, b, c, d, initial_state}, return_state);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({u, delta, a, b, c, d, initial_state.value_or(at::Tensor()), saved});
    if (return_state) return {y, final_state};
    return {y};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const ScanArguments args{
        saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], given_or_none(saved[6])};
    ScanUpstreamArguments upstream{
        saved[7],
        given_or_none(gradients[0]),
        gradients.size() > 1 ? given_or_none(gradients[1]) : std::nullopt,
        {}};
    for (std::size_t i = 0; i < 6; ++i) upstream.needs[i] = ctx->needs_input_grad(i);
    upstream.needs[6] = saved[6].defined() && ctx->needs_input_grad(6);
    const auto [u, delta, a, b, c, d, initial_state] = call_scan_backward(args, upstream);
    return {u, delta, a, b, c, d, initial_state, at::Tensor()};
  }
};

ScanResult autograd_scan(const ScanArguments& args, bool return_state) {
  check_scan_tensors(args);
  if (!has_kernel(args.u)) return composite_scan(args, return_state);
  if (!args.requires_grad()) {
    const at::AutoDispatchBelowAutograd guard;
    return call_scan(args, return_state);
  }
  check_scan(args);
  const at::ScalarType dtype = args.u.scalar_type();
  const at::ScalarType accumulate = accumulate_type(dtype);
  const variable_list outputs = SelectiveScan::apply(
      args.u.to(accumulate), args.delta.to(accumulate), args.a, args.b.to(accumulate),
      args.c.to(accumulate), args.d, args.initial_state, return_state);
  return {outputs[0].to(dtype), return_state ? outputs[1] : at::Tensor()};
}

/// The backward pass under create_graph=True: right as it is, but not to be differentiated again.
class SelectiveScanBackward : public torch::autograd::Function<SelectiveScanBackward> {
 public:
  static variable_list forward(AutogradContext* /*ctx*/, at::TensorList /*inputs*/,
                               const ScanArguments& args, const ScanUpstreamArguments& upstream) {
    const at::AutoDispatchBelowAutograd guard;
    variable_list computed;
    std::apply(
        [&](const auto&... gradient) {
          (void(gradient.defined() ? computed.push_back(gradient) : void()), ...);
        },
        call_scan_backward(args, upstream));
    return computed;
  }

  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*gradients*/) {
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "selective_scan: expected to be differentiated once, got a request "
                                "for its second derivative: the kernels have only the first");
  }
};

ScanBackwardResult autograd_scan_backward(const ScanArguments& args,
                                          const ScanUpstreamArguments& upstream) {
  check_scan_tensors(args);
  variable_list inputs{args.u, args.delta, args.a, args.b, args.c, args.d};
  for (const auto& tensor : {args.initial_state, upstream.grad_y, upstream.grad_final_state}) {
    if (is_given(tensor)) inputs.push_back(*tensor);
  }
  const bool recorded =
      at::GradMode::is_enabled() &&
      std::any_of(inputs.begin(), inputs.end(), [](const auto& t) { return t.requires_grad(); });
  if (!recorded) {
    const at::AutoDispatchBelowAutograd guard;
    return call_scan_backward(args, upstream);
  }
  const variable_list computed =
      SelectiveScanBackward::apply(at::TensorList(inputs), args, upstream);
  std::size_t next = 0;
  const auto take = [&](bool needed) { return needed ? computed[next++] : at::Tensor(); };
  ScanBackwardResult result;
  std::get<0>(result) = take(upstream.needs[0]);
  std::get<1>(result) = take(upstream.needs[1]);
  std::get<2>(result) = take(upstream.needs[2]);
  std::get<3>(result) = take(upstream.needs[3]);
  std::get<4>(result) = take(upstream.needs[4]);
  std::get<5>(result) = take(upstream.needs[5]);
  std::get<6>(result) = take(upstream.needs[6] && is_given(args.initial_state));
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(gma, Autograd, m) {
  m.impl("selective_scan", &scan_adapter<ScanResult, autograd_scan>);
  m.impl("_selective_scan_backward", &scan_backward_adapter<autograd_scan_backward>);
}

}  // namespace gma_torch::ops
