// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The error of the kernels' exponentials, on every instruction set of this machine.
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

#include "cpu/scan-inl.h"
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

/// 2^x of one argument, as each lane computes it.
float decay_of(float x) {
  const Tag<float> d;
  return hn::GetLane(decay<float>(hn::Set(d, x)));
}

/// Largest error in units in the last place over every 61st float from -2^-20 to `least`.
template <class Approximate, class Exact>
double largest_error(float least, Approximate approximate, Exact exact) {
  double largest = 0;
  const auto begin = std::bit_cast<std::uint32_t>(-0x1p-20F);
  const auto end = std::bit_cast<std::uint32_t>(least);
  for (std::uint32_t bits = begin; bits <= end; bits += 61) {
    const auto x = std::bit_cast<float>(bits);
    const double expected = exact(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::max(std::ilogb(expected), -126) - 23);
    const double error = std::abs(static_cast<double>(approximate(x)) - expected) / unit;
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

double largest_error_of_exp() {
  return largest_error(-87.0F, exp_of<float>, [](double x) { return std::exp(x); });
}
double largest_error_of_decay() {
  return largest_error(-126.0F, decay_of, [](double x) { return std::exp2(x); });
}

float exp_float(float x) { return exp_of(x); }
double exp_double(double x) { return exp_of(x); }

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::cpu {
HWY_EXPORT(largest_error_of_exp);
HWY_EXPORT(largest_error_of_decay);
HWY_EXPORT(decay_of);
HWY_EXPORT(exp_float);
HWY_EXPORT(exp_double);
}  // namespace gma::cpu

namespace gma::test {
namespace {

class Exp : public ImplementationTest {};

TEST_P(Exp, ErrorIsOfAFewUnitsInTheLastPlace) {
  const double of_exp = HWY_DYNAMIC_DISPATCH(cpu::largest_error_of_exp)();
  const double of_decay = HWY_DYNAMIC_DISPATCH(cpu::largest_error_of_decay)();
  RecordProperty("exp_ulp", std::to_string(of_exp));
  RecordProperty("decay_ulp", std::to_string(of_decay));
  EXPECT_LT(of_exp, 2);
  EXPECT_LT(of_decay, 2.5);
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
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(cpu::decay_of)(0.0F), 1);
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(cpu::decay_of)(-1e30F), 0x1p-126F);
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(cpu::decay_of)(static_cast<float>(-kInfinity)), 0x1p-126F);
  EXPECT_TRUE(std::isnan(HWY_DYNAMIC_DISPATCH(cpu::decay_of)(static_cast<float>(kNan))));
}

INSTANTIATE_TEST_SUITE_P(All, Exp, testing::ValuesIn(kernels()), test_name);

}  // namespace
}  // namespace gma::test
#endif  // HWY_ONCE
