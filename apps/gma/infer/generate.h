// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gma_torch/nn/models.h>

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace gma::app {

struct SamplingOptions {
  bool greedy =
      false;  ///< the likeliest token; the options below, but for the penalty, have no say
  double temperature = 1.0;         ///< divides the logits; > 0
  std::int64_t top_k = 0;           ///< draw among the k likeliest; 0: all
  double top_p = 1.0;               ///< draw among the fewest whose probability reaches p
  double repetition_penalty = 1.0;  ///< > 1 makes tokens that were there before less likely
  std::uint64_t seed = 0;
};

/// Draws tokens from logits. Ties go to the lower token, so that results do not depend on sorting.
class TokenSampler {
 public:
  TokenSampler(const SamplingOptions& options, std::int64_t vocab_size);

  /// Tells the sampler of a token of the text, for the repetition penalty.
  void saw(Token token);
  /// One token; does not call saw().
  Token next(std::span<const float> logits);

 private:
  Token draw(std::vector<float>& logits);

  SamplingOptions options_;
  std::vector<bool> seen_;
  std::mt19937_64 random_;
};

/// Feeds `prompt` (at least one token), then draws up to `max_tokens`, handing each to `sink` until
/// that returns false. Works from the recurrent state: what a token costs does not depend on how
/// many came before.
void generate(gma_torch::nn::CausalLm& model, std::span<const Token> prompt,
              const SamplingOptions& options, std::int64_t max_tokens,
              const std::function<bool(Token)>& sink);

/// Passes bytes on until one of the stop texts appears; holds back what may be the start of one.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stop_texts);

  /// The bytes that are safe to show.
  std::string push(std::string_view bytes);
  /// What was held back, once the text ends without a stop text.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stop_texts_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace gma::app
