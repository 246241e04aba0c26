// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The error of the kernels' exp, on every instruction set of this machine.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gma/exp_test.cc"
#include <gtest/gtest.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/vector-inl.h"
#include "support/implementation.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// exp of one argument, as each lane computes it.
template <class A>
A exp_of(A x) {
  const Tag<A> d;
  return hn::GetLane(exp_nonpositive<A>(hn::Set(d, x)));
}

/// Largest error in units in the last place over every 61st float from -87 to -2^-20.
double largest_error() {
  double largest = 0;
  const auto begin = std::bit_cast<std::uint32_t>(-0x1p-20F);
  const auto end = std::bit_cast<std::uint32_t>(-87.0F);
  for (std::uint32_t bits = begin; bits <= end; bits += 61) {
    const auto x = std::bit_cast<float>(bits);
    const double expected = std::exp(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::max(std::ilogb(expected), -126) - 23);
    const double error = std::abs(static_cast<double>(exp_of(x)) - expected) / unit;
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

float exp_float(float x) { return exp_of(x); }
double exp_double(double x) { return exp_of(x); }

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::cpu {
HWY_EXPORT(largest_error);
HWY_EXPORT(exp_float);
HWY_EXPORT(exp_double);
}  // namespace gma::cpu

namespace gma::test {
namespace {

class Exp : public ImplementationTest {};

TEST_P(Exp, ErrorIsBelowTwoUnitsInTheLastPlace) {
  const double error = HWY_DYNAMIC_DISPATCH(cpu::largest_error)();
  RecordProperty("ulp", std::to_string(error));
  EXPECT_LT(error, 2);
}

TEST_P(Exp, EndsAreExact) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(cpu::exp_float)(0.0F), 1);
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(cpu::exp_float)(-1e30F), 0);
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(cpu::exp_float)(static_cast<float>(-kInfinity)), 0);
  EXPECT_TRUE(std::isnan(HWY_DYNAMIC_DISPATCH(cpu::exp_float)(static_cast<float>(kNan))));
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(cpu::exp_double)(0.0), 1);
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(cpu::exp_double)(-kInfinity), 0);
  EXPECT_TRUE(std::isnan(HWY_DYNAMIC_DISPATCH(cpu::exp_double)(kNan)));
}

INSTANTIATE_TEST_SUITE_P(All, Exp, testing::ValuesIn(kernels()), test_name);

}  // namespace
}  // namespace gma::test
#endif  // HWY_ONCE
