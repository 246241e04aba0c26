// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <hwy/detect_targets.h>

#include "cpu/cpu.h"

namespace gma::cpu {

std::int64_t compiled_targets() { return HWY_TARGETS; }

}  // namespace gma::cpu
