// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/attention_mixer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "gma/error.h"
#include "nn/checks.h"

namespace gma_torch::nn {

using torch::Tensor;

Tensor padded_positions(std::int64_t length, const std::optional<Tensor>& padding_mask,
                        const MixerState* state) {
  if (padding_mask) return (padding_mask->cumsum(1) - 1).clamp_min(0);
  const Tensor* padding = state == nullptr ? nullptr : state->find(kPadding);
  if (padding == nullptr) return {};
  const auto columns = torch::arange(state->position, state->position + length, padding->options());
  return (columns - padding->unsqueeze(1)).clamp_min(0);
}

AttentionMixer::AttentionMixer(const MixerConfig& config)
    : config_((config.validate(), config)), rotary_(config.head_size(), config.rotary_base) {
  const std::int64_t key_size = config.key_value_heads() * config.head_size();
  const auto linear = [](std::int64_t in, std::int64_t out) {
    return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
  };
  q_proj_ = register_module("q_proj", linear(config.hidden_size, config.hidden_size));
  k_proj_ = register_module("k_proj", linear(config.hidden_size, key_size));
  v_proj_ = register_module("v_proj", linear(config.hidden_size, key_size));
  o_proj_ = register_module("o_proj", linear(config.hidden_size, config.hidden_size));
  if (config.use_short_conv) {
    const auto conv = [&](std::int64_t channels) {
      return ShortConv(channels, config.short_conv_width, config.is_causal);
    };
    q_conv_ = register_module("q_conv", conv(config.hidden_size));
    k_conv_ = register_module("k_conv", conv(key_size));
    v_conv_ = register_module("v_conv", conv(key_size));
  }
}

void AttentionMixer::check_source(const char* name, const char* mask_name,
                                  const Source& source) const {
  check_tokens(name, source.tokens, config_.hidden_size, q_proj_->weight);
  check_mask(mask_name, source.padding_mask, source.tokens.size(0), source.tokens.size(1),
             source.tokens.device());
}

Tensor AttentionMixer::stream(torch::nn::Linear& projection, ShortConv& conv, std::int64_t heads,
                              const Tensor& x, const char* tail_name, MixerState* state) {
  Tensor projected = projection(x);
  if (conv && state != nullptr) {
    Tensor tail = state->at(tail_name);
    projected = conv(projected, &tail);
    state->set(tail_name, tail);
  } else if (conv) {
    projected = conv(projected);
  }
  return projected.view({x.size(0), x.size(1), heads, config_.head_size()});
}

Tensor AttentionMixer::rotated(const Tensor& heads, const std::optional<Tensor>& padding_mask,
                               const MixerState* state) const {
  if (!config_.use_rotary) return heads;
  const std::int64_t length = heads.size(1), first = state == nullptr ? 0 : state->position;
  const Tensor positions = padded_positions(length, padding_mask, state);
  return apply_rotary(heads, positions.defined() ? rotary_.phases(positions, first + length, heads)
                                                 : rotary_.phases(first, length, heads));
}

AttentionMixer::Heads AttentionMixer::project(const Source& queries, const Source& keys,
                                              MixerState* state) {
  const Tensor context = without_padding(keys.tokens, keys.padding_mask);
  const Tensor x =
      &queries == &keys ? context : without_padding(queries.tokens, queries.padding_mask);
  const std::int64_t key_heads = config_.key_value_heads();
  const Tensor query = stream(q_proj_, q_conv_, config_.num_heads, x, "conv_query", state);
  const Tensor key = stream(k_proj_, k_conv_, key_heads, context, "conv_key", state);
  return {rotated(query, queries.padding_mask, state), rotated(key, keys.padding_mask, state),
          stream(v_proj_, v_conv_, key_heads, context, "conv_value", state)};
}

Tensor AttentionMixer::forward(const Tensor& x, const std::optional<Tensor>& key_padding_mask,
                               MixerState* state) {
  const Source source{x, key_padding_mask};
  check_source("x", "key_padding_mask", source);
  if (state == nullptr) {
    return o_proj_(attend(project(source, source, nullptr), key_padding_mask, nullptr).flatten(2));
  }

  if (!config_.is_causal) {
    throw gma::InvalidArgument("state must be absent unless is_causal is true, got one");
  }
  check_state(*state, key_padding_mask, x);
  // The caller's state moves on only once nothing can be refused any more.
  MixerState next = *state;
  const Heads heads = project(source, source, &next);
  if (key_padding_mask) next.set(kPadding, x.size(1) - key_padding_mask->sum(1));
  const Tensor output = o_proj_(attend(heads, key_padding_mask, &next).flatten(2));
  next.position += x.size(1);
  *state = std::move(next);
  return output;
}

Tensor AttentionMixer::forward_cross(const Tensor& x, const Tensor& context,
                                     const std::optional<Tensor>& context_padding_mask) {
  const Source queries{x, std::nullopt}, keys{context, context_padding_mask};
  check_source("x", "padding_mask", queries);
  check_source("context", "context_padding_mask", keys);
  if (x.size(0) != context.size(0)) {
    throw gma::InvalidArgument(fmt::format("context must have the batch size of x ({}), got {}",
                                           x.size(0), context.size(0)));
  }
  if (config_.is_causal) {
    throw gma::InvalidArgument("is_causal must be false for cross-attention, got true");
  }
  return o_proj_(attend(project(queries, keys, nullptr), context_padding_mask, nullptr).flatten(2));
}

MixerState AttentionMixer::initial_state(std::int64_t batch_size) const {
  if (!config_.is_causal) {
    throw gma::InvalidArgument("initial_state needs is_causal = true, got false");
  }
  MixerState state;
  if (q_conv_) {
    state.set("conv_query", q_conv_->initial_tail(batch_size));
    state.set("conv_key", k_conv_->initial_tail(batch_size));
    state.set("conv_value", v_conv_->initial_tail(batch_size));
  }
  extend_initial_state(state, batch_size, q_proj_->weight.options().requires_grad(false));
  return state;
}

}  // namespace gma_torch::nn
