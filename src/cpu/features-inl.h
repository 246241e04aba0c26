// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Linear attention's weights: features as the caller gives them.

#if defined(GMA_CPU_FEATURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_FEATURES_INL_H_
#undef GMA_CPU_FEATURES_INL_H_
#else
#define GMA_CPU_FEATURES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "common/dropout.h"
#include "cpu/tile-inl.h"
#include "gma/linear_attention.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Features have no parameters: nothing is shared, nothing is summed for a gradient.
struct NoParameters {
  template <class T>
  explicit NoParameters(const LinearAttentionArgs<T>& /*args*/) {}
};

struct NoSums {};

struct NoSumArray {
  NoSumArray(std::int64_t /*batches*/, const Extents& /*extents*/, bool /*is_causal*/) {}

  NoSums at(std::int64_t /*batch*/, Side /*side*/, std::int64_t /*head*/) const { return {}; }

  template <class T>
  void store(const LinearAttentionArgs<T>& /*args*/, const NoParameters& /*shared*/,
             const LinearAttentionGradients<T>& /*gradients*/) const {}
};

/// A tile of features in both orders: rows of tokens and, for vectors over tokens, transposed.
template <class A>
class FeatureTile {
 public:
  FeatureTile(const Extents& extents, const NoParameters& /*shared*/) : x_(extents.dim) {}

  /// Reads the features x; those of tokens that are not kept become 0. Meanwhile has what
  /// `prefetch` holds fetched.
  template <class T>
  void route(std::int64_t /*h*/, const View<const T, 4>& x, const TileRange& range,
             const bool* keep, const TileOrigin& /*origin*/, Prefetch prefetch) {
    x_.load(x, range, keep);
    x_.make_transpose(range.count);
    prefetch.advance(prefetch.remaining());
    std::fill_n(kept_, range.count, true);
    if (keep != nullptr) std::copy_n(keep, range.count, kept_);
  }

  /// Nothing is saved: to read the features again costs what a copy of them would.
  static std::int64_t saved_size(const Extents& /*extents*/) { return 0; }
  void save(std::int64_t /*num_components*/, A* /*to*/) const {}
  template <class T>
  void recall(std::int64_t h, const View<const T, 4>& x, const TileRange& range, const bool* keep,
              const TileOrigin& origin, const A* /*saved*/, Prefetch prefetch) {
    route(h, x, range, keep, origin, prefetch);
  }

  const A* weights_t() const { return x_.rows_t.data(); }
  /// As left factors: a row a token, or a row a feature.
  Left<A> token_rows() const { return x_.left(); }
  Left<A> component_rows() const { return {weights_t(), kTokenStride<A>, 1}; }
  Rows<const A> transposed() const { return x_.transposed(); }

  /// Sets dx from the gradient of the features, (R, tokens): the same transposed, and 0 by
  /// selection for tokens that are not kept.
  void backward(std::int64_t /*h*/, std::int64_t count, const A* grad_t, const NoSums& /*sums*/,
                RowTile<A>& dx) const {
    transpose(grad_t, kTokenStride<A>, dx.dim, padded_tokens<A>(count), dx.rows.data(), dx.stride);
    for (std::int64_t i = 0; i < count; ++i) {
      if (!kept_[i]) std::fill_n(dx.row(i), dx.dim, A{0});
    }
  }

 private:
  RowTile<A> x_;
  bool kept_[kTileTokens] = {};
};

template <class T>
struct Weighting<LinearAttentionArgs<T>> {
  using Element = T;
  using Shared = NoParameters;
  using Tile = FeatureTile<accumulate_t<T>>;
  using Gradients = LinearAttentionGradients<T>;
  using Sums = NoSums;
  using SumArray = NoSumArray;
};

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
