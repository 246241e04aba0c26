// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The mixture's gradients, from sums over tokens that the workers take in parts.

#if defined(GMA_CPU_MOMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_MOMENTS_INL_H_
#undef GMA_CPU_MOMENTS_INL_H_
#else
#define GMA_CPU_MOMENTS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/dropout.h"
#include "cpu/mixture.h"
#include "cpu/routing-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Moments, one partial sum a batch of segments, joined in order at the end. When causal there is
/// one for each side, because one sweep and two add to them in turns that differ.
template <class A>
class MomentArray {
 public:
  MomentArray(std::int64_t batches, const Extents& extents, bool is_causal)
      : sides_(is_causal ? 2 : 1),
        parts_(sides_ * batches),
        k_(extents.num_components),
        dim_(extents.dim),
        stride_(row_stride<A>(extents.dim)),
        expanded_stride_(row_stride<A>(extents.dim + 2)),
        has_expanded_(extents.has_shared_variances),
        data_(parts_ * extents.num_heads * size()) {
    data_.fill(0);
  }

  Moments<A> at(std::int64_t batch, Side side, std::int64_t head) const {
    const std::int64_t part = sides_ * batch + (side == Side::key ? sides_ - 1 : 0);
    return in_block(data_.data() + (head * parts_ + part) * size());
  }

  template <class T>
  void store(const AttentionArgs<T>& args, const SharedMixtures<A>& shared,
             const AttentionGradients<T>& gradients) const {
    const std::int64_t heads = args.means.size(0);
    const AlignedArray<double> totals(heads * size());
    args.executor.run(heads * k_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) join_parts(i / k_, i % k_, totals.data());
    });
    args.executor.run(heads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t h = begin; h < end; ++h) {
        store_head(shared.mixtures.head(h), in_block(totals.data() + h * size()), gradients, h);
      }
    });
  }

 private:
  std::int64_t size() const {
    return row_stride<A>(k_) + 2 * k_ * stride_ + (has_expanded_ ? k_ * expanded_stride_ : 0);
  }

  template <class Element>
  Moments<Element> in_block(Element* data) const {
    Element* first = data + row_stride<A>(k_);
    Element* second = first + k_ * stride_;
    return {data, first, second, has_expanded_ ? second + k_ * stride_ : nullptr};
  }

  /// Sums the `slice`-th of k_ slices of a head's blocks.
  void join_parts(std::int64_t h, std::int64_t slice, double* totals) const {
    const std::int64_t length = (size() + k_ - 1) / k_;
    const std::int64_t begin = std::min(slice * length, size());
    const std::int64_t end = std::min(begin + length, size());
    double* total = totals + h * size();
    std::fill(total + begin, total + end, 0.0);
    for (std::int64_t part = 0; part < parts_; ++part) {
      const A* block = data_.data() + (h * parts_ + part) * size();
      for (std::int64_t i = begin; i < end; ++i) total[i] += static_cast<double>(block[i]);
    }
  }

  template <class T>
  void store_head(const HeadMixture<A>& mixture, const Moments<double>& moments,
                  const AttentionGradients<T>& gradients, std::int64_t h) const {
    const View<A, 3>& to_variances = gradients.variances;
    const std::int64_t columns = to_variances ? to_variances.size(2) : 0;
    const std::int64_t rows = to_variances ? to_variances.size(1) : 0;
    std::vector<double> variances(static_cast<std::size_t>(rows * columns));
    for (std::int64_t k = 0; k < k_; ++k) {
      if (gradients.prior_logits) {
        gradients.prior_logits(h, k) = static_cast<A>(moments.zeroth[k]);
      }
      double* row = variances.data() + (rows == 1 ? 0 : k) * columns;
      for (std::int64_t d = 0; d < mixture.dim; ++d) {
        const Slope slope = channel_gradient(mixture, moments, k, d);
        if (gradients.means) gradients.means(h, k, d) = static_cast<A>(slope.mean);
        if (to_variances) row[columns == 1 ? 0 : d] += slope.variance;
      }
    }
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      to_variances(h, i / columns, i % columns) = static_cast<A>(variances[i]);
    }
  }

  struct Slope {
    double mean = 0;
    double variance = 0;
  };

  /// dmu = sum dl t / sigma and dsigma2 = 1/2 sum dl (t^2 - 1) / sigma2, the latter one channel's
  /// share where channels or components share it. With the expanded sums F = sum dl y,
  /// Q = sum dl |y|^2 and L = sum dl, t = sqrt(p) (y - m):
  ///   sum dl t = sqrt(p) (F - m L),  sum dl t^2 = p (q - 2 m F + m^2 L),
  /// where q = sum dl y^2 of the channel is Q / D on the average (spherical), or 0 once summed over
  /// components (tied).
  Slope channel_gradient(const HeadMixture<A>& mixture, const Moments<double>& moments,
                         std::int64_t k, std::int64_t d) const {
    const double inverse_std = static_cast<double>(mixture.inverse_std[k * stride_ + d]);
    double first = moments.first[k * stride_ + d];
    double second = moments.second[k * stride_ + d];
    if (const ExpandedMixture<A>& expanded = mixture.expanded; expanded && inverse_std > 0) {
      const A* factors = expanded.factors + k * expanded.stride;
      const double* sums = moments.expanded + k * expanded.stride;
      const double p = static_cast<double>(expanded.precision[k]);
      const double m = static_cast<double>(factors[d]) / p;
      const double q = factors[dim_] != 0 ? sums[dim_] / static_cast<double>(dim_) : 0;
      first += std::sqrt(p) * (sums[d] - m * sums[dim_ + 1]);
      second += p * (q - 2 * m * sums[d] + m * m * sums[dim_ + 1]);
    }
    return {first * inverse_std, 0.5 * (second - moments.zeroth[k]) * inverse_std * inverse_std};
  }

  std::int64_t sides_;
  std::int64_t parts_;
  std::int64_t k_;
  std::int64_t dim_;
  std::int64_t stride_;
  std::int64_t expanded_stride_;
  bool has_expanded_;
  AlignedArray<A> data_;
};

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
