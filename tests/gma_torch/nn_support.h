// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <concepts>
#include <string>

#include "gma/error.h"

namespace gma_torch::nn {

/// Largest absolute difference relative to the largest magnitude of `expected`.
inline double relative_error(const torch::Tensor& actual, const torch::Tensor& expected) {
  const auto wide = expected.to(torch::kFloat64);
  const double scale = wide.abs().max().item<double>();
  return (actual.to(torch::kFloat64) - wide).abs().max().item<double>() /
         (scale > 0.0 ? scale : 1.0);
}

/// Passes if shapes and dtypes agree and relative_error() is at most `tolerance`; NaN fails.
inline testing::AssertionResult near(const torch::Tensor& actual, const torch::Tensor& expected,
                                     double tolerance) {
  if (actual.sizes() != expected.sizes() || actual.scalar_type() != expected.scalar_type()) {
    return testing::AssertionFailure() << "shapes or dtypes differ";
  }
  const double error = relative_error(actual, expected);
  if (!(error <= tolerance)) {
    return testing::AssertionFailure() << "relative error " << error << " exceeds " << tolerance;
  }
  return testing::AssertionSuccess();
}

/// Passes if `call` throws gma::InvalidArgument with `part` in its message.
inline testing::AssertionResult refuses(const std::invocable auto& call, const std::string& part) {
  try {
    call();
  } catch (const gma::InvalidArgument& error) {
    if (std::string(error.what()).find(part) != std::string::npos)
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << "message without '" << part << "': " << error.what();
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

/// Errors in float32 grow to a few hundred roundings over the sums of these small models.
inline constexpr double kFloatTolerance = 2e-5;
inline constexpr double kDoubleTolerance = 1e-12;

}  // namespace gma_torch::nn
