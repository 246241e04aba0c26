// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "io/dtype.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gma {
namespace {

struct Row {
  DType dtype;
  const char* name;
  std::size_t size;
};

constexpr std::array kRows = {
    Row{DType::boolean, "BOOL", 1}, Row{DType::uint8, "U8", 1},      Row{DType::int8, "I8", 1},
    Row{DType::int16, "I16", 2},    Row{DType::int32, "I32", 4},     Row{DType::int64, "I64", 8},
    Row{DType::float16, "F16", 2},  Row{DType::bfloat16, "BF16", 2}, Row{DType::float32, "F32", 4},
    Row{DType::float64, "F64", 8},
};

constexpr bool rows_follow_the_enumeration() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].dtype != static_cast<DType>(i)) return false;
  }
  return true;
}
static_assert(rows_follow_the_enumeration());

}  // namespace

std::size_t size_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].size; }

const char* name_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_of(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &Row::name);
  if (row == kRows.end()) return std::nullopt;
  return row->dtype;
}

std::optional<std::size_t> byte_size(DType dtype, std::span<const std::int64_t> shape) {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

}  // namespace gma
