// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The mixtures in the form the kernels want, made once a call.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/aligned_array.h"
#include "common/covariance.h"
#include "common/dropout.h"
#include "cpu/layout.h"
#include "gma/attention.h"

namespace gma::cpu {

/// What components with shared variances offer beside the direct distance: their log-densities are
/// linear in [y, |y|^2, 1], with y = scale (x - center), one multiplication a channel.
///   tied:      scale = 1/sigma_d, precision_k = 1;  |y|^2 cancels in the softmax
///   spherical: scale = 1,         precision_k = 1/sigma2_k
///   m_k = scale (mu_k - center), factors_k = [precision_k m_k, -precision_k / 2, constant_k]
/// A token with |y| > max_norm, where the expanded square would cancel, takes the direct distance.
template <class A>
struct ExpandedMixture {
  const A* center = nullptr;     ///< (D)
  const A* scale = nullptr;      ///< (D)
  const A* precision = nullptr;  ///< (K)
  const A* factors = nullptr;    ///< (K, stride), zero past D + 2
  std::int64_t stride = 0;
  A max_norm = 0;

  explicit operator bool() const { return max_norm > 0; }
};

/// The mixture of one head: rows of `stride` elements, zero past D.
template <class A>
struct HeadMixture {
  const A* means = nullptr;        ///< (K, stride)
  const A* inverse_std = nullptr;  ///< 1 / sigma, (K, stride)
  const A* log_weights = nullptr;  ///< log pi_k - 1/2 sum_d log sigma2_kd, (K)
  std::int64_t stride = 0;
  std::int64_t num_components = 0;
  std::int64_t dim = 0;
  ExpandedMixture<A> expanded = {};  ///< false where only the direct distance will do
};

/// All heads' mixtures.
template <class A>
class PackedMixtures {
 public:
  PackedMixtures(const View<const A, 3>& means, const View<const A, 3>& variances,
                 const View<const A, 2>& prior_logits, const Executor& executor)
      : num_components_(means.size(1)),
        dim_(means.size(2)),
        stride_(row_stride<A>(dim_)),
        type_(covariance_type(variances, num_components_, dim_)),
        means_(means.size(0) * num_components_ * stride_),
        inverse_std_(means_.size()),
        log_weights_(means.size(0) * num_components_) {
    const View<const A, 3> all = broadcast_variances(variances, num_components_, dim_);
    executor.run(log_weights_.size(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        pack(means, all, prior_logits, row / num_components_, row % num_components_);
      }
    });
    if (type_ == CovarianceType::diag) return;
    expanded_stride_ = row_stride<A>(dim_ + 2);
    expanded_ = AlignedArray<A>(means.size(0) * expanded_size());
    max_norms_ = AlignedArray<A>(means.size(0));
    executor.run(means.size(0), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t h = begin; h < end; ++h) expand(means, all, h);
    });
  }

  HeadMixture<A> head(std::int64_t h) const {
    const std::int64_t row = h * num_components_;
    HeadMixture<A> mixture{means_.data() + row * stride_,
                           inverse_std_.data() + row * stride_,
                           log_weights_.data() + row,
                           stride_,
                           num_components_,
                           dim_};
    if (type_ != CovarianceType::diag) mixture.expanded = expanded(h);
    return mixture;
  }

 private:
  std::int64_t expanded_size() const {
    return 2 * stride_ + row_stride<A>(num_components_) + num_components_ * expanded_stride_;
  }

  ExpandedMixture<A> expanded(std::int64_t h) const {
    const A* center = expanded_.data() + h * expanded_size();
    const A* precision = center + 2 * stride_;
    return {center,           center + stride_,
            precision,        precision + row_stride<A>(num_components_),
            expanded_stride_, max_norms_.data()[h]};
  }

  bool is_inert(std::int64_t h, std::int64_t k) const {
    return log_weights_.data()[h * num_components_ + k] == -std::numeric_limits<A>::infinity();
  }

  /// A component that is switched off takes no part, whatever its mean and variance hold.
  void pack(const View<const A, 3>& means, const View<const A, 3>& variances,
            const View<const A, 2>& prior_logits, std::int64_t h, std::int64_t k) {
    const std::int64_t row = h * num_components_ + k;
    A* mean = means_.data() + row * stride_;
    A* inverse_std = inverse_std_.data() + row * stride_;
    std::fill(mean, mean + stride_, A{0});
    std::fill(inverse_std, inverse_std + stride_, A{0});
    log_weights_.data()[row] = prior_logits(h, k);
    if (is_inert(h, k)) return;
    for (std::int64_t d = 0; d < dim_; ++d) {
      mean[d] = means(h, k, d);
      inverse_std[d] = static_cast<A>(1 / std::sqrt(static_cast<double>(variances(h, k, d))));
    }
    log_weights_.data()[row] -=
        static_cast<A>(0.5 * log_determinant(variances.at(h, k), variances.strides[2]));
  }

  /// sum_d log sigma2_d, with one logarithm for as many factors as a double's range is sure to
  /// hold.
  double log_determinant(const A* variances, std::int64_t stride) const {
    constexpr std::int64_t kFactors = std::is_same_v<A, float> ? 6 : 1;
    double sum = 0;
    for (std::int64_t begin = 0; begin < dim_; begin += kFactors) {
      double product = 1;
      for (std::int64_t d = begin; d < std::min(begin + kFactors, dim_); ++d) {
        product *= static_cast<double>(variances[d * stride]);
      }
      sum += std::log(product);
    }
    return sum;
  }

  /// Fills what expanded(h) points to.
  void expand(const View<const A, 3>& means, const View<const A, 3>& variances, std::int64_t h) {
    const bool tied = type_ == CovarianceType::tied;
    A* center = expanded_.data() + h * expanded_size();
    A* scale = center + stride_;
    A* precision = scale + stride_;
    A* factors = precision + row_stride<A>(num_components_);
    std::fill(center, center + expanded_size(), A{0});

    std::int64_t active = 0;
    for (std::int64_t k = 0; k < num_components_; ++k) active += is_inert(h, k) ? 0 : 1;
    for (std::int64_t d = 0; d < dim_; ++d) {
      double sum = 0;
      for (std::int64_t k = 0; k < num_components_; ++k) {
        if (!is_inert(h, k)) sum += static_cast<double>(means(h, k, d));
      }
      center[d] = static_cast<A>(sum / static_cast<double>(active));
      scale[d] = tied ? 1 / std::sqrt(variances(h, 0, d)) : A{1};
    }

    double sharpest = 0;
    double farthest = 0;
    for (std::int64_t k = 0; k < num_components_; ++k) {
      A* row = factors + k * expanded_stride_;
      row[dim_ + 1] = log_weights_.data()[h * num_components_ + k];
      if (is_inert(h, k)) continue;
      const double p = tied ? 1.0 : 1.0 / static_cast<double>(variances(h, k, 0));
      double norm2 = 0;
      for (std::int64_t d = 0; d < dim_; ++d) {
        const double m = static_cast<double>(scale[d]) *
                         (static_cast<double>(means(h, k, d)) - static_cast<double>(center[d]));
        row[d] = static_cast<A>(p * m);
        norm2 += m * m;
      }
      precision[k] = static_cast<A>(p);
      row[dim_] = tied ? A{0} : static_cast<A>(-0.5 * p);
      row[dim_ + 1] -= static_cast<A>(0.5 * p * norm2);
      sharpest = std::max(sharpest, p);
      farthest = std::max(farthest, norm2);
    }
    // The terms of the expanded square are at most this large, and so is its error in units of the
    // last place of one.
    constexpr double kLargestTerm = 512;
    const double max_norm = std::sqrt(kLargestTerm / sharpest) - std::sqrt(farthest);
    max_norms_.data()[h] = max_norm > 0 ? static_cast<A>(max_norm) : A{0};
  }

  std::int64_t num_components_;
  std::int64_t dim_;
  std::int64_t stride_;
  std::int64_t expanded_stride_ = 0;
  CovarianceType type_;
  AlignedArray<A> means_;
  AlignedArray<A> inverse_std_;
  AlignedArray<A> log_weights_;
  AlignedArray<A> expanded_;
  AlignedArray<A> max_norms_;
};

/// What all tiles of a call share.
template <class A>
struct SharedMixtures {
  template <class T>
  explicit SharedMixtures(const AttentionArgs<T>& args)
      : dropout(args.dropout_p, args.dropout_seed),
        mixtures(args.means, args.variances, args.prior_logits, args.executor) {}

  Dropout dropout;
  PackedMixtures<A> mixtures;
};

}  // namespace gma::cpu
