// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Owning arrays for tests, in any memory layout.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>
#include <type_traits>
#include <utility>
#include <valarray>
#include <vector>

#include "gma/view.h"

namespace gma::test {

using Random = std::mt19937_64;

/// How the elements of a tensor lie in memory.
enum class Layout {
  contiguous,
  head_major,     ///< axes 1 and 2 swapped, as (B, H, T, D) under (B, T, H, D)
  reversed_axes,  ///< the first axis is the densest
  slice,          ///< the middle third of every row, as in a fused qkv projection
  offset_by_one,  ///< begins one element past an aligned address
  negative,       ///< every stride below zero
};

inline constexpr std::array kLayouts = {Layout::contiguous,    Layout::head_major,
                                        Layout::reversed_axes, Layout::slice,
                                        Layout::offset_by_one, Layout::negative};

/// What is never written and must never be read.
template <class T>
T poison() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if constexpr (std::is_constructible_v<T, float> && !std::is_integral_v<T>) return T(kNan);
  return T{};
}

/// Calls `body(index)` for every index of an array, row by row.
template <std::size_t Rank, class Body>
void for_each_index(const std::array<std::int64_t, Rank>& shape, Body body) {
  if (std::ranges::count(shape, 0) > 0) return;
  std::array<std::int64_t, Rank> index{};
  for (;;) {
    body(index);
    std::size_t axis = Rank;
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

template <class T, std::size_t Rank>
class Tensor {
 public:
  using Element = T;
  using Shape = typename View<T, Rank>::Shape;

  Tensor() = default;

  explicit Tensor(const Shape& shape, T fill = poison<T>(), Layout layout = Layout::contiguous)
      : shape_(shape) {
    place(layout);
    for_each_offset([&](std::size_t offset) { storage_[offset] = fill; });
  }

  /// The same values in another layout.
  Tensor with_layout(Layout layout) const {
    Tensor copy(shape_, poison<T>(), layout);
    std::size_t i = 0;
    const std::vector<T> source = values();
    copy.for_each_offset([&](std::size_t offset) { copy.storage_[offset] = source[i++]; });
    return copy;
  }

  View<T, Rank> view() {
    return {storage_.size() ? &storage_[origin_] : nullptr, shape_, strides_};
  }
  View<const T, Rank> view() const {
    return {storage_.size() ? &storage_[origin_] : nullptr, shape_, strides_};
  }

  template <class... Index>
  T& operator()(Index... index) {
    return view()(index...);
  }
  template <class... Index>
  const T& operator()(Index... index) const {
    return view()(index...);
  }

  const Shape& shape() const { return shape_; }
  bool empty() const { return storage_.size() == 0; }

  /// All elements, row by row.
  std::vector<T> values() const {
    std::vector<T> list;
    for_each_offset([&](std::size_t offset) { list.push_back(storage_[offset]); });
    return list;
  }

  /// Calls `body(element)` row by row.
  template <class Body>
  void for_each(Body body) {
    for_each_offset([&](std::size_t offset) { body(storage_[offset]); });
  }

  /// Everything in memory, gaps between the elements included.
  const std::valarray<T>& storage() const { return storage_; }

 private:
  /// Strides, origin and storage, filled with poison.
  void place(Layout layout) {
    std::array<std::size_t, Rank> order;  // From the widest axis to the densest.
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (layout == Layout::head_major && Rank >= 3) std::swap(order[1], order[2]);
    if (layout == Layout::reversed_axes) std::ranges::reverse(order);

    std::int64_t size = 1;
    for (std::size_t i = Rank; i-- > 0;) {
      strides_[order[i]] = size;
      size *= shape_[order[i]];
      if (layout == Layout::slice && i == Rank - 1) size *= 3;
    }
    std::int64_t origin = 0;
    if (layout == Layout::slice) origin = shape_[order[Rank - 1]];
    if (layout == Layout::offset_by_one) origin = 1;
    if (layout == Layout::negative) {
      origin = std::max<std::int64_t>(size - 1, 0);
      for (std::int64_t& stride : strides_) stride = -stride;
    }
    origin_ = static_cast<std::size_t>(origin);
    storage_.resize(static_cast<std::size_t>(size + (layout == Layout::offset_by_one)),
                    poison<T>());
    if (size == 0) storage_.resize(0);
  }

  template <class Body>
  void for_each_offset(Body body) const {
    for_each_index(shape_, [&](const Shape& index) {
      const auto origin = static_cast<std::int64_t>(origin_);
      body(static_cast<std::size_t>(
          std::inner_product(index.begin(), index.end(), strides_.begin(), origin)));
    });
  }

  Shape shape_{};
  Shape strides_{};
  std::size_t origin_ = 0;
  std::valarray<T> storage_;
};

template <class T, std::size_t Rank>
Tensor<T, Rank> normal(const std::array<std::int64_t, Rank>& shape, Random& random,
                       double scale = 1.0, double mean = 0.0) {
  Tensor<T, Rank> tensor(shape);
  std::normal_distribution<double> distribution(mean, scale);
  tensor.for_each([&](T& element) { element = static_cast<T>(distribution(random)); });
  return tensor;
}

template <class T, std::size_t Rank>
Tensor<T, Rank> uniform(const std::array<std::int64_t, Rank>& shape, Random& random, double low,
                        double high) {
  Tensor<T, Rank> tensor(shape);
  std::uniform_real_distribution<double> distribution(low, high);
  tensor.for_each([&](T& element) { element = static_cast<T>(distribution(random)); });
  return tensor;
}

/// Elements [begin, end) along `axis`; an absent tensor stays absent.
template <class T, std::size_t Rank>
Tensor<T, Rank> slice(const Tensor<T, Rank>& source, std::size_t axis, std::int64_t begin,
                      std::int64_t end) {
  auto shape = source.shape();
  if (shape == typename Tensor<T, Rank>::Shape{}) return {};
  shape[axis] = end - begin;
  Tensor<T, Rank> part(shape);
  for_each_index(shape, [&](auto index) {
    T& element = std::apply(part.view(), index);
    index[axis] += begin;
    element = std::apply(source.view(), index);
  });
  return part;
}

/// Elements in the order `order` along `axis`.
template <class T, std::size_t Rank>
Tensor<T, Rank> take(const Tensor<T, Rank>& source, std::size_t axis,
                     const std::vector<std::int64_t>& order) {
  auto shape = source.shape();
  shape[axis] = static_cast<std::int64_t>(order.size());
  Tensor<T, Rank> taken(shape);
  for_each_index(shape, [&](auto index) {
    T& element = std::apply(taken.view(), index);
    index[axis] = order[index[axis]];
    element = std::apply(source.view(), index);
  });
  return taken;
}

/// Elementwise conversion; exact from float to double.
template <class To, class From, std::size_t Rank>
Tensor<To, Rank> convert(const Tensor<From, Rank>& source) {
  if (source.shape() == typename Tensor<From, Rank>::Shape{}) return {};
  Tensor<To, Rank> target(source.shape());
  const std::vector<From> values = source.values();
  std::size_t i = 0;
  target.for_each([&](To& element) { element = static_cast<To>(values[i++]); });
  return target;
}

}  // namespace gma::test
