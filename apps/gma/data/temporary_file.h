// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace gma::app {

/// A file on its way to `path`, under another name beside it, which one process at a time writes
/// to. It stays where nobody renames or removes it.
class TemporaryFile {
 public:
  /// Opens the file, or makes it. Throws IoError where it cannot, and InvalidArgument where another
  /// process writes to it.
  TemporaryFile(std::filesystem::path path, std::filesystem::path temporary);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& temporary() const { return temporary_; }
  std::int64_t size() const { return size_; }

  // These throw IoError, on a full disk for one.
  void append(std::string_view bytes);
  void clear();
  void sync();
  /// Gives the file its name; sync_folder() makes that last.
  void rename();

  void remove() const;

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// Flushes the names in the folder of `path` to the disk. Throws IoError.
void sync_folder_of(const std::filesystem::path& path);

}  // namespace gma::app
