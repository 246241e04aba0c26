// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Read-outs of a mixture's responsibilities, which GaussianMixtureAttention::responsibilities()
// gives: what the operator computes without ever forming it.
#pragma once

#include <torch/torch.h>

#include <optional>

namespace gma_torch::nn {

/// The implicit affinity Gamma_Q Gamma_K^T between tokens, (B, H, Tq, Tk), of responsibilities of
/// queries (B, Tq, H, K) and keys (B, Tk, Hk, K): non-negative, of rank K at most. A group of
/// H / Hk query heads shares its key head. Quadratic in tokens: for a window of a sequence. Throws
/// gma::InvalidArgument for shapes that do not go together.
torch::Tensor affinity(const torch::Tensor& query_responsibilities,
                       const torch::Tensor& key_responsibilities);

/// The weights that the values get: each row of an affinity (..., Tq, Tk) over its sum and `eps`,
/// with is_causal (Tq = Tk) of the keys up to the query alone.
torch::Tensor normalized_affinity(const torch::Tensor& affinity, bool is_causal, double eps = 1e-6);

/// Mean responsibility of each component, (H, K), over the tokens of responsibilities (B, T, H, K)
/// that padding_mask (B, T), true = keep, keeps; rows sum to 1, or are 0 where none is kept.
torch::Tensor component_usage(const torch::Tensor& responsibilities,
                              const std::optional<torch::Tensor>& padding_mask = std::nullopt);

}  // namespace gma_torch::nn
