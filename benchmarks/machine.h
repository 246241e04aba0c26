// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace gma::benchmarks {

/// Sum of the elements, a whole number of cache lines, as fast as the machine can read them.
float sum(const std::vector<float>& data);

}  // namespace gma::benchmarks
