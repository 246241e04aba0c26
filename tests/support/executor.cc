// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "support/executor.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "gma/parallel.h"

namespace gma::test {

#if defined(__SANITIZE_THREAD__)

Executor threads(int count) {
  const auto run = [count](std::int64_t tasks, const Executor::Body& body) {
    std::vector<std::jthread> workers;
    const std::int64_t ranges = std::min<std::int64_t>(count, tasks);
    for (std::int64_t i = 0; i < ranges; ++i) {
      workers.emplace_back(body, tasks * i / ranges, tasks * (i + 1) / ranges);
    }
  };
  return {run, count};
}

#else

Executor threads(int count) { return openmp_executor(count); }

#endif

}  // namespace gma::test
