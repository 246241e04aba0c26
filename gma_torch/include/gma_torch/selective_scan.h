// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Mamba's selective scan on torch tensors: the C++ face of the operator registered as
// torch.ops.gma.selective_scan. Shapes and symbols are those of gma/selective_scan.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace gma_torch {

/// y (B, T, E) in u's dtype, and the state after the last token (B, E, S) if asked for. u and
/// delta (B, T, E), B and C (B, T, S) share a dtype; A (E, S), D (E) and the initial state
/// (B, E, S) are float32 (float64 for float64 input), and so is every sum. delta >= 0 is past bias
/// and softplus, A <= 0. Differentiable once in all of them, through y and through the final state;
/// a second derivative and forward mode are refused. Throws c10::Error (a ValueError or TypeError
/// in Python) naming the argument.
std::pair<at::Tensor, std::optional<at::Tensor>> selective_scan(
    const at::Tensor& u, const at::Tensor& delta, const at::Tensor& A, const at::Tensor& B,
    const at::Tensor& C, const at::Tensor& D,
    const std::optional<at::Tensor>& initial_state = std::nullopt, bool return_state = false);

}  // namespace gma_torch
