// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "support/close.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace gma::test {

double scale_of(const std::vector<double>& values) {
  double scale = 0;
  for (const double value : values) scale = std::max(scale, std::abs(value));
  return scale;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) break;
  }
  return largest;
}

testing::AssertionResult close(const std::vector<double>& actual,
                               const std::vector<double>& expected, double tolerance) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure()
           << actual.size() << " elements, expected " << expected.size();
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (!(std::abs(actual[i] - expected[i]) <= tolerance)) {
      return testing::AssertionFailure()
             << "element " << i << " of " << actual.size() << " is " << actual[i] << ", expected "
             << expected[i] << " within " << tolerance << "; largest difference "
             << largest_difference(actual, expected) << ", scale " << scale_of(expected);
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace gma::test
