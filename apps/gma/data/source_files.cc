// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/source_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <system_error>
#include <vector>

#include "gma/error.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 1U << 18;
constexpr double kGigabyte = 1e9;

template <class... Args>
[[noreturn]] void refuse(const std::string& place, fmt::format_string<Args...> message,
                         Args&&... args) {
  throw InvalidArgument(place + ": " + fmt::format(message, std::forward<Args>(args)...));
}

/// Counts bytes against a limit.
class Meter {
 public:
  Meter(std::string place, std::int64_t limit)
      : place_(std::move(place)), left_(limit), limit_(limit) {}

  void add(std::int64_t bytes) {
    left_ -= bytes;
    if (left_ < 0) {
      refuse(place_, "it unpacks to more than {:.3g} GB, which no copy of this data does",
             static_cast<double>(limit_) / kGigabyte);
    }
  }

 private:
  std::string place_;
  std::int64_t left_;
  std::int64_t limit_;
};

/// Reads a plain or gzip file in blocks. zlib checks the length and the CRC-32 of gzip.
class GzipReader {
 public:
  explicit GzipReader(const fs::path& path)
      : place_(path.string()), file_(gzopen(path.c_str(), "rb")), block_(kBlock) {
    if (!file_) refuse(place_, "{}", std::strerror(errno));
    gzbuffer(file_.get(), kBlock);
  }

  /// Empty at the end.
  std::string_view next() {
    const int count = gzread(file_.get(), block_.data(), static_cast<unsigned>(block_.size()));
    int code = Z_OK;
    const char* message = gzerror(file_.get(), &code);
    if (count < 0 || code != Z_OK) {
      refuse(place_, "{}",
             code == Z_ERRNO       ? std::strerror(errno)
             : code == Z_BUF_ERROR ? "truncated gzip file"
                                   : fmt::format("damaged gzip file: {}", message).c_str());
    }
    return {block_.data(), static_cast<std::size_t>(count)};
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  std::string place_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::vector<char> block_;
};

/// "a/b" of "./a//b".
std::string normal_name(std::string_view name) {
  return fs::path(name).lexically_normal().generic_string();
}

bool is_safe(std::string_view name) {
  const fs::path path(name);
  return !path.is_absolute() && std::ranges::find(path, fs::path("..")) == path.end() &&
         name.find('\\') == std::string_view::npos;
}

/// Asks the visitor for a file, which must not have come before.
class Visits {
 public:
  Visits(std::string source, const SourceLimits& limits, const SourceVisitor& visitor)
      : source_(std::move(source)), limits_(limits), visitor_(visitor) {}

  bool wants(const std::string& name) const { return visitor_.wants(name); }

  /// Returns whether to go on. `read` hands over blocks without counting them.
  bool visit(const std::string& name, const std::function<void(const OnBytes&)>& read) {
    const std::string place = fmt::format("{}: {}", source_, name);
    if (!known_.insert(name).second) refuse(place, "it comes twice");
    return visitor_.visit({name, place, [&](const OnBytes& on_bytes) {
                             Meter meter(place, limits_.file_bytes);
                             read([&](std::string_view bytes) {
                               meter.add(std::ssize(bytes));
                               on_bytes(bytes);
                             });
                           }});
  }

 private:
  std::string source_;
  const SourceLimits& limits_;
  const SourceVisitor& visitor_;
  std::set<std::string> known_;
};

void visit_folder(const fs::path& root, const SourceLimits& limits, Visits& visits,
                  const Watch& watch) {
  std::vector<fs::path> files;
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
      if (std::ssize(files) > limits.entries) {
        refuse(root.string(), "it holds more than {} files", limits.entries);
      }
    }
  } catch (const fs::filesystem_error& error) {
    refuse(root.string(), "{}", error.code().message());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    std::string name = file.lexically_relative(root).generic_string();
    if (name.ends_with(".gz")) name.resize(name.size() - 3);
    if (!visits.wants(name)) continue;
    watch.check();
    const bool go_on = visits.visit(name, [&](const OnBytes& on_bytes) {
      GzipReader reader(file);
      for (std::string_view bytes = reader.next(); !bytes.empty(); bytes = reader.next()) {
        watch.check();
        on_bytes(bytes);
      }
    });
    if (!go_on) return;
  }
}

