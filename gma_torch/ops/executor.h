// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gma/parallel.h"

namespace gma_torch::ops {

/// ATen's thread pool: torch.set_num_threads() holds for libgma too.
gma::Executor aten_executor();

}  // namespace gma_torch::ops
