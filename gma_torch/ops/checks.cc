// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "ops/checks.h"

#include <ATen/ATen.h>

namespace gma_torch::ops {

void check_tensor(const char* op, const char* x_name, const at::Tensor& x, const char* name,
                  const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined(), name, ": expected a tensor, got an undefined one");
  TORCH_CHECK_VALUE(!tensor.is_nested(), name, ": expected a strided tensor, got a nested one");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, name, ": expected a strided tensor, got ",
                    tensor.layout());
  TORCH_CHECK_VALUE(tensor.device() == x.device(), name, ": expected device ", x.device(),
                    " as of ", x_name, ", got ", tensor.device());
  TORCH_CHECK_NOT_IMPLEMENTED(!tensor._fw_grad(/*level=*/0).defined(), op,
                              ": expected to be differentiated in reverse mode, got a "
                              "forward-mode tangent of ",
                              name, ": the operator has no forward-mode derivative");
}

void check_rank(const char* name, const at::Tensor& tensor, std::int64_t rank, const char* layout) {
  TORCH_CHECK_VALUE(tensor.dim() == rank, name, ": expected shape ", layout, ", got ",
                    tensor.sym_sizes());
}

void check_shape(const char* name, const at::Tensor& tensor, const char* layout,
                 const SymShape& expected) {
  check_rank(name, tensor, static_cast<std::int64_t>(expected.size()), layout);
  for (std::size_t axis = 0; axis < expected.size(); ++axis) {
    TORCH_CHECK_VALUE(
        holds(tensor.sym_size(static_cast<std::int64_t>(axis)).sym_eq(expected[axis])), name,
        ": expected shape ", layout, " = ", c10::SymIntArrayRef(expected), ", got ",
        tensor.sym_sizes());
  }
}

void check_dtype(const char* name, const at::Tensor& tensor, at::ScalarType dtype,
                 const char* x_name, const at::Tensor& x) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == dtype, name, ": expected dtype ", dtype, " for ", x_name,
                   " of ", x.scalar_type(), ", got ", tensor.scalar_type());
}

bool holds(const c10::SymBool& condition) { return condition.expect_true(__FILE__, __LINE__); }

}  // namespace gma_torch::ops
