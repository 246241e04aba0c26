// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/utf8.h"

#include <cstdint>

namespace gma::app {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The range of the second byte rules out overlong forms, surrogates and code points past U+10FFFF.
struct Lead {
  std::size_t length = 0;
  std::uint8_t second_min = 0x80;
  std::uint8_t second_max = 0xBF;
};

Lead classify(std::uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

/// How many bytes at the front agree with the sequence that the first one announces.
std::size_t matching_bytes(std::string_view text, const Lead& lead) {
  std::size_t count = lead.length == 0 ? 0 : 1;
  while (count < lead.length && count < text.size()) {
    const auto byte = static_cast<std::uint8_t>(text[count]);
    const std::uint8_t low = count == 1 ? lead.second_min : 0x80;
    const std::uint8_t high = count == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) break;
    ++count;
  }
  return count;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = classify(static_cast<std::uint8_t>(text.front()));
  return matching_bytes(text, lead) == lead.length ? lead.length : 0;
}

bool utf8_is_incomplete(std::string_view text) {
  if (text.empty()) return false;
  const Lead lead = classify(static_cast<std::uint8_t>(text.front()));
  return text.size() < lead.length && matching_bytes(text, lead) == text.size();
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string complete;
  std::string_view rest = pending_;
  while (!rest.empty() && !utf8_is_incomplete(rest)) {
    if (const std::size_t length = utf8_length(rest); length > 0) {
      complete += rest.substr(0, length);
      rest.remove_prefix(length);
    } else {
      complete += kReplacement;
      rest.remove_prefix(1);
    }
  }
  pending_ = std::string(rest);
  return complete;
}

std::string Utf8Stream::finish() {
  std::string rest(pending_.empty() ? std::string_view() : kReplacement);
  pending_.clear();
  return rest;
}

}  // namespace gma::app
