// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gma::app {

/// A file's text, unpacked if the file was gzip.
struct TextFile {
  std::filesystem::path path;
  std::string text;
};

struct TextFiles {
  std::vector<TextFile> files;
  std::int64_t skipped = 0;          ///< files in folders that are empty or not text
  std::int64_t skipped_folders = 0;  ///< see read_text_files()
};

/// Whether `bytes` look like text: no NUL, and few bytes that are neither UTF-8 nor printable.
bool is_text(std::string_view bytes);

/// Reads a file, plain or gzip. Throws InvalidArgument if it is missing, a folder, unreadable or
/// damaged gzip.
std::string read_file(const std::filesystem::path& path);

/// As read_file(), and throws InvalidArgument if the file is empty or not text.
TextFile read_text_file(const std::filesystem::path& path);

/// Reads files as they are named, and folders recursively in the order of their paths. In folders,
/// empty files and files that are not text are counted and skipped; so are, whole, hidden folders,
/// build folders and those that hold a training run. A file that several links in folders lead to
/// is read once. Throws InvalidArgument if nothing is left.
TextFiles read_text_files(const std::vector<std::string>& paths);

/// CRC-32 of `bytes`, continuing from `previous`: tells whether data is still what it was.
std::uint32_t checksum(std::string_view bytes, std::uint32_t previous = 0);

}  // namespace gma::app
