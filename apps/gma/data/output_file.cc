// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "gma/error.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw InvalidArgument(fmt::format("--out {}: {}", path.string(), reason));
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& path) : path_(path) {
  if (path.empty()) throw InvalidArgument("--out: expected a folder, got an empty name");
  try {
    fs::path folder = fs::absolute(path).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();
    if (fs::exists(folder) && !fs::is_directory(folder)) {
      refuse(path, "expected a folder, got a file");
    }
    for (fs::path above = folder; !fs::exists(above); above = above.parent_path()) {
      made_.push_back(above);
    }
    fs::create_directories(folder);
    if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse(path, std::strerror(errno));
  } catch (const fs::filesystem_error& error) {
    refuse(path, error.code().message());
  }
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;  // a folder that is not empty stays
  for (const fs::path& folder : made_) fs::remove(folder, ignored);
}

void OutputFolder::check_absent(const std::vector<std::string>& names, bool overwrite) const {
  for (const std::string& name : names) {
    if (fs::is_directory(path_ / name)) refuse(path_ / name, "expected a file, got a folder");
    if (!overwrite && fs::exists(path_ / name)) {
      refuse(path_, fmt::format("the folder holds {} already; --overwrite replaces it", name));
    }
  }
}

OutputFiles::OutputFiles(const fs::path& folder, const std::vector<std::string>& names) {
  try {
    for (const std::string& name : names) {
      files_.emplace_back(folder / name, folder / fmt::format(".{}.tmp", name));
      files_.back().clear();
    }
  } catch (...) {
    remove();
    throw;
  }
}

OutputFiles::~OutputFiles() {
  if (!committed_) remove();
}

void OutputFiles::remove() const {
  for (const TemporaryFile& file : files_) file.remove();
}

void OutputFiles::commit() {
  for (TemporaryFile& file : files_) file.sync();
  for (TemporaryFile& file : files_) file.rename();
  committed_ = true;
  if (!files_.empty()) sync_folder_of(files_.front().path());
}

void write_whole_file(const fs::path& path, std::string_view text) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  OutputFiles file(folder, {path.filename().string()});
  file.write(0, text);
  file.commit();
}

}  // namespace gma::app
