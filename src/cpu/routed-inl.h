// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Gaussian mixture attention's weights: responsibilities of a tile of routing vectors.

#if defined(GMA_CPU_ROUTED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_ROUTED_INL_H_
#undef GMA_CPU_ROUTED_INL_H_
#else
#define GMA_CPU_ROUTED_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "common/dropout.h"
#include "cpu/expanded-inl.h"
#include "cpu/mixture.h"
#include "cpu/moments-inl.h"
#include "cpu/routing-inl.h"
#include "cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// A tile of routing vectors and their responsibilities, gamma_t (K, tokens).
template <class A>
class RoutedTile {
 public:
  RoutedTile(const Extents& extents, const SharedMixtures<A>& shared)
      : shared_(shared),
        x_(extents.dim),
        expanded_(extents.dim, extents.num_components, extents.has_shared_variances),
        kept_(kTileTokens),
        gamma_t_(extents.num_components * kTokenStride<A>),
        dropped_t_(shared.dropout.active() ? gamma_t_.size() : 0) {}

  /// Reads x and computes its responsibilities under the mixture of head `h`; tokens that are not
  /// kept have none. Meanwhile has what `prefetch` holds fetched.
  template <class T>
  void route(std::int64_t h, const View<const T, 4>& x, const TileRange& range, const bool* keep,
             const TileOrigin& origin, Prefetch prefetch) {
    const HeadMixture<A> mixture = shared_.mixtures.head(h);
    load(mixture, x, range, keep);
    compute_logits(mixture, range.count, prefetch);
    prefetch.advance(prefetch.remaining());
    softmax(mixture.num_components, tokens_, kept_.data(), gamma_t_.data());
    apply_dropout(mixture, origin);
  }

  /// What save() writes for a tile.
  static std::int64_t saved_size(const Extents& extents) {
    return extents.num_components * kCausalTileTokens;
  }

  /// Copies the responsibilities of a causal tile out, to come back to them with recall().
  void save(std::int64_t num_components, A* to) const {
    for (std::int64_t k = 0; k < num_components; ++k) {
      std::copy_n(gamma_t_.data() + k * kTokenStride<A>, tokens_, to + k * kCausalTileTokens);
    }
  }

  /// As route() before save(), which left `saved`.
  template <class T>
  void recall(std::int64_t h, const View<const T, 4>& x, const TileRange& range, const bool* keep,
              const TileOrigin& origin, const A* saved, Prefetch prefetch) {
    const HeadMixture<A> mixture = shared_.mixtures.head(h);
    load(mixture, x, range, keep);
    prefetch.advance(prefetch.remaining());
    for (std::int64_t k = 0; k < mixture.num_components; ++k) {
      std::copy_n(saved + k * kCausalTileTokens, tokens_, gamma_t_.data() + k * kTokenStride<A>);
    }
    apply_dropout(mixture, origin);
  }

  /// Gamma after dropout.
  const A* weights_t() const {
    return shared_.dropout.active() ? dropped_t_.data() : gamma_t_.data();
  }
  /// As left factors: a row a token, or a row a component.
  Left<A> token_rows() const { return {weights_t(), 1, kTokenStride<A>}; }
  Left<A> component_rows() const { return {weights_t(), kTokenStride<A>, 1}; }
  Rows<const A> transposed() const { return {weights_t(), kTokenStride<A>}; }

  /// From the gradient of the weights, (K, tokens), which it overwrites: sets dx, adds to the
  /// moments.
  void backward(std::int64_t h, std::int64_t count, A* grad_t, const Moments<A>& moments,
                RowTile<A>& dx) const {
    const HeadMixture<A> mixture = shared_.mixtures.head(h);
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
    if (!shared_.dropout.active()) return;
    drop(shared_.dropout, origin, mixture.num_components, tokens_, gamma_t_.data(),
         dropped_t_.data());
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

  const SharedMixtures<A>& shared_;
  RowTile<A> x_;
  ExpandedTile<A> expanded_;
  AlignedArray<A> kept_;  ///< 1 where a token takes part, otherwise 0
  AlignedArray<A> gamma_t_;
  AlignedArray<A> dropped_t_;
  std::int64_t tokens_ = 0;
  std::int64_t num_direct_ = 0;  ///< tokens that take the direct distance
};

template <class T>
struct Weighting<AttentionArgs<T>> {
  using A = accumulate_t<T>;
  using Element = T;
  using Shared = SharedMixtures<A>;
  using Tile = RoutedTile<A>;
  using Gradients = AttentionGradients<T>;
  using Sums = Moments<A>;
  using SumArray = MomentArray<A>;
};

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
