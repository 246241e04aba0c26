// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The SIMD backend: fused kernels, compiled once for every instruction set and chosen at run time.
// Arguments are as for the functions of the same name in gma/attention.h and
// gma/linear_attention.h, valid and with an executor.
#pragma once

#include <cstdint>

#include "gma/attention.h"
#include "gma/linear_attention.h"

namespace gma::cpu {

template <class T>
void forward(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs);

template <class T>
void backward(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
              const AttentionGradients<T>& gradients);

template <class T>
void step(const StepArgs<T>& args, const View<T, 3>& output);

template <class T>
void linear_attention_forward(const LinearAttentionArgs<T>& args,
                              const AttentionOutputs<T>& outputs);

template <class T>
void linear_attention_backward(const LinearAttentionArgs<T>& args,
                               const AttentionUpstream<T>& upstream,
                               const LinearAttentionGradients<T>& gradients);

/// Name of the instruction set in use.
const char* instruction_set();

/// Highway's bits of the instruction sets that the kernels are compiled for. Code that includes
/// Highway with other compiler options would be told of others.
std::int64_t compiled_targets();

}  // namespace gma::cpu
