// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <numeric>
#include <utility>

#include "data/labelled_texts.h"
#include "gma/error.h"
#include "inspect/information.h"
#include "inspect/mixture_overlap.h"
#include "inspect/routing_sample.h"
#include "inspect/routing_statistics.h"
#include "inspect/token_category.h"
#include "inspect/token_source.h"
#include "inspect/token_stream.h"
#include "scratch_folder.h"

namespace gma::app {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kOften = kRareCount;

TEST(TokenCategory, FollowsTheFirstRuleThatHolds) {
  using enum TokenCategory;
  const auto check = [](std::string_view piece, bool begins, std::int64_t count,
                        TokenCategory expected) {
    EXPECT_EQ(categorise(piece, begins, count), expected) << piece;
  };
  check(" \n", true, kOften, other);
  check("", true, kOften, other);
  check("\xE4", false, kOften, other);  // a part of a character
  check(" 1990", false, 1, digit);
  check("1,", false, kOften, digit);
  check(" ,", false, 1, punctuation);
  check("\xE2\x80\x94", false, kOften, punctuation);  // a dash
  check(" the", false, 1, function_word);
  check("The", true, kOften, function_word);
  check("the", false, kOften, continuation);  // as in "bathe"
  check(" walked", false, kRareCount - 1, rare);
  check(" Walked", false, kOften, capitalised);
  check("\xC3\x89tat", true, kOften, capitalised);  // E with an acute accent
  check("\xC3\xA9tat", true, kOften, word_start);
  check(" walked", false, kOften, word_start);
  check("ing", false, kOften, continuation);
  check("[MAX ", true, kOften, capitalised);
  // Single bytes begin words as well, but are none.
  check("a", true, kOften, word_start);
  check(" a", false, kOften, function_word);
  check("\xE4\xBD\xA0", true, kOften, word_start);
}

TEST(TokenCategory, WordsEndWithWhiteSpace) {
  EXPECT_TRUE(ends_word("word ", false));
  EXPECT_TRUE(ends_word("\n", false));
  EXPECT_FALSE(ends_word(" word", true));
  EXPECT_TRUE(ends_word("", true));
  EXPECT_FALSE(ends_word("", false));
}

ContingencyTable table_of(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
  ContingencyTable table(4, 4);
  for (std::size_t i = 0; i < a.size(); ++i) table.add(a[i], b[i]);
  return table;
}

TEST(Information, OfUniformAndCertainDistributions) {
  EXPECT_DOUBLE_EQ(entropy(std::array{2.0, 2.0, 2.0, 2.0}), std::log(4.0));
  EXPECT_EQ(entropy(std::array{0.0, 7.0}), 0.0);
  EXPECT_EQ(entropy(std::array{0.0, 0.0}), 0.0);
  EXPECT_DOUBLE_EQ(normalised_by_log(std::log(3.0), 3), 1.0);
  EXPECT_EQ(normalised_by_log(0.0, 1), 0.0);
}

TEST(Information, IsWholeBetweenEqualLabellings) {
  const Agreement renamed = agreement(table_of({0, 1, 2, 0, 1, 2}, {2, 3, 0, 2, 3, 0}));
  EXPECT_NEAR(renamed.nmi, 1.0, 1e-12);
  EXPECT_NEAR(renamed.adjusted, 1.0, 1e-12);
  const Agreement independent = agreement(table_of({0, 0, 1, 1}, {0, 1, 0, 1}));
  EXPECT_NEAR(independent.nmi, 0.0, 1e-12);
  EXPECT_LT(independent.adjusted, 0.0);
}

TEST(Information, OfOneLabelIsThatOfScikitLearn) {
  EXPECT_EQ(agreement(table_of({1, 1}, {2, 2})).nmi, 1.0);
  EXPECT_EQ(agreement(table_of({}, {})).nmi, 1.0);
  EXPECT_EQ(agreement(table_of({1, 1, 1}, {0, 1, 2})).nmi, 0.0);
}

TEST(Information, ChanceIsTheMeanOverAllPermutations) {
  const std::vector<std::size_t> a = {0, 0, 0, 1, 1, 2, 3};
  const std::vector<std::size_t> b = {0, 1, 1, 1, 2, 2, 2};
  std::vector<std::size_t> order(a.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  double sum = 0.0;
  int count = 0;
  do {
    std::vector<std::size_t> shuffled;
    for (const std::size_t i : order) shuffled.push_back(b[i]);
    sum += mutual_information(table_of(a, shuffled));
    ++count;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(count, 5040);
  EXPECT_NEAR(expected_mutual_information(table_of(a, b)), sum / count, 1e-12);
}

TEST(RoutingStatistics, OfThreeTokens) {
  HeadStatistics head(4);
  head.add(std::array{1.0F, 0.0F, 0.0F, 0.0F}, TokenCategory::digit);
  head.add(std::array{0.25F, 0.25F, 0.25F, 0.25F}, TokenCategory::digit);
  head.add(std::array{0.0F, 0.5F, 0.5F, 0.0F}, TokenCategory::rare);
  EXPECT_EQ(head.tokens(), 3);
  EXPECT_THAT(head.usage(), ElementsAre(1.25 / 3, 0.75 / 3, 0.75 / 3, 0.25 / 3));
  EXPECT_THAT(head.sharpness(), ElementsAre(1.25 / 2, 0.5, 0.0, 0.0));
  EXPECT_THAT(head.table().row_sums(), ElementsAre(2.0, 1.0, 0.0, 0.0));
  const RoutingMetrics metrics = head.metrics();
  EXPECT_EQ(metrics.components, 4);
  EXPECT_EQ(metrics.components_used, 2);
  EXPECT_EQ(metrics.components_dead, 0);
  EXPECT_NEAR(metrics.responsibility_entropy, (0.0 + 1.0 + 0.5) / 3, 1e-7);
  EXPECT_NEAR(metrics.top_responsibility, 1.75 / 3, 1e-12);
  EXPECT_NEAR(metrics.categories.nmi, 1.0, 1e-12);
  const double usage =
      -(1.25 * std::log(1.25 / 3) + 1.5 * std::log(0.25) + 0.25 * std::log(0.25 / 3)) / 3;
  EXPECT_NEAR(metrics.usage_entropy, usage / std::log(4.0), 1e-12);
  EXPECT_NEAR(metrics.effective_components, std::exp(usage), 1e-12);
  EXPECT_NEAR(metrics.routing_information, usage / std::log(4.0) - 0.5, 1e-7);
}

TEST(RoutingStatistics, InformationTellsDiverseTokensFromTokensThatAreAllAlike) {
  HeadStatistics diverse(2), alike(2);
  for (int i = 0; i < 4; ++i) {
    diverse.add(i % 2 == 0 ? std::array{1.0F, 0.0F} : std::array{0.0F, 1.0F}, TokenCategory::digit);
    alike.add(std::array{0.5F, 0.5F}, TokenCategory::digit);
  }
  EXPECT_NEAR(diverse.metrics().usage_entropy, 1.0, 1e-7);
  EXPECT_NEAR(alike.metrics().usage_entropy, 1.0, 1e-7);
  EXPECT_NEAR(diverse.metrics().routing_information, 1.0, 1e-7);
  EXPECT_NEAR(alike.metrics().routing_information, 0.0, 1e-7);
  const RoutingMetrics both = summarise(std::array{diverse.metrics(), alike.metrics()});
  EXPECT_NEAR(both.routing_information, 0.5, 1e-7);
}

TEST(RoutingStatistics, OfNothingAndOfOneComponent) {
  EXPECT_EQ(HeadStatistics(3).metrics().usage_entropy, 0.0);
  EXPECT_EQ(HeadStatistics(3).metrics().components_used, 0);
  HeadStatistics one(1);
  one.add(std::array{1.0F}, TokenCategory::digit);
  one.add(std::array{1.0F}, TokenCategory::rare);
  EXPECT_EQ(one.metrics().usage_entropy, 0.0);
  EXPECT_EQ(one.metrics().effective_components, 1.0);
  EXPECT_EQ(one.metrics().categories.nmi, 0.0);
}

TEST(MixtureOverlap, IsTheIntegralOfTheRootOfBothDensities) {
  const std::array means = {0.3F, -1.0F}, variances = {0.5F, 2.0F};
  const MixtureView mixture{2, 1, means, variances};
  const auto density = [&](std::size_t k, double x) {
    const double gap = x - static_cast<double>(means[k]), v = static_cast<double>(variances[k]);
    return std::exp(-0.5 * gap * gap / v) / std::sqrt(2.0 * M_PI * v);
  };
  double integral = 0.0;
  const double step = 1e-3;
  for (double x = -20.0; x < 20.0; x += step) {
    integral += step * std::sqrt(density(0, x) * density(1, x));
  }
  EXPECT_NEAR(overlap(mixture, 0, 1), integral, 1e-6);
  EXPECT_NEAR(overlap(mixture, 1, 1), 1.0, 1e-12);
  EXPECT_NEAR(overlap_summary(mixture).mean, integral, 1e-6);
  EXPECT_EQ(overlap_summary({1, 1, means, variances}).mean, 0.0);
}

TEST(MixtureOverlap, LivesWithManyChannelsAtTheVarianceFloor) {
  const std::vector<float> means(2 * 400, 0.0F), variances(2 * 400, 1e-4F);
  EXPECT_NEAR(overlap({2, 400, means, variances}, 0, 1), 1.0, 1e-9);
}

TEST(RoutingSample, KeepsTheMostResponsible) {
  TopComponents top(4, 2);
  top.add(std::array{0.1F, 0.2F, 0.3F, 0.4F});
  top.add(std::array{0.25F, 0.25F, 0.25F, 0.25F});
  EXPECT_THAT(top.components(), ElementsAre(3, 2, 0, 1));
  EXPECT_THAT(top.responsibilities(), ElementsAre(0.4F, 0.3F, 0.25F, 0.25F));
  EXPECT_EQ(TopComponents(1, 5).per_token(), 1U);
}

TEST(RoutingSample, WindowsStayInsideTheirSequence) {
  const std::array<std::int64_t, 3> starts = {0, 100, 110};
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const Window& window : spread_windows(starts, 300, 4, /*wanted=*/105)) {
    found.emplace_back(window.start, window.length);
  }
  EXPECT_THAT(found, ElementsAre(std::pair(0, 64), std::pair(36, 64), std::pair(100, 10),
                                 std::pair(150, 64), std::pair(225, 64)));
  EXPECT_EQ(spread_windows(std::array<std::int64_t, 1>{0}, 1, 8).size(), 1U);
  EXPECT_TRUE(spread_windows({}, 0, 8).empty());
}

std::vector<Token> streamed(const std::vector<std::string>& paths, const Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  stream_tokens(paths, tokenizer, [&](std::span<const Token> piece) {
    tokens.insert(tokens.end(), piece.begin(), piece.end());
    return true;
  });
  return tokens;
}

TEST(TokenStream, GivesTheTokensOfTheWholeText) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; text.size() < (std::size_t{3} << 19); ++i) {
    text += i % 1000 == 999 ? "\n" : "\xE4\xBD\xA0 " + std::to_string(i);
  }
  text += std::string(std::size_t{1} << 20, 'x');  // longer than a line is held
  std::ofstream(folder.path() / "a.txt") << text;
  const auto words = make_word_tokenizer({text.substr(0, 4000)});
  const std::string path = (folder.path() / "a.txt").string();
  EXPECT_EQ(streamed({path}, *make_byte_tokenizer()), make_byte_tokenizer()->encode(text));
  EXPECT_EQ(streamed({path}, *words), words->encode(text));
}

