// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gma_torch/nn/models.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "data/labelled_texts.h"
#include "data/tokenizer.h"

namespace gma::app {

/// Sums over the scored tokens of a stream; each token but the first is scored once.
struct LmScore {
  double nats = 0.0;  ///< negative log-likelihood
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;

  double loss() const;        ///< nats a token
  double perplexity() const;  ///< a token
  double bits_per_byte() const;
};

struct LmScoreOptions {
  std::int64_t context = 256;  ///< tokens that a window holds
  std::int64_t stride = 0;     ///< tokens from window to window; 0: the context
  std::int64_t batch_size = 16;
};

/// Asked between batches; true ends the work without a result.
using StopRequest = std::function<bool()>;

/// Scores a stream in windows. With stride < context windows overlap, and a token is scored in the
/// first window that holds it, so that it is predicted from at least context - stride tokens.
/// The sum is taken in double: batch_size has no say in the figure beyond float rounding.
std::optional<LmScore> score_lm(gma_torch::nn::CausalLm& model, std::span<const Token> tokens,
                                const Tokenizer& tokenizer, const LmScoreOptions& options,
                                const StopRequest& stop = {});

struct ClassifierScore {
  double nats = 0.0;
  std::int64_t correct = 0;
  std::int64_t texts = 0;

  double loss() const;
  double accuracy() const;
};

/// Scores the first `count` texts.
std::optional<ClassifierScore> score_classifier(gma_torch::nn::SequenceClassifier& model,
                                                const LabelledTokens& data, std::int64_t count,
                                                std::int64_t batch_size,
                                                const StopRequest& stop = {});

/// Windows of a stream as int64 (starts, length).
torch::Tensor window_batch(std::span<const Token> tokens, std::span<const std::int64_t> starts,
                           std::int64_t length);

/// Texts padded at their end to the longest.
struct LabelledBatch {
  torch::Tensor tokens;  ///< (B, T) int64
  torch::Tensor mask;    ///< (B, T) bool, true = keep
  torch::Tensor labels;  ///< (B) int64
};
LabelledBatch labelled_batch(const LabelledTokens& data, std::span<const std::int64_t> items);

}  // namespace gma::app
