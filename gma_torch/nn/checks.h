// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Checks of what modules are called with: each throws gma::InvalidArgument naming the argument.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>

#include "gma_torch/nn/mixer.h"

namespace gma_torch::nn {

/// (B, T, hidden_size) of the dtype and on the device of `weight`, or of a dtype that autocast
/// makes of it.
void check_tokens(const char* name, const torch::Tensor& x, std::int64_t hidden_size,
                  const torch::Tensor& weight);

/// (batch, tokens) bool, on `device`; an absent mask is legal.
void check_mask(const char* name, const std::optional<torch::Tensor>& mask, std::int64_t batch,
                std::int64_t tokens, torch::Device device);

/// int64, with values in [0, end). Values are looked at on the CPU only: elsewhere a look would
/// wait for the device.
void check_indices(const char* name, const torch::Tensor& indices, std::int64_t end);

/// That a state has the batch size of x, and that a mask beside it is legal: see Mixer::forward.
void check_state(const MixerState& state, const std::optional<torch::Tensor>& mask,
                 const torch::Tensor& x);

/// A tensor of a state, of shape `expected`, where -1 stands for any size.
void check_state_shape(const char* name, const torch::Tensor& tensor, torch::IntArrayRef expected);

/// x (B, T, C) with zeros for padded tokens, by selection: what they hold must not reach the
/// convolution or a gradient.
torch::Tensor without_padding(const torch::Tensor& x, const std::optional<torch::Tensor>& mask);

}  // namespace gma_torch::nn