TEST(TokenStream, RefusesWhatIsNoText) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "empty");
  std::ofstream(folder.path() / "binary") << std::string(100, '\0');
  const auto bytes = make_byte_tokenizer();
  EXPECT_THROW(streamed({(folder.path() / "empty").string()}, *bytes), InvalidArgument);
  EXPECT_THROW(streamed({(folder.path() / "binary").string()}, *bytes), InvalidArgument);
  EXPECT_THROW(streamed({folder.path().string()}, *bytes), InvalidArgument);
  std::ofstream(folder.path() / "text") << "ab";
  EXPECT_THAT(streamed({folder.path().string()}, *bytes), ElementsAre('a', 'b'));
}

TEST(TokenSource, CutsSequencesIntoChunks) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "text") << std::string(1500, 'x');
  const InspectOptions options{.data = {folder.path().string()}, .max_tokens = 1400};
  std::vector<std::pair<std::size_t, bool>> chunks;
  const auto bytes = make_byte_tokenizer();
  const TokenSource source = text_source(options, *bytes, /*context=*/600);
  source(
      [&](const Chunk& chunk) { chunks.emplace_back(chunk.tokens.size(), chunk.begins_sequence); });
  EXPECT_THAT(chunks, ElementsAre(std::pair(512, true), std::pair(88, false), std::pair(512, true),
                                  std::pair(88, false), std::pair(200, true)));
  const TokenSurvey found = survey(source, 256, /*sample=*/700);
  EXPECT_EQ(found.tokens, 1400);
  EXPECT_EQ(found.sequences, 3);
  EXPECT_THAT(found.starts, ElementsAre(0, 600));
  EXPECT_EQ(found.counts['x'], 1400);
}

