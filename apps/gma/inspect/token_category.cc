// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "inspect/token_category.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <string>

#include "data/utf8.h"

namespace gma::app {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\f\v";

/// Sorted.
constexpr auto kFunctionWords = std::to_array<std::string_view>(
    {"a",       "about",   "above",   "after",   "against", "all",    "also",    "although",
     "am",      "among",   "an",      "and",     "another", "any",    "are",     "as",
     "at",      "be",      "because", "been",    "before",  "being",  "below",   "between",
     "both",    "but",     "by",      "can",     "cannot",  "could",  "did",     "do",
     "does",    "done",    "down",    "during",  "each",    "either", "every",   "few",
     "for",     "from",    "had",     "has",     "have",    "having", "he",      "her",
     "hers",    "herself", "him",     "himself", "his",     "how",    "i",       "if",
     "in",      "into",    "is",      "it",      "its",     "itself", "may",     "me",
     "might",   "mine",    "more",    "most",    "much",    "must",   "my",      "myself",
     "neither", "no",      "nor",     "not",     "of",      "off",    "on",      "once",
     "one",     "only",    "onto",    "or",      "other",   "our",    "ours",    "out",
     "over",    "own",     "shall",   "she",     "should",  "since",  "so",      "some",
     "such",    "than",    "that",    "the",     "their",   "theirs", "them",    "themselves",
     "then",    "there",   "these",   "they",    "this",    "those",  "through", "to",
     "too",     "toward",  "under",   "unless",  "until",   "up",     "upon",    "us",
     "very",    "was",     "we",      "were",    "what",    "when",   "where",   "whether",
     "which",   "while",   "who",     "whom",    "whose",   "why",    "will",    "with",
     "within",  "without", "would",   "you",     "your",    "yours"});
static_assert(std::ranges::is_sorted(kFunctionWords));

/// Unicode's classes of characters, whatever the locale of the process.
locale_t unicode() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  static const locale_t plain = newlocale(LC_CTYPE_MASK, "C", nullptr);
  return locale != nullptr ? locale : plain;
}

/// The character of a valid sequence.
wint_t decode(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  const unsigned lead_bits = sequence.size() == 2 ? 0x1F : sequence.size() == 3 ? 0x0F : 0x07;
  unsigned character = byte(0) & lead_bits;
  for (std::size_t i = 1; i < sequence.size(); ++i) character = character << 6 | (byte(i) & 0x3F);
  return character;
}

std::string_view trimmed(std::string_view piece) {
  const std::size_t begin = piece.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return piece.substr(begin, piece.find_last_not_of(kWhiteSpace) + 1 - begin);
}

bool is_space(char c) { return kWhiteSpace.find(c) != std::string_view::npos; }

/// What the characters of a word are.
struct Letters {
  bool is_text = true;  ///< UTF-8, and not white space alone
  bool has_digit = false;
  bool has_letter = false;
  bool begins_upper = false;  ///< the first letter is a capital

  explicit Letters(std::string_view word) : is_text(!word.empty()) {
    while (!word.empty()) {
      const std::size_t length = utf8_length(word);
      if (length == 0) {
        is_text = false;
        return;
      }
      const wint_t c = decode(word.substr(0, length));
      word.remove_prefix(length);
      if (c >= '0' && c <= '9') {
        has_digit = true;
      } else if (iswalpha_l(c, unicode()) != 0) {
        begins_upper = has_letter ? begins_upper : iswupper_l(c, unicode()) != 0;
        has_letter = true;
      }
    }
  }
};

bool is_function_word(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::ranges::binary_search(kFunctionWords, std::string_view(lower));
}

}  // namespace

TokenCategory categorise(std::string_view piece, bool begins_word, std::int64_t count) {
  const std::string_view word = trimmed(piece);
  const Letters letters(word);
  if (!letters.is_text) return TokenCategory::other;
  if (!letters.has_letter) {
    return letters.has_digit ? TokenCategory::digit : TokenCategory::punctuation;
  }
  const bool begins = begins_word || is_space(piece.front());
  // A single byte may be the whole of a word only where tokens are longer.
  if (begins && piece.size() > 1 && is_function_word(word)) return TokenCategory::function_word;
  if (count < kRareCount) return TokenCategory::rare;
  if (letters.begins_upper) return TokenCategory::capitalised;
  return begins ? TokenCategory::word_start : TokenCategory::continuation;
}

bool ends_word(std::string_view piece, bool before) {
  return piece.empty() ? before : is_space(piece.back());
}

}  // namespace gma::app
