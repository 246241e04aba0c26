// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/labelled_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "gma/error.h"
#include "scratch_folder.h"

namespace gma::app {
namespace {

TEST(LabelledTexts, ParsesLines) {
  const TextFile file{"f.tsv", "0\tfirst\r\n\n12\tsecond\twith a tab\n1\tlast"};
  const std::vector<LabelledText> texts = parse_labelled(file, 0);
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(texts[0].label, 0);
  EXPECT_EQ(texts[0].text, "first");
  EXPECT_EQ(texts[1].label, 12);
  EXPECT_EQ(texts[1].text, "second\twith a tab");
  EXPECT_EQ(texts[2].text, "last");
}

TEST(LabelledTexts, SkipsAByteOrderMark) {
  const TextFile file{"f.tsv",
                      "\xEF\xBB\xBF"
                      "1\tfirst\n"};
  EXPECT_EQ(parse_labelled(file, 0).at(0).label, 1);
}

TEST(LabelledTexts, NamesTheLineThatIsWrong) {
  const auto refuse = [](const std::string& line, const std::string& reason) {
    const TextFile file{"f.tsv", "0\tgood\n" + line + "\n1\tgood\n"};
    EXPECT_REFUSED(parse_labelled(file, 3), InvalidArgument, "f.tsv:2: ");
    EXPECT_REFUSED(parse_labelled(file, 3), InvalidArgument, reason);
  };
  refuse("3\tx", "label 3 is out of range 0 to 2");
  refuse("-1\tx", "label -1 is out of range");
  refuse("x\tx", "expected a number as label, got 'x'");
  refuse("1.5\tx", "got '1.5'");
  refuse("\tx", "expected a number as label");
  refuse("99999999999999999999\tx", "expected a number as label");
  refuse("1 x", "no tab");
  refuse("1\t", "the text is empty");
}

TEST(LabelledTexts, TruncatesAndKeepsOrder) {
  const TextFile file{"f", "0\tabc\n1\tdefgh\n"};
  const LabelledTokens tokens(parse_labelled(file, 0), *make_byte_tokenizer(), 4);
  ASSERT_EQ(tokens.size(), 2);
  EXPECT_THAT(tokens.tokens(0), ::testing::ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(tokens.tokens(1), ::testing::ElementsAre('d', 'e', 'f', 'g'));
  EXPECT_EQ(tokens.label(1), 1);
}

TEST(LabelledTexts, HoldsOutAtRandomAndLosesNothing) {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += std::to_string(i) + "\tt\n";  // sorted by label
  const TextFile file{"f", lines};
  std::vector<LabelledText> texts = parse_labelled(file, 0);
  const std::vector<LabelledText> held_out = hold_out(texts, 0.25, 7);
  EXPECT_EQ(held_out.size(), 50U);
  EXPECT_EQ(texts.size(), 150U);
  std::set<std::int64_t> all;
  int from_first_half = 0;
  for (const LabelledText& item : held_out) {
    all.insert(item.label);
    from_first_half += item.label < 100;
  }
  for (const LabelledText& item : texts) all.insert(item.label);
  EXPECT_EQ(all.size(), 200U);
  EXPECT_GT(from_first_half, 10);
  EXPECT_LT(from_first_half, 40);
}

}  // namespace
}  // namespace gma::app
