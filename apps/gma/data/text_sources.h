// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What read_text_files() is made of, for text that is too long to be held.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gma::app {

struct FoundFile {
  std::filesystem::path path;
  bool is_named = true;  ///< not just found in a folder
};

/// The files that read_text_files() reads, in its order, without opening any. Folders that it skips
/// are counted in `skipped_folders`.
std::vector<FoundFile> find_text_files(const std::vector<std::string>& paths,
                                       std::int64_t* skipped_folders = nullptr);

/// Hands on the content of a file, plain or gzip, in blocks of at most 256 KiB until `sink` returns
/// false. Throws as read_file() does.
void read_file_blocks(const std::filesystem::path& path,
                      const std::function<bool(std::string_view)>& sink);

}  // namespace gma::app
