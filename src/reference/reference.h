// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The oracle: the equations of docs/math.md in their order, one scalar double after the other. It
// stores what it likes, O(N K), and recomputes everything in backward. Every other implementation
// is measured against it.
#pragma once

#include "gma/attention.h"
#include "gma/linear_attention.h"

namespace gma::reference {

/// Arguments are as for gma::forward() and must be valid. Of `outputs.saved` only the normaliser is
/// written.
template <class T>
void forward(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs);

/// Arguments are as for gma::backward() and must be valid. Does not read `upstream.saved`.
template <class T>
void backward(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
              const AttentionGradients<T>& gradients);

/// Arguments are as for gma::step() and must be valid.
template <class T>
void step(const StepArgs<T>& args, const View<T, 3>& output);

/// Arguments are as for the functions of the same name in gma/linear_attention.h, and the notes
/// above hold.
template <class T>
void linear_attention_forward(const LinearAttentionArgs<T>& args,
                              const AttentionOutputs<T>& outputs);
template <class T>
void linear_attention_backward(const LinearAttentionArgs<T>& args,
                               const AttentionUpstream<T>& upstream,
                               const LinearAttentionGradients<T>& gradients);

}  // namespace gma::reference
