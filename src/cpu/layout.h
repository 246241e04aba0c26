// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Sizes and workspace of the kernels. Nothing here depends on the instruction set.
//
// A tile is a run of at most kTileTokens tokens. Token-major arrays hold a row a token; those whose
// name ends in `_t` are transposed, a row a component or channel, so that vectors run over tokens.
// Rows are padded to whole vectors and to an odd number of cache lines: neighbouring rows then fall
// into different cache sets.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/aligned_array.h"
#include "common/covariance.h"
#include "common/dropout.h"
#include "gma/attention.h"
#include "gma/linear_attention.h"

namespace gma::cpu {

/// Tokens a tile of the bidirectional passes: enough to amortise reading the mixture.
inline constexpr std::int64_t kTileTokens = 64;
/// Tokens a tile of the causal passes: the masked product inside a tile costs tile x (K + Dv) / 2
/// multiplications a token, so it is kept shorter.
inline constexpr std::int64_t kCausalTileTokens = 32;

template <class A>
inline constexpr std::int64_t kLineElements = 64 / static_cast<std::int64_t>(sizeof(A));

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Row length for `count` elements; any vector is at most a cache line.
template <class A>
constexpr std::int64_t row_stride(std::int64_t count) {
  const std::int64_t lines = round_up(count, kLineElements<A>) / kLineElements<A>;
  return (lines | 1) * kLineElements<A>;
}

/// Row length of `_t` arrays.
template <class A>
inline constexpr std::int64_t kTokenStride = row_stride<A>(kTileTokens);

/// Extents of a call, by the letters of the documentation.
struct Extents {
  std::int64_t num_heads = 0;       ///< Hk
  std::int64_t group = 0;           ///< Hq / Hk
  std::int64_t num_components = 0;  ///< K
  std::int64_t dim = 0;             ///< D
  std::int64_t value_dim = 0;       ///< Dv
  bool has_shared_variances = false;

  template <class T>
  explicit Extents(const AttentionArgs<T>& args)
      : num_heads(args.key.size(2)),
        group(num_heads > 0 ? args.query.size(2) / num_heads : 0),
        num_components(args.means.size(1)),
        dim(args.query.size(3)),
        value_dim(args.value.size(3)),
        has_shared_variances(covariance_type(args.variances, num_components, dim) !=
                             CovarianceType::diag) {}

  /// Features take the place of components, and of channels.
  template <class T>
  explicit Extents(const LinearAttentionArgs<T>& args)
      : num_heads(args.key.size(2)),
        group(num_heads > 0 ? args.query.size(2) / num_heads : 0),
        num_components(args.key.size(3)),
        dim(args.key.size(3)),
        value_dim(args.value.size(3)) {}
};

/// What a tile's tokens are, for dropout.
struct TileOrigin {
  std::int64_t sequence;
  std::int64_t head;
  Side side;
  std::int64_t first_token;  ///< from the start of the sequence
};

/// S and Z of one head in padded rows.
template <class A>
struct HeadState {
  explicit HeadState(const Extents& extents)
      : num_components(extents.num_components),
        value_dim(extents.value_dim),
        stride(row_stride<A>(value_dim)),
        s(num_components * stride),
        z(num_components) {
    clear();
  }

  void clear() {
    s.fill(0);
    z.fill(0);
  }

  /// From and to compact rows, (K, Dv) and (K).
  void load(const A* compact_s, const A* compact_z) {
    for (std::int64_t k = 0; k < num_components; ++k) {
      std::copy_n(compact_s + k * value_dim, value_dim, s.data() + k * stride);
    }
    std::copy_n(compact_z, num_components, z.data());
  }
  void store(A* compact_s, A* compact_z) const {
    for (std::int64_t k = 0; k < num_components; ++k) {
      std::copy_n(s.data() + k * stride, value_dim, compact_s + k * value_dim);
    }
    std::copy_n(z.data(), num_components, compact_z);
  }

  /// Becomes a + b.
  void set_sum(const HeadState& a, const HeadState& b) {
    const A* as = a.s.data();
    const A* bs = b.s.data();
    for (std::int64_t i = 0; i < s.size(); ++i) s.data()[i] = as[i] + bs[i];
    for (std::int64_t k = 0; k < num_components; ++k) z.data()[k] = a.z.data()[k] + b.z.data()[k];
  }

  std::int64_t num_components;
  std::int64_t value_dim;
  std::int64_t stride;
  AlignedArray<A> s;
  AlignedArray<A> z;
};

/// Compact states, (count, Hk, K, Dv) and (count, Hk, K): one a segment or a sequence.
template <class A>
class StateArray {
 public:
  StateArray(std::int64_t count, const Extents& extents) : StateArray(extents) {
    owned_s_ = AlignedArray<A>(count * extents.num_heads * s_size_);
    owned_z_ = AlignedArray<A>(count * extents.num_heads * z_size_);
    s_ = owned_s_.data();
    z_ = owned_z_.data();
  }
  StateArray(A* s, A* z, const Extents& extents) : StateArray(extents) {
    s_ = s;
    z_ = z;
  }

