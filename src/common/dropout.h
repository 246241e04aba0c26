// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Which responsibilities dropout keeps: a pure function of the seed and of where the responsibility
// stands, so that backward recomputes it, any thread count agrees and every backend agrees.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace gma {

enum class Side : std::uint32_t { query = 0, key = 1 };

/// Finaliser of 32-bit MurmurHash3: every input bit reaches every output bit.
constexpr std::uint32_t mix32(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85ebca6bU;
  h ^= h >> 13;
  h *= 0xc2b2ae35U;
  return h ^ (h >> 16);
}

class Dropout {
 public:
  Dropout(double p, std::uint64_t seed)
      : seed_(seed),
        threshold_(static_cast<std::uint32_t>(std::min(std::ldexp(p, 32), 4294967295.0))),
        scale_(1.0 / (1.0 - p)) {}

  bool active() const { return threshold_ != 0; }

  /// A key for all components of one token; `token` counts from the start of its sequence.
  std::uint32_t token_key(std::int64_t sequence, std::int64_t head, Side side,
                          std::int64_t token) const {
    std::uint32_t h = mix32(static_cast<std::uint32_t>(seed_) ^ 0x9e3779b9U);
    for (const std::uint64_t part :
         {seed_ >> 32, static_cast<std::uint64_t>(sequence), static_cast<std::uint64_t>(head),
          static_cast<std::uint64_t>(side), static_cast<std::uint64_t>(token),
          static_cast<std::uint64_t>(token) >> 32}) {
      h = mix32(h + static_cast<std::uint32_t>(part) * 0x9e3779b9U + 1U);
    }
    return h;
  }

  /// What the responsibility of `component` is multiplied by: 0, or 1 / (1 - p).
  double factor(std::uint32_t token_key, std::int64_t component) const {
    const std::uint32_t h =
        mix32(mix32(token_key + static_cast<std::uint32_t>(component) * 0x9e3779b9U));
    return h < threshold_ ? 0.0 : scale_;
  }

 private:
  std::uint64_t seed_;
  std::uint32_t threshold_;
  double scale_;
};

}  // namespace gma
