// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The selective scan in SIMD, compiled once for every instruction set and chosen at run time.
// Arguments are as for the functions of the same name in gma/selective_scan.h, valid and with an
// executor.
#pragma once

#include "gma/selective_scan.h"

namespace gma::cpu {

template <class T>
void selective_scan(const ScanArgs<T>& args, const ScanOutputs<T>& outputs);

template <class T>
void selective_scan_backward(const ScanArgs<T>& args, const ScanUpstream<T>& upstream,
                             const ScanGradients<T>& gradients);

}  // namespace gma::cpu
