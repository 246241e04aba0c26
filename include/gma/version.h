// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gma {

/// Semantic version of the library, "0.1.0".
const char* version();

/// Name of the instruction set that the `cpu` backend uses on this machine, as Highway calls it
/// ("AVX2", "AVX3", "NEON", ...).
const char* instruction_set();

}  // namespace gma
