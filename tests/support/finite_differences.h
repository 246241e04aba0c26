// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "support/tensor.h"

namespace gma::test {

/// The gradient of `loss()` with respect to each element of `point`, which `loss` reads: central
/// differences of fourth order, whose error of about step^4 and 1e-16 / step is below 1e-10 of the
/// gradient's scale for functions and steps of order one and 1e-3.
template <std::size_t Rank, class Loss>
Tensor<double, Rank> finite_differences(Tensor<double, Rank>& point, Loss loss,
                                        double step = 1e-3) {
  std::vector<double> gradient;
  point.for_each([&](double& element) {
    const double center = element;
    const auto at = [&](double offset) {
      element = center + offset;
      return loss();
    };
    gradient.push_back((8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step));
    element = center;
  });
  Tensor<double, Rank> result(point.shape());
  std::size_t i = 0;
  result.for_each([&](double& element) { element = gradient[i++]; });
  return result;
}

}  // namespace gma::test
