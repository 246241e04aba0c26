// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/listops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/listops_baselines.h"
#include "data/text_files.h"
#include "gma/error.h"
#include "scratch_folder.h"

namespace gma::app {
namespace {

using ::testing::ElementsAre;

constexpr const char* kNested = "[MAX 4 9 [MIN 3 1 ] ]";
constexpr const char* kNestedWithParentheses = "( ( ( ( [MAX 4 ) 9 ) ( ( ( [MIN 3 ) 1 ) ] ) ) ] )";

int value_of(std::string_view expression) { return evaluate_listops(tokenize_listops(expression)); }

/// Real data, where this checkout has it.
std::filesystem::path shared_file(std::string_view name) {
  return std::filesystem::path(GMA_SHARED_DATA) / "listops" / name;
}

TEST(ListOps, TokensAreThoseOfLongRangeArena) {
  EXPECT_THAT(tokenize_listops("0 9 [MIN [MAX [MED [SM ]"), ElementsAre(1, 10, 11, 12, 13, 14, 15));
  EXPECT_EQ(tokenize_listops("X"), tokenize_listops("]"));
  EXPECT_THAT(tokenize_listops("10 MIN [FIRST ] a"), ElementsAre(16, 16, 16, 15, 16));
  EXPECT_EQ(tokenize_listops(kNested), tokenize_listops(kNestedWithParentheses));
  EXPECT_THAT(tokenize_listops("([MIN 3) 1)"), ElementsAre(11, 4, 2)) << "spaces are not needed";
  EXPECT_TRUE(tokenize_listops(" ( ) ").empty());
}

TEST(ListOps, Values) {
  EXPECT_EQ(value_of("7"), 7);
  EXPECT_EQ(value_of("[MIN 3 1 ]"), 1);
  EXPECT_EQ(value_of("[MAX 3 1 ]"), 3);
  EXPECT_EQ(value_of("[SM 9 8 7 ]"), 4);
  EXPECT_EQ(value_of("[MED 9 1 5 ]"), 5);
  EXPECT_EQ(value_of("[MED 8 2 3 9 ]"), 5) << "5.5 is rounded down";
  EXPECT_EQ(value_of("[MED 0 1 ]"), 0);
  EXPECT_EQ(value_of("[MED 4 ]"), 4);
  EXPECT_EQ(value_of(kNested), 9);
  EXPECT_EQ(value_of("[SM [MAX 4 9 [MIN 3 1 ] ] [MED 6 6 ] ]"), 5);
}

TEST(ListOps, NestingIsNotBoundedByTheStack) {
  std::string expression;
  for (int i = 0; i < 200000; ++i) expression += "[SM 1 ";
  expression += "0";
  for (int i = 0; i < 200000; ++i) expression += " ]";
  EXPECT_EQ(value_of(expression), 0);
}

TEST(ListOps, RefusesWhatIsNoExpression) {
  EXPECT_REFUSED(value_of(""), InvalidArgument, "empty");
  EXPECT_REFUSED(value_of("[MIN 3 1"), InvalidArgument, "not closed");
  EXPECT_REFUSED(value_of("[MIN ]"), InvalidArgument, "no arguments");
  EXPECT_REFUSED(value_of("[MIN 1 ] ]"), InvalidArgument, "closes nothing");
  EXPECT_REFUSED(value_of("]"), InvalidArgument, "closes nothing");
  EXPECT_REFUSED(value_of("[MIN 1 ] 2"), InvalidArgument, "after the end");
  EXPECT_REFUSED(value_of("[MIN 1 ] [MIN 2 ]"), InvalidArgument, "after the end");
  EXPECT_REFUSED(value_of("[FIRST 1 ]"), InvalidArgument, "token 16 is unknown");
  EXPECT_REFUSED(evaluate_listops(std::vector<Token>{0}), InvalidArgument, "token 0 is unknown");
}

TEST(ListOps, WritesBothForms) {
  const std::vector<Token> tokens = tokenize_listops(kNested);
  EXPECT_EQ(listops_text(tokens), kNested);
  EXPECT_EQ(listops_text_with_parentheses(tokens), kNestedWithParentheses);
  EXPECT_EQ(listops_text_with_parentheses(tokenize_listops("5")), "5");
  // A tree of n tokens takes 3 n - 2 symbols.
  const std::string text = listops_text_with_parentheses(tokens);
  EXPECT_EQ(std::ranges::count(text, ' ') + 1, 3 * std::ssize(tokens) - 2);
}

TEST(ListOps, ReadsEveryFormOfRows) {
  const ScratchFolder folder;
  const std::string row = std::string(kNested) + "\t9";
  const std::string long_row = std::string(kNestedWithParentheses) + "\t9";
  for (const std::string& text :
       {"Source\tTarget\r\n" + long_row + "\r\n" + row + "\r\n", row + "\n" + long_row + "\n",
        "Source\tTarget\n" + row + "\n\n" + row,
        "\xEF\xBB\xBFSource\tTarget\n" + row + "\n" + row}) {
    const LabelledTokens rows = read_listops(folder.write("rows.tsv", text));
    ASSERT_EQ(rows.size(), 2);
    for (const std::int64_t i : {0, 1}) {
      EXPECT_EQ(rows.label(i), 9);
      EXPECT_EQ(listops_text(rows.tokens(i)), kNested);
    }
  }
}

TEST(ListOps, ReadsRowsInPiecesOfAnySize) {
  const std::string text = "Source\tTarget\r\n[MIN 3 1 ]\t1\r\n7\t7\r\n";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    std::vector<int> labels;
    ListOpsParser parser("rows",
                         [&](std::span<const Token>, int label) { labels.push_back(label); });
    for (std::size_t at = 0; at < text.size(); at += size) parser.add(text.substr(at, size));
    parser.finish();
    EXPECT_THAT(labels, ElementsAre(1, 7));
  }
}

TEST(ListOps, RefusesRowsByFileAndLine) {
  const ScratchFolder folder;
  const auto refused = [&](const std::string& row, const char* message) {
    const std::string file = folder.write("rows.tsv", "Source\tTarget\n[MIN 3 1 ]\t1\n" + row);
    EXPECT_REFUSED(read_listops(file), InvalidArgument, file + ":3: " + message);
  };
  refused("[MIN 3 1 ] 1\n", "expected expression<TAB>label, got no tab");
  refused("[MIN 3 1 ]\t1\t1\n", "expected expression<TAB>label, got several tabs");
  refused("[MIN 3 1 ]\t11\n", "expected a label of 0 to 9, got '11'");
  refused("[MIN 3 1 ]\t\n", "expected a label of 0 to 9, got ''");
  refused("[MIN 3 1 ]\tx", "expected a label of 0 to 9, got 'x'");
  refused("[MIN 3 1 ]\t3\n", "the label is 3, the value 1");
  refused("[MIN 3 1\t1\n", "an operator is not closed");
  refused("[FIRST 3 1 ]\t3\n", "unknown token '[FIRST'");
  refused("Source\tTarget\n", "expected a label of 0 to 9, got 'Target'");
  EXPECT_REFUSED(read_listops(folder.write("rows.tsv", "Source\tTarget\r\n")), InvalidArgument,
                 "rows.tsv: no rows");
}

TEST(ListOps, ReproducesTheLabelsOfLongRangeArenasOwnGenerator) {
  if (!std::filesystem::exists(shared_file("ref_val.noparens.tsv.gz"))) {
    GTEST_SKIP() << "no shared data beside the project";
  }
  // Reading compares every label with the value.
  EXPECT_EQ(read_listops(shared_file("golden_real_short.noparens.tsv")).size(), 14);
  EXPECT_EQ(read_listops(shared_file("ref_val.noparens.tsv.gz")).size(), 2000);
}

LabelledTokens examples(const std::vector<std::string>& expressions) {
  LabelledTokens result;
  for (const std::string& expression : expressions) {
    const std::vector<Token> tokens = tokenize_listops(expression);
    result.add(tokens, evaluate_listops(tokens));
  }
  return result;
}

TEST(ListOpsBaselines, AreFittedOnTheTrainingSet) {
  const LabelledTokens train =
      examples({"[MIN 1 1 ]", "[MIN 1 2 ]", "[MIN 0 2 ]", "[MAX 1 2 ]", "[MAX 2 2 ]", "[MAX 1 1 ]",
                "[MAX [MIN 3 3 ] [MIN 3 3 ] ]"});
  // Labels of train: 1, 1, 0, 2, 2, 1, 3. MIN: 1. MAX: 2. Nothing but operators under MAX: 3.
  const LabelledTokens test =
      examples({"[MIN 1 3 ]", "[MIN 0 3 ]", "[MAX 0 2 ]", "[MAX [SM 3 ] ]", "[SM 0 1 ]"});
  const ListOpsBaselines baselines = listops_baselines(train, test);
  EXPECT_DOUBLE_EQ(baselines.majority, 2.0 / 5) << "1, which the first and the last have";
  EXPECT_DOUBLE_EQ(baselines.root_operator, 3.0 / 5) << "wrong: [MIN 0 3 ] and [MAX [SM 3 ] ]";
  EXPECT_DOUBLE_EQ(baselines.root_digits, 5.0 / 5);
}

TEST(ListOpsBaselines, LookOneLevelDown) {
  // The same root and digits; what differs lies deeper, so the guess is that of training.
  const LabelledTokens train = examples({"[MAX 4 [MIN 3 9 ] ]"});
  const LabelledTokens test = examples({"[MAX 4 [MIN 7 9 ] ]", "[MAX 4 [MIN 2 0 ] ]"});
  EXPECT_DOUBLE_EQ(listops_baselines(train, test).root_digits, 0.5);
}

TEST(ListOpsBaselines, NeedExamples) {
  EXPECT_REFUSED(listops_baselines(LabelledTokens(), examples({"1"})), InvalidArgument, "got none");
  EXPECT_REFUSED(listops_baselines(examples({"1"}), LabelledTokens()), InvalidArgument, "got none");
}

}  // namespace
}  // namespace gma::app
