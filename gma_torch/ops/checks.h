// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Checks that the operators share. They work on meta tensors and on symbolic sizes; each throws a
// ValueError or TypeError naming the argument, what was expected and what came.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymBool.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <vector>

namespace gma_torch::ops {

using SymShape = std::vector<c10::SymInt>;

/// That a tensor of operator `op` is strided and on the device of `x`, and, with a
/// NotImplementedError, that it carries no forward-mode tangent. `x` is the tensor that the others
/// are measured by, `x_name` its name.
void check_tensor(const char* op, const char* x_name, const at::Tensor& x, const char* name,
                  const at::Tensor& tensor);

void check_rank(const char* name, const at::Tensor& tensor, std::int64_t rank, const char* layout);

void check_shape(const char* name, const at::Tensor& tensor, const char* layout,
                 const SymShape& expected);

/// That `tensor` has the dtype that goes with x.
void check_dtype(const char* name, const at::Tensor& tensor, at::ScalarType dtype,
                 const char* x_name, const at::Tensor& x);

/// Whether a condition on sizes holds; while compiling, it is assumed from here on.
bool holds(const c10::SymBool& condition);

}  // namespace gma_torch::ops
