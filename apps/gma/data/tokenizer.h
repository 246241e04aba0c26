// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gma::app {

using Token = std::uint32_t;

/// Turns bytes into tokens and back; without loss, decode(encode(x)) == x for any bytes x, unless a
/// kind says otherwise.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// "bytes", "sentencepiece", "words" or "listops".
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

/// The vocabulary of all words in `texts`, the most frequent first: see WordTokenizer.
std::unique_ptr<Tokenizer> make_word_tokenizer(const std::vector<std::string_view>& texts);

/// Tokens of ListOps expressions: see data/listops.h.
std::unique_ptr<Tokenizer> make_listops_tokenizer();

/// Pieces that a SentencePiece vocabulary may have.
inline constexpr std::int64_t kMaxPieces = 65536;

/// Trains a byte-pair encoding that falls back to bytes on `texts`. The vocabulary may come out
/// smaller than asked where the text is short. Throws InvalidArgument for a vocab_size that is
/// too small to hold the bytes and the characters of the text, or past kMaxPieces.
std::unique_ptr<Tokenizer> train_sentencepiece(const std::vector<std::string_view>& texts,
                                               std::int64_t vocab_size);

/// `model` is what model() of that kind gave: a serialised SentencePiece model, the words, nothing
/// for "bytes" and "listops". Throws InvalidArgument if it is not, or a SentencePiece model that
/// loses text: without byte fallback, or one that normalises.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& kind, const std::string& model);

}  // namespace gma::app
