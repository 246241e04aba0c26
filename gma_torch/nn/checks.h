// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Checks of what modules are called with: each throws gma::InvalidArgument naming the argument.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>

namespace gma_torch::nn {

/// (batch, tokens) bool, on `device`; an absent mask is legal.
void check_mask(const char* name, const std::optional<torch::Tensor>& mask, std::int64_t batch,
                std::int64_t tokens, torch::Device device);

/// int64, with values in [0, end). Values are looked at on the CPU only: elsewhere a look would
/// wait for the device.
void check_indices(const char* name, const torch::Tensor& indices, std::int64_t end);

/// A tensor of a state, of shape `expected`, where -1 stands for any size.
void check_state_shape(const char* name, const torch::Tensor& tensor, torch::IntArrayRef expected);

}  // namespace gma_torch::nn
