// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>
#include <string>

namespace gma::app {

/// The usable values of a number; neither NaN nor infinity is one.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool exclude_min = false;
  bool exclude_max = false;

  bool contains(double value) const {
    return std::isfinite(value) && (exclude_min ? value > min : value >= min) &&
           (exclude_max ? value < max : value <= max);
  }
};

/// "expected at least 0 and less than 1"
std::string describe(const Range& range);

inline constexpr Range kAtLeast0{.min = 0};
inline constexpr Range kAbove0{.min = 0, .exclude_min = true};
inline constexpr Range kAbove1{.min = 1, .exclude_min = true};
inline constexpr Range kProbability{.min = 0, .max = 1, .exclude_max = true};
inline constexpr Range kFraction{.min = 0, .max = 1, .exclude_min = true, .exclude_max = true};

// Bounds of what a machine may have or a run may last. They lie far above what is of use, and keep
// products of two sizes within 64 bits.
inline constexpr double kMaxSize = 1 << 20;  ///< layers, widths, rows of a batch
inline constexpr double kMaxCount = 1e15;    ///< steps, tokens, seeds
inline constexpr Range kSize{.min = 1, .max = kMaxSize};
inline constexpr Range kSizeOr0{.min = 0, .max = kMaxSize};
inline constexpr Range kCount{.min = 1, .max = kMaxCount};
inline constexpr Range kCountOr0{.min = 0, .max = kMaxCount};
inline constexpr Range kThreads{.min = 0, .max = 1024};

}  // namespace gma::app
