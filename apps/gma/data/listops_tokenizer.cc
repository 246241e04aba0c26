// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>

#include "data/listops.h"
#include "gma/error.h"

namespace gma::app {
namespace {

/// Decodes to the words of the expression, each with a space behind.
class ListOpsTokenizer final : public Tokenizer {
 public:
  ListOpsTokenizer() {
    pieces_[kListOpsPad] = "<pad> ";
    for (std::size_t i = 0; i < kListOpsTokens.size(); ++i) {
      pieces_[i + 1] = fmt::format("{} ", kListOpsTokens[i]);
    }
    pieces_[kListOpsClose] = "] ";
    pieces_[kListOpsUnknown] = "<unk> ";
  }

  std::string kind() const override { return "listops"; }
  std::int64_t vocab_size() const override { return kListOpsVocabSize; }
  std::vector<Token> encode(std::string_view text) const override { return tokenize_listops(text); }
  std::string model() const override { return {}; }

  std::string_view bytes_of(Token token) const override {
    if (token >= pieces_.size()) {
      throw InvalidArgument(fmt::format("token {} is outside the vocabulary of 17", token));
    }
    return pieces_[token];
  }

 private:
  std::array<std::string, kListOpsVocabSize> pieces_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_listops_tokenizer() { return std::make_unique<ListOpsTokenizer>(); }

}  // namespace gma::app
