// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/epoch_order.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace gma::app {
namespace {

constexpr std::int64_t kBatchesPerBlock = 32;

std::mt19937_64 generator(std::uint64_t seed, std::uint64_t epoch) {
  std::seed_seq sequence{seed, seed >> 32, epoch, epoch >> 32};
  return std::mt19937_64(sequence);
}

/// Fisher-Yates written out, because std::shuffle may differ from one standard library to another.
/// Remainder bias is below count / 2^64.
template <class T>
void shuffle(std::vector<T>& items, std::mt19937_64& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random() % i]);
}

std::vector<std::int64_t> iota(std::int64_t count) {
  std::vector<std::int64_t> items(static_cast<std::size_t>(count));
  std::iota(items.begin(), items.end(), std::int64_t{0});
  return items;
}

}  // namespace

std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::int64_t> items = iota(count);
  std::mt19937_64 random = generator(seed, epoch);
  shuffle(items, random);
  return items;
}

WindowSampler::WindowSampler(std::int64_t stream_size, std::int64_t length, std::uint64_t seed)
    : length_(std::min(length, stream_size)),
      count_(std::max<std::int64_t>(1, stream_size / length_ - 1)),
      slack_(stream_size - count_ * length_),
      seed_(seed) {}

std::int64_t WindowSampler::start(std::int64_t index) {
  if (const std::int64_t epoch = index / count_; epoch != epoch_) {
    std::mt19937_64 random = generator(seed_, static_cast<std::uint64_t>(epoch));
    shift_ = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(slack_ + 1));
    order_ = iota(count_);
    shuffle(order_, random);
    epoch_ = epoch;
  }
  return shift_ + order_[static_cast<std::size_t>(index % count_)] * length_;
}

BucketSampler::BucketSampler(std::vector<std::int64_t> lengths, std::int64_t batch_size,
                             std::uint64_t seed)
    : lengths_(std::move(lengths)),
      batch_size_(batch_size),
      count_((static_cast<std::int64_t>(lengths_.size()) + batch_size - 1) / batch_size),
      seed_(seed) {}

const std::vector<std::int64_t>& BucketSampler::batch(std::int64_t index) {
  if (index / count_ != epoch_) start_epoch(index / count_);
  return batches_[static_cast<std::size_t>(index % count_)];
}

void BucketSampler::start_epoch(std::int64_t epoch) {
  std::mt19937_64 random = generator(seed_, static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> order = iota(static_cast<std::int64_t>(lengths_.size()));
  shuffle(order, random);

  batches_.clear();
  const auto end_of = [&](auto from, std::int64_t count) {
    return from + std::min<std::ptrdiff_t>(order.end() - from, count);
  };
  for (auto block = order.begin(); block != order.end();) {
    const auto block_end = end_of(block, kBatchesPerBlock * batch_size_);
    std::stable_sort(block, block_end, [&](std::int64_t a, std::int64_t b) {
      return lengths_[static_cast<std::size_t>(a)] < lengths_[static_cast<std::size_t>(b)];
    });
    while (block != block_end) {
      const auto batch_end = std::min(end_of(block, batch_size_), block_end);
      batches_.emplace_back(block, batch_end);
      block = batch_end;
    }
  }
  shuffle(batches_, random);
  epoch_ = epoch;
}

}  // namespace gma::app
