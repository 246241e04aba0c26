// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What a token looks like: the classes that components are set against (docs/inspect.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gma::app {

enum class TokenCategory : std::uint8_t {
  punctuation,    ///< neither letter nor digit: punctuation and symbols
  function_word,  ///< "the", "of", "she": a closed list of English words
  digit,          ///< digits and no letter
  capitalised,    ///< the first letter is a capital
  word_start,     ///< any other token that begins a word
  continuation,   ///< any other token inside a word
  rare,           ///< letters, and seen fewer than kRareCount times in the text
  other           ///< white space, or bytes that are no character by themselves
};

inline constexpr std::size_t kTokenCategories = 8;
inline constexpr std::array<std::string_view, kTokenCategories> kTokenCategoryNames = {
    "punctuation", "function word", "digit", "capitalised",
    "word start",  "continuation",  "rare",  "other"};

/// Tokens of letters that are seen less often than this are rare.
inline constexpr std::int64_t kRareCount = 5;

/// The category of a token that stands for the bytes `piece` and is there `count` times in the
/// whole text; `begins_word` says that the text before it ends in white space, or that there is
/// none. The first of these that holds decides: other, digit, punctuation, function word, rare,
/// capitalised, word start, continuation.
TokenCategory categorise(std::string_view piece, bool begins_word, std::int64_t count);

/// Whether the text after `piece` begins a word; `before` is the answer for the piece before, which
/// an empty piece does not change.
bool ends_word(std::string_view piece, bool before);

}  // namespace gma::app
