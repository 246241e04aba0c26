// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/mamba.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gma/error.h"
#include "gma_torch/selective_scan.h"
#include "nn/checks.h"
#include "nn/precision.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

constexpr const char* kConv = "conv";
constexpr const char* kSsm = "ssm";

std::int64_t matching_inner_size(const MixerConfig& config, const MambaSizes& sizes) {
  const std::int64_t rank = sizes.dt_rank, state = sizes.state;
  // Parameters of one channel: conv and its bias, x_proj, dt_proj, dt_bias, a_log and d.
  const std::int64_t direction = sizes.conv_width + 1 + (rank + 2 * state) + rank + 1 + state + 1;
  const std::int64_t channel = 3 * sizes.hidden + (config.is_causal ? 1 : 2) * direction;
  const double exact =
      4.0 * static_cast<double>(sizes.hidden * sizes.hidden) / static_cast<double>(channel);
  constexpr std::int64_t kStep = 8, kStepsFrom = 128;
  const std::int64_t step = exact < kStepsFrom ? 1 : kStep;
  return std::max<std::int64_t>(step * std::lround(exact / static_cast<double>(step)), 1);
}

MixerConfig mamba_config(const MixerConfig& config) {
  config.validate();
  if (config.key_value_heads() != config.num_heads) {
    throw gma::InvalidArgument(
        fmt::format("num_key_value_heads must be 0 for mamba, which has no heads, got {}",
                    config.num_key_value_heads));
  }
  if (config.attention_dropout != 0.0) {
    throw gma::InvalidArgument(fmt::format(
        "attention_dropout must be 0 for mamba, which has no affinity to drop from, got {}",
        config.attention_dropout));
  }
  return config;
}

// What torch::nn::Linear starts from.
Tensor uniform_weight(std::int64_t out, std::int64_t in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  return torch::empty({out, in}).uniform_(-bound, bound);
}

// The bias whose softplus is log-uniform in [0.001, 0.1].
Tensor initial_dt_bias(std::int64_t channels) {
  constexpr double kLeast = 1e-3, kMost = 1e-1;
  const Tensor dt = torch::empty({channels}).uniform_(std::log(kLeast), std::log(kMost)).exp();
  return dt + torch::log(-torch::expm1(-dt));
}

}  // namespace

MambaSizes::MambaSizes(const MixerConfig& config)
    : hidden(config.hidden_size),
      inner(config.inner_size),
      state(config.state_size),
      dt_rank(config.dt_rank),
      conv_width(config.short_conv_width) {
  constexpr std::int64_t kHiddenPerRank = 16;
  if (dt_rank == 0) dt_rank = (hidden + kHiddenPerRank - 1) / kHiddenPerRank;
  if (inner == 0) inner = matching_inner_size(config, *this);
}

SelectiveStateSpaceImpl::SelectiveStateSpaceImpl(const MambaSizes& sizes) : sizes_(sizes) {
  const std::int64_t inner = sizes.inner, state = sizes.state, rank = sizes.dt_rank;
  conv_ = register_module("conv", ShortConv(inner, sizes.conv_width, /*is_causal=*/true,
                                            /*has_bias=*/true));
  x_proj_ = register_parameter("x_proj", uniform_weight(rank + 2 * state, inner));
  dt_proj_ = register_parameter("dt_proj", uniform_weight(inner, rank));
  dt_bias_ = register_parameter("dt_bias", initial_dt_bias(inner));
  a_log_ = register_parameter(
      "a_log", torch::arange(1, state + 1, torch::kFloat32).log().repeat({inner, 1}));
  d_ = register_parameter("d", torch::ones({inner}));
}

Tensor SelectiveStateSpaceImpl::forward(const Tensor& x, const std::optional<Tensor>& padding_mask,
                                        Tensor* tail, Tensor* h) {
  // Without input and without a step, a token leaves h as it is.
  const Tensor u = without_padding(conv_(x, tail), padding_mask);
  const std::vector<Tensor> selection =
      torch::linear(u, x_proj_).split_with_sizes({sizes_.dt_rank, sizes_.state, sizes_.state}, -1);
  const torch::Dtype wide = a_log_.scalar_type();
  // Above the threshold softplus is the identity; the default of 20 would show in float64.
  constexpr double kBeta = 1.0, kThreshold = 40.0;
  const Tensor delta = without_padding(
      torch::softplus(torch::linear(selection[0], dt_proj_).to(wide) + dt_bias_, kBeta, kThreshold),
      padding_mask);
  const std::optional<Tensor> before = h == nullptr ? std::nullopt : std::optional<Tensor>(*h);
  const auto [y, after] =
      selective_scan(u.to(wide), delta, -torch::exp(a_log_), selection[1].to(wide),
                     selection[2].to(wide), d_, before, /*return_state=*/h != nullptr);
  if (h != nullptr) *h = *after;
  return y.to(x.scalar_type());
}

