// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gma/error.h"
#include "gma/safetensors.h"
#include "io/checksum.h"
#include "io/dtype.h"
#include "io/file.h"

namespace gma {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
/// The header is an object of objects of arrays.
constexpr int kMaxHeaderDepth = 3;
constexpr const char* kMetadataKey = "__metadata__";

/// What is wrong with a file's content; the path is put in front of it where it is known.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> message, Args&&... args) {
  throw Refusal(fmt::format(message, std::forward<Args>(args)...));
}

/// A whole file, mapped read-only.
class Mapping {
 public:
  explicit Mapping(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) throw_errno(path, "cannot open");
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) throw_errno(path, "cannot read");
    if (!S_ISREG(status.st_mode)) {
      throw IoError(fmt::format("{}: cannot read: not a regular file", path.string()));
    }
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return;
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data_ == MAP_FAILED) throw_errno(path, "cannot map");
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (size_ != 0 && data_ != MAP_FAILED) ::munmap(data_, size_);
  }

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Splits a file into header and data.
std::pair<std::span<const std::byte>, std::span<const std::byte>> split(
    std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    refuse("not a safetensors file: {} bytes, too short for a header", file.size());
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  }
  const std::span<const std::byte> rest = file.subspan(kLengthBytes);
  if (length > kMaxHeaderBytes) {
    refuse("not a safetensors file: header of {} bytes, the limit is {}", length, kMaxHeaderBytes);
  }
  if (length > rest.size()) {
    refuse("truncated, or not a safetensors file: header of {} bytes, {} bytes follow", length,
           rest.size());
  }
  return {rest.first(length), rest.subspan(length)};
}

/// Parses with no more nesting than the format has and no key twice in an object.
json parse_header(std::span<const std::byte> bytes) {
  std::vector<std::set<std::string>> keys(kMaxHeaderDepth + 1);
  const auto inspect = [&](int depth, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    if (depth >= kMaxHeaderDepth && (event == Event::object_start || event == Event::array_start)) {
      refuse("header is nested too deeply");
    }
    if (event == Event::object_start) keys[depth + 1].clear();
    if (event == Event::key && !keys[depth].insert(parsed.get<std::string>()).second) {
      refuse("header holds the key '{}' twice", parsed.get<std::string>());
    }
    return true;
  };
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  json header;
  try {
    header = json::parse(begin, begin + bytes.size(), inspect);
  } catch (const json::exception& error) {
    refuse("header is not valid JSON: {}", error.what());
  }
  if (!header.is_object()) refuse("header is not a JSON object");
  return header;
}

std::map<std::string, std::string> read_metadata(const json& entries) {
  if (!entries.is_object()) refuse("{} is not an object", kMetadataKey);
  std::map<std::string, std::string> metadata;
  for (const auto& [name, value] : entries.items()) {
    if (!value.is_string()) refuse("{}: the value of '{}' is not a string", kMetadataKey, name);
    metadata.emplace(name, value.get<std::string>());
  }
  return metadata;
}

const json& member(const std::string& tensor, const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end()) refuse("tensor '{}' has no {}", tensor, key);
  return *found;
}

std::vector<std::int64_t> read_integers(const std::string& tensor, const json& list,
                                        const char* key) {
  if (!list.is_array()) refuse("tensor '{}': {} is not an array", tensor, key);
  std::vector<std::int64_t> values;
  for (const json& element : list) {
    if (!element.is_number_unsigned() || element.get<std::uint64_t>() > INT64_MAX) {
      refuse("tensor '{}': {} holds {}, not a non-negative 64-bit integer", tensor, key,
             element.dump());
    }
    values.push_back(element.get<std::int64_t>());
  }
  return values;
}

/// One tensor whose bytes are inside `data` and as many as its shape says.
TensorBytes read_tensor(const std::string& name, const json& entry,
                        std::span<const std::byte> data) {
  if (!entry.is_object()) refuse("tensor '{}' is not described by an object", name);
  const json& dtype_name = member(name, entry, "dtype");
  const std::optional<DType> dtype =
      dtype_name.is_string() ? dtype_of(dtype_name.get<std::string>()) : std::nullopt;
  if (!dtype) refuse("tensor '{}': unknown dtype {}", name, dtype_name.dump());

  TensorBytes tensor{*dtype, read_integers(name, member(name, entry, "shape"), "shape"), {}};
  const std::optional<std::size_t> expected = byte_size(tensor.dtype, tensor.shape);
  if (!expected) refuse("tensor '{}': the number of elements overflows", name);

  const std::vector<std::int64_t> offsets =
      read_integers(name, member(name, entry, "data_offsets"), "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    refuse("tensor '{}': data_offsets must be a begin and an end", name);
  }
  const auto begin = static_cast<std::size_t>(offsets[0]);
  const auto end = static_cast<std::size_t>(offsets[1]);
  if (end > data.size()) {
    refuse("truncated: tensor '{}' ends at byte {} of {} bytes of data", name, end, data.size());
  }
  if (end - begin != *expected) {
    refuse("tensor '{}': its shape takes {} bytes, its data_offsets span {}", name, *expected,
           end - begin);
  }
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

/// The tensors must cover the data from its first to its last byte, each byte once.
void check_cover(const std::map<std::string, TensorBytes>& tensors,
                 std::span<const std::byte> data) {
  std::vector<std::tuple<std::size_t, std::size_t, std::string>> extents;
  for (const auto& [name, tensor] : tensors) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
    extents.emplace_back(begin, begin + tensor.bytes.size(), name);
  }
  std::ranges::sort(extents);
  std::size_t covered = 0;
  for (const auto& [begin, end, name] : extents) {
    if (begin < covered) refuse("tensor '{}' overlaps another", name);
    if (begin > covered) refuse("{} unused bytes before tensor '{}'", begin - covered, name);
    covered = end;
  }
  if (covered != data.size()) refuse("{} bytes after the last tensor", data.size() - covered);
}

/// Compares the data with the checksum that the metadata may hold, and takes it out of there.
void check_data(std::map<std::string, std::string>& metadata, std::span<const std::byte> data) {
  const auto stored = metadata.extract(kChecksumKey);
  if (stored.empty()) return;
  Checksum checksum;
  checksum.add(data);
  if (checksum.text() != stored.mapped()) {
    refuse("damaged: the tensor data has the CRC-32 {}, metadata '{}' says {}", checksum.text(),
           kChecksumKey, stored.mapped());
  }
}

}  // namespace

struct SafetensorsFile::Impl {
  explicit Impl(const std::filesystem::path& path) : mapping(path) {
    try {
      read();
    } catch (const Refusal& refusal) {
      throw IoError(fmt::format("{}: {}", path.string(), refusal.what()));
    }
  }

  void read() {
    const auto [header_bytes, data] = split(mapping.bytes());
    const json header = parse_header(header_bytes);
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadataKey) {
        metadata = read_metadata(entry);
      } else {
        tensors.emplace(name, read_tensor(name, entry, data));
      }
    }
    check_cover(tensors, data);
    check_data(metadata, data);
  }

  Mapping mapping;
  std::map<std::string, TensorBytes> tensors;
  std::map<std::string, std::string> metadata;
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : impl_(std::make_unique<Impl>(path)) {}

SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;

const std::map<std::string, TensorBytes>& SafetensorsFile::tensors() const {
  return impl_->tensors;
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->metadata;
}

}  // namespace gma
