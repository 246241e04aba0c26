// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What calls of libgma's kernels have in common.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "gma/error.h"
#include "ops/arguments.h"

namespace gma_torch::ops {

/// Runs body(); libgma's argument errors become ValueErrors.
template <class Body>
void with_value_errors(Body&& body) {
  try {
    body();
  } catch (const gma::InvalidArgument& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

/// A gradient that did not arrive is zero: one element, seen through strides of zero.
inline at::Tensor gradient_or_zeros(const std::optional<at::Tensor>& gradient,
                                    at::IntArrayRef shape, const at::TensorOptions& options) {
  return is_given(gradient) ? *gradient : at::zeros({}, options).expand(shape);
}

/// Both halves of the gradient of a final state, or neither; `shape` is that of S.
inline std::pair<std::optional<at::Tensor>, std::optional<at::Tensor>> state_gradient(
    const std::optional<at::Tensor>& s, const std::optional<at::Tensor>& z, at::IntArrayRef shape,
    const at::TensorOptions& options) {
  if (!is_given(s) && !is_given(z)) return {};
  return {gradient_or_zeros(s, shape, options),
          gradient_or_zeros(z, shape.slice(0, shape.size() - 1), options)};
}

}  // namespace gma_torch::ops
