// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The instruments themselves: what they must catch, they catch.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <numbers>
#include <vector>

#include "support/close.h"
#include "support/finite_differences.h"
#include "support/tensor.h"

namespace gma::test {
namespace {

TEST(Close, FailsOnNaN) {
  EXPECT_TRUE(close({1.0}, {1.0}, 0.0));
  EXPECT_FALSE(close({NAN}, {1.0}, 1.0));
  EXPECT_FALSE(close({1.0}, {NAN}, 1.0));
  EXPECT_FALSE(close({1.0}, {1.0}, NAN));
  EXPECT_TRUE(std::isnan(largest_difference({1.0, NAN, 3.0}, {1.0, 2.0, 3.0})));
}

TEST(Close, FailsOnMissingElements) { EXPECT_FALSE(close({1.0}, {1.0, 2.0}, 9.0)); }

TEST(Close, MeasuresAgainstTheScale) {
  Tensor<float, 1> expected({2}, 0.0F);
  expected(0) = 100.0F;
  Tensor<float, 1> actual = expected;
  actual(1) = 0.019F;
  EXPECT_TRUE(close(actual, expected));
  actual(1) = 0.021F;
  EXPECT_FALSE(close(actual, expected));
}

TEST(Close, SameBitsTellsSignedZerosApart) {
  EXPECT_TRUE(same_bits(Tensor<float, 1>({1}, NAN), Tensor<float, 1>({1}, NAN)));
  EXPECT_FALSE(same_bits(Tensor<float, 1>({1}, 0.0F), Tensor<float, 1>({1}, -0.0F)));
}

TEST(TensorTest, HoldsTheSameValuesInEveryLayout) {
  Random random(1);
  const Tensor<double, 4> tensor = normal<double, 4>({2, 3, 4, 5}, random);
  for (const Layout layout : kLayouts) {
    const Tensor<double, 4> copy = tensor.with_layout(layout);
    EXPECT_TRUE(same_bits(copy, tensor));
    EXPECT_EQ(copy(1, 2, 3, 4), tensor(1, 2, 3, 4));
  }
}

TEST(FiniteDifferencesTest, DifferentiatesExactlyEnough) {
  Tensor<double, 1> x({2}, 1.0);
  x(1) = std::numbers::pi;
  const Tensor<double, 1> gradient =
      finite_differences(x, [&] { return std::exp(x(0)) + std::sin(x(1)); });
  EXPECT_NEAR(gradient(0), std::numbers::e, 1e-11);
  EXPECT_NEAR(gradient(1), -1.0, 1e-11);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

TEST(Poison, FreshMemoryIsNaN) {
  const std::unique_ptr<float[]> array(new float[1000]);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_TRUE(std::isnan(array[i])) << i;
}

TEST(Poison, KeepsAlignment) {
  constexpr std::align_val_t kAlignment{256};
  void* memory = ::operator new(100, kAlignment);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
  ::operator delete(memory, kAlignment);
}

void write_to(std::ptrdiff_t offset) {
  // Volatile, so that the compiler does not see what it would rightly warn about.
  const volatile std::ptrdiff_t hidden = offset;
  auto* memory = static_cast<volatile unsigned char*>(::operator new(10));
  memory[hidden] = 1;
  ::operator delete(const_cast<unsigned char*>(memory));
}

TEST(PoisonDeathTest, DeleteFindsWritesOutside) {
  write_to(9);
  EXPECT_DEATH(write_to(10), "memory after an allocation was overwritten");
  EXPECT_DEATH(write_to(-1), "memory before an allocation was overwritten");
}

#endif

}  // namespace
}  // namespace gma::test
