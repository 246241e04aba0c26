// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "nn/checks.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "gma/error.h"

namespace gma_torch::nn {

using torch::Tensor;

void check_tokens(const char* name, const Tensor& x, std::int64_t hidden_size,
                  const Tensor& weight) {
  if (x.dim() != 3 || x.size(2) != hidden_size) {
    throw gma::InvalidArgument(fmt::format("{} must be (batch, tokens, {}), got ({})", name,
                                           hidden_size, fmt::join(x.sizes(), ", ")));
  }
  if (x.device() != weight.device()) {
    throw gma::InvalidArgument(fmt::format("{} must be on {} as the weights are, got {}", name,
                                           weight.device().str(), x.device().str()));
  }
  const auto autocast_takes = [&](const Tensor& tensor) {
    return tensor.is_floating_point() && tensor.scalar_type() != torch::kFloat64;
  };
  const bool casts = at::autocast::is_autocast_enabled(x.device().type()) && autocast_takes(x) &&
                     autocast_takes(weight);
  if (x.scalar_type() != weight.scalar_type() && !casts) {
    throw gma::InvalidArgument(fmt::format("{} must be {} as the weights are, got {}", name,
                                           c10::toString(weight.scalar_type()),
                                           c10::toString(x.scalar_type())));
  }
}

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

void check_state(const MixerState& state, const std::optional<Tensor>& mask, const Tensor& x) {
  for (const auto& [name, tensor] : state.tensors) {
    if (tensor.dim() > 0 && tensor.size(0) == x.size(0)) continue;
    throw gma::InvalidArgument(
        fmt::format("state must have the batch size of x ({}), got '{}' of shape ({})", x.size(0),
                    name, fmt::join(tensor.sizes(), ", ")));
  }
  if (!mask) return;
  if (state.position != 0) {
    throw gma::InvalidArgument(fmt::format(
        "key_padding_mask must come with the first tokens of a state, got it at position {}",
        state.position));
  }
  const std::int64_t length = mask->size(1);
  if (length > 1 &&
      (mask->narrow(1, 0, length - 1) & ~mask->narrow(1, 1, length - 1)).any().item<bool>()) {
    throw gma::InvalidArgument(
        "key_padding_mask must have its padding in front when there is a state");
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

Tensor without_padding(const Tensor& x, const std::optional<Tensor>& mask) {
  return mask ? x.masked_fill(mask->logical_not().unsqueeze(-1), 0.0) : x;
}

}  // namespace gma_torch::nn
