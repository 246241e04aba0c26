// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numbers>
#include <unordered_set>

#include "gma/error.h"
#include "gma_torch/nn/attention_mixer.h"
#include "gma_torch/nn/gaussian_mixture_attention.h"
#include "gma_torch/nn/rotary.h"
#include "nn/checks.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

torch::nn::LayerNorm layer_norm(std::int64_t size) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({size}));
}

constexpr double kDeviation = 0.02;

// Normal weights of that deviation; those that write to the residual stream are smaller, so that
// its variance does not grow with the number of layers.
void initialize(torch::nn::Module& module, std::int64_t num_layers) {
  const double residual_scale = 1.0 / std::sqrt(2.0 * static_cast<double>(num_layers));
  for (auto& item : module.named_modules("", /*include_self=*/false)) {
    if (auto* const linear = item.value()->as<torch::nn::LinearImpl>()) {
      const bool is_residual = item.key().ends_with("o_proj") || item.key().ends_with("down");
      torch::nn::init::normal_(linear->weight, 0.0,
                               kDeviation * (is_residual ? residual_scale : 1.0));
      if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
    } else if (auto* const embedding = item.value()->as<torch::nn::EmbeddingImpl>()) {
      torch::nn::init::normal_(embedding->weight, 0.0, kDeviation);
    }
  }
}

MixerConfig mixer_config(const ModelConfig& config) {
  MixerConfig mixer = config.mixer_config;
  mixer.max_length = config.max_length;
  return mixer;
}

// Sines and cosines, (1 or B, T, hidden): what a rotation by the position makes of pairs (a, 0). As
// large as embeddings at the start.
Tensor sinusoids(const Tensor& positions, std::int64_t first, std::int64_t end, const Tensor& x) {
  constexpr double kBase = 10000.0;
  const Rotary rotary(x.size(2), kBase);
  Tensor pairs = torch::zeros({1, end - first, 1, x.size(2)}, x.options().requires_grad(false));
  pairs.slice(3, 0, std::nullopt, 2).fill_(kDeviation * std::numbers::sqrt2);
  const Tensor phases =
      positions.defined() ? rotary.phases(positions, end, x) : rotary.phases(first, end - first, x);
  return apply_rotary(pairs, phases).squeeze(2);
}

ModelConfig validated(const ModelConfig& config) {
  config.validate();
  return config;
}

}  // namespace

ModelState ModelState::reorder(const Tensor& index) const {
  ModelState selected;
  for (const MixerState& layer : layers) selected.layers.push_back(layer.reorder(index));
  return selected;
}

ModelState ModelState::clone() const {
  ModelState copy;
  for (const MixerState& layer : layers) copy.layers.push_back(layer.clone());
  return copy;
}

BlockImpl::BlockImpl(const ModelConfig& config) : config_(config) {
  const std::int64_t hidden = config.mixer_config.hidden_size;
  const std::int64_t mlp = config.mlp_size == 0 ? 4 * hidden : config.mlp_size;
  mixer_norm_ = register_module("mixer_norm", layer_norm(hidden));
  mixer_ = register_module("mixer", make_mixer(config.mixer, mixer_config(config)));
  mlp_norm_ = register_module("mlp_norm", layer_norm(hidden));
  up_ = register_module("up", torch::nn::Linear(hidden, mlp));
  down_ = register_module("down", torch::nn::Linear(mlp, hidden));
  dropout_ = register_module("dropout", torch::nn::Dropout(config.dropout));
}

std::shared_ptr<torch::nn::Module> BlockImpl::make_alike() const {
  return std::make_shared<BlockImpl>(config_);
}

Tensor BlockImpl::forward(const Tensor& x, const std::optional<Tensor>& key_padding_mask,
                          MixerState* state) {
  const Tensor mixed = x + dropout_(mixer_->forward(mixer_norm_(x), key_padding_mask, state));
  return mixed + dropout_(down_(torch::gelu(up_(mlp_norm_(mixed)))));
}

