// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The operator in plain ATen, for devices without kernels and as a second opinion in tests. It
// walks over chunks of tokens, forms no N x N matrix, sums in float32 (float64 for float64 input)
// and is differentiable by autograd any number of times. Autograd keeps O(N K).
#pragma once

#include "ops/operators.h"

namespace gma_torch::ops {

AttentionResult composite_attention(const Arguments& args, bool return_state);

/// gamma_k(x) for x (B, T, H, D), as (B, T, H, K) in the type of the sums.
at::Tensor composite_responsibilities(const at::Tensor& x, const at::Tensor& means,
                                      const at::Tensor& variances, const at::Tensor& prior_logits);

/// What responsibilities (B, T, H, K) are multiplied by: 0 for those that dropout drops, 1 / (1 -
/// p) for the others. The same decisions as libgma's kernels take. `first_sequence` and
/// `first_token` are the positions of row 0 and token 0; `side` is 0 for queries, 1 for keys.
at::Tensor dropout_factors(const at::Tensor& gamma, double p, const c10::SymInt& seed,
                           std::int64_t side, std::int64_t first_sequence,
                           std::int64_t first_token);

}  // namespace gma_torch::ops
