// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "inspect/token_source.h"

#include <algorithm>
#include <limits>

#include "gma/error.h"
#include "inspect/token_stream.h"

namespace gma::app {
namespace {

constexpr std::int64_t kLongestChunk = 512;

std::int64_t most_tokens(const InspectOptions& options) {
  return options.max_tokens > 0 ? options.max_tokens : std::numeric_limits<std::int64_t>::max();
}

/// Cuts a stream that comes in pieces of any size.
class Chunker {
 public:
  Chunker(std::int64_t context, std::int64_t most, const ChunkVisitor& visit)
      : context_(context), left_(most), visit_(visit) {}

  /// False once there have been enough.
  bool add(std::span<const Token> tokens) {
    while (!tokens.empty() && left_ > 0) {
      const std::int64_t room =
          std::min({std::min(kLongestChunk, context_ - position_) - std::ssize(pending_), left_,
                    std::ssize(tokens)});
      const auto taken = tokens.first(static_cast<std::size_t>(room));
      pending_.insert(pending_.end(), taken.begin(), taken.end());
      tokens = tokens.subspan(taken.size());
      left_ -= room;
      if (std::ssize(pending_) == std::min(kLongestChunk, context_ - position_)) flush();
    }
    return left_ > 0;
  }

  void flush() {
    if (pending_.empty()) return;
    visit_({pending_, position_ == 0});
    position_ = (position_ + std::ssize(pending_)) % context_;
    pending_.clear();
  }

 private:
  std::int64_t context_, left_;
  const ChunkVisitor& visit_;
  std::vector<Token> pending_;
  std::int64_t position_ = 0;  ///< of the pending tokens, in their sequence
};

}  // namespace

TokenSource text_source(const InspectOptions& options, const Tokenizer& tokenizer,
                        std::int64_t context) {
  return [&options, &tokenizer, context](const ChunkVisitor& visit) {
    Chunker chunker(context, most_tokens(options), visit);
    stream_tokens(options.data, tokenizer,
                  [&](std::span<const Token> tokens) { return chunker.add(tokens); });
    chunker.flush();
  };
}

TokenSource labelled_source(const InspectOptions& options, const Tokenizer& tokenizer,
                            std::int64_t num_classes, std::int64_t context) {
  return [&options, &tokenizer, num_classes, context](const ChunkVisitor& visit) {
    std::int64_t left = most_tokens(options);
    stream_labelled(options.data, tokenizer, num_classes, [&](std::span<const Token> tokens) {
      const auto kept =
          tokens.first(static_cast<std::size_t>(std::min({std::ssize(tokens), context, left})));
      if (!kept.empty()) visit({kept, true});
      left -= std::ssize(kept);
      return left > 0;
    });
  };
}

TokenSurvey survey(const TokenSource& source, std::int64_t vocab_size, std::int64_t sample) {
  TokenSurvey result;
  result.counts.resize(static_cast<std::size_t>(vocab_size));
  source([&](const Chunk& chunk) {
    if (chunk.begins_sequence) {
      ++result.sequences;
      if (result.tokens < sample) result.starts.push_back(result.tokens);
    }
    for (const Token token : chunk.tokens) ++result.counts[token];
    result.tokens += std::ssize(chunk.tokens);
  });
  if (result.tokens == 0) {
    throw InvalidArgument("--data: expected at least one token of text, got none");
  }
  return result;
}

}  // namespace gma::app
