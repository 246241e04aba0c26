// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sentencepiece_processor.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace gma::app {

/// SentencePiece pieces with byte fallback. SentencePiece alone loses a few things (bytes that are
/// not UTF-8, and U+2581, with which it marks spaces): those go in as byte tokens.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// Throws InvalidArgument as load_tokenizer() does.
  explicit SentencePieceTokenizer(std::string model);

  std::string kind() const override { return "sentencepiece"; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  std::vector<Token> encode(std::string_view text) const override;
  std::string_view bytes_of(Token token) const override;
  std::string model() const override { return model_; }

 private:
  void append_pieces(std::string_view text, std::vector<Token>& tokens) const;
  void append_bytes(std::string_view bytes, std::vector<Token>& tokens) const;
  void check_lossless() const;

  std::string model_;
  sentencepiece::SentencePieceProcessor processor_;
  std::vector<std::string> bytes_;        ///< what each token stands for
  std::array<Token, 256> byte_tokens_{};  ///< the token of each byte
};

}  // namespace gma::app
