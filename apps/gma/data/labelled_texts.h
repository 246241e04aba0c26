// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Texts with a label each, from files of `label<TAB>text` lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_files.h"
#include "data/tokenizer.h"

namespace gma::app {

struct LabelledText {
  std::int64_t label = 0;
  std::string_view text;  ///< into the TextFile that it was parsed from
};

/// Parses the lines of `file`; blank lines and a byte order mark are skipped and CRLF is accepted.
/// Labels are whole numbers from 0, which number the classes. With num_classes > 0
/// labels must be below it. Throws InvalidArgument naming file and line of the first line that
/// has no tab, an empty text, or a label that is no number or out of range.
std::vector<LabelledText> parse_labelled(const TextFile& file, std::int64_t num_classes);

/// Parses one line of such a file, without its line end, of which CR may be left; nothing for a
/// blank one. `number` counts from 1. Errors are those of parse_labelled().
std::optional<LabelledText> parse_labelled_line(const std::filesystem::path& path,
                                                std::int64_t number, std::string_view line,
                                                std::int64_t num_classes);

/// Token sequences of different lengths, with their labels, in two flat arrays.
class LabelledTokens {
 public:
  /// Keeps at most `max_length` tokens of each text.
  LabelledTokens(const std::vector<LabelledText>& texts, const Tokenizer& tokenizer,
                 std::int64_t max_length);
  /// None yet.
  LabelledTokens() : starts_{0} {}

  void add(std::span<const Token> tokens, std::int64_t label);

  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t label(std::int64_t i) const { return labels_[static_cast<std::size_t>(i)]; }
  std::span<const Token> tokens(std::int64_t i) const;
  std::int64_t length(std::int64_t i) const { return static_cast<std::int64_t>(tokens(i).size()); }

 private:
  std::vector<std::int64_t> labels_;
  std::vector<Token> tokens_;
  std::vector<std::size_t> starts_;  ///< size() + 1 of them
};

/// Takes round(fraction * size), at least one, out of `texts` at random and returns them. Files are
/// often sorted by label, so the end of a file would not do.
std::vector<LabelledText> hold_out(std::vector<LabelledText>& texts, double fraction,
                                   std::uint64_t seed);

}  // namespace gma::app
