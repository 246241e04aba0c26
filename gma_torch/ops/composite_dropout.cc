// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Dropout's counter-based generator on tensors. ATen has no uint32: numbers below 2^32 are held in
// int64, and each step keeps the low 32 bits.
#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>

#include "ops/composite.h"

namespace gma_torch::ops {
namespace {

constexpr std::int64_t kLow32 = 0xffffffff;
constexpr std::int64_t kGolden = 0x9e3779b9;

/// The finaliser of 32-bit MurmurHash3.
at::Tensor mix32(at::Tensor h) {
  h = h.bitwise_xor(at::bitwise_right_shift(h, 16));
  h = (h * 0x85ebca6b).bitwise_and(kLow32);
  h = h.bitwise_xor(at::bitwise_right_shift(h, 13));
  h = (h * 0xc2b2ae35).bitwise_and(kLow32);
  return h.bitwise_xor(at::bitwise_right_shift(h, 16));
}

/// Folds one more coordinate into the key.
at::Tensor fold(const at::Tensor& key, const at::Tensor& part) {
  return mix32((key + part.bitwise_and(kLow32) * kGolden + 1).bitwise_and(kLow32));
}

}  // namespace

at::Tensor dropout_factors(const at::Tensor& gamma, double p, const c10::SymInt& seed,
                           std::int64_t side, std::int64_t first_sequence,
                           std::int64_t first_token) {
  const at::TensorOptions integers = gamma.options().dtype(at::kLong);
  const auto count = [&](std::int64_t axis, std::int64_t first) {
    const std::int64_t extent = gamma.sym_size(axis).guard_int(__FILE__, __LINE__);
    std::vector<std::int64_t> shape(4, 1);
    shape[static_cast<std::size_t>(axis)] = extent;
    return at::arange(first, first + extent, integers).view(shape);
  };
  const std::int64_t seed_value = seed.guard_int(__FILE__, __LINE__);
  const at::Tensor token = count(1, first_token);

  at::Tensor key = mix32(at::full({1, 1, 1, 1}, (seed_value & kLow32) ^ kGolden, integers));
  for (const at::Tensor& part :
       {at::full({}, (seed_value >> 32) & kLow32, integers), count(0, first_sequence), count(2, 0),
        at::full({}, side, integers), token, at::bitwise_right_shift(token, 32)}) {
    key = fold(key, part);
  }
  const at::Tensor drawn = mix32(mix32((key + count(3, 0) * kGolden).bitwise_and(kLow32)));
  const auto threshold = static_cast<std::int64_t>(std::ldexp(p, 32));
  return drawn.ge(threshold).to(gamma.scalar_type()) / (1.0 - p);
}

}  // namespace gma_torch::ops
