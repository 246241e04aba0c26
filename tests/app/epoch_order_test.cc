// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/epoch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace gma::app {
namespace {

TEST(EpochOrder, ShufflesAreReproducible) {
  const std::vector<std::int64_t> order = shuffled(1000, 3, 0);
  EXPECT_EQ(order, shuffled(1000, 3, 0));
  EXPECT_NE(order, shuffled(1000, 3, 1));
  EXPECT_NE(order, shuffled(1000, 4, 0));
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 1000U);
}

TEST(WindowSampler, VisitsEachWindowOncePerEpoch) {
  WindowSampler sampler(1003, 10, 5);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> starts;
    for (std::int64_t i = 0; i < sampler.windows_per_epoch(); ++i) {
      const std::int64_t start = sampler.start(epoch * sampler.windows_per_epoch() + i);
      EXPECT_GE(start, 0);
      EXPECT_LE(start + sampler.length(), 1003);
      EXPECT_TRUE(starts.insert(start / 10).second) << "windows overlap";
    }
    EXPECT_EQ(*starts.rbegin() - *starts.begin() + 1, sampler.windows_per_epoch());
  }
}

TEST(WindowSampler, TakesUpAnywhere) {
  WindowSampler from_start(5000, 16, 9);
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < 1000; ++i) starts.push_back(from_start.start(i));
  for (const std::int64_t index : {0, 310, 311, 999}) {
    EXPECT_EQ(WindowSampler(5000, 16, 9).start(index), starts[static_cast<std::size_t>(index)]);
  }
  EXPECT_GT(std::set<std::int64_t>(starts.begin(), starts.end()).size(), 600U)
      << "epochs shift the grid";
}

TEST(WindowSampler, AShortStreamIsOneWindow) {
  WindowSampler sampler(7, 10, 1);
  EXPECT_EQ(sampler.length(), 7);
  EXPECT_EQ(sampler.start(0), 0);
  EXPECT_EQ(sampler.start(12), 0);
}

TEST(BucketSampler, VisitsEachItemOncePerEpochWithLittlePadding) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 997; ++i) lengths.push_back(1 + i * 7919 % 500);
  BucketSampler sampler(lengths, 8, 2);
  EXPECT_EQ(sampler.batches_per_epoch(), 125);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    std::set<std::int64_t> seen;
    std::int64_t padded = 0;
    for (std::int64_t i = 0; i < 125; ++i) {
      const std::vector<std::int64_t> batch = sampler.batch(epoch * 125 + i);
      std::int64_t longest = 0;
      for (const std::int64_t item : batch) {
        EXPECT_TRUE(seen.insert(item).second);
        longest = std::max(longest, lengths[static_cast<std::size_t>(item)]);
      }
      padded += longest * static_cast<std::int64_t>(batch.size());
    }
    EXPECT_EQ(seen.size(), 997U);
    const std::int64_t real = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    EXPECT_LT(static_cast<double>(padded), 1.1 * static_cast<double>(real));
  }
}

TEST(BucketSampler, TakesUpAnywhere) {
  const std::vector<std::int64_t> lengths(100, 5);
  BucketSampler from_start(lengths, 8, 2);
  std::vector<std::vector<std::int64_t>> batches;
  for (std::int64_t i = 0; i < 40; ++i) batches.push_back(from_start.batch(i));
  EXPECT_EQ(BucketSampler(lengths, 8, 2).batch(29), batches[29]);
  EXPECT_NE(batches[0], batches[13]) << "epochs differ";
}

}  // namespace
}  // namespace gma::app
