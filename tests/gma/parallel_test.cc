// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "gma/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "gma/version.h"
#include "support/executor.h"

namespace gma::test {
namespace {

std::vector<Executor> executors() { return {serial_executor(), threads(1), threads(3)}; }

TEST(ExecutorTest, RunsEveryTaskOnce) {
  for (const Executor& executor : executors()) {
    for (const std::int64_t count : {0, 1, 2, 3, 100}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
      executor.run(count, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++calls.at(static_cast<std::size_t>(i));
      });
      for (const std::atomic<int>& called : calls) EXPECT_EQ(called, 1);
    }
  }
}

TEST(ExecutorTest, HandsOnExceptions) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not see how libgomp synchronises";
#endif
  for (const Executor& executor : {serial_executor(), openmp_executor(1), openmp_executor(3)}) {
    EXPECT_THROW(executor.run(10, [](std::int64_t,
                                     std::int64_t) { throw std::runtime_error("out of a task"); }),
                 std::runtime_error);
  }
}

TEST(ExecutorTest, KnowsItsThreads) {
  EXPECT_EQ(serial_executor().num_threads, 1);
  EXPECT_EQ(openmp_executor(3).num_threads, 3);
  EXPECT_GE(openmp_executor().num_threads, 1);
}

TEST(Version, IsSemantic) {
  int major = -1;
  int minor = -1;
  int patch = -1;
  EXPECT_EQ(std::sscanf(version(), "%d.%d.%d", &major, &minor, &patch), 3) << version();
  EXPECT_FALSE(std::string(instruction_set()).empty());
}

}  // namespace
}  // namespace gma::test
