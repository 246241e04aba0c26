// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Tiles of tokens on their way between the caller's strided arrays and the kernels.

#if defined(GMA_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_TILE_INL_H_
#undef GMA_CPU_TILE_INL_H_
#else
#define GMA_CPU_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "common/plan.h"
#include "cpu/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Rows [first, first + count) of one batch entry and head of a (B, T, H, *) array.
struct TileRange {
  std::int64_t batch;
  std::int64_t first;
  std::int64_t head;
  std::int64_t count;
};

/// Has the tile that lies `step` tokens on from `range` fetched, as far as rows [begin, end) go.
template <class T>
void fetch(const View<const T, 4>& from, const TileRange& range, std::int64_t step,
           std::int64_t begin, std::int64_t end, Prefetch& prefetch) {
  const std::int64_t first = range.first + step;
  const std::int64_t count = std::min(range.count, end - first);
  if (first < begin || count <= 0) return;
  prefetch.add(from.at(range.batch, first, range.head), from.strides[1], from.strides[3], count,
               from.size(3));
}

/// Has the rows that a tile will write fetched: a store that misses the cache waits for the row.
template <class T>
void fetch_now(const View<T, 4>& to, const TileRange& range) {
  if (!to) return;
  Prefetch prefetch;
  fetch(View<const T, 4>(to), range, 0, 0, to.size(1), prefetch);
  prefetch.advance(prefetch.remaining());
}

/// `count` rounded up to whole vectors: the columns of `_t` arrays that are computed.
template <class A>
constexpr std::int64_t padded_tokens(std::int64_t count) {
  return round_up(count, kLanes<A>);
}

/// A tile of rows of `dim` elements and, for rows that go through S, the element `last` that goes
/// through Z: (v_j, 1), (n_i, s_i), (dn_i, ds_i).
template <class A>
struct RowTile {
  explicit RowTile(std::int64_t dim)
      : dim(dim),
        stride(row_stride<A>(dim)),
        rows(kTileTokens * stride),
        rows_t(round_up(dim, kLineElements<A>) * kTokenStride<A>),
        last(kTileTokens) {
    last.fill(1);
  }

  /// Tokens that are not kept become 0. `keep` may be null.
  template <class T>
  void load(const View<const T, 4>& from, const TileRange& range, const bool* keep) {
    pack_rows(from.at(range.batch, range.first, range.head), from.strides[1], from.strides[3],
              range.count, padded_tokens<A>(range.count), dim, keep, rows.data(), stride);
  }

  /// Does nothing where `to` is absent.
  template <class T>
  void store(const View<T, 4>& to, const TileRange& range) const {
    if (!to) return;
    unpack_rows(rows.data(), stride, range.count, dim, to.at(range.batch, range.first, range.head),
                to.strides[1], to.strides[3]);
  }

  void make_transpose(std::int64_t count) {
    transpose(rows.data(), stride, padded_tokens<A>(count), dim, rows_t.data(), kTokenStride<A>);
  }

  A* row(std::int64_t i) const { return rows.data() + i * stride; }
  Rows<A> view() const { return {rows.data(), stride}; }
  Rows<const A> const_view() const { return {rows.data(), stride}; }
  Left<A> left() const { return {rows.data(), stride, 1}; }
  Rows<const A> transposed() const { return {rows_t.data(), kTokenStride<A>}; }

  std::int64_t dim;
  std::int64_t stride;
  AlignedArray<A> rows;
  AlignedArray<A> rows_t;
  AlignedArray<A> last;
};

/// How the tokens of a call become weights, by the type of its arguments: what is all that tells
/// one operator from another. A specialisation names
///   Element    the type of query, key, value and output
///   Shared     what all tiles share, made from the arguments
///   Tile       a tile of tokens and their weights, as RoutedTile and FeatureTile
///   Gradients  where backward writes to
///   Sums, SumArray  sums over tokens for the gradients of parameters: a part of them, and all
template <class Args>
struct Weighting;

/// [S, Z] += weights^T [rows, last].
template <class Tile, class A>
void write_state(const Tile& tile, std::int64_t count, const RowTile<A>& rows,
                 HeadState<A>& state) {
  product<Into::add, A>(state.num_components, count, state.value_dim, tile.component_rows(),
                        rows.const_view(), {state.s.data(), state.stride});
  for (std::int64_t k = 0; k < state.num_components; ++k) {
    state.z.data()[k] +=
        dot(tile.weights_t() + k * kTokenStride<A>, rows.last.data(), padded_tokens<A>(count));
  }
}

