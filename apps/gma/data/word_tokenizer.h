// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer.h"

namespace gma::app {

/// One token a word, and one a line end, as language models on WikiText are compared: words stand
/// between spaces, and what the vocabulary lacks becomes `<unk>`. A word is decoded with a space in
/// front and a line end as " \n", which is how WikiText's files are written: without loss if all
/// words are known. Of other text, runs of white space become one space.
class WordTokenizer final : public Tokenizer {
 public:
  /// The vocabulary: words in the order of their tokens, a line each, those of line end and
  /// `<unk>` first. Throws InvalidArgument if it is none.
  explicit WordTokenizer(const std::string& model);

  std::string kind() const override { return "words"; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(pieces_.size()); }
  std::vector<Token> encode(std::string_view text) const override;
  std::string_view bytes_of(Token token) const override;
  std::string model() const override;

 private:
  std::vector<std::string> pieces_;  ///< as decoded
  std::unordered_map<std::string_view, Token> tokens_;
};

}  // namespace gma::app
