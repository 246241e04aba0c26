// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Files of data that are whole or not there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/temporary_file.h"

namespace gma::app {

/// Makes a folder for output, and takes away again what it made if that is still empty when it
/// goes.
class OutputFolder {
 public:
  /// Throws InvalidArgument, naming --out, where there can be no such folder.
  explicit OutputFolder(const std::filesystem::path& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Throws InvalidArgument for the first of these files that is there, unless `overwrite`.
  void check_absent(const std::vector<std::string>& names, bool overwrite) const;

 private:
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  ///< innermost first
};

/// Files of one folder that appear together: they are written under temporary names, flushed to
/// the disk and renamed when all are complete; until then, or where that never comes, what had
/// their names stays as it was. The temporary names are fixed (".NAME.tmp"), so that killed
/// programs leave one each at most.
class OutputFiles {
 public:
  /// Throws as TemporaryFile does.
  OutputFiles(const std::filesystem::path& folder, const std::vector<std::string>& names);
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // These throw IoError.
  void write(std::size_t index, std::string_view bytes) { files_.at(index).append(bytes); }
  void commit();

 private:
  void remove() const;

  std::vector<TemporaryFile> files_;
  bool committed_ = false;
};

/// Writes one such file, in a folder that is there. Throws as OutputFiles does.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

}  // namespace gma::app
