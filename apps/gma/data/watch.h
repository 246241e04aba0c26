// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace gma::app {

/// How long work is watched by whoever started it.
struct Watch {
  std::function<void(std::string_view)> status = [](std::string_view) {};  ///< a passing line
  std::function<void(std::string_view)> line = [](std::string_view) {};    ///< a line that stays
  std::function<bool()> stop = [] { return false; };  ///< whether to stop; see check()

  /// Throws Stopped if the work is to stop.
  void check() const;
};

/// Thrown by work that was asked to stop; not an error.
struct Stopped {};

inline void Watch::check() const {
  if (stop()) throw Stopped();
}

}  // namespace gma::app
