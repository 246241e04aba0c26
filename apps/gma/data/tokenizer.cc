// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <numeric>

#include "data/sentencepiece_tokenizer.h"
#include "data/word_tokenizer.h"
#include "gma/error.h"

namespace gma::app {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() { std::iota(alphabet_.begin(), alphabet_.end(), static_cast<char>(0)); }

  std::string kind() const override { return "bytes"; }
  std::int64_t vocab_size() const override { return 256; }
  std::string model() const override { return {}; }

  std::vector<Token> encode(std::string_view text) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return {bytes, bytes + text.size()};
  }

  std::string_view bytes_of(Token token) const override {
    if (token >= alphabet_.size()) {
      throw InvalidArgument(fmt::format("token {} is outside the vocabulary of 256", token));
    }
    return {&alphabet_[token], 1};
  }

 private:
  std::array<char, 256> alphabet_;
};

}  // namespace

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens) text += bytes_of(token);
  return text;
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& kind, const std::string& model) {
  if (kind == "bytes") return make_byte_tokenizer();
  if (kind == "sentencepiece") return std::make_unique<SentencePieceTokenizer>(model);
  if (kind == "words") return std::make_unique<WordTokenizer>(model);
  if (kind == "listops") return make_listops_tokenizer();
  throw InvalidArgument(
      fmt::format("tokenizer: expected bytes, sentencepiece, words or listops, got '{}'", kind));
}

}  // namespace gma::app
