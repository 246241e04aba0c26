// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The 16-bit storage types, and the operator on them.
#include "gma/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "support/case.h"
#include "support/close.h"
#include "support/implementation.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace gma::test {
namespace {

template <class T>
T from_bits(std::uint16_t bits) {
  T value;
  value.bits = bits;
  return value;
}

/// What the bits stand for, by the definition of the format.
double meaning(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const double fraction = std::ldexp(bits & ((1 << fraction_bits) - 1), -fraction_bits);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

template <class T>
class Half : public testing::Test {};
using HalfTypes = testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(Half, HalfTypes);

template <class T>
constexpr int kExponentBits = std::is_same_v<T, bfloat16> ? 8 : 5;

TYPED_TEST(Half, EveryValueWidensExactlyAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = from_bits<TypeParam>(static_cast<std::uint16_t>(bits));
    const double expected = meaning(half.bits, kExponentBits<TypeParam>);
    const float wide = half;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(wide)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(wide), expected) << bits;
      ASSERT_EQ(std::signbit(wide), std::signbit(expected)) << bits;
      ASSERT_EQ(TypeParam(wide).bits, half.bits) << bits;
    }
  }
}

TYPED_TEST(Half, RoundsADoubleOnce) {
  const double unit = std::is_same_v<TypeParam, bfloat16> ? 0x1p-7 : 0x1p-10;
  for (const double sign : {1.0, -1.0}) {
    for (const double tiny : {0x1p-40, 0x1p-52}) {
      const auto up = static_cast<float>(TypeParam(sign * (1 + unit / 2 + tiny)));
      const auto down = static_cast<float>(TypeParam(sign * (1 + 3 * unit / 2 - tiny)));
      EXPECT_EQ(up, static_cast<float>(sign * (1 + unit)));
      EXPECT_EQ(down, static_cast<float>(sign * (1 + unit)));
    }
  }
  EXPECT_EQ(static_cast<float>(TypeParam(1e300)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(TypeParam(1e-300)), 0.0F);
}

TYPED_TEST(Half, RoundsToNearestTiesToEven) {
  const std::uint16_t infinity =
      from_bits<TypeParam>(std::is_same_v<TypeParam, bfloat16> ? 0x7f80 : 0x7c00).bits;
  for (std::uint16_t bits = 0; bits + 1 < infinity; ++bits) {
    const float low = from_bits<TypeParam>(bits);
    const float high = from_bits<TypeParam>(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    const std::uint16_t even = bits & 1 ? static_cast<std::uint16_t>(bits + 1) : bits;
    ASSERT_EQ(TypeParam(middle).bits, even) << bits;
    ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0F)).bits, bits) << bits;
    ASSERT_EQ(TypeParam(std::nextafter(middle, high)).bits, bits + 1) << bits;
  }
}

/// Everything is computed in float and rounded where it is stored.
template <class T>
void expect_narrow_is_wide_rounded(const Implementation& implementation) {
  for (const Case& one : option_cases()) {
    SCOPED_TRACE(one.name);
    Problem<float> problem = make_problem<float>(one);
    const Results<T> narrow = solve(stored_as<T>(problem), implementation.backend);
    const Results<float> wide = solve(problem, implementation.backend);
    narrow.for_each_with(wide, [](const char* name, const auto& actual, const auto& expected) {
      using Element = typename std::remove_cvref_t<decltype(actual)>::Element;
      EXPECT_TRUE(same_bits(convert<float>(actual), convert<float>(convert<Element>(expected))))
          << name;
    });
  }
}

class HalfKernels : public ImplementationTest {};

TEST_P(HalfKernels, BFloat16IsFloatRoundedOnce) {
  expect_narrow_is_wide_rounded<bfloat16>(implementation());
}

TEST_P(HalfKernels, Float16IsFloatRoundedOnce) {
  expect_narrow_is_wide_rounded<float16>(implementation());
}

INSTANTIATE_TEST_SUITE_P(All, HalfKernels, testing::ValuesIn(kernels()), test_name);

}  // namespace
}  // namespace gma::test
