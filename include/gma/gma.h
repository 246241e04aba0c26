// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gma/attention.h"         // IWYU pragma: export
#include "gma/error.h"             // IWYU pragma: export
#include "gma/half.h"              // IWYU pragma: export
#include "gma/linear_attention.h"  // IWYU pragma: export
#include "gma/parallel.h"          // IWYU pragma: export
#include "gma/safetensors.h"       // IWYU pragma: export
#include "gma/selective_scan.h"    // IWYU pragma: export
#include "gma/theory.h"            // IWYU pragma: export
#include "gma/version.h"           // IWYU pragma: export
#include "gma/view.h"              // IWYU pragma: export
