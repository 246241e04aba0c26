// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Which dtypes the operator takes, and what each is computed in.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "gma/half.h"

namespace gma_torch::ops {

/// What query, key and value may be.
constexpr bool is_supported(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 ||
         dtype == at::kHalf;
}

/// Type of the mixture parameters, the state and every sum: gma::accumulate_t.
constexpr at::ScalarType accumulate_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

/// Calls body(T{}) with T libgma's type for `dtype`, which must be supported.
template <class Body>
void with_type(at::ScalarType dtype, Body&& body) {
  switch (dtype) {
    case at::kDouble:
      return body(double{});
    case at::kBFloat16:
      return body(gma::bfloat16{});
    case at::kHalf:
      return body(gma::float16{});
    default:
      TORCH_CHECK_TYPE(dtype == at::kFloat,
                       "query: expected dtype float32, float64, bfloat16 or float16, got ", dtype);
      return body(float{});
  }
}

}  // namespace gma_torch::ops
