// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/readouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gma/error.h"
#include "nn/checks.h"

namespace gma_torch::nn {

using torch::Tensor;

namespace {

void check_responsibilities(const char* name, const Tensor& responsibilities) {
  if (responsibilities.dim() != 4 || !responsibilities.is_floating_point()) {
    throw gma::InvalidArgument(
        fmt::format("{} must be floating point of shape (B, T, H, K), got {}"
                    " of shape ({})",
                    name, c10::toString(responsibilities.scalar_type()),
                    fmt::join(responsibilities.sizes(), ", ")));
  }
}

}  // namespace

Tensor affinity(const Tensor& query_responsibilities, const Tensor& key_responsibilities) {
  check_responsibilities("query_responsibilities", query_responsibilities);
  check_responsibilities("key_responsibilities", key_responsibilities);
  const auto queries = query_responsibilities.sizes(), keys = key_responsibilities.sizes();
  if (keys[0] != queries[0] || keys[3] != queries[3] || keys[2] == 0 || queries[2] % keys[2] != 0) {
    throw gma::InvalidArgument(fmt::format(
        "key_responsibilities must have the batch and components of query_responsibilities ({}) "
        "and a divisor of its heads, got ({})",
        fmt::join(queries, ", "), fmt::join(keys, ", ")));
  }
  const Tensor grouped = key_responsibilities.repeat_interleave(queries[2] / keys[2], 2);
  return torch::matmul(query_responsibilities.permute({0, 2, 1, 3}), grouped.permute({0, 2, 3, 1}));
}

Tensor normalized_affinity(const Tensor& affinity, bool is_causal, double eps) {
  if (is_causal && (affinity.dim() < 2 || affinity.size(-1) != affinity.size(-2))) {
    throw gma::InvalidArgument(fmt::format("affinity must be square with is_causal, got ({})",
                                           fmt::join(affinity.sizes(), ", ")));
  }
  const Tensor visible = is_causal ? affinity.tril() : affinity;
  return visible / (visible.sum(-1, true) + eps);
}

Tensor component_usage(const Tensor& responsibilities, const std::optional<Tensor>& padding_mask) {
  check_responsibilities("responsibilities", responsibilities);
  check_mask("padding_mask", padding_mask, responsibilities.size(0), responsibilities.size(1),
             responsibilities.device());
  if (!padding_mask) return responsibilities.mean({0, 1}).nan_to_num(0.0);
  const Tensor dropped = padding_mask->logical_not().unsqueeze(-1).unsqueeze(-1);
  return responsibilities.masked_fill(dropped, 0.0).sum({0, 1}) / padding_mask->sum().clamp_min(1);
}

}  // namespace gma_torch::nn