/// Whether the first bytes of a file are these.
bool begins_with(const fs::path& path, std::string_view magic) {
  std::string bytes(magic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  return bytes == magic;
}

/// libarchive on a file. Exceptions cannot pass through it, so that those of the callback wait
/// here.
class Archive {
 public:
  Archive(const fs::path& path, const SourceLimits& limits, const Watch& watch)
      : place_(path.string()), watch_(watch), meter_(place_, limits.total_bytes) {
    if (!archive_) throw std::bad_alloc();
    if (begins_with(path, "PK")) {
      // By the directory at its end, which a zip file that is cut short lacks.
      archive_read_support_format_zip_seekable(archive_.get());
      if (archive_read_open_filename(archive_.get(), path.c_str(), kBlock) != ARCHIVE_OK) {
        refuse(place_, "damaged or truncated zip file: {}", error());
      }
    } else {
      archive_read_support_format_tar(archive_.get());
      bytes_ = std::make_unique<GzipReader>(path);
      if (archive_read_open(archive_.get(), this, nullptr, on_read, nullptr) != ARCHIVE_OK) {
        fail("not a whole archive, tar or zip");
      }
    }
  }

  /// Null at the end.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(archive_.get(), &entry);
    if (code == ARCHIVE_EOF) return nullptr;
    // A warning is about what is not used here, such as the owner's name.
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) fail("not a whole archive, tar or zip");
    return entry;
  }

  void read(const OnBytes& on_bytes) {
    std::vector<char> block(kBlock);
    while (true) {
      const la_ssize_t count = archive_read_data(archive_.get(), block.data(), block.size());
      if (count < 0) fail("damaged or truncated");
      if (count == 0) return;
      watch_.check();
      if (!bytes_) meter_.add(count);
      on_bytes({block.data(), static_cast<std::size_t>(count)});
    }
  }

  /// Reads what follows the last entry, so that the checksum at the end of gzip is checked.
  void finish() {
    if (!bytes_) return;
    for (std::string_view bytes = bytes_->next(); !bytes.empty(); bytes = bytes_->next()) {
      watch_.check();
      meter_.add(std::ssize(bytes));
    }
  }

 private:
  struct Free {
    void operator()(archive* archive) const { archive_read_free(archive); }
  };

  static la_ssize_t on_read(archive* archive, void* self_pointer, const void** buffer) {
    auto& self = *static_cast<Archive*>(self_pointer);
    try {
      self.watch_.check();
      const std::string_view bytes = self.bytes_->next();
      self.meter_.add(std::ssize(bytes));
      *buffer = bytes.data();
      return static_cast<la_ssize_t>(bytes.size());
    } catch (...) {
      self.pending_ = std::current_exception();
      archive_set_error(archive, EIO, "cannot be read");
      return ARCHIVE_FATAL;
    }
  }

  std::string error() const {
    const char* text = archive_error_string(archive_.get());
    return text == nullptr ? "unknown error" : text;
  }

  [[noreturn]] void fail(const char* what) {
    if (pending_) std::rethrow_exception(pending_);
    refuse(place_, "{}: {}", what, error());
  }

  std::string place_;
  const Watch& watch_;
  Meter meter_;
  std::unique_ptr<GzipReader> bytes_;  ///< of a tar file
  std::exception_ptr pending_;
  std::unique_ptr<archive, Free> archive_{archive_read_new()};
};

void visit_archive(const fs::path& path, const SourceLimits& limits, Visits& visits,
                   const Watch& watch) {
  Archive archive(path, limits, watch);
  std::int64_t entries = 0;
  while (archive_entry* entry = archive.next()) {
    watch.check();
    if (++entries > limits.entries) {
      refuse(path.string(), "it holds more than {} entries", limits.entries);
    }
    const char* raw_name = archive_entry_pathname(entry);
    if (raw_name == nullptr) continue;  // no encoding that is known, so no name that is wanted
    if (!is_safe(raw_name)) {
      refuse(path.string(), "'{}' would lead out of the archive's folder", raw_name);
    }
    const std::string name = normal_name(raw_name);
    if (!visits.wants(name)) continue;
    const bool is_link =
        archive_entry_hardlink(entry) != nullptr || archive_entry_symlink(entry) != nullptr;
    if (is_link || archive_entry_filetype(entry) != AE_IFREG) {
      refuse(path.string(), "'{}' is {}, not a file", name, is_link ? "a link" : "something else");
    }
    if (!visits.visit(name, [&](const OnBytes& on_bytes) { archive.read(on_bytes); })) return;
  }
  if (entries == 0) refuse(path.string(), "it holds nothing");
  archive.finish();
}

}  // namespace

void visit_source(const fs::path& source, const SourceLimits& limits, const SourceVisitor& visitor,
                  const Watch& watch) {
  std::error_code error;
  const fs::file_status status = fs::status(source, error);
  if (!fs::exists(status)) refuse(source.string(), "no such file or folder");
  Visits visits(source.string(), limits, visitor);
  if (fs::is_directory(status)) {
    visit_folder(source, limits, visits, watch);
  } else {
    visit_archive(source, limits, visits, watch);
  }
}

std::string_view file_name(std::string_view name) {
  return name.substr(name.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace gma::app
