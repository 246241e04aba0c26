// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "gma/parallel.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace gma {

Executor serial_executor() {
  return {[](std::int64_t count, const Executor::Body& body) {
            if (count > 0) body(0, count);
          },
          1};
}

Executor openmp_executor(int num_threads) {
  if (num_threads <= 0) num_threads = omp_get_max_threads();
  const auto run = [num_threads](std::int64_t count, const Executor::Body& body) {
    const auto ranges = static_cast<int>(std::min<std::int64_t>(num_threads, count));
    if (ranges <= 1) {
      if (count > 0) body(0, count);
      return;
    }
    std::exception_ptr failure;
#pragma omp parallel for num_threads(ranges) schedule(static, 1)
    for (int i = 0; i < ranges; ++i) {
      try {
        body(count * i / ranges, count * (i + 1) / ranges);
      } catch (...) {
#pragma omp critical(gma_executor_failure)
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  };
  return {run, num_threads};
}

}  // namespace gma
