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

#include <cstdint>

#include "common/plan.h"
#include "cpu/expanded-inl.h"
#include "cpu/routing-inl.h"

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

/// A tile of routing vectors and their responsibilities, gamma_t (K, tokens).
template <class A>
class RoutedTile {
 public:
  RoutedTile(const Extents& extents, const Dropout& dropout)
      : dropout_(dropout),
        x_(extents.dim),
        expanded_(extents.dim, extents.num_components, extents.has_shared_variances),
        kept_(kTileTokens),
        gamma_t_(extents.num_components * kTokenStride<A>),
        dropped_t_(dropout.active() ? gamma_t_.size() : 0) {}

  /// Reads x and computes its responsibilities; tokens that are not kept have none. Meanwhile has
  /// what `prefetch` holds fetched.
  template <class T>
  void route(const HeadMixture<A>& mixture, const View<const T, 4>& x, const TileRange& range,
             const bool* keep, const TileOrigin& origin, Prefetch prefetch) {
    load(mixture, x, range, keep);
    compute_logits(mixture, range.count, prefetch);
    prefetch.advance(prefetch.remaining());
    softmax(mixture.num_components, tokens_, kept_.data(), gamma_t_.data());
    apply_dropout(mixture, origin);
  }

  /// Copies the responsibilities of a causal tile out, to come back to them with recall().
  void save(std::int64_t num_components, A* to) const {
    for (std::int64_t k = 0; k < num_components; ++k) {
      std::copy_n(gamma_t_.data() + k * kTokenStride<A>, tokens_, to + k * kCausalTileTokens);
    }
  }

  /// As route() before save(), which left `saved`.
  template <class T>
  void recall(const HeadMixture<A>& mixture, const View<const T, 4>& x, const TileRange& range,
              const bool* keep, const TileOrigin& origin, const A* saved, Prefetch prefetch) {
    load(mixture, x, range, keep);
    prefetch.advance(prefetch.remaining());
    for (std::int64_t k = 0; k < mixture.num_components; ++k) {
      std::copy_n(saved + k * kCausalTileTokens, tokens_, gamma_t_.data() + k * kTokenStride<A>);
    }
    apply_dropout(mixture, origin);
  }

  /// Gamma after dropout.
  const A* weights_t() const { return dropout_.active() ? dropped_t_.data() : gamma_t_.data(); }
  /// As left factors: a row a token, or a row a component.
  Left<A> token_rows() const { return {weights_t(), 1, kTokenStride<A>}; }
  Left<A> component_rows() const { return {weights_t(), kTokenStride<A>, 1}; }
  Rows<const A> transposed() const { return {weights_t(), kTokenStride<A>}; }

  /// From the gradient of the weights, (K, tokens), which it overwrites: sets dx, adds to the
  /// moments.
  void backward(const HeadMixture<A>& mixture, std::int64_t count, A* grad_t,
                const Moments<A>& moments, RowTile<A>& dx) const {
    softmax_backward(mixture.num_components, tokens_, kept_.data(), gamma_t_.data(), weights_t(),
                     grad_t, moments.zeroth);
    const A* direct_t = grad_t;
    if (num_direct_ > 0 && num_direct_ < count) {
      expanded_.split(mixture.num_components, tokens_, grad_t);
      direct_t = expanded_.direct_t();
    }
    if (num_direct_ > 0) {
      density_backward(mixture, count, direct_t, x_.const_view(), moments, dx.view());
    }
    if (num_direct_ < count) {
      expanded_.backward(mixture, count, grad_t, moments.expanded, dx.view());
    }
  }

 private:
  /// x, and which of its tokens take part, and how.
  template <class T>
  void load(const HeadMixture<A>& mixture, const View<const T, 4>& x, const TileRange& range,
            const bool* keep) {
    x_.load(x, range, keep);
    tokens_ = padded_tokens<A>(range.count);
    for (std::int64_t i = 0; i < tokens_; ++i) {
      kept_.data()[i] = i < range.count && (keep == nullptr || keep[i]) ? A{1} : A{0};
    }
    num_direct_ = range.count;
    if (mixture.expanded) {
      expanded_.load(mixture, x_.const_view(), range.count, tokens_);
      num_direct_ = expanded_.num_far();
    }
  }

  void apply_dropout(const HeadMixture<A>& mixture, const TileOrigin& origin) {
    if (!dropout_.active()) return;
    drop(dropout_, origin, mixture.num_components, tokens_, gamma_t_.data(), dropped_t_.data());
  }

  void compute_logits(const HeadMixture<A>& mixture, std::int64_t count, Prefetch& prefetch) {
    if (num_direct_ < count) expanded_.logits(mixture, tokens_, gamma_t_.data());
    if (num_direct_ == 0) return;
    A* direct_t = num_direct_ < count ? expanded_.direct_t() : gamma_t_.data();
    x_.make_transpose(count);
    logits(mixture, x_.rows_t.data(), tokens_, direct_t, prefetch);
    if (num_direct_ < count) {
      expanded_.take_far(mixture.num_components, count, gamma_t_.data());
    }
  }

  const Dropout& dropout_;
  RowTile<A> x_;
  ExpandedTile<A> expanded_;
  AlignedArray<A> kept_;  ///< 1 where a token takes part, otherwise 0
  AlignedArray<A> gamma_t_;
  AlignedArray<A> dropped_t_;
  std::int64_t tokens_ = 0;
  std::int64_t num_direct_ = 0;  ///< tokens that take the direct distance
};

/// [S, Z] += weights^T [rows, last].
template <class A>
void write_state(const RoutedTile<A>& tile, std::int64_t count, const RowTile<A>& rows,
                 HeadState<A>& state) {
  product<Into::add, A>(state.num_components, count, state.value_dim, tile.component_rows(),
                        rows.const_view(), {state.s.data(), state.stride});
  for (std::int64_t k = 0; k < state.num_components; ++k) {
    state.z.data()[k] +=
        dot(tile.weights_t() + k * kTokenStride<A>, rows.last.data(), padded_tokens<A>(count));
  }
}

/// [rows, last] = weights [S, Z].
template <class A>
void read_state(const RoutedTile<A>& tile, std::int64_t count, const HeadState<A>& state,
                RowTile<A>& rows) {
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
template <class T>
const bool* kept_keys(const AttentionArgs<T>& args, const TileRange& range, bool* buffer) {
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
