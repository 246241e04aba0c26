// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The selective scan on the CPU (views of the tensors, handed to libgma), on meta tensors (shapes
// alone) and, token by token in plain ATen, everywhere else.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "gma/error.h"
#include "gma/selective_scan.h"
#include "ops/arguments.h"
#include "ops/dtype.h"
#include "ops/executor.h"
#include "ops/selective_scan.h"
#include "ops/view.h"

namespace gma_torch::ops {
namespace {

/// Uninitialised results: y like u, the state and what backward needs where they are asked for.
ScanForwardResult empty_scan(const ScanArguments& args, bool return_state, bool save) {
  const at::Tensor& u = args.u;
  const c10::SymInt batch = u.sym_size(0);
  const c10::SymInt channels = u.sym_size(2);
  const c10::SymInt states = args.a.sym_size(1);
  const c10::SymInt segment = gma::kScanSegmentTokens;
  const c10::SymInt segments = (u.sym_size(1) + segment - 1) / segment;
  ScanForwardResult result;
  auto& [y, final_state, saved] = result;
  y = at::empty_symint({batch, u.sym_size(1), channels}, u.options());
  if (return_state) final_state = at::empty_symint({batch, channels, states}, args.a.options());
  if (save) saved = at::empty_symint({batch, segments, states, channels}, args.a.options());
  return result;
}

ScanBackwardResult empty_scan_backward(const ScanArguments& args,
                                       const std::array<bool, 7>& needs) {
  const auto empty = [](bool needed, const at::Tensor& like) {
    return needed ? at::empty_symint(like.sym_sizes(), like.options()) : at::Tensor();
  };
  const bool state = needs[6] && is_given(args.initial_state);
  return {empty(needs[0], args.u),
          empty(needs[1], args.delta),
          empty(needs[2], args.a),
          empty(needs[3], args.b),
          empty(needs[4], args.c),
          empty(needs[5], args.d),
          state ? empty(true, *args.initial_state) : at::Tensor()};
}

/// Runs `body(T{})` for a dtype that the kernels have; libgma's argument errors become ValueErrors.
template <class Body>
void run_scan_kernel(at::ScalarType dtype, const Body& body) {
  try {
    if (dtype == at::kDouble) return body(double{});
    TORCH_CHECK_TYPE(dtype == at::kFloat, "u: expected dtype Float or Double, got ", dtype);
    body(float{});
  } catch (const gma::InvalidArgument& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

template <class T>
gma::ScanArgs<T> scan_views(const ScanArguments& args) {
  return {.u = view<const T, 3>(args.u),
          .delta = view<const T, 3>(args.delta),
          .a = view<const T, 2>(args.a),
          .b = view<const T, 3>(args.b),
          .c = view<const T, 3>(args.c),
          .d = view<const T, 1>(args.d),
          .initial_state = view<const T, 3>(args.initial_state),
          .executor = aten_executor()};
}

ScanForwardResult run_scan(const ScanArguments& args, bool return_state, bool save) {
  check_scan(args);
  const ScanForwardResult result = empty_scan(args, return_state, save);
  const auto& [y, final_state, saved] = result;
  run_scan_kernel(args.u.scalar_type(), [&]<class T>(T) {
    gma::selective_scan<T>(scan_views<T>(args),
                           {.y = view<T, 3>(y),
                            .final_state = view<T, 3>(std::optional<at::Tensor>(final_state)),
                            .saved = view<T, 4>(std::optional<at::Tensor>(saved))});
  });
  return result;
}

ScanArguments in_float(ScanArguments args) {
  for (at::Tensor* tensor : {&args.u, &args.delta, &args.b, &args.c}) {
    *tensor = tensor->to(at::kFloat);
  }
  return args;
}

ScanResult cpu_scan(const ScanArguments& args, bool return_state) {
  check_scan(args);
  const at::ScalarType dtype = args.u.scalar_type();
  const bool is_narrow = accumulate_type(dtype) != dtype;
  const auto [y, final_state, saved] =
      run_scan(is_narrow ? in_float(args) : args, return_state, false);
  return {y.to(dtype), final_state};
}

ScanForwardResult cpu_scan_forward(const ScanArguments& args, bool return_state) {
  return run_scan(args, return_state, true);
}

ScanBackwardResult cpu_scan_backward(const ScanArguments& args,
                                     const ScanUpstreamArguments& upstream) {
  check_scan(args, upstream);
  const ScanBackwardResult result = empty_scan_backward(args, upstream.needs);
  // A gradient that did not arrive is zero: one element, seen through strides of zero.
  const at::Tensor grad_y = is_given(upstream.grad_y)
                                ? *upstream.grad_y
                                : at::zeros({}, args.u.options()).expand(args.u.sizes());
  run_scan_kernel(args.u.scalar_type(), [&]<class T>(T) {
    const auto target = [](const at::Tensor& tensor) { return std::optional<at::Tensor>(tensor); };
    gma::selective_scan_backward<T>(
        scan_views<T>(args),
        {.saved = view<const T, 4>(upstream.saved),
         .grad_y = view<const T, 3>(grad_y),
         .grad_final_state = view<const T, 3>(upstream.grad_final_state)},
        {.u = view<T, 3>(target(std::get<0>(result))),
         .delta = view<T, 3>(target(std::get<1>(result))),
         .a = view<T, 2>(target(std::get<2>(result))),
         .b = view<T, 3>(target(std::get<3>(result))),
         .c = view<T, 3>(target(std::get<4>(result))),
         .d = view<T, 1>(target(std::get<5>(result))),
         .initial_state = view<T, 3>(target(std::get<6>(result)))});
  });
  return result;
}

ScanResult meta_scan(const ScanArguments& args, bool return_state) {
  check_scan(args);
  const auto [y, final_state, saved] = empty_scan(args, return_state, false);
  return {y, final_state};
}

ScanForwardResult meta_scan_forward(const ScanArguments& args, bool return_state) {
  check_scan(args);
  return empty_scan(args, return_state, true);
}

ScanBackwardResult meta_scan_backward(const ScanArguments& args,
                                      const ScanUpstreamArguments& upstream) {
  check_scan(args, upstream);
  return empty_scan_backward(args, upstream.needs);
}

}  // namespace

ScanResult composite_scan(const ScanArguments& args, bool return_state) {
  check_scan(args);
  const at::ScalarType dtype = args.u.scalar_type();
  const at::ScalarType accumulate = accumulate_type(dtype);
  const at::Tensor u = args.u.to(accumulate), delta = args.delta.to(accumulate);
  const at::Tensor b = args.b.to(accumulate), c = args.c.to(accumulate);
  at::Tensor h = is_given(args.initial_state)
                     ? *args.initial_state
                     : at::zeros({u.size(0), u.size(2), args.a.size(1)}, args.a.options());
  // Products of 16 bits, as autocast would have them, are not for a recurrence.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  std::vector<at::Tensor> rows;
  for (std::int64_t t = 0; t < u.size(1); ++t) {
    const at::Tensor step = delta.select(1, t).unsqueeze(-1);
    const at::Tensor input = step * u.select(1, t).unsqueeze(-1) * b.select(1, t).unsqueeze(1);
    h = at::exp(step * args.a) * h + input;
    rows.push_back(at::matmul(h, c.select(1, t).unsqueeze(-1)).squeeze(-1));
  }
  at::Tensor y = args.d * u;
  if (!rows.empty()) y = y + at::stack(rows, 1);
  if (!return_state) return {y.to(dtype), at::Tensor()};
  return {y.to(dtype), h.is_same(args.initial_state.value_or(at::Tensor())) ? h.clone() : h};
}

TORCH_LIBRARY_IMPL(gma, CPU, m) {
  m.impl("selective_scan", &scan_adapter<ScanResult, cpu_scan>);
  m.impl("_selective_scan_forward", &scan_adapter<ScanForwardResult, cpu_scan_forward>);
  m.impl("_selective_scan_backward", &scan_backward_adapter<cpu_scan_backward>);
}

TORCH_LIBRARY_IMPL(gma, Meta, m) {
  m.impl("selective_scan", &scan_adapter<ScanResult, meta_scan>);
  m.impl("_selective_scan_forward", &scan_adapter<ScanForwardResult, meta_scan_forward>);
  m.impl("_selective_scan_backward", &scan_backward_adapter<meta_scan_backward>);
}

TORCH_LIBRARY_IMPL(gma, CompositeExplicitAutograd, m) {
  m.impl("selective_scan", &scan_adapter<ScanResult, composite_scan>);
}

TORCH_LIBRARY_IMPL(gma, CompositeImplicitAutograd, m) {
  m.impl("_selective_scan_composite", &scan_adapter<ScanResult, composite_scan>);
}

}  // namespace gma_torch::ops