std::vector<std::vector<Token>> labelled(const InspectOptions& options, const Tokenizer& tokenizer,
                                         std::int64_t context) {
  std::vector<std::vector<Token>> texts;
  labelled_source(options, tokenizer, /*num_classes=*/10, context)([&](const Chunk& chunk) {
    EXPECT_TRUE(chunk.begins_sequence);
    texts.emplace_back(chunk.tokens.begin(), chunk.tokens.end());
  });
  return texts;
}

TEST(LabelledSource, EndsInTheMiddleOfAText) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "text") << "\xEF\xBB\xBF" << "1\tabc\r\n\n2\tdefg\n3\thi";
  const auto bytes = make_byte_tokenizer();
  InspectOptions options{.data = {(folder.path() / "text").string()}};
  EXPECT_THAT(
      labelled(options, *bytes, 3),
      ElementsAre(ElementsAre('a', 'b', 'c'), ElementsAre('d', 'e', 'f'), ElementsAre('h', 'i')));
  options.max_tokens = 5;
  EXPECT_THAT(labelled(options, *bytes, 3),
              ElementsAre(ElementsAre('a', 'b', 'c'), ElementsAre('d', 'e')));
  options.max_tokens = 1;
  EXPECT_THAT(labelled(options, *bytes, 3), ElementsAre(ElementsAre('a')));
}

