// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/linformer.h"

#include <fmt/format.h>

#include <cmath>

#include "gma/error.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

const MixerConfig& bidirectional(const MixerConfig& config) {
  if (config.is_causal) {
    throw gma::InvalidArgument(
        "is_causal must be false for linformer, got true: its projections sum keys of all "
        "positions, later ones too");
  }
  if (config.max_length <= 0) {
    throw gma::InvalidArgument(
        fmt::format("max_length must be positive for linformer, which has a weight for every "
                    "position, got {}",
                    config.max_length));
  }
  return config;
}

}  // namespace

LinformerImpl::LinformerImpl(const MixerConfig& config) : AttentionMixer(bidirectional(config)) {
  const double deviation = 1.0 / std::sqrt(static_cast<double>(config.projection_rank));
  projection_ = register_parameter(
      "projection", torch::randn({config.max_length, config.projection_rank}) * deviation);
}

std::shared_ptr<torch::nn::Module> LinformerImpl::make_alike() const {
  return std::make_shared<LinformerImpl>(config());
}

Tensor LinformerImpl::attend(const Heads& heads, const std::optional<Tensor>& key_padding_mask,
                             MixerState* /*state*/) {
  const std::int64_t length = heads.key.size(1);
  if (length > config().max_length) {
    throw gma::InvalidArgument(
        fmt::format("tokens to attend to must be at most max_length ({}) for linformer, got {}",
                    config().max_length, length));
  }
  // (T, rank), or (B, T, rank) where padding shifts tokens by different amounts.
  Tensor weights = projection_.narrow(0, 0, length);
  if (key_padding_mask) {
    weights = projection_.index({padded_positions(length, key_padding_mask, nullptr)});
  }
  const auto projected = [&](const Tensor& x) {
    const Tensor rows =
        key_padding_mask
            ? x.masked_fill(key_padding_mask->logical_not().unsqueeze(-1).unsqueeze(-1), 0.0)
            : x;
    // (B, H, rank, D).
    return torch::matmul(weights.transpose(-2, -1), rows.flatten(2))
        .unflatten(2, {x.size(2), x.size(3)})
        .transpose(1, 2);
  };
  const double dropout = is_training() ? config().attention_dropout : 0.0;
  const bool grouped = config().key_value_heads() != config().num_heads;
  return torch::scaled_dot_product_attention(heads.query.transpose(1, 2), projected(heads.key),
                                             projected(heads.value), /*attn_mask=*/std::nullopt,
                                             dropout, /*is_causal=*/false,
                                             /*scale=*/std::nullopt, grouped)
      .transpose(1, 2);
}

void LinformerImpl::extend_initial_state(MixerState& /*state*/, std::int64_t /*batch_size*/,
                                         const torch::TensorOptions& /*options*/) const {}

}  // namespace gma_torch::nn
