// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "inspect/token_stream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "data/labelled_texts.h"
#include "data/listops.h"
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

/// Hands on the blocks of a text file until `add` returns false.
Read stream_file(const FoundFile& file, const std::function<bool(std::string_view)>& add) {
  Read result = Read::no_text;
  read_file_blocks(file.path, [&](std::string_view block) {
    if (result == Read::no_text) {
      if (!is_text(block)) return false;
      result = Read::whole;
    }
    if (!add(block)) result = Read::stopped;
    return result == Read::whole;
  });
  return result;
}

/// Reads files with `read` until it stops. Returns how many there were.
std::int64_t stream_files(const std::vector<std::string>& paths,
                          const std::function<Read(const FoundFile&)>& read) {
  std::int64_t files = 0;
  for (const FoundFile& file : find_text_files(paths)) {
    const Read result = read(file);
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

void stream_listops(const std::vector<std::string>& paths,
                    const std::function<bool(std::span<const Token>)>& sink) {
  bool goes_on = true;
  for (std::size_t i = 0; i < paths.size() && goes_on; ++i) {
    ListOpsParser parser(paths[i], [&](std::span<const Token> tokens, int) {
      if (goes_on) goes_on = sink(tokens);
    });
    read_file_blocks(paths[i], [&](std::string_view block) {
      parser.add(block);
      return goes_on;
    });
    if (goes_on) parser.finish();
  }
}

}  // namespace

std::int64_t stream_tokens(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                           const std::function<bool(std::span<const Token>)>& sink) {
  return stream_files(paths, [&](const FoundFile& file) {
    std::string pending;
    const Read result = stream_file(file, [&](std::string_view block) {
      pending += block;
      const std::size_t end = cut(pending);
      const bool goes_on =
          end == 0 || sink(tokenizer.encode(std::string_view(pending).substr(0, end)));
      pending.erase(0, end);
      return goes_on;
    });
    if (result != Read::whole || pending.empty()) return result;
    return sink(tokenizer.encode(pending)) ? Read::whole : Read::stopped;
  });
}

void stream_labelled(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                     std::int64_t num_classes,
                     const std::function<bool(std::span<const Token>)>& sink) {
  if (tokenizer.kind() == "listops") {
    stream_listops(paths, sink);
    return;
  }
  stream_files(paths, [&](const FoundFile& file) {
    std::string pending;
    std::int64_t number = 0;
    const auto read = [&](std::string_view line) {
      const auto text = parse_labelled_line(file.path, ++number, line, num_classes);
      return !text || sink(tokenizer.encode(text->text));
    };
    const Read result = stream_file(file, [&](std::string_view block) {
      const std::size_t new_bytes = pending.size();
      pending += block;
      const std::string_view all = pending;
      std::size_t begin = 0;
      for (std::size_t end = all.find('\n', new_bytes); end != std::string_view::npos;
           end = all.find('\n', begin)) {
        if (!read(all.substr(begin, end - begin))) return false;
        begin = end + 1;
      }
      pending.erase(0, begin);
      return true;
    });
    if (result != Read::whole || pending.empty()) return result;
    return read(pending) ? Read::whole : Read::stopped;
  });
}

}  // namespace gma::app
