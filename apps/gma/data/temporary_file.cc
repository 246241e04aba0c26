// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "gma/error.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what) {
  const int error = errno;
  throw IoError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(error)));
}

}  // namespace

TemporaryFile::TemporaryFile(fs::path path, fs::path temporary)
    : path_(std::move(path)), temporary_(std::move(temporary)) {
  // Never through a link that somebody has laid there.
  descriptor_ =
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) fail(path_, "cannot create");
  // Some file systems lock no files: there the user has to see to it.
  const bool is_locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  struct stat opened{};
  struct stat named{};
  // Another process may have finished with the file before it was locked.
  const bool is_same = ::fstat(descriptor_, &opened) == 0 &&
                       ::stat(temporary_.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
                       opened.st_dev == named.st_dev;
  if (!is_locked || !is_same) {
    ::close(descriptor_);
    throw InvalidArgument(fmt::format("{}: another process is writing it", path_.string()));
  }
  size_ = opened.st_size;
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

TemporaryFile::~TemporaryFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TemporaryFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ::ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
    size_ += written;
  }
}

void TemporaryFile::clear() {
  if (::ftruncate(descriptor_, 0) != 0) fail(path_, "cannot write");
  size_ = 0;
}

void TemporaryFile::sync() {
  if (::fsync(descriptor_) != 0) fail(path_, "cannot flush");
}

void TemporaryFile::rename() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot replace");
}

void TemporaryFile::remove() const { ::unlink(temporary_.c_str()); }

void sync_folder_of(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(folder, "cannot flush");
  const bool is_flushed = ::fsync(descriptor) == 0;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  if (!is_flushed) fail(folder, "cannot flush");
}

}  // namespace gma::app
