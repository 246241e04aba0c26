// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gma {

/// A non-owning view of a strided array, in the manner of std::span. Strides count elements and may
/// be zero (a broadcast axis) or negative. A view whose `data` is null is "absent": this is how an
/// optional tensor is left out.
template <class T, std::size_t Rank>
struct View {
  using Shape = std::array<std::int64_t, Rank>;

  T* data = nullptr;
  Shape shape{};
  Shape strides{};

  /// Row-major view of `data`.
  static View contiguous(T* data, const Shape& shape) {
    View view{data, shape, {}};
    std::int64_t stride = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      view.strides[axis] = stride;
      stride *= shape[axis];
    }
    return view;
  }

  /// Address of an element; missing trailing indices count as zero.
  template <class... Index>
    requires(sizeof...(Index) <= Rank)
  T* at(Index... index) const {
    T* address = data;
    std::size_t axis = 0;
    ((address += static_cast<std::int64_t>(index) * strides[axis++]), ...);
    return address;
  }

  template <class... Index>
    requires(sizeof...(Index) == Rank)
  T& operator()(Index... index) const {
    return *at(index...);
  }

  std::int64_t size(std::size_t axis) const { return shape[axis]; }

  std::int64_t numel() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
  }

  explicit operator bool() const { return data != nullptr; }

  /// A view of mutable elements converts to one of constant elements, as with std::span.
  operator View<const T, Rank>() const
    requires(!std::is_const_v<T>)
  {
    return {data, shape, strides};
  }
};

}  // namespace gma
