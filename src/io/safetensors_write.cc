// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/checks.h"
#include "gma/error.h"
#include "gma/safetensors.h"
#include "io/checksum.h"
#include "io/dtype.h"
#include "io/file.h"

namespace gma {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Entry = std::map<std::string, TensorBytes>::value_type;

constexpr std::size_t kHeaderAlignment = 8;
constexpr const char* kMetadataKey = "__metadata__";

void check_tensor(const std::string& name, const TensorBytes& tensor) {
  check(name != kMetadataKey, "tensors: the name '{}' is reserved", name);
  const std::optional<std::size_t> expected = byte_size(tensor.dtype, tensor.shape);
  check(expected.has_value(), "tensors: '{}' has the impossible shape ({})", name,
        fmt::join(tensor.shape, ", "));
  check(tensor.bytes.size() == *expected,
        "tensors: '{}' of type {} and shape ({}) takes {} bytes, got {}", name,
        name_of(tensor.dtype), fmt::join(tensor.shape, ", "), *expected, tensor.bytes.size());
}

/// Widest elements first, so that every tensor is aligned for its type within the file.
std::vector<const Entry*> in_file_order(const std::map<std::string, TensorBytes>& tensors) {
  std::vector<const Entry*> order;
  for (const Entry& entry : tensors) order.push_back(&entry);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [](const Entry* entry) { return size_of(entry->second.dtype); });
  return order;
}

/// Length and JSON, padded so that the data begins aligned.
std::string make_header(const std::vector<const Entry*>& order,
                        const std::map<std::string, std::string>& metadata) {
  json header = {{kMetadataKey, metadata}};
  Checksum checksum;
  std::size_t offset = 0;
  for (const Entry* entry : order) {
    const auto& [name, tensor] = *entry;
    checksum.add(tensor.bytes);
    const std::size_t end = offset + tensor.bytes.size();
    header[name] = {{"dtype", name_of(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", json::array({offset, end})}};
    offset = end;
  }
  header[kMetadataKey][kChecksumKey] = checksum.text();
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    throw InvalidArgument(fmt::format("tensors, metadata: not valid UTF-8: {}", error.what()));
  }
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string length;
  for (std::size_t i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

/// A file under a temporary name beside `path` that takes its place on commit() and disappears
/// otherwise. The name is fixed, so that killed writers leave one file at most, and locked, so that
/// writers of the same path take turns.
class Replacement {
 public:
  explicit Replacement(const fs::path& path)
      : path_(path),
        temporary_(path.parent_path() / fmt::format(".{}.tmp", path.filename().string())) {
    while (!open_locked()) {
    }
    if (::ftruncate(file_.get(), 0) != 0) fail("cannot write");
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() {
    if (!committed_) ::unlink(temporary_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ::ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot write");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void commit() {
    if (::fsync(file_.get()) != 0) fail("cannot flush");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot replace");
    committed_ = true;
    const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
    const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory || ::fsync(directory.get()) != 0) throw_errno(folder, "cannot flush");
  }

 private:
  /// False if another writer renamed or removed the file before it was locked.
  bool open_locked() {
    file_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (!file_) fail("cannot create");
    if (::flock(file_.get(), LOCK_EX) != 0) fail("cannot lock");
    struct stat opened{};
    struct stat named{};
    if (::fstat(file_.get(), &opened) != 0) fail("cannot create");
    return ::stat(temporary_.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
           named.st_dev == opened.st_dev;
  }

  [[noreturn]] void fail(const char* what) const { throw_errno(path_, what); }

  fs::path path_;
  fs::path temporary_;
  Descriptor file_;
  bool committed_ = false;
};

}  // namespace

void write_safetensors(const fs::path& path, const std::map<std::string, TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  for (const auto& [name, tensor] : tensors) check_tensor(name, tensor);
  check(!metadata.contains(kChecksumKey), "metadata: the name '{}' is reserved", kChecksumKey);
  const std::vector<const Entry*> order = in_file_order(tensors);
  const std::string header = make_header(order, metadata);

  Replacement file(path);
  file.write(std::as_bytes(std::span(header)));
  for (const Entry* entry : order) file.write(entry->second.bytes);
  file.commit();
}

}  // namespace gma
