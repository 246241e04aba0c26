// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Routing by components with shared variances: log-densities as one product with [y, |y|^2, 1], see
// ExpandedMixture, and their gradient as two.

#if defined(GMA_CPU_EXPANDED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_EXPANDED_INL_H_
#undef GMA_CPU_EXPANDED_INL_H_
#else
#define GMA_CPU_EXPANDED_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "cpu/mixture.h"
#include "cpu/routing-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Sums over tokens of dl [y, |y|^2, 1] and the workspace of a tile for the expanded form. Tokens
/// beyond the mixture's max_norm are far: their rows of y are zero, and they take the direct
/// distance.
template <class A>
class ExpandedTile {
 public:
  /// Without workspace where the variances are not shared.
  ExpandedTile(std::int64_t dim, std::int64_t num_components, bool is_used)
      : dim_(dim),
        stride_(row_stride<A>(dim + 2)),
        y_(is_used ? kTileTokens * stride_ : 0),
        y_t_(is_used ? round_up(dim + 2, kLineElements<A>) * kTokenStride<A> : 0),
        grad_y_(y_.size()),
        direct_t_(is_used ? num_components * kTokenStride<A> : 0) {}

  /// From x, `count` tokens and the padding up to whole vectors.
  void load(const HeadMixture<A>& mixture, Rows<const A> x, std::int64_t count,
            std::int64_t padded_count) {
    num_far_ = 0;
    for (std::int64_t i = 0; i < padded_count; ++i) {
      A* row = y_.data() + i * stride_;
      is_far_[i] = !load_row(mixture, x.data + i * x.stride, row);
      if (is_far_[i]) std::fill_n(row, stride_, A{0});
      if (i < count) num_far_ += is_far_[i] ? 1 : 0;
    }
    transpose(y_.data(), stride_, padded_count, dim_ + 2, y_t_.data(), kTokenStride<A>);
  }

  std::int64_t num_far() const { return num_far_; }

  void logits(const HeadMixture<A>& mixture, std::int64_t padded_count, A* logits_t) const {
    // In parts of 128 to 258 channels, for the sake of rounding; see kDistanceChannels.
    const std::int64_t inner = dim_ + 2;
    const std::int64_t parts = std::max<std::int64_t>(dim_ / 128, 1);
    const std::int64_t width = (inner + parts - 1) / parts;
    const Left<A> factors{mixture.expanded.factors, mixture.expanded.stride, 1};
    const Rows<const A> y_t{y_t_.data(), kTokenStride<A>};
    const Rows<A> to{logits_t, kTokenStride<A>};
    product<Into::set, A>(mixture.num_components, width, padded_count, factors, y_t, to);
    for (std::int64_t begin = width; begin < inner; begin += width) {
      product<Into::add, A>(mixture.num_components, std::min(width, inner - begin), padded_count,
                            factors.at(0, begin), y_t.at(begin, 0), to);
    }
  }

  /// Where logits, or gradients of them, of far tokens go, (K, tokens).
  A* direct_t() const { return direct_t_.data(); }

  /// to = direct_t for the far tokens.
  void take_far(std::int64_t num_components, std::int64_t count, A* to_t) const {
    for_far(count, true, [&](std::int64_t i) {
      for (std::int64_t k = 0; k < num_components; ++k) {
        to_t[k * kTokenStride<A> + i] = direct_t_.data()[k * kTokenStride<A> + i];
      }
    });
  }

  /// Moves the far tokens' columns of from_t to direct_t, and leaves zeros in both for the rest.
  void split(std::int64_t num_components, std::int64_t padded_count, A* from_t) const {
    std::copy_n(from_t, num_components * kTokenStride<A>, direct_t_.data());
    for (const bool far : {false, true}) {
      A* zeroed = far ? from_t : direct_t_.data();
      for_far(padded_count, far, [&](std::int64_t i) {
        for (std::int64_t k = 0; k < num_components; ++k) zeroed[k * kTokenStride<A> + i] = 0;
      });
    }
  }

  /// From dl of `count` tokens, 0 for far ones: sets dx of the near ones and adds to the sums,
  /// (K, stride of ExpandedMixture).
  void backward(const HeadMixture<A>& mixture, std::int64_t count, const A* grad_t, A* sums,
                Rows<A> dx) const {
    const ExpandedMixture<A>& expanded = mixture.expanded;
    product<Into::add, A>(mixture.num_components, count, dim_ + 2, {grad_t, kTokenStride<A>, 1},
                          {y_.data(), stride_}, {sums, expanded.stride});
    product<Into::set, A>(count, mixture.num_components, dim_ + 1, {grad_t, 1, kTokenStride<A>},
                          {expanded.factors, expanded.stride}, {grad_y_.data(), stride_});
    for_far(count, false, [&](std::int64_t i) {
      const A* y = y_.data() + i * stride_;
      const A* grad_y = grad_y_.data() + i * stride_;
      A* to = dx.data + i * dx.stride;
      const A grad_norm2 = 2 * grad_y[dim_];
      for (std::int64_t d = 0; d < dim_; ++d) {
        to[d] = expanded.scale[d] * (grad_y[d] + grad_norm2 * y[d]);
      }
    });
  }

 private:
  /// Whether x is near; then row = [y, |y|^2, 1].
  bool load_row(const HeadMixture<A>& mixture, const A* x, A* row) const {
    const ExpandedMixture<A>& expanded = mixture.expanded;
    const Tag<A> d;
    for (std::int64_t e = 0; e < dim_; e += kLanes<A>) {
      const Vec<A> centered = hn::Sub(hn::Load(d, x + e), hn::Load(d, expanded.center + e));
      hn::Store(hn::Mul(centered, hn::Load(d, expanded.scale + e)), d, row + e);
    }
    const A norm2 = dot(row, row, dim_);
    std::fill(row + dim_, row + stride_, A{0});
    row[dim_] = norm2;
    row[dim_ + 1] = 1;
    return norm2 <= expanded.max_norm * expanded.max_norm;
  }

  template <class Task>
  void for_far(std::int64_t count, bool far, const Task& task) const {
    for (std::int64_t i = 0; i < count; ++i) {
      if (is_far_[i] == far) task(i);
    }
  }

  std::int64_t dim_;
  std::int64_t stride_;
  AlignedArray<A> y_;
  AlignedArray<A> y_t_;
  AlignedArray<A> grad_y_;
  AlignedArray<A> direct_t_;
  bool is_far_[kTileTokens] = {};
  std::int64_t num_far_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
