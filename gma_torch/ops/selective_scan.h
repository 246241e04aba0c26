// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The selective scan as the dispatcher knows it. Only this file and selective_scan.cc spell the
// argument lists out: kernels take ScanArguments, and are registered through the adapters below.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>

namespace gma_torch::ops {

/// Names and shapes as in gma_torch/selective_scan.h.
struct ScanArguments {
  at::Tensor u;
  at::Tensor delta;
  at::Tensor a;
  at::Tensor b;
  at::Tensor c;
  at::Tensor d;
  std::optional<at::Tensor> initial_state{};

  /// Whether autograd has to record this call.
  bool requires_grad() const;
};

/// What backward is given beside the arguments. A gradient that is absent is zero. `needs` says
/// which gradients to compute, in the order of ScanArguments.
struct ScanUpstreamArguments {
  at::Tensor saved;
  std::optional<at::Tensor> grad_y{};
  std::optional<at::Tensor> grad_final_state{};
  std::array<bool, 7> needs{};
};

/// y and the final state, undefined unless it was asked for.
using ScanResult = std::tuple<at::Tensor, at::Tensor>;
/// The same, and the states that backward starts its segments from.
using ScanForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
/// Gradients in the order of ScanArguments.
using ScanBackwardResult =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Throws for the first tensor that is undefined, not strided or on another device, or carries a
/// forward-mode tangent.
void check_scan_tensors(const ScanArguments& args);
/// check_scan_tensors(), then throws for the first argument whose dtype or shape is not usable.
void check_scan(const ScanArguments& args);
void check_scan(const ScanArguments& args, const ScanUpstreamArguments& upstream);

/// Calls through the dispatcher.
ScanResult call_scan(const ScanArguments& args, bool return_state);
ScanForwardResult call_scan_forward(const ScanArguments& args, bool return_state);
ScanBackwardResult call_scan_backward(const ScanArguments& args,
                                      const ScanUpstreamArguments& upstream);

/// The scan token by token in plain ATen: for devices without kernels, and a second opinion in
/// tests. Differentiable by autograd any number of times.
ScanResult composite_scan(const ScanArguments& args, bool return_state);

template <class Result, Result (*Kernel)(const ScanArguments&, bool)>
Result scan_adapter(const at::Tensor& u, const at::Tensor& delta, const at::Tensor& a,
                    const at::Tensor& b, const at::Tensor& c, const at::Tensor& d,
                    const std::optional<at::Tensor>& initial_state, bool return_state) {
  return Kernel({u, delta, a, b, c, d, initial_state}, return_state);
}

template <ScanBackwardResult (*Kernel)(const ScanArguments&, const ScanUpstreamArguments&)>
ScanBackwardResult scan_backward_adapter(
    const at::Tensor& u, const at::Tensor& delta, const at::Tensor& a, const at::Tensor& b,
    const at::Tensor& c, const at::Tensor& d, const std::optional<at::Tensor>& initial_state,
    const at::Tensor& saved, const std::optional<at::Tensor>& grad_y,
    const std::optional<at::Tensor>& grad_final_state, std::array<bool, 7> needs) {
  return Kernel({u, delta, a, b, c, d, initial_state}, {saved, grad_y, grad_final_state, needs});
}

}  // namespace gma_torch::ops
