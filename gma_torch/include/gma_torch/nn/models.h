// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// A pre-norm transformer around any mixer: causal language model and sequence classifier.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gma_torch/nn/cloneable_module.h"
#include "gma_torch/nn/mixer.h"

namespace gma_torch::nn {

struct ModelConfig {
  std::string mixer = "gma";
  MixerConfig mixer_config;
  std::int64_t vocab_size = 256;
  std::int64_t num_layers = 4;
  std::int64_t mlp_size = 0;  ///< 0 = 4 x hidden_size
  double dropout = 0.0;       ///< on embeddings and on each residual branch
  bool learned_positions = false;
  /// sines and cosines of the position added to embeddings (Vaswani et al., 2017), as large as
  /// these are at the start; needs an even hidden_size
  bool sinusoidal_positions = false;
  std::int64_t max_length = 0;  ///< needed with learned positions and linformer
  bool tie_embeddings = true;
  std::int64_t num_classes = 0;  ///< sequence classifier only, as pooling
  std::string pooling = "mean";  ///< what is classified: the "mean" of kept tokens, or the "first"

  /// Throws gma::InvalidArgument naming the first field that is unusable.
  void validate() const;
  /// JSON text with one key a field; from_json refuses unknown and repeated keys and wrong types.
  std::string to_json() const;
  static ModelConfig from_json(const std::string& text);
};

/// State of a whole model: one MixerState a layer.
struct ModelState {
  std::vector<MixerState> layers;
  ModelState reorder(const torch::Tensor& index) const;
  ModelState clone() const;
};

/// x += drop(mixer(norm(x))); x += drop(mlp(norm(x))).
class BlockImpl : public CloneableModule {
 public:
  explicit BlockImpl(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& x,
                        const std::optional<torch::Tensor>& key_padding_mask = std::nullopt,
                        MixerState* state = nullptr);
  Mixer& mixer() { return *mixer_; }
  /// GaussianMixtureAttention::initialize_means() with what forward(x) would give that mixer; does
  /// nothing to another.
  void initialize_means(const torch::Tensor& x,
                        const std::optional<torch::Tensor>& key_padding_mask = std::nullopt);

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;

  ModelConfig config_;
  std::shared_ptr<Mixer> mixer_;
  torch::nn::LayerNorm mixer_norm_{nullptr}, mlp_norm_{nullptr};
  torch::nn::Linear up_{nullptr}, down_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};
TORCH_MODULE(Block);

/// Embeddings, blocks and the last norm: tokens (B, T) int64 to features (B, T, hidden_size).
/// Throws gma::InvalidArgument for token ids outside the vocabulary (on the CPU; elsewhere torch
/// finds them) and whatever Mixer::forward refuses; a state is then as it was.
class TransformerImpl : public CloneableModule {
 public:
  explicit TransformerImpl(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& tokens,
                        const std::optional<torch::Tensor>& padding_mask = std::nullopt,
                        ModelState* state = nullptr);
  ModelState initial_state(std::int64_t batch_size);
  /// Spreads the means of all mixtures over the routing vectors that `tokens` have in their layer,
  /// the first layer first; layers of other mixers stay as they are. Throws as forward() and
  /// GaussianMixtureAttention::initialize_means() do.
  void initialize_means(const torch::Tensor& tokens,
                        const std::optional<torch::Tensor>& padding_mask = std::nullopt);
  /// (vocab_size, hidden_size).
  const torch::Tensor& embedding_weight() const { return embedding_->weight; }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;
  void check(const torch::Tensor& tokens, const std::optional<torch::Tensor>& padding_mask) const;
  torch::Tensor embed(const torch::Tensor& tokens, const std::optional<torch::Tensor>& padding_mask,
                      const ModelState* state);

  ModelConfig config_;
  torch::nn::Embedding embedding_{nullptr}, positions_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
  std::vector<Block> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
};
TORCH_MODULE(Transformer);

/// tokens (B, T) int64 -> logits (B, T, vocab_size). Needs mixer_config.is_causal.
class CausalLmImpl : public CloneableModule {
 public:
  explicit CausalLmImpl(const ModelConfig& config);
  /// padding_mask (B, T) bool, true = keep; beside a state, see Mixer::forward.
  torch::Tensor forward(const torch::Tensor& tokens, ModelState* state = nullptr,
                        const std::optional<torch::Tensor>& padding_mask = std::nullopt);
  /// forward() in two halves, for callers that need the logits of some positions only.
  torch::Tensor features(const torch::Tensor& tokens, ModelState* state = nullptr,
                         const std::optional<torch::Tensor>& padding_mask = std::nullopt);
  torch::Tensor logits(const torch::Tensor& features);

  ModelState initial_state(std::int64_t batch_size);
  const ModelConfig& config() const { return config_; }
  Transformer& transformer() { return transformer_; }

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;

  ModelConfig config_;
  Transformer transformer_{nullptr};
  torch::nn::Linear head_{nullptr};  ///< absent where the embedding serves as head
};
TORCH_MODULE(CausalLm);

/// tokens (B, T) int64, padding_mask (B, T) bool, true = keep -> logits (B, num_classes), from the
/// features that ModelConfig::pooling names. Throws gma::InvalidArgument for T = 0.
class SequenceClassifierImpl : public CloneableModule {
 public:
  explicit SequenceClassifierImpl(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& tokens,
                        const std::optional<torch::Tensor>& padding_mask = std::nullopt);
  const ModelConfig& config() const { return config_; }
  Transformer& transformer() { return transformer_; }

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;

  ModelConfig config_;
  Transformer transformer_{nullptr};
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(SequenceClassifier);

/// AdamW parameter groups: {decayed, not decayed}. Matrices are decayed; biases, norms and
/// Mixer::no_decay_parameters() are not. Each parameter comes once, in the order of
/// named_parameters().
std::pair<std::vector<torch::Tensor>, std::vector<torch::Tensor>> parameter_groups(
    torch::nn::Module& model);

/// Number of trainable parameters, shared ones counted once.
std::int64_t count_parameters(const torch::nn::Module& model);

}  // namespace gma_torch::nn
