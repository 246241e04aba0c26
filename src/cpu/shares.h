// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// How several threads share one causal sequence and head. Its segments depend on each other through
// the state alone, so that whoever is not the first must have the sums of the segments before, and
// taking them is work that one thread alone would not have. As much as possible is left out of it:
//
//   while one thread sweeps segments [0, front), to whose state nothing is missing, the others take
//   the sums of [front, back), in equal chunks; a scan joins these; then the others finish their
//   chunks, and the first sweeps [back, end).
//
// Backward counts segments from the end. Which thread takes what has no say in the bits: sums are
// of whole segments, and joined in their order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace gma::cpu {

/// Whether `jobs` sequences and heads leave two threads or more for each.
inline bool can_share(std::int64_t jobs, std::int64_t threads) {
  return jobs > 0 && threads >= 2 * jobs;
}

struct Shares {
  std::int64_t front = 0;
  std::int64_t back = 0;
  std::int64_t chunk = 0;  ///< segments of each of the others
  std::int64_t end = 0;

  /// Segments [first, last) of the others' chunk number `other`.
  std::int64_t first(std::int64_t other) const { return std::min(back, front + other * chunk); }
  std::int64_t last(std::int64_t other) const { return first(other + 1); }
};

/// Of `segments` segments for at least two threads. `sum_cost` and `finish_cost` are what the two
/// parts of a chunk's segment cost, in sweeps of one: both threads are then done at the same time.
inline Shares make_shares(std::int64_t segments, std::int64_t threads, double sum_cost,
                          double finish_cost) {
  const std::int64_t others = threads - 1;
  const double chunk =
      static_cast<double>(segments) / (static_cast<double>(others) + sum_cost + finish_cost);
  Shares shares{.end = segments};
  shares.chunk = std::max<std::int64_t>(1, std::llround(chunk));
  shares.front = std::min(segments, static_cast<std::int64_t>(std::llround(chunk * sum_cost)));
  shares.back = std::min(segments, shares.front + others * shares.chunk);
  return shares;
}

}  // namespace gma::cpu