/// [rows, last] = weights [S, Z].
template <class Tile, class A>
void read_state(const Tile& tile, std::int64_t count, const HeadState<A>& state, RowTile<A>& rows) {
  product<Into::set, A>(count, state.num_components, state.value_dim, tile.token_rows(),
                        {state.s.data(), state.stride}, rows.view());
  product<Into::set, A>(1, state.num_components, count, {state.z.data(), 0, 1}, tile.transposed(),
                        {rows.last.data(), 0});
}

/// The gradient of both has two parts, transposed: grad(k, i) = rows_i . S_k,
template <class A>
void row_gradient(const HeadState<A>& state, std::int64_t count, const RowTile<A>& rows,
                  Rows<A> grad_t) {
  product<Into::set, A>(state.num_components, rows.dim, count, {state.s.data(), state.stride, 1},
                        rows.transposed(), grad_t);
}

/// and grad(k, i) += last_i Z_k.
template <class A>
void add_sum_gradient(const HeadState<A>& state, std::int64_t count, const RowTile<A>& rows,
                      Rows<A> grad_t) {
  product<Into::add, A>(state.num_components, 1, count, {state.z.data(), 1, 0},
                        {rows.last.data(), 0}, grad_t);
}

/// Which keys of a tile take part, in `buffer`; null = all. Packed sequences have no mask.
template <class Args>
const bool* kept_keys(const Args& args, const TileRange& range, bool* buffer) {
  const View<const bool, 2>& mask = args.key_padding_mask;
  if (!mask || !args.cu_seqlens_k.empty()) return nullptr;
  for (std::int64_t i = 0; i < range.count; ++i) buffer[i] = mask(range.batch, range.first + i);
  return buffer;
}

/// to(j, i) = sum_p left(j, p) right(p, i) for i >= j, and 0 for i < j.
template <class A>
void upper_triangular_product(std::int64_t count, std::int64_t depth, Left<A> left,
                              Rows<const A> right, Rows<A> to) {
  for_column_blocks<A>(count, [&](std::int64_t i, auto vecs) HWY_ATTR {
    constexpr int kVecs = decltype(vecs)::value;
    product_columns<Into::set, kVecs, A>(std::min(count, i + kVecs * kLanes<A>), depth, left,
                                         right.at(0, i), to.at(0, i));
  });
  for (std::int64_t j = 0; j < count; ++j) std::fill_n(to.at(j, 0).data, j, A{0});
}

/// to(i, j) = sum_p left(i, p) right(p, j) for j <= i, and 0 for j > i.
template <class A>
void lower_triangular_product(std::int64_t count, std::int64_t depth, Left<A> left,
                              Rows<const A> right, Rows<A> to) {
  for_column_blocks<A>(count, [&](std::int64_t j, auto vecs) HWY_ATTR {
    product_columns<Into::set, decltype(vecs)::value, A>(count - j, depth, left.at(j, 0),
                                                         right.at(0, j), to.at(j, j));
  });
  for (std::int64_t i = 0; i < count; ++i) {
    std::fill(to.at(i, i + 1).data, to.at(i, padded_tokens<A>(count)).data, A{0});
  }
}

/// to[i] += sum over j <= i of a(j, i), for `a` out of upper_triangular_product.
template <class A>
void add_column_sums(std::int64_t count, Rows<const A> a, A* to) {
  const Tag<A> d;
  for (std::int64_t i = 0; i < count; i += kLanes<A>) {
    Vec<A> sum = hn::Load(d, to + i);
    for (std::int64_t j = 0; j < std::min(count, i + kLanes<A>); ++j) {
      sum = hn::Add(sum, hn::Load(d, a.data + j * a.stride + i));
    }
    hn::Store(sum, d, to + i);
  }
}

/// Calls task(begin, count) for the tiles of a segment, first to last.
template <class Task>
void for_tiles(const Segment& segment, std::int64_t tile_tokens, const Task& task) {
  for (std::int64_t begin = segment.begin; begin < segment.end; begin += tile_tokens) {
    task(begin, std::min(tile_tokens, segment.end - begin));
  }
}

/// 1 / (s + eps), and 0 where s + eps is 0.
template <class A>
A inverse_normalizer(A s, double eps) {
  const A denominator = s + static_cast<A>(eps);
  return denominator == 0 ? A{0} : 1 / denominator;
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
