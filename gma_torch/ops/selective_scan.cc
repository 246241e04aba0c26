// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The selective scan's schemas, checks, calls through the dispatcher, and C++ interface.
#include "ops/selective_scan.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>

#include "gma/selective_scan.h"
#include "gma_torch/selective_scan.h"
#include "ops/arguments.h"
#include "ops/checks.h"
#include "ops/dtype.h"

namespace gma_torch::ops {
namespace {

/// Calls visit(name, tensor) for every tensor that is given, under its public name.
template <class Visit>
void for_each_scan_tensor(const ScanArguments& args, const Visit& visit) {
  visit("u", args.u);
  visit("delta", args.delta);
  visit("A", args.a);
  visit("B", args.b);
  visit("C", args.c);
  visit("D", args.d);
  if (is_given(args.initial_state)) visit("initial_state", *args.initial_state);
}

void check_scan_tensor(const at::Tensor& u, const char* name, const at::Tensor& tensor) {
  check_tensor("selective_scan", "u", u, name, tensor);
}

}  // namespace

bool ScanArguments::requires_grad() const {
  if (!at::GradMode::is_enabled()) return false;
  bool any = false;
  for_each_scan_tensor(*this,
                       [&](const char*, const at::Tensor& t) { any = any || t.requires_grad(); });
  return any;
}

void check_scan_tensors(const ScanArguments& args) {
  for_each_scan_tensor(args, [&](const char* name, const at::Tensor& tensor) {
    check_scan_tensor(args.u, name, tensor);
  });
}

void check_scan(const ScanArguments& args) {
  check_scan_tensors(args);
  const at::Tensor& u = args.u;
  const at::ScalarType dtype = u.scalar_type();
  TORCH_CHECK_TYPE(is_supported(dtype), "u: expected dtype Float, Double, BFloat16 or Half, got ",
                   dtype);
  check_rank("u", u, 3, "(B, T, E)");
  check_rank("A", args.a, 2, "(E, S)");
  const c10::SymInt batch = u.sym_size(0);
  const c10::SymInt tokens = u.sym_size(1);
  const c10::SymInt channels = u.sym_size(2);
  const c10::SymInt states = args.a.sym_size(1);
  const auto check_one = [&](const char* name, const at::Tensor& tensor, at::ScalarType expected,
                             const char* layout, const SymShape& shape) {
    check_dtype(name, tensor, expected, "u", u);
    check_shape(name, tensor, layout, shape);
  };
  const at::ScalarType accumulate = accumulate_type(dtype);
  TORCH_CHECK_VALUE(holds(states.sym_ge(1)), "A: expected at least one state, got S = 0");
  check_one("delta", args.delta, dtype, "(B, T, E)", {batch, tokens, channels});
  check_one("A", args.a, accumulate, "(E, S)", {channels, states});
  check_one("B", args.b, dtype, "(B, T, S)", {batch, tokens, states});
  check_one("C", args.c, dtype, "(B, T, S)", {batch, tokens, states});
  check_one("D", args.d, accumulate, "(E)", {channels});
  if (is_given(args.initial_state)) {
    check_one("initial_state", *args.initial_state, accumulate, "(B, E, S)",
              {batch, channels, states});
  }
}

void check_scan(const ScanArguments& args, const ScanUpstreamArguments& upstream) {
  check_scan(args);
  const at::Tensor& u = args.u;
  const auto check_one = [&](const char* name, const at::Tensor& tensor, const char* layout,
                             const SymShape& shape) {
    check_scan_tensor(u, name, tensor);
    check_dtype(name, tensor, u.scalar_type(), "u", u);
    check_shape(name, tensor, layout, shape);
  };
  const c10::SymInt segment = gma::kScanSegmentTokens;
  const c10::SymInt states = args.a.sym_size(1);
  check_one("saved", upstream.saved, "(B, segments, S, E)",
            {u.sym_size(0), (u.sym_size(1) + segment - 1) / segment, states, u.sym_size(2)});
  if (is_given(upstream.grad_y)) {
    check_one("grad_y", *upstream.grad_y, "(B, T, E)",
              {u.sym_size(0), u.sym_size(1), u.sym_size(2)});
  }
  if (is_given(upstream.grad_final_state)) {
    check_one("grad_final_state", *upstream.grad_final_state, "(B, E, S)",
              {u.sym_size(0), u.sym_size(2), states});
  }
}

ScanResult call_scan(const ScanArguments& args, bool return_state) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("gma::selective_scan", "")
                             .typed<decltype(scan_adapter<ScanResult, nullptr>)>();
  return op.call(args.u, args.delta, args.a, args.b, args.c, args.d, args.initial_state,
                 return_state);
}

ScanForwardResult call_scan_forward(const ScanArguments& args, bool return_state) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("gma::_selective_scan_forward", "")
                             .typed<decltype(scan_adapter<ScanForwardResult, nullptr>)>();
  return op.call(args.u, args.delta, args.a, args.b, args.c, args.d, args.initial_state,
                 return_state);
}

ScanBackwardResult call_scan_backward(const ScanArguments& args,
                                      const ScanUpstreamArguments& upstream) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("gma::_selective_scan_backward", "")
                             .typed<decltype(scan_backward_adapter<nullptr>)>();
  return op.call(args.u, args.delta, args.a, args.b, args.c, args.d, args.initial_state,
                 upstream.saved, upstream.grad_y, upstream.grad_final_state, upstream.needs);
}

TORCH_LIBRARY_FRAGMENT(gma, m) {
  const std::string inputs =
      "(Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor D, *, "
      "Tensor? initial_state=None";
  const std::string scan = inputs + ", bool return_state=False) -> (Tensor y, Tensor final_state";
  m.def(("selective_scan" + scan + ")").c_str());
  m.def(("_selective_scan_composite" + scan + ")").c_str());
  m.def(("_selective_scan_forward" + scan + ", Tensor saved)").c_str());
  m.def(("_selective_scan_backward" + inputs +
         ", Tensor saved, Tensor? grad_y, Tensor? grad_final_state, bool[7] needs) -> "
         "(Tensor grad_u, Tensor grad_delta, Tensor grad_A, Tensor grad_B, Tensor grad_C, "
         "Tensor grad_D, Tensor grad_initial_state)")
            .c_str());
}

}  // namespace gma_torch::ops

namespace gma_torch {

std::pair<at::Tensor, std::optional<at::Tensor>> selective_scan(
    const at::Tensor& u, const at::Tensor& delta, const at::Tensor& A, const at::Tensor& B,
    const at::Tensor& C, const at::Tensor& D, const std::optional<at::Tensor>& initial_state,
    bool return_state) {
  const auto [y, state] = ops::call_scan({u, delta, A, B, C, D, initial_state}, return_state);
  if (!return_state) return {y, std::nullopt};
  return {y, state};
}

}  // namespace gma_torch
