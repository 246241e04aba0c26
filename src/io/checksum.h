// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gma {

/// The entry of "__metadata__" that holds the checksum of the data.
inline constexpr const char* kChecksumKey = "crc32";

/// CRC-32 of bytes that come in pieces, in the order of the file.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;  // A null pointer would start the sum anew.
    crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  std::string text() const { return fmt::format("{:08x}", crc_); }

 private:
  uLong crc_ = 0;
};

}  // namespace gma
