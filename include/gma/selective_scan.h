// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The selective scan: the recurrence of Gu and Dao, "Mamba: Linear-Time Sequence Modeling with
// Selective State Spaces" (2023), there called S6, and its gradient. With exp(delta A) as in their
// equation 4 and delta B in its first-order form, as their implementation has it, channel e and
// state s of one sequence follow
//   h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t,    y_t = sum_s C_t h_t + D u_t.
#pragma once

#include <cstdint>

#include "gma/attention.h"
#include "gma/parallel.h"
#include "gma/view.h"

namespace gma {

/// Everything the scan reads: B sequences of T tokens, E channels with S states each. T is float or
/// double; every view may have any strides.
template <class T>
struct ScanArgs {
  View<const T, 3> u;      ///< (B, T, E)
  View<const T, 3> delta;  ///< step sizes >= 0, already through bias and softplus, (B, T, E)
  View<const T, 2> a;      ///< A <= 0, (E, S)
  View<const T, 3> b;      ///< (B, T, S)
  View<const T, 3> c;      ///< (B, T, S)
  View<const T, 1> d;      ///< (E)
  /// h before the first token, (B, E, S); absent means zero.
  View<const T, 3> initial_state = {};

  Backend backend = Backend::automatic;
  /// Absent (`run` empty) means openmp_executor().
  Executor executor = {};
};

/// Tokens between two states that forward keeps for backward.
inline constexpr std::int64_t kScanSegmentTokens = 64;

/// How many states a sequence of `tokens` leaves for backward: one a segment.
constexpr std::int64_t scan_segments(std::int64_t tokens) {
  return (tokens + kScanSegmentTokens - 1) / kScanSegmentTokens;
}

/// What the scan writes. Outputs must not overlap inputs or each other.
template <class T>
struct ScanOutputs {
  View<T, 3> y;                 ///< (B, T, E)
  View<T, 3> final_state = {};  ///< h after the last token, (B, E, S); optional
  /// h before each segment, (B, scan_segments(T), S, E); optional, needed for backward.
  View<T, 4> saved = {};
};

/// What backward is given beside ScanArgs.
template <class T>
struct ScanUpstream {
  View<const T, 4> saved;                  ///< as forward wrote it
  View<const T, 3> grad_y;                 ///< (B, T, E)
  View<const T, 3> grad_final_state = {};  ///< (B, E, S); optional, absent means zero
};

/// What backward writes (it overwrites, it does not add), each as its namesake in ScanArgs. Any of
/// them may be absent.
template <class T>
struct ScanGradients {
  View<T, 3> u = {};
  View<T, 3> delta = {};
  View<T, 2> a = {};
  View<T, 3> b = {};
  View<T, 3> c = {};
  View<T, 1> d = {};
  View<T, 3> initial_state = {};
};

/// Forward pass. O(B T E S) time, and memory beside the outputs that does not grow with T. A state
/// of a token with delta = 0 is that of the token before. Results have the same bits for every
/// executor. Values are not searched for NaN, infinity or a sign; delta A above 0 is outside the
/// contract.
/// Throws InvalidArgument for shapes that do not fit together and for S = 0.
template <class T>
void selective_scan(const ScanArgs<T>& args, const ScanOutputs<T>& outputs);

/// Gradients of everything that the scan reads; `args` must be the same as for forward. States are
/// computed again from those saved, a segment at a time.
template <class T>
void selective_scan_backward(const ScanArgs<T>& args, const ScanUpstream<T>& upstream,
                             const ScanGradients<T>& gradients);

}  // namespace gma
