// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/listops.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "data/text_files.h"
#include "gma/error.h"

namespace gma::app {
namespace {

constexpr std::string_view kHeader = "Source\tTarget";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBetweenWords = " ()";
constexpr std::size_t kShown = 32;  ///< bytes of a bad value that an error repeats

Token token_of(std::string_view word) {
  if (word == "]") return kListOpsClose;
  const auto* const found = std::ranges::find(kListOpsTokens, word);
  return found == kListOpsTokens.end() ? kListOpsUnknown
                                       : static_cast<Token>(found - kListOpsTokens.begin() + 1);
}

std::string_view word_of(Token token) {
  return token == kListOpsClose ? "]" : kListOpsTokens.at(token - 1U);
}

/// Values of the arguments so far of every operator that is open, innermost last.
class Evaluation {
 public:
  void add(Token token) {
    if (is_list_digit(token)) {
      add_value(token - kListOpsDigit0);
    } else if (is_list_op(token)) {
      if (is_complete_) throw InvalidArgument("tokens after the end of the expression");
      open_.push_back({static_cast<ListOp>(token), values_.size()});
    } else if (token == kListOpsClose) {
      close();
    } else {
      throw InvalidArgument(fmt::format("token {} is unknown", token));
    }
  }

  int result() const {
    if (!open_.empty()) throw InvalidArgument("an operator is not closed");
    if (!is_complete_) throw InvalidArgument("the expression is empty");
    return values_.front();
  }

 private:
  struct Open {
    ListOp op;
    std::size_t begin;  ///< of its arguments in values_
  };

  void add_value(int value) {
    if (is_complete_) throw InvalidArgument("tokens after the end of the expression");
    values_.push_back(value);
    is_complete_ = open_.empty();
  }

  void close() {
    if (open_.empty()) throw InvalidArgument("']' closes nothing");
    const auto [op, begin] = open_.back();
    if (begin == values_.size()) throw InvalidArgument("an operator has no arguments");
    const int value = apply_list_op(op, std::span(values_).subspan(begin));
    values_.resize(begin);
    open_.pop_back();
    add_value(value);
  }

  std::vector<Open> open_;
  std::vector<int> values_;
  bool is_complete_ = false;
};

template <class OnWord>
void for_each_word(std::string_view text, OnWord on_word) {
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(kBetweenWords, at);
    if (at == std::string_view::npos) return;
    const std::size_t end = std::min(text.find_first_of(kBetweenWords, at), text.size());
    on_word(text.substr(at, end - at));
    at = end;
  }
}

void append_word(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  text += word;
}

}  // namespace

std::vector<Token> tokenize_listops(std::string_view expression) {
  std::vector<Token> tokens;
  for_each_word(expression, [&](std::string_view word) { tokens.push_back(token_of(word)); });
  return tokens;
}

int apply_list_op(ListOp op, std::span<int> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  switch (op) {
    case ListOp::min:
      return values.front();
    case ListOp::max:
      return values.back();
    case ListOp::med:
      return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
    case ListOp::sm:
      break;
  }
  return std::accumulate(values.begin(), values.end(), 0) % 10;
}

int evaluate_listops(std::span<const Token> tokens) {
  Evaluation evaluation;
  for (const Token token : tokens) evaluation.add(token);
  return evaluation.result();
}

std::string listops_text(std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) append_word(text, word_of(token));
  return text;
}

std::string listops_text_with_parentheses(std::span<const Token> tokens) {
  // An operator is opened by as many parentheses as it has arguments, and one for its end.
  std::vector<std::size_t> arguments(tokens.size(), 0);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == kListOpsClose) {
      open.pop_back();
    } else {
      if (!open.empty()) ++arguments[open.back()];
      if (is_list_op(tokens[i])) open.push_back(i);
    }
  }
  std::string text;
  text.reserve(7 * tokens.size());
  std::size_t depth = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (is_list_op(tokens[i])) {
      for (std::size_t fold = 0; fold <= arguments[i]; ++fold) append_word(text, "(");
      append_word(text, word_of(tokens[i]));
      ++depth;
      continue;
    }
    append_word(text, word_of(tokens[i]));
    if (tokens[i] == kListOpsClose) {
      append_word(text, ")");
      --depth;
    }
    if (depth > 0) append_word(text, ")");
  }
  return text;
}

ListOpsParser::ListOpsParser(std::filesystem::path path, OnRow on_row)
    : path_(std::move(path)), on_row_(std::move(on_row)) {}

void ListOpsParser::add(std::string_view bytes) {
  for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    if (rest_.empty()) {
      parse(bytes.substr(0, end));
    } else {
      parse(rest_.append(bytes.substr(0, end)));
      rest_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
  rest_ += bytes;
}

void ListOpsParser::finish() {
  if (!rest_.empty()) parse(rest_);
  rest_.clear();
  if (rows_ == 0) throw InvalidArgument(fmt::format("{}: no rows", path_.string()));
}

void ListOpsParser::parse(std::string_view line) {
  ++line_;
  if (line_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty() || (line_ == 1 && line == kHeader)) return;
  try {
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos) {
      throw InvalidArgument("expected expression<TAB>label, got " +
                            std::string(tab == std::string_view::npos ? "no tab" : "several tabs"));
    }
    const std::string_view label = line.substr(tab + 1);
    if (label.size() != 1 || label[0] < '0' || label[0] > '9') {
      throw InvalidArgument(
          fmt::format("expected a label of 0 to 9, got '{}'", label.substr(0, kShown)));
    }
    std::vector<Token> tokens;
    for_each_word(line.substr(0, tab), [&](std::string_view word) {
      tokens.push_back(token_of(word));
      if (tokens.back() == kListOpsUnknown) {
        throw InvalidArgument(fmt::format("unknown token '{}'", word.substr(0, kShown)));
      }
    });
    const int value = evaluate_listops(tokens);
    if (value != label[0] - '0') {
      throw InvalidArgument(fmt::format("the label is {}, the value {}", label, value));
    }
    ++rows_;
    on_row_(tokens, value);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}:{}: {}", path_.string(), line_, error.what()));
  }
}

LabelledTokens read_listops(const std::filesystem::path& path) {
  LabelledTokens result;
  ListOpsParser parser(
      path, [&](std::span<const Token> tokens, int label) { result.add(tokens, label); });
  parser.add(read_file(path));
  parser.finish();
  return result;
}

}  // namespace gma::app
