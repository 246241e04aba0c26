// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "gma/error.h"
#include "scratch_folder.h"

namespace gma::app {
namespace {

std::string sample_text() {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += " the <unk> quick brown fox " + std::to_string(i) + " jumps over the lazy dogs .\n \n";
  }
  return text;
}

std::string random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(random() & 0xFF);
  return bytes;
}

const std::vector<std::string>& awkward_texts() {
  static const std::vector<std::string> texts = {
      "",
      "\n",
      "  leading, double  and trailing spaces  ",
      "tabs\tand\r\nline ends\n\n\n",
      " = Title = \n \n The <unk> of <0x0A> . \n",
      "caf\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80 e\xCC\x81 \xEF\xAC\x81",
      "a mark \xE2\x96\x81 of SentencePiece's own",
      std::string("NUL \0 inside", 12),
      "not UTF-8: \xFF\xFE\xC3(\xED\xA0\x80 \xE2\x96",
      random_bytes(4000, 1),
  };
  return texts;
}

TEST(ByteTokenizer, IsLossless) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  for (const std::string& text : awkward_texts()) {
    const std::vector<Token> tokens = tokenizer->encode(text);
    EXPECT_EQ(tokens.size(), text.size());
    EXPECT_EQ(tokenizer->decode(tokens), text);
  }
  EXPECT_THROW(tokenizer->bytes_of(256), InvalidArgument);
}

TEST(SentencePiece, IsLossless) {
  const std::string text = sample_text();
  const auto tokenizer = train_sentencepiece({text}, 400);
  EXPECT_LE(tokenizer->vocab_size(), 400);
  EXPECT_LT(tokenizer->encode(text).size(), text.size() / 3) << "words are learned";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  for (const std::string& awkward : awkward_texts()) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(awkward)), awkward);
  }
}

TEST(SentencePiece, LoadsWhatItSaved) {
  const std::string text = sample_text();
  const auto tokenizer = train_sentencepiece({text}, 400);
  const auto loaded = load_tokenizer(tokenizer->kind(), tokenizer->model());
  EXPECT_EQ(loaded->vocab_size(), tokenizer->vocab_size());
  EXPECT_EQ(loaded->encode(text), tokenizer->encode(text));
  EXPECT_THROW(loaded->bytes_of(static_cast<Token>(loaded->vocab_size())), InvalidArgument);
}

TEST(SentencePiece, RefusesWhatIsNoModel) {
  EXPECT_REFUSED(load_tokenizer("sentencepiece", ""), InvalidArgument, "not a SentencePiece model");
  EXPECT_REFUSED(load_tokenizer("sentencepiece", random_bytes(2000, 2)), InvalidArgument,
                 "not a SentencePiece model");
  const std::string model = train_sentencepiece({sample_text()}, 400)->model();
  EXPECT_THROW(load_tokenizer("sentencepiece", model.substr(0, model.size() / 2)), InvalidArgument);
  EXPECT_REFUSED(load_tokenizer("letters", ""), InvalidArgument, "'letters'");
}

TEST(SentencePiece, RefusesVocabulariesThatCannotBe) {
  EXPECT_REFUSED(train_sentencepiece({sample_text()}, 257), InvalidArgument, "257");
  EXPECT_REFUSED(train_sentencepiece({sample_text()}, kMaxPieces + 1), InvalidArgument, "65537");
  EXPECT_THROW(train_sentencepiece({"\n\n"}, 400), InvalidArgument);
}

TEST(SentencePiece, AShortTextGivesAShortVocabulary) {
  const std::string text = sample_text();
  const auto tokenizer = train_sentencepiece({text}, 60000);
  EXPECT_LT(tokenizer->vocab_size(), 5000);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(Words, AreLosslessOnWikiText) {
  const std::string text = " \n = Title = \n \n The quick <unk> , the quick fox . \n";
  const auto tokenizer = make_word_tokenizer({text});
  // Line end, <unk>, =, quick, and six words that come once.
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_EQ(tokenizer->encode(text).size(), 15U);
}

TEST(Words, ThatAreNotKnownBecomeUnk) {
  const auto tokenizer = make_word_tokenizer({"a b a\n"});
  const std::vector<Token> tokens = tokenizer->encode("a   c\n\nb");
  EXPECT_EQ(tokens, (std::vector<Token>{2, 1, 0, 0, 3}));
  EXPECT_EQ(tokenizer->decode(tokens), " a <unk> \n \n b");
  EXPECT_THROW(tokenizer->bytes_of(4), InvalidArgument);
}

TEST(Words, LoadWhatTheySaved) {
  const auto tokenizer = make_word_tokenizer({sample_text()});
  const auto loaded = load_tokenizer("words", tokenizer->model());
  EXPECT_EQ(loaded->encode(sample_text()), tokenizer->encode(sample_text()));
  EXPECT_REFUSED(load_tokenizer("words", "no vocabulary"), InvalidArgument, "vocabulary");
  EXPECT_REFUSED(load_tokenizer("words", "<eos>\n<unk>\na\na\n"), InvalidArgument, "'a' twice");
}

}  // namespace
}  // namespace gma::app
