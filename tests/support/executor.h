// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gma/parallel.h"

namespace gma::test {

/// Several threads: OpenMP's, and std::thread's under ThreadSanitizer, which does not see how
/// libgomp synchronises.
Executor threads(int count);

}  // namespace gma::test
