// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "nn/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "gma/error.h"

namespace gma_torch::nn {

using torch::Tensor;

void check_mask(const char* name, const std::optional<Tensor>& mask, std::int64_t batch,
                std::int64_t tokens, torch::Device device) {
  if (!mask) return;
  if (mask->scalar_type() == torch::kBool && mask->device() == device && mask->dim() == 2 &&
      mask->size(0) == batch && mask->size(1) == tokens) {
    return;
  }
  throw gma::InvalidArgument(
      fmt::format("{} must be bool of shape ({}, {}) on {}, got {} of shape "
                  "({}) on {}",
                  name, batch, tokens, device.str(), c10::toString(mask->scalar_type()),
                  fmt::join(mask->sizes(), ", "), mask->device().str()));
}

void check_indices(const char* name, const Tensor& indices, std::int64_t end) {
  if (indices.scalar_type() != torch::kInt64) {
    throw gma::InvalidArgument(
        fmt::format("{} must be int64, got {}", name, c10::toString(indices.scalar_type())));
  }
  if (!indices.is_cpu() || indices.numel() == 0) return;
  const auto [low, high] = torch::aminmax(indices);
  const auto least = low.item<std::int64_t>(), most = high.item<std::int64_t>();
  if (least < 0 || most >= end) {
    throw gma::InvalidArgument(
        fmt::format("{} must be in [0, {}), got {}", name, end, least < 0 ? least : most));
  }
}

void check_state_shape(const char* name, const Tensor& tensor, torch::IntArrayRef expected) {
  if (std::ranges::equal(tensor.sizes(), expected,
                         [](auto size, auto wanted) { return wanted == -1 || size == wanted; })) {
    return;
  }
  throw gma::InvalidArgument(fmt::format("state must have '{}' of shape ({}), got ({})", name,
                                         fmt::join(expected, ", "),
                                         fmt::join(tensor.sizes(), ", ")));
}

}  // namespace gma_torch::nn
