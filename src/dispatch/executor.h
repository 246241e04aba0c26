// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gma/parallel.h"

namespace gma {

/// Copies args with an executor in place: the calling thread where there is little to do. `tokens`
/// counts queries and keys of all heads, each of which costs `token_work` multiply-adds.
template <class Args>
Args with_executor(const Args& args, std::int64_t tokens, double token_work) {
  Args complete = args;
  Executor& executor = complete.executor;
  if (!executor.run) {
    executor = openmp_executor();
    executor.min_work = kMinParallelWork;
  }
  const double work = static_cast<double>(tokens) * token_work;
  if (work < static_cast<double>(executor.min_work)) executor = serial_executor();
  return complete;
}

}  // namespace gma
