// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "gma/error.h"
#include "infer/saved_model.h"
#include "train/run_log.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw InvalidArgument(fmt::format("--out {}: {}", path.string(), reason));
}

}  // namespace

RunFolder::RunFolder(const fs::path& path)
    : path_(path.empty() ? path : fs::absolute(path).lexically_normal()) {
  if (path.empty()) throw InvalidArgument("--out: expected a folder, got an empty name");
  if (!path_.has_filename()) path_ = path_.parent_path();
  try {
    make();
    lock();
    clear_leftovers();
  } catch (const fs::filesystem_error& error) {
    refuse(path, error.code().message());
  }
}

RunFolder::~RunFolder() {
  std::error_code ignored;  // a folder that is not empty stays
  for (const fs::path& folder : made_) fs::remove(folder, ignored);
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool RunFolder::holds_run() const {
  return fs::exists(path_ / kLastCheckpoint) || fs::exists(path_ / kBestCheckpoint) ||
         RunLog::final_record(path_ / kLogFile).has_value();
}

void RunFolder::make() {
  for (fs::path folder = path_; !fs::exists(folder); folder = folder.parent_path()) {
    made_.push_back(folder);
  }
  fs::create_directories(path_);
  if (!fs::is_directory(path_)) refuse(path_, "expected a folder, got a file");
  if (::access(path_.c_str(), W_OK | X_OK) != 0) refuse(path_, std::strerror(errno));
}

void RunFolder::lock() {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) refuse(path_, std::strerror(errno));
  // Some file systems lock no folders: there the user has to see to it.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    refuse(path_, "another run is going on in this folder");
  }
}

void RunFolder::clear_leftovers() const {
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') &&
        (name.ends_with(".safetensors.tmp") || name.ends_with(".jsonl.tmp"))) {
      fs::remove(entry.path());
    }
  }
}

}  // namespace gma::app
