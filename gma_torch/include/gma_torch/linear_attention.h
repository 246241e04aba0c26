// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Linear attention from features on torch tensors: the C++ face of torch.ops.gma.linear_attention.
// Shapes and symbols are those of gma/linear_attention.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

#include "gma_torch/attention.h"

namespace gma_torch {

struct LinearAttentionOptions {
  bool is_causal = false;
  std::optional<at::Tensor> key_padding_mask = {};  ///< (B, Tk) bool, true = keep
  std::optional<State> initial_state = {};
  bool return_state = false;
  double eps = 1e-6;
};

/// output (B, Tq, Hq, Dv) in query's dtype, and the final state if asked for: S (B, Hk, R, Dv) and
/// Z (B, Hk, R) in float32 (float64 for float64 input). query (B, Tq, Hq, R) and key (B, Tk, Hk, R)
/// are features, phi(q) and phi(k), not negative; with value (B, Tk, Hk, Dv) they share a dtype.
/// float32 and float64 run fused on the CPU; narrower types and other devices take the composite
/// path. Under autocast all three are cast to float32. Differentiable in query, key, value and the
/// initial state, through output and final state; fused, once, and not in forward mode. Throws
/// c10::Error (a ValueError or TypeError in Python) naming the argument.
std::pair<at::Tensor, std::optional<State>> linear_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const LinearAttentionOptions& options = {});

}  // namespace gma_torch
