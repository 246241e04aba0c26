// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The oracle of the selective scan: its equations, one scalar double after the other.
#pragma once

#include "gma/selective_scan.h"

namespace gma::reference {

/// Arguments are as for gma::selective_scan() and must be valid. `outputs.saved` is not written.
template <class T>
void selective_scan(const ScanArgs<T>& args, const ScanOutputs<T>& outputs);

/// Arguments are as for gma::selective_scan_backward() and must be valid. Does not read
/// `upstream.saved`.
template <class T>
void selective_scan_backward(const ScanArgs<T>& args, const ScanUpstream<T>& upstream,
                             const ScanGradients<T>& gradients);

}  // namespace gma::reference
