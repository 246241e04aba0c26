// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Text for a language model: files become two streams of tokens, one to train on, one held out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_ngrams.h"
#include "data/text_files.h"
#include "data/tokenizer.h"

namespace gma::app {

struct TokenStream {
  std::vector<Token> tokens;
  std::int64_t bytes = 0;
  /// Words as WikiText counts them: runs of non-space characters, and line ends. Absent if the text
  /// has no words of a usual length.
  std::optional<std::int64_t> words;
  ByteNgrams ngrams;
};

/// Appends the texts one after the other.
TokenStream tokenize(const Tokenizer& tokenizer, const std::vector<std::string_view>& texts);

struct TextSplit {
  std::vector<std::string_view> train, held_out;
};

/// Holds out the last `fraction` of each file, from the start of a line if that at most doubles the
/// part. Views into `files`.
TextSplit split_texts(const std::vector<TextFile>& files, double fraction);

/// Where the tokenizer comes from.
struct TokenizerOptions {
  std::string kind = "bytes";      ///< or "sentencepiece", "words"
  std::int64_t vocab_size = 2048;  ///< of a SentencePiece tokenizer trained on the text
  std::string model_file;          ///< a SentencePiece model to use instead
};

/// Makes the tokenizer, training it on `texts` if need be.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                          const std::vector<std::string_view>& texts);

struct TextCorpus {
  std::shared_ptr<const Tokenizer> tokenizer;
  TokenStream train, held_out;
  std::optional<TokenStream> test;
  std::int64_t files = 0;
  std::int64_t skipped = 0;
  std::int64_t skipped_folders = 0;
  std::uint32_t checksum = 0;  ///< of all text
};

struct TextCorpusOptions {
  std::vector<std::string> data;
  std::vector<std::string> valid_data;  ///< if empty, valid_fraction of `data` is held out
  double valid_fraction = 0.05;
  std::vector<std::string> test_data = {};
  TokenizerOptions tokenizer;
};

/// Reads, splits and encodes. `tokenizer`, if given, wins over the options. Throws InvalidArgument
/// if there is too little text for two tokens of each kind.
TextCorpus load_text_corpus(const TextCorpusOptions& options,
                            std::shared_ptr<const Tokenizer> tokenizer = nullptr);

}  // namespace gma::app
