// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Allocation of what the operators return: one description, used by the CPU kernels and, on meta
// tensors, by torch.compile.
#pragma once

#include "ops/operators.h"

namespace gma_torch::ops {

/// Uninitialised; the state and what backward needs are undefined where they are not asked for.
ForwardResult empty_forward(const Arguments& args, bool return_state, bool save);
BackwardResult empty_backward(const Arguments& args, const std::array<bool, 7>& needs);
StepResult empty_step(const StepArguments& args);

}  // namespace gma_torch::ops