void BlockImpl::initialize_means(const Tensor& x, const std::optional<Tensor>& key_padding_mask) {
  auto* const attention = dynamic_cast<GaussianMixtureAttentionImpl*>(mixer_.get());
  if (attention == nullptr) return;
  const torch::NoGradGuard no_grad;
  attention->initialize_means(mixer_norm_(x), key_padding_mask);
}

TransformerImpl::TransformerImpl(const ModelConfig& config) : config_(config) {
  const std::int64_t hidden = config.mixer_config.hidden_size;
  embedding_ = register_module("embedding", torch::nn::Embedding(config.vocab_size, hidden));
  if (config.learned_positions) {
    positions_ = register_module("positions", torch::nn::Embedding(config.max_length, hidden));
  }
  dropout_ = register_module("dropout", torch::nn::Dropout(config.dropout));
  const auto blocks = register_module("blocks", torch::nn::ModuleList());
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    blocks_.emplace_back(config);
    blocks->push_back(blocks_.back());
  }
  norm_ = register_module("norm", layer_norm(hidden));
}

Tensor TransformerImpl::embed(const Tensor& tokens, const std::optional<Tensor>& padding_mask,
                              const ModelState* state) {
  Tensor x = embedding_(tokens);
  if (!positions_ && !config_.sinusoidal_positions) return x;

  const MixerState* const first_layer = state == nullptr ? nullptr : &state->layers.front();
  const std::int64_t first = first_layer == nullptr ? 0 : first_layer->position;
  const std::int64_t end = first + tokens.size(1);
  const Tensor positions = padded_positions(tokens.size(1), padding_mask, first_layer);
  if (config_.sinusoidal_positions) x = x + sinusoids(positions, first, end, x);
  if (!positions_) return x;
  if (end > config_.max_length) {
    throw gma::InvalidArgument(fmt::format(
        "tokens must end before max_length ({}) with learned_positions, got position {}",
        config_.max_length, end));
  }
  return x +
         (positions.defined() ? positions_(positions) : positions_->weight.slice(0, first, end));
}

std::shared_ptr<torch::nn::Module> TransformerImpl::make_alike() const {
  return std::make_shared<TransformerImpl>(config_);
}

void TransformerImpl::check(const Tensor& tokens, const std::optional<Tensor>& padding_mask) const {
  if (tokens.dim() != 2 || tokens.scalar_type() != torch::kInt64) {
    throw gma::InvalidArgument(
        fmt::format("tokens must be int64 of shape (batch, tokens), got {} of shape ({})",
                    c10::toString(tokens.scalar_type()), fmt::join(tokens.sizes(), ", ")));
  }
  check_indices("tokens", tokens, config_.vocab_size);
  check_mask("padding_mask", padding_mask, tokens.size(0), tokens.size(1), tokens.device());
}

void TransformerImpl::initialize_means(const Tensor& tokens,
                                       const std::optional<Tensor>& padding_mask) {
  check(tokens, padding_mask);
  const torch::NoGradGuard no_grad;
  Tensor x = embed(tokens, padding_mask, nullptr);
  for (Block& block : blocks_) {
    block->initialize_means(x, padding_mask);
    x = block(x, padding_mask);
  }
}

Tensor TransformerImpl::forward(const Tensor& tokens, const std::optional<Tensor>& padding_mask,
                                ModelState* state) {
  check(tokens, padding_mask);
  if (state != nullptr && state->layers.size() != blocks_.size()) {
    throw gma::InvalidArgument(
        fmt::format("state must have {} layers, got {}", blocks_.size(), state->layers.size()));
  }
  Tensor x = dropout_(embed(tokens, padding_mask, state));
  // The caller's state moves on in all layers or in none.
  std::optional<ModelState> next;
  if (state != nullptr) next = *state;
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    x = blocks_[layer](x, padding_mask, next ? &next->layers[layer] : nullptr);
  }
  if (next) *state = std::move(*next);
  return norm_(x);
}

ModelState TransformerImpl::initial_state(std::int64_t batch_size) {
  ModelState state;
  for (Block& block : blocks_) state.layers.push_back(block->mixer().initial_state(batch_size));
  return state;
}

