// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/word_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gma/error.h"

namespace gma::app {
namespace {

constexpr std::string_view kLineEnd = "<eos>";
constexpr std::string_view kUnknown = "<unk>";
constexpr Token kLineEndToken = 0;
constexpr Token kUnknownToken = 1;

/// Calls word(text) for each word and line_end() for each line end.
template <class Word, class LineEnd>
void for_words(std::string_view text, const Word& word, const LineEnd& line_end) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool ends = i == text.size();
    const char c = ends ? ' ' : text[i];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') continue;
    if (i > begin) word(text.substr(begin, i - begin));
    if (!ends && c == '\n') line_end();
    begin = i + 1;
  }
}

}  // namespace

WordTokenizer::WordTokenizer(const std::string& model) {
  std::vector<std::string_view> words;
  for_words(model, [&](std::string_view word) { words.push_back(word); }, [] {});
  if (words.size() < 2 || words[0] != kLineEnd || words[1] != kUnknown) {
    throw InvalidArgument("tokenizer: expected a vocabulary of words, a line each");
  }
  pieces_.reserve(words.size());
  for (const std::string_view word : words) pieces_.push_back(fmt::format(" {}", word));
  for (std::size_t i = 1; i < pieces_.size(); ++i) {
    const std::string_view word = std::string_view(pieces_[i]).substr(1);
    if (!tokens_.emplace(word, static_cast<Token>(i)).second) {
      throw InvalidArgument(fmt::format("tokenizer: the vocabulary holds '{}' twice", word));
    }
  }
  pieces_[kLineEndToken] = " \n";
}

std::vector<Token> WordTokenizer::encode(std::string_view text) const {
  std::vector<Token> tokens;
  for_words(
      text,
      [&](std::string_view word) {
        const auto found = tokens_.find(word);
        tokens.push_back(found == tokens_.end() ? kUnknownToken : found->second);
      },
      [&] { tokens.push_back(kLineEndToken); });
  return tokens;
}

std::string_view WordTokenizer::bytes_of(Token token) const {
  if (token >= pieces_.size()) {
    throw InvalidArgument(
        fmt::format("token {} is outside the vocabulary of {}", token, pieces_.size()));
  }
  return pieces_[token];
}

std::string WordTokenizer::model() const {
  std::string model = fmt::format("{}\n", kLineEnd);
  for (std::size_t i = 1; i < pieces_.size(); ++i) {
    model.append(pieces_[i], 1).push_back('\n');
  }
  return model;
}

std::unique_ptr<Tokenizer> make_word_tokenizer(const std::vector<std::string_view>& texts) {
  std::unordered_map<std::string_view, std::int64_t> counts;
  for (const std::string_view text : texts) {
    for_words(text, [&](std::string_view word) { ++counts[word]; }, [] {});
  }
  counts.erase(kUnknown);
  counts.erase(kLineEnd);
  std::vector<std::pair<std::string_view, std::int64_t>> words(counts.begin(), counts.end());
  std::ranges::sort(words, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::string model = fmt::format("{}\n{}\n", kLineEnd, kUnknown);
  for (const auto& [word, count] : words) model.append(word).push_back('\n');
  return std::make_unique<WordTokenizer>(model);
}

}  // namespace gma::app
