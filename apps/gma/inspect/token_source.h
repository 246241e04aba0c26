// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/tokenizer.h"
#include "inspect/inspection.h"

namespace gma::app {

/// Tokens that a model reads in one pass.
struct Chunk {
  std::span<const Token> tokens;
  bool begins_sequence = false;  ///< the model knows nothing of what was before
};
using ChunkVisitor = std::function<void(const Chunk&)>;

/// Reads --data in chunks, as often as it is asked to.
using TokenSource = std::function<void(const ChunkVisitor&)>;

/// Text of a language model, in sequences of `context` tokens and chunks of at most 512.
TokenSource text_source(const InspectOptions& options, const Tokenizer& tokenizer,
                        std::int64_t context);

/// Texts of a classifier (see stream_labelled()), each a chunk and a sequence of at most `context`
/// tokens.
TokenSource labelled_source(const InspectOptions& options, const Tokenizer& tokenizer,
                            std::int64_t num_classes, std::int64_t context);

/// What is to be known of a text before a model reads it.
struct TokenSurvey {
  std::vector<std::int64_t> counts;  ///< of each token of the vocabulary
  std::int64_t tokens = 0, sequences = 0;
  std::vector<std::int64_t> starts;  ///< of the sequences that begin in the sample
};
/// Throws InvalidArgument where there is no token.
TokenSurvey survey(const TokenSource& source, std::int64_t vocab_size, std::int64_t sample);

}  // namespace gma::app
