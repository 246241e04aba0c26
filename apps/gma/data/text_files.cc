// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/text_files.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <system_error>

#include "data/text_sources.h"
#include "data/utf8.h"
#include "gma/error.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

struct GzClose {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

bool is_skipped_folder(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with('.') || name == "build" || name.starts_with("build-") ||
         name == "__pycache__" || name == "node_modules" || fs::exists(folder / "log.jsonl");
}

struct Listing {
  std::vector<fs::path> files;
  std::int64_t skipped_folders = 0;
};

Listing list_below(const fs::path& root) {
  Listing found;
  auto entry = fs::recursive_directory_iterator(root);
  for (; entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path& path = entry->path();
    if (entry->is_directory() && is_skipped_folder(path)) {
      ++found.skipped_folders;
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && !path.filename().string().starts_with('.')) {
      found.files.push_back(path);
    }
  }
  std::sort(found.files.begin(), found.files.end());
  return found;
}

}  // namespace

bool is_text(std::string_view bytes) {
  if (bytes.find('\0') != std::string_view::npos) return false;
  std::size_t odd = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = utf8_length(bytes.substr(at));
    const auto byte = static_cast<unsigned char>(bytes[at]);
    const bool is_control =
        byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r' && byte != '\f';
    odd += length == 0 || is_control;
    at += std::max<std::size_t>(length, 1);
  }
  return odd <= bytes.size() / 8;
}

void read_file_blocks(const fs::path& path, const std::function<bool(std::string_view)>& sink) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw InvalidArgument(fmt::format("{}: no such file", path.string()));
  if (fs::is_directory(status)) {
    throw InvalidArgument(fmt::format("{}: expected a file, got a folder", path.string()));
  }
  if (fs::is_character_file(status) || fs::is_block_file(status)) {  // these may never end
    throw InvalidArgument(fmt::format("{}: expected a file, got a device", path.string()));
  }
  const std::unique_ptr<gzFile_s, GzClose> file(gzopen(path.c_str(), "rb"));
  if (!file) throw InvalidArgument(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  gzbuffer(file.get(), 1U << 18);

  std::array<char, 1U << 18> block;
  int count = 0;
  while ((count = gzread(file.get(), block.data(), block.size())) > 0) {
    if (!sink({block.data(), static_cast<std::size_t>(count)})) return;
  }
  int code = Z_OK;
  const char* message = gzerror(file.get(), &code);
  if (count < 0 || code != Z_OK) {
    throw InvalidArgument(fmt::format("{}: {}", path.string(),
                                      code == Z_ERRNO       ? std::strerror(errno)
                                      : code == Z_BUF_ERROR ? "truncated gzip file"
                                                            : message));
  }
}

std::string read_file(const fs::path& path) {
  std::string bytes;
  read_file_blocks(path, [&](std::string_view block) {
    bytes += block;
    return true;
  });
  return bytes;
}

TextFile read_text_file(const fs::path& path) {
  TextFile file{path, read_file(path)};
  if (file.text.empty()) throw InvalidArgument(fmt::format("{}: the file is empty", path.string()));
  if (!is_text(file.text)) {
    throw InvalidArgument(fmt::format("{}: not a text file", path.string()));
  }
  return file;
}

std::vector<FoundFile> find_text_files(const std::vector<std::string>& paths,
                                       std::int64_t* skipped_folders) {
  std::vector<FoundFile> found;
  std::set<fs::path> known;
  for (const fs::path path : paths) {
    if (!fs::is_directory(path)) {
      found.push_back({path, true});
      continue;
    }
    const Listing listing = list_below(path);
    if (skipped_folders != nullptr) *skipped_folders += listing.skipped_folders;
    for (const fs::path& below : listing.files) {
      if (known.insert(fs::canonical(below)).second) found.push_back({below, false});
    }
  }
  return found;
}

TextFiles read_text_files(const std::vector<std::string>& paths) {
  TextFiles result;
  for (const FoundFile& found : find_text_files(paths, &result.skipped_folders)) {
    if (found.is_named) {
      result.files.push_back(read_text_file(found.path));
      continue;
    }
    TextFile file{found.path, read_file(found.path)};
    if (file.text.empty() || !is_text(file.text)) {
      ++result.skipped;
    } else {
      result.files.push_back(std::move(file));
    }
  }
  if (result.files.empty()) {
    throw InvalidArgument(fmt::format("no text files in {}", fmt::join(paths, ", ")));
  }
  return result;
}

std::uint32_t checksum(std::string_view bytes, std::uint32_t previous) {
  return static_cast<std::uint32_t>(
      crc32_z(previous, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace gma::app
