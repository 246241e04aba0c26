// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The generator against statistics of Long Range Arena's own, of 24,000 of its expressions.
#include "data/listops_generator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "data/listops.h"
#include "data/listops_files.h"
#include "data/text_files.h"
#include "gma/error.h"
#include "scratch_folder.h"

namespace gma::app {
namespace {

constexpr std::int64_t kSample = 24000;
constexpr double kReferenceSample = 24000;
/// Standard errors of a difference that are allowed. Some 60 differences are compared, so that a
/// right generator fails with one seed in ten thousand.
constexpr double kErrors = 4.8;

struct Node {
  Token token = 0;
  std::int64_t args = 0;
};

/// What is known of a sample.
struct Sample {
  std::vector<double> lengths;      ///< sorted
  std::array<double, 10> labels{};  ///< shares
  std::map<Token, double> tokens;   ///< shares of all tokens
  std::map<Token, double> roots;    ///< shares
  std::map<Token, std::array<double, 10>> labels_of_root;
  std::map<std::int64_t, double> args;  ///< shares of all operators
  std::set<std::int64_t> depths;        ///< of the deepest operator
  std::set<std::vector<Token>> expressions;
};

void scale(std::ranges::range auto&& counts, double total) {
  for (auto& count : counts) count /= total;
}

Sample draw_sample() {
  Sample sample;
  ListOpsGenerator generator({}, /*seed=*/5);
  std::map<Token, double> root_counts;
  double tokens = 0;
  double operators = 0;
  for (std::int64_t i = 0; i < kSample; ++i) {
    const std::span<const Token> expression = generator.next();
    const int label = evaluate_listops(expression);
    sample.expressions.emplace(expression.begin(), expression.end());
    sample.lengths.push_back(static_cast<double>(expression.size()));
    sample.labels.at(static_cast<std::size_t>(label)) += 1.0 / kSample;
    sample.roots[expression.front()] += 1.0 / kSample;
    sample.labels_of_root[expression.front()].at(static_cast<std::size_t>(label)) += 1.0;
    root_counts[expression.front()] += 1.0;
    std::vector<std::int64_t> open;
    std::size_t deepest = 0;
    for (const Token token : expression) {
      sample.tokens[token] += 1.0;
      tokens += 1.0;
      if (token == kListOpsClose) {
        sample.args[open.back()] += 1.0;
        operators += 1.0;
        open.pop_back();
      } else {
        if (!open.empty()) ++open.back();
        if (is_list_op(token)) open.push_back(0);
      }
      deepest = std::max(deepest, open.size());
    }
    sample.depths.insert(static_cast<std::int64_t>(deepest));
  }
  std::ranges::sort(sample.lengths);
  for (auto& [token, count] : sample.tokens) count /= tokens;
  for (auto& [args, count] : sample.args) count /= operators;
  for (auto& [root, counts] : sample.labels_of_root) scale(counts, root_counts.at(root));
  return sample;
}

const Sample& sample() {
  static const Sample drawn = draw_sample();
  return drawn;
}

/// Compares percentages of two samples, whose sizes are `count` and `reference_count`, by the
/// binomial standard error of their difference; half of the last digit that is known comes on top.
void expect_percent(double share, double expected_percent, double count, double reference_count,
                    const std::string& what) {
  constexpr double kRounding = 0.05;
  const double p = expected_percent / 100.0;
  const double error = std::sqrt(p * (1 - p) * (1 / count + 1 / reference_count));
  const double difference = std::abs(100.0 * share - expected_percent);
  EXPECT_TRUE(difference <= 100.0 * kErrors * error + kRounding)
      << what << ": " << 100.0 * share << " %, expected " << expected_percent << " %";
}

TEST(ListOpsGenerator, LengthsAreThoseOfLongRangeArena) {
  const std::vector<double>& lengths = sample().lengths;
  const auto n = static_cast<double>(lengths.size());
  double mean = 0;
  for (const double length : lengths) mean += length / n;
  double variance = 0;
  for (const double length : lengths) variance += (length - mean) * (length - mean) / n;
  const double error = 394.4 * std::sqrt(1 / n + 1 / kReferenceSample);
  EXPECT_TRUE(std::abs(mean - 1029.8) <= kErrors * error) << mean;
  // The error of a standard deviation is at most that of a mean here: the kurtosis is below 3.
  EXPECT_TRUE(std::abs(std::sqrt(variance) - 394.4) <= kErrors * error) << std::sqrt(variance);
  EXPECT_GE(lengths.front(), 501);
  EXPECT_LE(lengths.front(), 503);
  EXPECT_LE(lengths.back(), 1999);
  EXPECT_GE(lengths.back(), 1995);
  // The share below each percentile of the reference.
  const std::map<double, double> percentiles = {{1, 508},   {5, 536},   {10, 574},
                                                {25, 695},  {50, 946},  {75, 1302},
                                                {90, 1643}, {95, 1793}, {99, 1948}};
  for (const auto& [percent, length] : percentiles) {
    // A length stands for all trees within half a token of it.
    const auto below = std::ranges::lower_bound(lengths, length) - lengths.begin();
    const auto above = std::ranges::upper_bound(lengths, length) - lengths.begin();
    const double p = percent / 100.0;
    const double slack = kErrors * std::sqrt(p * (1 - p) * (1 / n + 1 / kReferenceSample));
    EXPECT_TRUE(static_cast<double>(below) / n <= p + slack) << length;
    EXPECT_TRUE(static_cast<double>(above) / n >= p - slack) << length;
  }
}

TEST(ListOpsGenerator, LabelsAndRootsAreThoseOfLongRangeArena) {
  constexpr std::array kLabels = {16.8, 8.9, 7.8, 8.5, 9.2, 8.8, 7.5, 6.8, 9.0, 16.8};
  for (std::size_t label = 0; label < kLabels.size(); ++label) {
    expect_percent(sample().labels.at(label), kLabels.at(label), kSample, kReferenceSample,
                   "label " + std::to_string(label));
  }
  const auto share = [](ListOp op, std::size_t label) {
    return sample().labels_of_root.at(static_cast<Token>(op)).at(label);
  };
  const std::map<ListOp, std::map<std::size_t, double>> of_root = {
      {ListOp::min, {{0, 56.5}, {1, 20.8}, {2, 10.5}, {3, 6.0}}},
      {ListOp::max, {{9, 56.0}, {8, 21.8}, {7, 10.3}, {6, 5.5}}},
      {ListOp::med, {{3, 16.5}, {4, 22.1}, {5, 20.3}, {6, 14.1}}}};
  for (const auto& [op, labels] : of_root) {
    for (const auto& [label, percent] : labels) {
      expect_percent(
          share(op, label), percent, kSample / 4, kReferenceSample / 4,
          "label " + std::to_string(label) + " under " + std::to_string(static_cast<int>(op)));
    }
  }
  for (std::size_t label = 0; label < 10; ++label) {
    const double p = share(ListOp::sm, label);
    EXPECT_TRUE(p > 0.08 && p < 0.12) << "SM is flat, about 10 % each, not " << p;
  }
  for (const ListOp op : kListOps) {
    expect_percent(sample().roots.at(static_cast<Token>(op)), 25.0, kSample, kReferenceSample,
                   "root");
  }
}

TEST(ListOpsGenerator, TokensAndArgumentsAreThoseOfLongRangeArena) {
  // Tokens of one expression are no independent draws, but its counts hardly vary: the figures are
  // known to 0.01 %, and compared to 0.05 %.
  constexpr double kSlack = 0.0005;
  for (Token digit = 1; digit <= 10; ++digit) {
    EXPECT_NEAR(sample().tokens.at(digit), 0.0715, kSlack);
  }
  for (const ListOp op : kListOps) {
    EXPECT_NEAR(sample().tokens.at(static_cast<Token>(op)), 0.0356, kSlack);
  }
  EXPECT_NEAR(sample().tokens.at(kListOpsClose), 0.1423, kSlack);
  ASSERT_EQ(sample().args.size(), 9U);
  for (std::int64_t args = 2; args <= 10; ++args) {
    EXPECT_NEAR(sample().args.at(args), 1.0 / 9, 0.004) << args;
  }
}

TEST(ListOpsGenerator, NestsToTheDepthAndNeverRepeats) {
  EXPECT_THAT(sample().depths, ::testing::ElementsAre(9)) << "operators, above the digits";
  EXPECT_EQ(std::ssize(sample().expressions), kSample);
}

TEST(ListOpsGenerator, HasTheSameSequenceEverywhere) {
  const auto draw = [](std::uint64_t seed) {
    ListOpsGenerator generator({.max_depth = 3, .max_args = 4, .min_length = 4, .max_length = 20},
                               seed);
    std::vector<std::string> texts;
    for (int i = 0; i < 3; ++i) texts.push_back(listops_text(generator.next()));
    return texts;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
  EXPECT_NE(draw(7), draw(7 + (std::uint64_t{1} << 32))) << "all bits of a seed count";
  // Written down once: mt19937_64 and seed_seq are the same by the standard.
  EXPECT_THAT(draw(7), ::testing::ElementsAre("[MED [MAX 5 4 9 2 ] [MAX 4 2 ] 3 1 ]",
                                              "[MED [MED 6 8 5 2 ] 2 [MED 5 6 8 6 ] ]",
                                              "[MIN [MAX 1 4 0 ] 2 1 2 ]"));
}

TEST(ListOpsGenerator, RandomNumbersAreUniform) {
  RandomNumbers random(3);
  std::array<double, 9> counts{};
  constexpr double kDraws = 90000;
  for (int i = 0; i < kDraws; ++i) counts.at(random.below(counts.size())) += 1.0;
  double chi_squared = 0;
  for (const double count : counts) {
    chi_squared += (count - kDraws / 9) * (count - kDraws / 9) / (kDraws / 9);
  }
  EXPECT_TRUE(chi_squared < 35) << "8 degrees of freedom, one in 40,000: " << chi_squared;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.below(1), 0U);
}

TEST(ListOpsGenerator, RefusesOptionsAndGivesUp) {
  EXPECT_REFUSED(ListOpsGenerator({.max_depth = 0}, 0), InvalidArgument,
                 "--max-depth 0: expected 1");
  EXPECT_REFUSED(ListOpsGenerator({.max_args = 1}, 0), InvalidArgument, "--max-args 1: expected 2");
  EXPECT_REFUSED(ListOpsGenerator({.min_length = -1}, 0), InvalidArgument, "--min-length -1");
  EXPECT_REFUSED(ListOpsGenerator({.min_length = 9, .max_length = 10}, 0), InvalidArgument,
                 "--max-length 10: expected 11");
  ListOpsGenerator digits({.max_depth = 1, .min_length = 0, .max_length = 5}, 0);
  std::set<Token> seen;
  for (int i = 0; i < 10; ++i) seen.insert(digits.next().front());
  EXPECT_EQ(seen.size(), 10U);
  EXPECT_REFUSED(digits.next(), InvalidArgument,
                 "no further expression in 10000000 trees, after 10");
}

/// Some hundred rows, so that the test is quick.
constexpr ListOpsFilesOptions kSmall{.generator = {}, .rows = {60, 30, 20}, .seed = 1};

TEST(ListOpsFiles, AreInTheFormOfLongRangeArena) {
  const ScratchFolder folder;
  const ListOpsFilesReport report = write_listops(folder.path(), kSmall, {});
  std::set<std::string> expressions;
  std::int64_t bytes = 0;
  for (std::size_t split = 0; split < 3; ++split) {
    const std::filesystem::path path = folder / kListOpsFiles.at(split);
    const LabelledTokens rows = read_listops(path);
    ASSERT_EQ(rows.size(), kSmall.rows.at(split));
    const std::string text = read_file(path);
    bytes += std::ssize(text) - 15;
    EXPECT_TRUE(text.starts_with("Source\tTarget\r\n( ( ("));
    EXPECT_EQ(std::ranges::count(text, '\r'), rows.size() + 1);
    EXPECT_EQ(std::ranges::count(text, '\n'), rows.size() + 1);
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      EXPECT_NE(text.find(fmt::format("\n{}\t{}\r\n", listops_text_with_parentheses(rows.tokens(i)),
                                      rows.label(i))),
                std::string::npos);
      expressions.insert(listops_text(rows.tokens(i)));
    }
  }
  EXPECT_EQ(expressions.size(), 110U) << "none comes twice, in one file or two";
  EXPECT_EQ(report.bytes, bytes);
  const ListOpsBaselines again = listops_baselines(read_listops(folder / "basic_train.tsv"),
                                                   read_listops(folder / "basic_test.tsv"));
  EXPECT_EQ(report.baselines.root_digits, again.root_digits);
}

TEST(ListOpsFiles, AreTheSameForTheSameSeed) {
  const ScratchFolder folder;
  const auto make = [&](const ListOpsFilesOptions& options) {
    write_listops(folder.path(), options, {});
    return read_file(folder / "basic_test.tsv");
  };
  const std::string first = make(kSmall);
  EXPECT_EQ(make(kSmall), first);
  ListOpsFilesOptions other = kSmall;
  other.parentheses = false;
  EXPECT_TRUE(make(other).starts_with("Source\tTarget\r\n["));
  other.seed = 2;
  EXPECT_NE(make(other), first);
}

TEST(ListOpsFiles, AreNotThereUntilAllAre) {
  const ScratchFolder folder;
  folder.write("basic_val.tsv", "as it was");
  int looks = 0;
  Watch watch;
  watch.stop = [&] { return ++looks > 1; };
  ListOpsFilesOptions options = kSmall;
  options.rows = {300, 1, 1};
  EXPECT_THROW(write_listops(folder.path(), options, watch), Stopped);
  EXPECT_EQ(read_file(folder / "basic_val.tsv"), "as it was");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(ListOpsBaselines, AreWhatIsKnownOfTheTask) {
  ListOpsGenerator generator({}, 11);
  ListOpsCounts train;
  ListOpsCounts test;
  for (int i = 0; i < 24000; ++i) {
    const std::span<const Token> tokens = generator.next();
    (i < 18000 ? train : test).add(tokens, evaluate_listops(tokens));
  }
  const ListOpsBaselines baselines = listops_baselines(train, test);
  expect_percent(baselines.majority, 16.8, 6000, kReferenceSample, "majority");
  expect_percent(baselines.root_operator, 36.2, 6000, kReferenceSample, "root operator");
  // Of another program with another generator, fitted on 20,000 and tested on 10,000.
  expect_percent(baselines.root_digits, 48.3, 6000, 10000, "root and its digits");
}

}  // namespace
}  // namespace gma::app
