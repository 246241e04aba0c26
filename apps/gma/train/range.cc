// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/range.h"

#include <fmt/format.h>

namespace gma::app {
namespace {

/// Whole numbers in full, because "1e+15" is not what a user would type.
std::string plain(double value) {
  return value == std::round(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

}  // namespace

std::string describe(const Range& range) {
  const std::string low =
      fmt::format("expected {} {}", range.exclude_min ? "more than" : "at least", plain(range.min));
  if (std::isinf(range.max)) return low;
  return fmt::format("{} and {} {}", low, range.exclude_max ? "less than" : "at most",
                     plain(range.max));
}

}  // namespace gma::app
