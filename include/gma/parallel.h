// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace gma {

/// How libgma runs independent tasks. `run(count, body)` calls `body(begin, end)` on disjoint
/// ranges that cover [0, count), on any threads and in any order, and returns when all are done; an
/// exception out of `body` reaches the caller. The default is OpenMP; a program with a thread pool
/// of its own hands that in. Results have the same bits for every executor and thread count,
/// because work is split by shape alone.
struct Executor {
  using Body = std::function<void(std::int64_t begin, std::int64_t end)>;

  std::function<void(std::int64_t count, const Body& body)> run;
  /// How many ranges may run at once. It decides only which of two bitwise equal schedules is used.
  int num_threads = 1;
  /// Calls of fewer multiply-adds than this run on the calling thread.
  std::int64_t min_work = 0;
};

/// A min_work below which waking other threads costs more than it saves.
inline constexpr std::int64_t kMinParallelWork = 1 << 19;

/// OpenMP with `num_threads` threads; 0 means omp_get_max_threads() at the time of the call.
Executor openmp_executor(int num_threads = 0);

/// Everything on the calling thread.
Executor serial_executor();

}  // namespace gma
