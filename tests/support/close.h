// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The one way in which tests compare numbers.
//
// |actual - expected| <= tolerance for every element, written so that a NaN on either side fails.
// Errors are measured against the largest |expected| of the tensor, its scale: sums of many terms
// lose digits in proportion to their terms, not to what is left after cancellation. Where a plain
// computation in the same type is at hand, the tolerance is
//     2 max|plain - expected| + 8 epsilon scale
// and otherwise a fixed share of the scale: 2e-4 in float, 1e-10 in double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/tensor.h"

namespace gma::test {

/// Largest magnitude.
double scale_of(const std::vector<double>& values);

/// Largest |a - b|; NaN where either holds one.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

testing::AssertionResult close(const std::vector<double>& actual,
                               const std::vector<double>& expected, double tolerance);

template <class T, std::size_t Rank>
std::vector<double> in_double(const Tensor<T, Rank>& tensor) {
  const std::vector<T> values = tensor.values();
  return {values.begin(), values.end()};
}

template <class T>
constexpr double relative_tolerance() {
  return std::is_same_v<T, double> ? 1e-10 : 2e-4;
}

/// For problems that may be ill-conditioned or cancel to nothing.
struct Leniency {
  double factor = 1;       ///< on the tolerance
  double least_scale = 0;  ///< of a tensor
};

template <class T, std::size_t Rank, class U>
testing::AssertionResult close(const Tensor<T, Rank>& actual, const Tensor<U, Rank>& expected,
                               const Leniency& leniency = {}) {
  const std::vector<double> reference = in_double(expected);
  const double scale = std::max(scale_of(reference), leniency.least_scale);
  return close(in_double(actual), reference, leniency.factor * relative_tolerance<T>() * scale);
}

/// Against a plain computation in the same type.
template <class T, std::size_t Rank>
testing::AssertionResult close(const Tensor<T, Rank>& actual, const Tensor<double, Rank>& expected,
                               const Tensor<T, Rank>& plain) {
  const std::vector<double> reference = in_double(expected);
  const double tolerance = 2 * largest_difference(in_double(plain), reference) +
                           8 * std::numeric_limits<T>::epsilon() * scale_of(reference);
  return close(in_double(actual), reference, tolerance);
}

/// Bit for bit; unlike ==, it tells 0 from -0 and finds a NaN equal to itself.
template <class T, std::size_t Rank>
testing::AssertionResult same_bits(const Tensor<T, Rank>& actual, const Tensor<T, Rank>& expected) {
  if (actual.shape() != expected.shape()) {
    return testing::AssertionFailure() << "shapes differ";
  }
  const std::vector<T> a = actual.values();
  const std::vector<T> b = expected.values();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " is not " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

/// Whether every element is finite.
template <class T, std::size_t Rank>
testing::AssertionResult all_finite(const Tensor<T, Rank>& tensor) {
  const std::vector<T> values = tensor.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return testing::AssertionFailure() << "element " << i << " is " << values[i];
    }
  }
  return testing::AssertionSuccess();
}

template <class T, std::size_t Rank>
testing::AssertionResult all_zero(const Tensor<T, Rank>& tensor) {
  const std::vector<T> values = tensor.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] == 0)) {
      return testing::AssertionFailure() << "element " << i << " is " << values[i];
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace gma::test