Tensor SelectiveStateSpaceImpl::initial_tail(std::int64_t batch_size) const {
  return conv_->initial_tail(batch_size);
}

Tensor SelectiveStateSpaceImpl::initial_h(std::int64_t batch_size) const {
  return torch::zeros({batch_size, sizes_.inner, sizes_.state},
                      a_log_.options().requires_grad(false));
}

std::shared_ptr<torch::nn::Module> SelectiveStateSpaceImpl::make_alike() const {
  return std::make_shared<SelectiveStateSpaceImpl>(sizes_);
}

MambaImpl::MambaImpl(const MixerConfig& config) : config_(mamba_config(config)) {
  const MambaSizes sizes(config);
  in_proj_ = register_parameter("in_proj", uniform_weight(2 * sizes.inner, sizes.hidden));
  scan_ = register_module("scan", SelectiveStateSpace(sizes));
  if (!config.is_causal)
    reverse_scan_ = register_module("reverse_scan", SelectiveStateSpace(sizes));
  o_proj_ = register_module(
      "o_proj", torch::nn::Linear(torch::nn::LinearOptions(sizes.inner, sizes.hidden).bias(false)));
}

Tensor MambaImpl::forward(const Tensor& x, const std::optional<Tensor>& key_padding_mask,
                          MixerState* state) {
  check_tokens("x", x, config_.hidden_size, in_proj_);
  check_mask("key_padding_mask", key_padding_mask, x.size(0), x.size(1), x.device());
  if (state != nullptr) {
    if (!config_.is_causal) {
      throw gma::InvalidArgument("state must be absent unless is_causal is true, got one");
    }
    check_state(*state, key_padding_mask, x);
    check_state_shape(kConv, state->at(kConv), scan_->initial_tail(x.size(0)).sizes());
    check_state_shape(kSsm, state->at(kSsm), scan_->initial_h(x.size(0)).sizes());
  }

  const std::vector<Tensor> halves =
      torch::linear(without_padding(x, key_padding_mask), in_proj_).chunk(2, -1);
  Tensor mixed;
  if (state != nullptr) {
    Tensor tail = state->at(kConv), h = state->at(kSsm);
    mixed = scan_(halves[0], key_padding_mask, &tail, &h);
    state->set(kConv, tail);
    state->set(kSsm, h);
    if (key_padding_mask) state->set(kPadding, x.size(1) - key_padding_mask->sum(1));
    state->position += x.size(1);
  } else {
    mixed = scan_(halves[0], key_padding_mask, nullptr, nullptr);
  }
  if (reverse_scan_) {
    std::optional<Tensor> reversed_mask;
    if (key_padding_mask) reversed_mask = key_padding_mask->flip(1);
    mixed = mixed + reverse_scan_(halves[0].flip(1), reversed_mask, nullptr, nullptr).flip(1);
  }
  return o_proj_(mixed * torch::silu(halves[1]));
}

MixerState MambaImpl::initial_state(std::int64_t batch_size) const {
  if (!config_.is_causal) {
    throw gma::InvalidArgument("initial_state needs is_causal = true, got false");
  }
  MixerState state;
  state.set(kConv, scan_->initial_tail(batch_size));
  state.set(kSsm, scan_->initial_h(batch_size));
  return state;
}

std::vector<Tensor> MambaImpl::no_decay_parameters() const {
  std::vector<Tensor> parameters = scan_->scan_parameters();
  if (reverse_scan_) {
    for (const Tensor& parameter : reverse_scan_->scan_parameters())
      parameters.push_back(parameter);
  }
  return parameters;
}

std::shared_ptr<torch::nn::Module> MambaImpl::make_alike() const {
  return std::make_shared<MambaImpl>(config_);
}

void MambaImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  to(dtype, non_blocking);
  Mixer::to(device, non_blocking);
}

void MambaImpl::to(torch::Dtype dtype, bool non_blocking) {
  convert_except(no_decay_parameters(), dtype, [&] { Mixer::to(dtype, non_blocking); });
}

}  // namespace gma_torch::nn
