// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Which dtypes the operator takes, and what each is computed in.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

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

/// What libgma reads and writes for inputs of `dtype`; where that is another type, query, key and
/// value are converted on the way in and the output on the way out.
constexpr at::ScalarType kernel_type(at::ScalarType dtype) { return accumulate_type(dtype); }

/// Calls body(T{}) with T the C++ type of `dtype`, which must be a kernel_type().
template <class Body>
void with_kernel_type(at::ScalarType dtype, Body&& body) {
  if (dtype == at::kDouble) {
    body(double{});
  } else {
    TORCH_CHECK_TYPE(dtype == at::kFloat, "query: expected dtype float32 or float64, got ", dtype);
    body(float{});
  }
}

}  // namespace gma_torch::ops
