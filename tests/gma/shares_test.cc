// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "cpu/shares.h"

#include <gtest/gtest.h>

namespace gma::cpu {
namespace {

TEST(Shares, CoverEverySegmentOnce) {
  for (std::int64_t segments = 0; segments < 40; ++segments) {
    for (std::int64_t threads = 2; threads < 20; ++threads) {
      SCOPED_TRACE(testing::Message() << segments << " segments, " << threads << " threads");
      const Shares shares = make_shares(segments, threads, 0.6, 0.65);
      EXPECT_EQ(shares.first(0), shares.front);
      for (std::int64_t other = 0; other + 1 < threads; ++other) {
        EXPECT_LE(shares.first(other), shares.last(other));
        EXPECT_EQ(shares.last(other), shares.first(other + 1));
      }
      EXPECT_EQ(shares.last(threads - 2), shares.back);
      EXPECT_LE(shares.back, shares.end);
      EXPECT_EQ(shares.end, segments);
    }
  }
}

TEST(Shares, KeepAllThreadsBusy) {
  const Shares shares = make_shares(1000, 2, 0.45, 1.0);
  // Both parts of a chunk take as long as what the first thread sweeps meanwhile.
  EXPECT_NEAR(static_cast<double>(shares.front), 0.45 * static_cast<double>(shares.chunk), 1);
  EXPECT_NEAR(static_cast<double>(shares.end - shares.back), static_cast<double>(shares.chunk), 1);
}

}  // namespace
}  // namespace gma::cpu
