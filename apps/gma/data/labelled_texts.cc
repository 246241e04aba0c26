// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/labelled_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "data/epoch_order.h"
#include "gma/error.h"

namespace gma::app {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

LabelledText parse_line(std::string_view line, std::int64_t num_classes) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos) throw InvalidArgument("expected label<TAB>text, got no tab");
  LabelledText result{0, line.substr(tab + 1)};
  const auto [end, error] = std::from_chars(line.data(), line.data() + tab, result.label);
  if (tab == 0 || error != std::errc() || end != line.data() + tab) {
    throw InvalidArgument(fmt::format("expected a number as label, got '{}'",
                                      line.substr(0, std::min<std::size_t>(tab, 32))));
  }
  if (result.label < 0 || (num_classes > 0 && result.label >= num_classes)) {
    throw InvalidArgument(
        num_classes > 0
            ? fmt::format("label {} is out of range 0 to {}", result.label, num_classes - 1)
            : fmt::format("label {} is out of range: labels start at 0", result.label));
  }
  if (result.text.empty()) throw InvalidArgument("the text is empty");
  return result;
}

}  // namespace

std::optional<LabelledText> parse_labelled_line(const std::filesystem::path& path,
                                                std::int64_t number, std::string_view line,
                                                std::int64_t num_classes) {
  if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) return std::nullopt;
  try {
    return parse_line(line, num_classes);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}:{}: {}", path.string(), number, error.what()));
  }
}

std::vector<LabelledText> parse_labelled(const TextFile& file, std::int64_t num_classes) {
  std::vector<LabelledText> result;
  std::string_view rest = file.text;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const auto text = parse_labelled_line(file.path, number, rest.substr(0, end), num_classes);
    if (text) result.push_back(*text);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return result;
}

LabelledTokens::LabelledTokens(const std::vector<LabelledText>& texts, const Tokenizer& tokenizer,
                               std::int64_t max_length)
    : LabelledTokens() {
  for (const LabelledText& item : texts) {
    std::vector<Token> tokens = tokenizer.encode(item.text);
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(max_length)));
    add(tokens, item.label);
  }
}

void LabelledTokens::add(std::span<const Token> tokens, std::int64_t label) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  starts_.push_back(tokens_.size());
  labels_.push_back(label);
}

std::span<const Token> LabelledTokens::tokens(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  return std::span(tokens_).subspan(starts_[at], starts_[at + 1] - starts_[at]);
}

std::vector<LabelledText> hold_out(std::vector<LabelledText>& texts, double fraction,
                                   std::uint64_t seed) {
  const std::vector<std::int64_t> order =
      shuffled(static_cast<std::int64_t>(texts.size()), seed, /*epoch=*/0);
  const auto count = static_cast<std::size_t>(
      std::max(1.0, std::round(fraction * static_cast<double>(texts.size()))));
  std::vector<LabelledText> held_out, kept;
  for (std::size_t i = 0; i < order.size(); ++i) {
    (i < count ? held_out : kept).push_back(texts[static_cast<std::size_t>(order[i])]);
  }
  texts = std::move(kept);
  return held_out;
}

}  // namespace gma::app