TEST(LabelledSource, ReadsLinesAsTheWholeFileHasThem) {
  const ScratchFolder folder;
  TextFile file{folder.path() / "text", {}};
  for (int i = 0; file.text.size() < std::size_t{600000}; ++i) {  // more than two blocks
    file.text += std::to_string(i % 10) + '\t' +
                 std::string(static_cast<std::size_t>(i % 977), 'x') + std::to_string(i) +
                 (i % 7 == 0 ? "\r\n" : "\n");
  }
  std::ofstream(file.path) << file.text;
  const auto bytes = make_byte_tokenizer();
  const InspectOptions options{.data = {file.path.string()}};
  std::vector<std::vector<Token>> expected;
  for (const LabelledText& text : parse_labelled(file, 10)) {
    expected.push_back(bytes->encode(text.text));
  }
  EXPECT_EQ(labelled(options, *bytes, 5000), expected);
  std::ofstream(file.path, std::ios::app) << "no tab\n";
  try {
    labelled(options, *bytes, 5000);
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()), file.path.string() + ":" +
                                             std::to_string(expected.size() + 1) +
                                             ": expected label<TAB>text, got no tab");
  }
}

TEST(LabelledSource, ReadsListOps) {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "basic.tsv").string();
  std::ofstream(path) << "Source\tTarget\r\n[MAX 4 9 ]\t9\r\n[MIN 3 1 ]\t1\r\n";
  const auto listops = make_listops_tokenizer();
  InspectOptions options{.data = {path}};
  EXPECT_THAT(labelled(options, *listops, 100),
              ElementsAre(ElementsAre(12, 5, 10, 15), ElementsAre(11, 4, 2, 15)));
  options.max_tokens = 5;
  EXPECT_THAT(labelled(options, *listops, 3),
              ElementsAre(ElementsAre(12, 5, 10), ElementsAre(11, 4)));
}

}  // namespace
}  // namespace gma::app
