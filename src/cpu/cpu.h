// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The SIMD backend: fused kernels, compiled once for every instruction set and chosen at run time.
// Arguments are as for the functions of the same name in gma/attention.h, valid and with an
// executor.
#pragma once

#include "gma/attention.h"

namespace gma::cpu {

template <class T>
void forward(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs);

template <class T>
void backward(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
              const AttentionGradients<T>& gradients);

template <class T>
void step(const StepArgs<T>& args, const View<T, 3>& output);

/// Name of the instruction set in use.
const char* instruction_set();

}  // namespace gma::cpu