  A* s(std::int64_t index, std::int64_t head) const {
    return s_ + (index * num_heads_ + head) * s_size_;
  }
  A* z(std::int64_t index, std::int64_t head) const {
    return z_ + (index * num_heads_ + head) * z_size_;
  }

 private:
  explicit StateArray(const Extents& extents)
      : num_heads_(extents.num_heads),
        s_size_(extents.num_components * extents.value_dim),
        z_size_(extents.num_components) {}

  std::int64_t num_heads_;
  std::int64_t s_size_;
  std::int64_t z_size_;
  AlignedArray<A> owned_s_;
  AlignedArray<A> owned_z_;
  A* s_ = nullptr;
  A* z_ = nullptr;
};

/// A state that runs over segments. Held in double, so that a million tokens lose no accuracy.
template <class A>
class RunningState {
 public:
  explicit RunningState(const Extents& extents)
      : value_dim_(extents.value_dim),
        s_(extents.num_components * extents.value_dim),
        z_(extents.num_components) {}

  /// Zero where `state` is absent.
  void load(const State<const A>& state, std::int64_t row, std::int64_t head) {
    s_.fill(0);
    z_.fill(0);
    if (!state) return;
    for (std::int64_t k = 0; k < z_.size(); ++k) {
      const A* from = state.s.at(row, head, k);
      for (std::int64_t e = 0; e < value_dim_; ++e) {
        s_.data()[k * value_dim_ + e] = from[e * state.s.strides[3]];
      }
      z_.data()[k] = state.z(row, head, k);
    }
  }

  void store(const State<A>& state, std::int64_t row, std::int64_t head) const {
    if (!state) return;
    for (std::int64_t k = 0; k < z_.size(); ++k) {
      A* to = state.s.at(row, head, k);
      for (std::int64_t e = 0; e < value_dim_; ++e) {
        to[e * state.s.strides[3]] = static_cast<A>(s_.data()[k * value_dim_ + e]);
      }
      state.z(row, head, k) = static_cast<A>(z_.data()[k]);
    }
  }

  void add(const A* s, const A* z) {
    for (std::int64_t i = 0; i < s_.size(); ++i) s_.data()[i] += static_cast<double>(s[i]);
    for (std::int64_t k = 0; k < z_.size(); ++k) z_.data()[k] += static_cast<double>(z[k]);
  }

  /// add(), from padded rows.
  void add(const HeadState<A>& state) {
    for (std::int64_t k = 0; k < z_.size(); ++k) {
      const A* row = state.s.data() + k * state.stride;
      for (std::int64_t e = 0; e < value_dim_; ++e) {
        s_.data()[k * value_dim_ + e] += static_cast<double>(row[e]);
      }
      z_.data()[k] += static_cast<double>(state.z.data()[k]);
    }
  }

  /// Adds (s, z) and leaves there the state before: one step of an exclusive scan.
  void exchange(A* s, A* z) {
    const auto step = [](AlignedArray<double>& sum, A* term) {
      for (std::int64_t i = 0; i < sum.size(); ++i) {
        const double before = sum.data()[i];
        sum.data()[i] += static_cast<double>(term[i]);
        term[i] = static_cast<A>(before);
      }
    };
    step(s_, s);
    step(z_, z);
  }

  void store(A* s, A* z) const {
    for (std::int64_t i = 0; i < s_.size(); ++i) s[i] = static_cast<A>(s_.data()[i]);
    for (std::int64_t k = 0; k < z_.size(); ++k) z[k] = static_cast<A>(z_.data()[k]);
  }

 private:
  std::int64_t value_dim_;
  AlignedArray<double> s_;
  AlignedArray<double> z_;
};

/// Calls task(state, sequence, head) for every sequence and head, with a RunningState as workspace.
template <class A, class Task>
void for_states(std::int64_t num_sequences, const Extents& extents, const Executor& executor,
                const Task& task) {
  executor.run(extents.num_heads * num_sequences, [&](std::int64_t begin, std::int64_t end) {
    RunningState<A> state(extents);
    for (std::int64_t i = begin; i < end; ++i)
      task(state, i / extents.num_heads, i % extents.num_heads);
  });
}

/// Cuts a range of (index, head) pairs, heads fastest, into the ranges of heads of each index:
/// calls task(index, first head, last head), the last one exclusive.
template <class Task>
void for_head_ranges(std::int64_t begin, std::int64_t end, std::int64_t num_heads,
                     const Task& task) {
  while (begin < end) {
    const std::int64_t first = begin % num_heads;
    const std::int64_t last = std::min(num_heads, first + end - begin);
    task(begin / num_heads, first, last);
    begin += last - first;
  }
}

}  // namespace gma::cpu