CausalLmImpl::CausalLmImpl(const ModelConfig& config) : config_(validated(config)) {
  if (!config.mixer_config.is_causal) {
    throw gma::InvalidArgument("is_causal must be true in a causal language model, got false");
  }
  transformer_ = register_module("transformer", Transformer(config));
  if (!config.tie_embeddings) {
    head_ = register_module(
        "head", torch::nn::Linear(
                    torch::nn::LinearOptions(config.mixer_config.hidden_size, config.vocab_size)
                        .bias(false)));
  }
  initialize(*this, config.num_layers);
}

std::shared_ptr<torch::nn::Module> CausalLmImpl::make_alike() const {
  return std::make_shared<CausalLmImpl>(config_);
}

Tensor CausalLmImpl::forward(const Tensor& tokens, ModelState* state,
                             const std::optional<Tensor>& padding_mask) {
  return logits(features(tokens, state, padding_mask));
}

Tensor CausalLmImpl::features(const Tensor& tokens, ModelState* state,
                              const std::optional<Tensor>& padding_mask) {
  return transformer_(tokens, padding_mask, state);
}

Tensor CausalLmImpl::logits(const Tensor& features) {
  return torch::linear(features, head_ ? head_->weight : transformer_->embedding_weight());
}

ModelState CausalLmImpl::initial_state(std::int64_t batch_size) {
  return transformer_->initial_state(batch_size);
}

SequenceClassifierImpl::SequenceClassifierImpl(const ModelConfig& config)
    : config_(validated(config)) {
  if (config.num_classes < 2) {
    throw gma::InvalidArgument(fmt::format(
        "num_classes must be at least 2 in a sequence classifier, got {}", config.num_classes));
  }
  transformer_ = register_module("transformer", Transformer(config));
  head_ = register_module("head",
                          torch::nn::Linear(config.mixer_config.hidden_size, config.num_classes));
  initialize(*this, config.num_layers);
}

std::shared_ptr<torch::nn::Module> SequenceClassifierImpl::make_alike() const {
  return std::make_shared<SequenceClassifierImpl>(config_);
}

Tensor SequenceClassifierImpl::forward(const Tensor& tokens,
                                       const std::optional<Tensor>& padding_mask) {
  if (tokens.dim() == 2 && tokens.size(1) == 0) {
    throw gma::InvalidArgument(
        fmt::format("tokens must hold at least one token a sequence, got ({}, 0)", tokens.size(0)));
  }
  const Tensor features = transformer_(tokens, padding_mask, nullptr);
  if (config_.pooling == "first") {
    if (!padding_mask) return head_(features.select(1, 0));
    const Tensor first = padding_mask->to(torch::kInt64).argmax(1).view({-1, 1, 1});
    return head_(features.gather(1, first.expand({-1, 1, features.size(2)})).squeeze(1));
  }
  if (!padding_mask) return head_(features.mean(1));
  const Tensor kept = features.masked_fill(padding_mask->logical_not().unsqueeze(-1), 0.0);
  const Tensor counts = padding_mask->sum(1, true).clamp_min(1);
  return head_(kept.sum(1) / counts);
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> parameter_groups(torch::nn::Module& model) {
  std::unordered_set<const c10::TensorImpl*> exempt, seen;
  for (const auto& module : model.modules()) {
    if (const auto* const mixer = dynamic_cast<const Mixer*>(module.get())) {
      for (const Tensor& parameter : mixer->no_decay_parameters()) {
        exempt.insert(parameter.unsafeGetTensorImpl());
      }
    }
  }
  std::vector<Tensor> decayed, not_decayed;
  for (const Tensor& parameter : model.parameters()) {
    const auto* const identity = parameter.unsafeGetTensorImpl();
    if (!seen.insert(identity).second) continue;
    const bool decays = parameter.dim() >= 2 && !exempt.contains(identity);
    (decays ? decayed : not_decayed).push_back(parameter);
  }
  return {decayed, not_decayed};
}

std::int64_t count_parameters(const torch::nn::Module& model) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::int64_t count = 0;
  for (const Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad() && seen.insert(parameter.unsafeGetTensorImpl()).second) {
      count += parameter.numel();
    }
  }
  return count;
}

}  // namespace gma_torch::nn
