// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "gma/error.h"
#include "gma/view.h"

namespace gma {

/// Throws InvalidArgument with the formatted message unless `condition` holds.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) throw InvalidArgument(fmt::format(message, std::forward<Args>(args)...));
}

/// Extents must not be negative, and their product must be countable.
template <class T, std::size_t Rank>
void check_extents(std::string_view name, const View<T, Rank>& view) {
  double elements = 1;
  for (const std::int64_t extent : view.shape) {
    check(extent >= 0, "{}: expected extents of at least 0, got ({})", name,
          fmt::join(view.shape, ", "));
    elements *= static_cast<double>(extent);
  }
  check(elements < 0x1p63, "{}: expected fewer than 2^63 elements, got shape ({})", name,
        fmt::join(view.shape, ", "));
}

/// A view with elements must have an address.
template <class T, std::size_t Rank>
void check_present(std::string_view name, const View<T, Rank>& view) {
  check(view || view.numel() == 0, "{}: expected data of shape ({}), got a null pointer", name,
        fmt::join(view.shape, ", "));
}

/// `view` must be present and have exactly `expected` as its shape. `layout` names the axes:
/// "key: expected shape (B, Tk, Hk, D) = (2, 5, 4, 8), got (2, 5, 3, 8)".
template <class T, std::size_t Rank>
void check_shape(std::string_view name, const View<T, Rank>& view, std::string_view layout,
                 const std::array<std::int64_t, Rank>& expected) {
  check(view.shape == expected, "{}: expected shape {} = ({}), got ({})", name, layout,
        fmt::join(expected, ", "), fmt::join(view.shape, ", "));
  check_present(name, view);
}

}  // namespace gma
