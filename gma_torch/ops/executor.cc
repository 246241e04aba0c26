// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "ops/executor.h"

#include <ATen/Parallel.h>

#include <cstdint>

namespace gma_torch::ops {

gma::Executor aten_executor() {
  const auto run = [](std::int64_t count, const gma::Executor::Body& body) {
    at::parallel_for(0, count, 1, body);
  };
  return {run, at::in_parallel_region() ? 1 : at::get_num_threads(), gma::kMinParallelWork};
}

}  // namespace gma_torch::ops
