// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gma::app {

/// Length of the UTF-8 sequence at the front of `text`: 1 to 4, or 0 if the bytes there are not
/// UTF-8 (overlong forms and surrogates included) or stop short.
std::size_t utf8_length(std::string_view text);

/// Whether `text` is a proper start of some UTF-8 sequence, so that more bytes could complete it.
bool utf8_is_incomplete(std::string_view text);

/// Makes valid UTF-8 of bytes that come in pieces: holds back an unfinished character, and puts
/// U+FFFD in place of what cannot become one.
class Utf8Stream {
 public:
  /// The characters that `bytes` completes.
  std::string push(std::string_view bytes);
  /// What is left, as U+FFFD.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace gma::app
