// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace gma {

/// An owning, uninitialised array on a cache-line boundary: workspace for the kernels.
template <class A>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::int64_t size)
      : size_(size),
        data_(static_cast<A*>(::operator new(
            static_cast<std::size_t>(std::max<std::int64_t>(size, 1)) * sizeof(A), kAlignment))) {}

  A* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }
  void fill(A value) { std::fill_n(data(), size_, value); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(A* data) const { ::operator delete(data, kAlignment); }
  };

  std::int64_t size_ = 0;
  std::unique_ptr<A, Free> data_;
};

}  // namespace gma
