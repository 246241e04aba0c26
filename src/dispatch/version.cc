// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "gma/version.h"

#include "cpu/cpu.h"

namespace gma {

const char* version() { return GMA_VERSION; }

const char* instruction_set() { return cpu::instruction_set(); }

}  // namespace gma
