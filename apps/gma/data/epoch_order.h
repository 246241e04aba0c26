// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// In which order training sees its data. Everything is a function of the seed and of a running
// number, so that a run can go on at any step without any saved state.
#pragma once

#include <cstdint>
#include <vector>

namespace gma::app {

/// 0 to count-1 in random order, the same for the same seed and epoch on every machine.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch);

/// Windows of `length` tokens out of a stream: each epoch shifts the grid of windows at random and
/// visits all of them in random order.
class WindowSampler {
 public:
  /// Windows of min(length, stream_size) tokens.
  WindowSampler(std::int64_t stream_size, std::int64_t length, std::uint64_t seed);

  /// First token of window number `index`, counted over all epochs. Fast for rising numbers.
  std::int64_t start(std::int64_t index);
  std::int64_t length() const { return length_; }
  std::int64_t windows_per_epoch() const { return count_; }

 private:
  std::int64_t length_;
  std::int64_t count_;
  std::int64_t slack_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::int64_t shift_ = 0;
  std::vector<std::int64_t> order_;
};

/// Batches of items of like length, so that padding costs little: each epoch shuffles the items,
/// sorts large blocks of them by length, cuts those into batches and shuffles the batches.
class BucketSampler {
 public:
  BucketSampler(std::vector<std::int64_t> lengths, std::int64_t batch_size, std::uint64_t seed);

  /// Items of batch number `index`, counted over all epochs; the last one of an epoch may be
  /// smaller.
  const std::vector<std::int64_t>& batch(std::int64_t index);
  std::int64_t batches_per_epoch() const { return count_; }

 private:
  void start_epoch(std::int64_t epoch);

  std::vector<std::int64_t> lengths_;
  std::int64_t batch_size_;
  std::int64_t count_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::vector<std::vector<std::int64_t>> batches_;
};

}  // namespace gma::app
