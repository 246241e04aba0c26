// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/text_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "gma/error.h"

namespace gma::app {
namespace {

/// Bytes per word above which text is taken not to consist of words (English has about 6).
constexpr std::int64_t kLongestMeanWord = 20;

std::int64_t count_words(std::string_view text) {
  std::int64_t count = 0;
  bool inside = false;
  for (const char c : text) {
    const bool is_space = std::isspace(static_cast<unsigned char>(c)) != 0;
    count += (!is_space && !inside) || c == '\n';
    inside = !is_space;
  }
  return count;
}

std::vector<std::string_view> views_of(const std::vector<TextFile>& files) {
  std::vector<std::string_view> views;
  for (const TextFile& file : files) views.emplace_back(file.text);
  return views;
}

}  // namespace

TokenStream tokenize(const Tokenizer& tokenizer, const std::vector<std::string_view>& texts) {
  TokenStream stream;
  std::int64_t words = 0;
  for (const std::string_view text : texts) {
    const std::vector<Token> tokens = tokenizer.encode(text);
    stream.tokens.insert(stream.tokens.end(), tokens.begin(), tokens.end());
    stream.bytes += static_cast<std::int64_t>(text.size());
    stream.ngrams.add(text);
    words += count_words(text);
  }
  if (words > 0 && stream.bytes / words < kLongestMeanWord) stream.words = words;
  return stream;
}

TextSplit split_texts(const std::vector<TextFile>& files, double fraction) {
  TextSplit split;
  for (const TextFile& file : files) {
    const std::string_view text = file.text;
    auto cut = static_cast<std::size_t>(static_cast<double>(text.size()) * (1.0 - fraction));
    // A long last line must not turn nearly all of the text into held-out text.
    const std::size_t held_out = text.size() - cut;
    if (const std::size_t line = text.rfind('\n', cut);
        line != std::string_view::npos && line > 0 && cut - line <= held_out) {
      cut = line + 1;
    }
    if (cut > 0) split.train.push_back(text.substr(0, cut));
    if (cut < text.size()) split.held_out.push_back(text.substr(cut));
  }
  return split;
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                          const std::vector<std::string_view>& texts) {
  if (!options.model_file.empty()) {
    try {
      return load_tokenizer("sentencepiece", read_file(options.model_file));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(
          fmt::format("--tokenizer-model {}: {}", options.model_file, error.what()));
    }
  }
  if (options.kind == "words") return make_word_tokenizer(texts);
  if (options.kind == "sentencepiece") return train_sentencepiece(texts, options.vocab_size);
  return load_tokenizer(options.kind, {});
}

TextCorpus load_text_corpus(const TextCorpusOptions& options,
                            std::shared_ptr<const Tokenizer> tokenizer) {
  const TextFiles data = read_text_files(options.data);
  TextFiles valid_data;
  TextSplit split;
  if (options.valid_data.empty()) {
    split = split_texts(data.files, options.valid_fraction);
  } else {
    valid_data = read_text_files(options.valid_data);
    split = {views_of(data.files), views_of(valid_data.files)};
  }

  TextCorpus corpus;
  corpus.tokenizer =
      tokenizer ? std::move(tokenizer) : make_tokenizer(options.tokenizer, split.train);
  corpus.train = tokenize(*corpus.tokenizer, split.train);
  corpus.held_out = tokenize(*corpus.tokenizer, split.held_out);
  if (!options.test_data.empty()) {
    const TextFiles test_data = read_text_files(options.test_data);
    corpus.test = tokenize(*corpus.tokenizer, views_of(test_data.files));
    if (corpus.test->tokens.size() < 2) {
      throw InvalidArgument("--test-data: expected at least two tokens of text");
    }
  }
  corpus.files = static_cast<std::int64_t>(data.files.size() + valid_data.files.size());
  corpus.skipped = data.skipped + valid_data.skipped;
  corpus.skipped_folders = data.skipped_folders + valid_data.skipped_folders;
  for (const auto* part : {&split.train, &split.held_out}) {
    for (const std::string_view text : *part) corpus.checksum = checksum(text, corpus.checksum);
  }
  if (corpus.train.tokens.size() < 2 || corpus.held_out.tokens.size() < 2) {
    throw InvalidArgument(
        fmt::format("--data: too little text ({} tokens to train on, {} held out; at least 2 of "
                    "each are needed)",
                    corpus.train.tokens.size(), corpus.held_out.tokens.size()));
  }
  return corpus;
}

}  // namespace gma::app
