// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gma::app {

/// A vocabulary has at most 65,536 entries, so that a token takes two bytes.
using Token = std::uint16_t;
inline constexpr std::int64_t kMaxVocabSize = 65536;

/// Turns bytes into tokens and back without loss: decode(encode(x)) == x for any bytes x.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// "bytes" or "sentencepiece".
  virtual std::string kind() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  virtual std::vector<Token> encode(std::string_view text) const = 0;
  /// The bytes that a token stands for. Throws InvalidArgument for a token outside the vocabulary.
  virtual std::string_view bytes_of(Token token) const = 0;
  /// What load_tokenizer() needs beside the kind.
  virtual std::string model() const = 0;

  std::string decode(std::span<const Token> tokens) const;
};

/// One token a byte.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Trains a byte-pair encoding that falls back to bytes on `texts`. The vocabulary may come out
/// smaller than asked where the text is short. Throws InvalidArgument for a vocab_size that is
/// too small to hold the bytes and the characters of the text, or past kMaxVocabSize.
std::unique_ptr<Tokenizer> train_sentencepiece(const std::vector<std::string_view>& texts,
                                               std::int64_t vocab_size);

/// `model` is a serialised SentencePiece model for "sentencepiece" and ignored for "bytes". Throws
/// InvalidArgument if it is not a model, or one that loses text: without byte fallback, or one that
/// normalises.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& kind, const std::string& model);

}  // namespace gma::app
