// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// ListOps expressions (Nangia and Bowman, arXiv 1804.06028) in the form that Long Range Arena (Tay
// et al., arXiv 2011.04006) gives them: tokens, values, and files of them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/labelled_texts.h"
#include "data/tokenizer.h"

namespace gma::app {

inline constexpr Token kListOpsPad = 0;
inline constexpr Token kListOpsUnknown = 16;
inline constexpr std::int64_t kListOpsVocabSize = 17;
inline constexpr std::int64_t kListOpsClasses = 10;

/// Tokens 1 to 15 in this order. Long Range Arena's own order is that of a Python set, different
/// from run to run; "]" is written X there, and both are read.
inline constexpr std::array<std::string_view, 15> kListOpsTokens = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "X"};
inline constexpr Token kListOpsDigit0 = 1;
inline constexpr Token kListOpsClose = 15;

/// MED is the median, of an even count the mean of the two middle values rounded down; SM the sum
/// modulo 10.
enum class ListOp : Token { min = 11, max = 12, med = 13, sm = 14 };
inline constexpr std::array kListOps = {ListOp::min, ListOp::max, ListOp::med, ListOp::sm};

inline bool is_list_op(Token token) { return token >= 11 && token <= 14; }
inline bool is_list_digit(Token token) { return token >= 1 && token <= 10; }

/// Tokens of an expression: round parentheses, which are redundant, are dropped, and words that are
/// no token become kListOpsUnknown.
std::vector<Token> tokenize_listops(std::string_view expression);

/// The value of `op` on at least one value of 0 to 9; sorts them.
int apply_list_op(ListOp op, std::span<int> values);

/// The value, 0 to 9, of an expression of any depth. Throws InvalidArgument for what is not one
/// expression: an unknown token, an operator without arguments or without an end, anything before,
/// after or instead of it.
int evaluate_listops(std::span<const Token> tokens);

/// The expression without round parentheses, as in "[MAX 4 9 [MIN 3 1 ] ]".
std::string listops_text(std::span<const Token> tokens);
/// As Long Range Arena writes it, with each fold of an argument in round parentheses:
/// "( ( ( ( [MAX 4 ) 9 ) ( ( ( [MIN 3 ) 1 ) ] ) ) ] )". Expects what evaluate_listops() accepts.
std::string listops_text_with_parentheses(std::span<const Token> tokens);

/// Checks lines of `expression<TAB>label` as they come, in pieces of any size: CRLF or LF, with or
/// without round parentheses, with or without the header "Source<TAB>Target".
class ListOpsParser {
 public:
  using OnRow = std::function<void(std::span<const Token> tokens, int label)>;
  /// Errors name `path` and the line.
  ListOpsParser(std::filesystem::path path, OnRow on_row);

  /// Throws InvalidArgument for a row without exactly one tab, with anything but a digit as label,
  /// an expression that cannot be evaluated, or a label that is not its value.
  void add(std::string_view bytes);
  /// Takes the last line, if no line end follows it. Throws InvalidArgument where no row came.
  void finish();

  std::int64_t rows() const { return rows_; }

 private:
  void parse(std::string_view line);

  std::filesystem::path path_;
  OnRow on_row_;
  std::string rest_;
  std::int64_t line_ = 0;
  std::int64_t rows_ = 0;
};

/// Reads such a file, plain or gzip. Throws as ListOpsParser and read_file() do.
LabelledTokens read_listops(const std::filesystem::path& path);

}  // namespace gma::app
