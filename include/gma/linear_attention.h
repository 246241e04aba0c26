// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Linear attention from features: what Gaussian mixture attention becomes when the rows of Gamma_Q
// and Gamma_K are given instead of computed. With phi(q_i) and phi(k_j) non-negative,
//   S = sum_j phi(k_j) v_j^T,  Z = sum_j phi(k_j),  o_i = phi(q_i) S / (phi(q_i) Z + eps)
// over all keys, or over j <= i. Katharopoulos et al., "Transformers are RNNs", 2020, equations 5
// to 12; with random features, Choromanski et al., "Rethinking attention with Performers", 2021.
#pragma once

#include <cstdint>
#include <span>

#include "gma/attention.h"

namespace gma {

/// Everything the operator reads. T is float or double; A = accumulate_t<T>. Names are those of
/// AttentionArgs and mean the same; R features take the place of K components, in the state and in
/// Saved too.
///
/// Hq must be a multiple of Hk; query head h reads the state of key head h / (Hq / Hk). Features
/// are not checked to be non-negative: a normaliser that comes near -eps makes outputs large.
template <class T>
struct LinearAttentionArgs {
  using A = accumulate_t<T>;

  View<const T, 4> query;  ///< phi(q), (B, Tq, Hq, R)
  View<const T, 4> key;    ///< phi(k), (B, Tk, Hk, R)
  View<const T, 4> value;  ///< (B, Tk, Hk, Dv)

  bool is_causal = false;
  View<const bool, 2> key_padding_mask = {};
  std::span<const std::int64_t> cu_seqlens_q = {};
  std::span<const std::int64_t> cu_seqlens_k = {};
  State<const A> initial_state = {};
  double eps = 1e-6;

  Backend backend = Backend::automatic;
  Executor executor = {};
};

/// What backward writes (it overwrites, it does not add). Any of them may be absent.
template <class T>
struct LinearAttentionGradients {
  using A = accumulate_t<T>;

  View<T, 4> query = {};  ///< with respect to phi(q), as LinearAttentionArgs::query, and so on
  View<T, 4> key = {};
  View<T, 4> value = {};
  State<A> initial_state = {};
};

/// As saved_segments() of gma/attention.h.
template <class T>
std::int64_t saved_segments(const LinearAttentionArgs<T>& args);

/// Forward pass. O(N R Dv) time; memory beside the outputs does not grow with N but for segment
/// states. One token with is_causal and a state is a decoding step.
/// Throws InvalidArgument for shapes that do not fit together, a causal call with Tq != Tk, bad
/// cu_seqlens, eps < 0 or R = 0.
template <class T>
void linear_attention_forward(const LinearAttentionArgs<T>& args,
                              const AttentionOutputs<T>& outputs);

/// Gradients of everything that forward reads. `args` must be the same as for forward.
template <class T>
void linear_attention_backward(const LinearAttentionArgs<T>& args,
                               const AttentionUpstream<T>& upstream,
                               const LinearAttentionGradients<T>& gradients);

}  // namespace gma
