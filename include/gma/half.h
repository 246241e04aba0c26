// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// 16-bit storage types. They convert to float exactly and from float by rounding to nearest, ties
// to even; all arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

namespace gma {

/// To float by rounding to odd: what is then rounded to fewer digits is rounded right, as if once.
inline float narrow_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double back = static_cast<double>(nearest);
  if (back == value || value != value || bits << 1 == 0xff000000U) return nearest;
  // Toward zero, then odd.
  if ((back > value) == (value > 0)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

/// The upper half of an IEEE binary32.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(double value) : bfloat16(narrow_to_odd(value)) {}
  explicit bfloat16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (wide + 0x7fffU + ((wide >> 16) & 1U)) >> 16;
    const bool is_nan = (wide & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(is_nan ? (wide >> 16) | 0x40U : rounded);
  }

  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// IEEE binary16.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  explicit float16(double value) : float16(narrow_to_odd(value)) {}
  explicit float16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (wide >> 16) & 0x8000U;
    const std::uint32_t magnitude = wide & 0x7fffffffU;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000U) {
      half = 0x7e00U;
    } else if (magnitude >= 0x477ff000U) {  // Rounds past 65504.
      half = 0x7c00U;
    } else if (magnitude >= 0x38800000U) {  // Normal: rebias the exponent, round off 13 bits.
      half = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    } else {  // Subnormal: adding 0.5 aligns the significand so that the last bit is 2^-24.
      const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
      half = std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U;
    }
    bits = static_cast<std::uint16_t>(sign | half);
  }

  operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7fffU;
    // 2^112 rebiases the exponent, exactly also for subnormals; infinities and NaN keep theirs.
    const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) *
                                                     std::bit_cast<float>(0x77800000U));
    const std::uint32_t wide = magnitude >= 0x7c00U ? (magnitude << 13) | 0x7f800000U : scaled;
    return std::bit_cast<float>(sign | wide);
  }
};

}  // namespace gma
