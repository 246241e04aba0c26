// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// From tensors to gma::View: the address and the strides as they are, nothing is copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "gma/attention.h"
#include "ops/arguments.h"

namespace gma_torch::ops {

template <class T, std::size_t Rank>
gma::View<T, Rank> view(const at::Tensor& tensor) {
  using Element = std::remove_const_t<T>;
  gma::View<T, Rank> result;
  // Untyped, for libgma's 16-bit types are not torch's; dtypes have been checked.
  if constexpr (std::is_const_v<T>) {
    result.data = static_cast<T*>(tensor.const_data_ptr());
  } else {
    result.data = static_cast<T*>(tensor.mutable_data_ptr());
  }
  if (result.data == nullptr) {
    // A tensor without elements has no address, but it is not absent.
    static Element nothing{};
    result.data = &nothing;
  }
  std::copy_n(tensor.sizes().begin(), Rank, result.shape.begin());
  std::copy_n(tensor.strides().begin(), Rank, result.strides.begin());
  return result;
}

/// The absent view if there is no tensor.
template <class T, std::size_t Rank>
gma::View<T, Rank> view(const std::optional<at::Tensor>& tensor) {
  return is_given(tensor) ? view<T, Rank>(*tensor) : gma::View<T, Rank>{};
}

template <class A>
gma::State<A> state_view(const std::optional<at::Tensor>& s, const std::optional<at::Tensor>& z) {
  return {view<A, 4>(s), view<A, 3>(z)};
}

}  // namespace gma_torch::ops
