// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Parameters that do not follow a module to narrow dtypes.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <vector>

namespace gma_torch::nn {

/// The dtype of sums, and of parameters that stay wide, in a module of dtype `dtype`.
inline torch::Dtype accumulate_dtype(torch::Dtype dtype) {
  return dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

/// Runs `convert`, which takes a module to `dtype`, and gives `parameters` the values that they had
/// before it, in accumulate_dtype(dtype).
template <class Convert>
void convert_except(const std::vector<torch::Tensor>& parameters, torch::Dtype dtype,
                    const Convert& convert) {
  std::vector<torch::Tensor> values;
  for (const torch::Tensor& parameter : parameters) values.push_back(parameter.detach().clone());
  convert();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].set_data(values[i].to(accumulate_dtype(dtype)));
  }
}

}  // namespace gma_torch::nn
