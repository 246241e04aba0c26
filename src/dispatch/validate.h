// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gma/attention.h"

namespace gma {

/// Each throws InvalidArgument for the first argument that does not fit, before anything is
/// written.
template <class T>
void validate(const AttentionArgs<T>& args);
template <class T>
void validate(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs);
template <class T>
void validate(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
              const AttentionGradients<T>& gradients);
template <class T>
void validate(const StepArgs<T>& args, const View<T, 3>& output);

}  // namespace gma
