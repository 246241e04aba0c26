// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Checks of what the operators' arguments have in common.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/checks.h"
#include "common/plan.h"
#include "gma/attention.h"
#include "gma/linear_attention.h"

namespace gma {

inline void validate_heads(std::int64_t query_heads, std::int64_t key_heads) {
  check(key_heads > 0 ? query_heads % key_heads == 0 : query_heads == 0,
        "query: expected its number of heads to be a multiple of key's {}, got {}", key_heads,
        query_heads);
}

inline void validate_eps(double eps) {
  check(std::isfinite(eps) && eps >= 0, "eps: expected a finite number >= 0, got {}", eps);
}

inline void validate_causal(bool is_causal, std::int64_t tokens_q, std::int64_t tokens_k) {
  check(!is_causal || tokens_q == tokens_k,
        "is_causal: expected as many queries as keys, got Tq = {} and Tk = {}: which keys a query "
        "may read is not defined otherwise",
        tokens_q, tokens_k);
}

inline void validate_boundaries(std::string_view name, std::span<const std::int64_t> boundaries,
                                std::int64_t tokens) {
  check(boundaries.front() == 0, "{}: expected to start at 0, got {}", name, boundaries.front());
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    check(boundaries[i - 1] <= boundaries[i],
          "{}: expected non-decreasing boundaries, got {} after {} at index {}", name,
          boundaries[i], boundaries[i - 1], i);
  }
  check(boundaries.back() == tokens, "{}: expected to end at T = {}, got {}", name, tokens,
        boundaries.back());
}

template <class Args>
void validate_packing(const Args& args) {
  const auto q = args.cu_seqlens_q;
  const auto k = args.cu_seqlens_k;
  check(q.empty() == k.empty(), "cu_seqlens_{}: expected together with cu_seqlens_{}, got it alone",
        q.empty() ? "k" : "q", q.empty() ? "q" : "k");
  if (q.empty()) return;
  check(args.query.size(0) == 1, "cu_seqlens_q: expected B = 1 for packed sequences, got B = {}",
        args.query.size(0));
  check(q.size() == k.size(), "cu_seqlens_k: expected {} boundaries as in cu_seqlens_q, got {}",
        q.size(), k.size());
  validate_boundaries("cu_seqlens_q", q, args.query.size(1));
  validate_boundaries("cu_seqlens_k", k, args.key.size(1));
  for (std::size_t i = 0; args.is_causal && i < q.size(); ++i) {
    check(q[i] == k[i],
          "cu_seqlens_k: expected the boundaries of cu_seqlens_q as is_causal is set, got {} "
          "against {} at index {}",
          k[i], q[i], i);
  }
}

template <class Args>
std::int64_t num_sequences(const Args& args) {
  return args.cu_seqlens_q.empty() ? args.query.size(0)
                                   : static_cast<std::int64_t>(args.cu_seqlens_q.size()) - 1;
}

/// The rows of S, and the letter of the documentation for them.
struct StateRows {
  char letter;
  std::int64_t count;
};

template <class T>
StateRows state_rows(const AttentionArgs<T>& args) {
  return {'K', args.means.size(1)};
}

template <class T>
StateRows state_rows(const LinearAttentionArgs<T>& args) {
  return {'R', args.key.size(3)};
}

/// A state has one row a sequence.
template <class Args, class A>
void validate_state(std::string_view name, const Args& args, const State<A>& state) {
  const std::int64_t rows = num_sequences(args);
  const std::int64_t heads = args.key.size(2);
  const auto [letter, weights] = state_rows(args);
  check(static_cast<bool>(state.s) || !state || state.s.numel() == 0,
        "{}: expected both S and Z, got Z alone", name);
  check(static_cast<bool>(state.z) || !state.s, "{}: expected both S and Z, got S alone", name);
  if (!state) return;
  check(state.s.shape == typename View<A, 4>::Shape{rows, heads, weights, args.value.size(3)},
        "{}: expected S of shape (sequences, Hk, {}, Dv) = ({}, {}, {}, {}), got ({})", name,
        letter, rows, heads, weights, args.value.size(3), fmt::join(state.s.shape, ", "));
  check(state.z.shape == typename View<A, 3>::Shape{rows, heads, weights},
        "{}: expected Z of shape (sequences, Hk, {}) = ({}, {}, {}), got ({})", name, letter, rows,
        heads, weights, fmt::join(state.z.shape, ", "));
}

template <class T, std::size_t Rank>
void check_contiguous(std::string_view name, const View<T, Rank>& view) {
  const auto expected = View<T, Rank>::contiguous(view.data, view.shape).strides;
  for (std::size_t axis = 0; axis < Rank && view.numel() > 0; ++axis) {
    check(view.shape[axis] == 1 || view.strides[axis] == expected[axis],
          "{}: expected contiguous strides ({}), got ({})", name, fmt::join(expected, ", "),
          fmt::join(view.strides, ", "));
  }
}

template <class Args, class A>
void validate_saved(const Args& args, const Saved<A>& saved) {
  if (!saved) return;
  const std::int64_t segments = num_saved(args);
  const std::int64_t heads = args.key.size(2);
  const auto [letter, weights] = state_rows(args);
  check_shape("saved.normalizer", saved.normalizer, "(B, Tq, Hq)",
              {args.query.size(0), args.query.size(1), args.query.size(2)});
  check_shape("saved.segment_s", saved.segment_s, fmt::format("(segments, Hk, {}, Dv)", letter),
              {segments, heads, weights, args.value.size(3)});
  check_shape("saved.segment_z", saved.segment_z, fmt::format("(segments, Hk, {})", letter),
              {segments, heads, weights});
  check_contiguous("saved.segment_s", saved.segment_s);
  check_contiguous("saved.segment_z", saved.segment_z);
}

/// A view that may be absent.
template <class T, std::size_t Rank>
void check_optional(std::string_view name, const View<T, Rank>& view, std::string_view layout,
                    const std::array<std::int64_t, Rank>& expected) {
  if (view) check_shape(name, view, layout, expected);
}

}  // namespace gma
