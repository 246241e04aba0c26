// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The safetensors file format: an 8-byte little-endian header length, a JSON header, then raw
// little-endian tensor data. Files are treated as hostile: every size is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gma {

/// Element types of the format that this library reads and writes.
enum class DType { boolean, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64 };

/// Bytes an element takes.
std::size_t size_of(DType dtype);
/// The name in the format: "F32", "BF16", ...
const char* name_of(DType dtype);

/// A tensor inside a file or about to be written; `bytes` is contiguous, row-major, not owned.
struct TensorBytes {
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// A safetensors file, wholly validated and mapped into memory for as long as the object lives.
class SafetensorsFile {
 public:
  /// Throws IoError, with the reason, for a file that is missing, truncated, damaged or of another
  /// kind: a header longer than the file or than 100 MB, JSON that does not parse, unknown dtypes,
  /// negative or overflowing shapes, offsets that overlap, leave holes or pass the end, data that
  /// differs from the checksum that write_safetensors() leaves. Files without one are read as well.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  const std::map<std::string, TensorBytes>& tensors() const;
  /// The free-form string map under "__metadata__", without the checksum.
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes to a temporary name in the same folder, flushes it to the disk and renames it over
/// `path`, so that whatever happens `path` holds the old file or the new one, never a part. Adds
/// the CRC-32 of the data to the metadata, as "crc32", a name that is reserved for it. Throws
/// IoError (disk full, no permission, ...) and removes the temporary file.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace gma
