// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "gma/safetensors.h"

namespace gma {

/// The dtype of that name in the format; nullopt where this library has none.
std::optional<DType> dtype_of(std::string_view name);

/// Bytes of a contiguous tensor; nullopt where an extent is negative or the product overflows.
std::optional<std::size_t> byte_size(DType dtype, std::span<const std::int64_t> shape);

}  // namespace gma
