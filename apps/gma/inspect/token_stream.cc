// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "inspect/token_stream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "data/text_files.h"
#include "data/text_sources.h"
#include "data/utf8.h"
#include "gma/error.h"

namespace gma::app {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20;

/// Where to cut text that goes on: behind the last line end; in a line that is too long, before the
/// last space or between two characters; 0: not yet.
std::size_t cut(std::string_view text) {
  if (const std::size_t end = text.rfind('\n'); end != std::string_view::npos) return end + 1;
  if (text.size() < kLongestLine) return 0;
  if (const std::size_t space = text.rfind(' '); space != std::string_view::npos && space > 0) {
    return space;
  }
  constexpr std::size_t kLongestCharacter = 4;
  for (std::size_t i = 1; i < kLongestCharacter; ++i) {
    if (utf8_is_incomplete(text.substr(text.size() - i))) return text.size() - i;
  }
  return text.size();
}

enum class Read { whole, stopped, no_text };

Read stream_file(const FoundFile& file, const Tokenizer& tokenizer,
                 const std::function<bool(std::span<const Token>)>& sink) {
  std::string pending;
  Read result = Read::no_text;
  read_file_blocks(file.path, [&](std::string_view block) {
    if (result == Read::no_text) {
      if (!is_text(block)) return false;
      result = Read::whole;
    }
    pending += block;
    const std::size_t end = cut(pending);
    if (end > 0 && !sink(tokenizer.encode(std::string_view(pending).substr(0, end)))) {
      result = Read::stopped;
    }
    pending.erase(0, end);
    return result == Read::whole;
  });
  if (result == Read::whole && !pending.empty() && !sink(tokenizer.encode(pending))) {
    result = Read::stopped;
  }
  return result;
}

}  // namespace

std::int64_t stream_tokens(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                           const std::function<bool(std::span<const Token>)>& sink) {
  std::int64_t files = 0;
  for (const FoundFile& file : find_text_files(paths)) {
    const Read result = stream_file(file, tokenizer, sink);
    if (result == Read::no_text && file.is_named) {
      throw InvalidArgument(
          fmt::format("{}: expected a text file that is not empty", file.path.string()));
    }
    if (result != Read::no_text) ++files;
    if (result == Read::stopped) break;
  }
  if (files == 0) {
    throw InvalidArgument(fmt::format("no text files in {}", fmt::join(paths, ", ")));
  }
  return files;
}

}  // namespace gma::app
