// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/byte_ngrams.h"
#include "data/text_corpus.h"
#include "gma/error.h"
#include "scratch_folder.h"

namespace gma::app {
namespace {

TEST(ByteNgrams, AgreeWithTheFormula) {
  ByteNgrams train, held_out;
  train.add("abab");
  train.add("b");
  held_out.add("abc");
  const auto p = [](double count) { return (count + 1.0) / (5.0 + 256.0); };
  EXPECT_NEAR(unigram_bits_per_byte(train, held_out), -std::log2(p(2) * p(3) * p(0)) / 3.0, 1e-12);
  // n(ab) = 2 of n(a.) = 2; n(bc) = 0 of n(b.) = 1: texts do not join, so "b" + "b" is no pair.
  EXPECT_NEAR(bigram_bits_per_byte(train, held_out),
              -std::log2((2.0 + p(3)) / 3.0 * (0.0 + p(0)) / 2.0) / 2.0, 1e-12);
}

TEST(ByteNgrams, WithoutPairsTheUnigramModelDecides) {
  ByteNgrams train, held_out;
  train.add("abab");
  held_out.add("a");
  EXPECT_EQ(bigram_bits_per_byte(train, held_out), unigram_bits_per_byte(train, held_out));
}

TEST(ByteNgrams, ProbabilitiesSumToOne) {
  ByteNgrams train;
  train.add("some text to count, some more of it");
  double total = 0.0;
  for (int byte = 0; byte < 256; ++byte) {
    ByteNgrams pair;
    pair.add(std::string{'o', static_cast<char>(byte)});
    total += std::exp2(-bigram_bits_per_byte(train, pair));
  }
  EXPECT_NEAR(total, 1.0, 1e-12);
}

TEST(TextCorpus, HoldsOutTheEndsOfFilesAtLineStarts) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(1000 + i) + "\n";
  const std::vector<TextFile> files = {{"a", text}, {"b", "no line end here"}};
  const TextSplit split = split_texts(files, 0.1);
  ASSERT_EQ(split.train.size(), 2U);
  ASSERT_EQ(split.held_out.size(), 2U);
  EXPECT_EQ(std::string(split.train[0]) + std::string(split.held_out[0]), text);
  EXPECT_EQ(split.held_out[0].front(), 'l');
  EXPECT_EQ(split.held_out[0].size(), 100U);
  EXPECT_EQ(std::string(split.train[1]) + std::string(split.held_out[1]), files[1].text);
}

TEST(TextCorpus, ALongLastLineStaysMostlyToTrainOn) {
  const std::vector<TextFile> files = {{"a", "a short line\n" + std::string(1000, 'x')}};
  const TextSplit split = split_texts(files, 0.1);
  EXPECT_EQ(split.held_out[0].size(), 102U);
}

TEST(TextCorpus, CountsWordsWhereThereAreSome) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenize(*tokenizer, {" two words \n and  three more\n"}).words, 7);
  EXPECT_EQ(tokenize(*tokenizer, {std::string(500, 'x')}).words, std::nullopt);
}

TEST(TextCorpus, LoadsFilesAndSplitsThem) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "some line of text\n";
  folder.write("a.txt", text);
  folder.write("b.bin", std::string(8, '\0'));
  const TextCorpus corpus =
      load_text_corpus({.data = {folder.string()}, .valid_data = {}, .tokenizer = {}});
  EXPECT_EQ(corpus.files, 1);
  EXPECT_EQ(corpus.skipped, 1);
  EXPECT_EQ(corpus.train.tokens.size() + corpus.held_out.tokens.size(), text.size());
  EXPECT_EQ(corpus.tokenizer->decode(corpus.train.tokens) +
                corpus.tokenizer->decode(corpus.held_out.tokens),
            text);
  const TextCorpus again =
      load_text_corpus({.data = {folder.string()}, .valid_data = {}, .tokenizer = {}});
  EXPECT_EQ(again.checksum, corpus.checksum);
  folder.write("a.txt", text + "x");
  EXPECT_NE(
      load_text_corpus({.data = {folder.string()}, .valid_data = {}, .tokenizer = {}}).checksum,
      corpus.checksum);
}

TEST(TextCorpus, UsesHeldOutFilesWhole) {
  const ScratchFolder folder;
  const TextCorpus corpus = load_text_corpus({.data = {folder.write("a", "train on this")},
                                              .valid_data = {folder.write("b", "not on this")},
                                              .tokenizer = {}});
  EXPECT_EQ(corpus.tokenizer->decode(corpus.train.tokens), "train on this");
  EXPECT_EQ(corpus.tokenizer->decode(corpus.held_out.tokens), "not on this");
}

TEST(TextCorpus, RefusesTooLittleText) {
  const ScratchFolder folder;
  EXPECT_REFUSED(
      load_text_corpus({.data = {folder.write("a", "x")}, .valid_data = {}, .tokenizer = {}}),
      InvalidArgument, "too little text");
}

}  // namespace
}  // namespace gma::app
