// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The components of one head that are not off, checked.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/checks.h"
#include "common/covariance.h"
#include "gma/theory.h"
#include "reference/mixture.h"

namespace gma::theory {

using reference::Vector;

/// With an axis of heads in front, of length 1.
template <std::size_t Rank>
View<const double, Rank + 1> with_heads(const View<const double, Rank>& view) {
  View<const double, Rank + 1> result{view.data, {1}, {0}};
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    result.shape[axis + 1] = view.shape[axis];
    result.strides[axis + 1] = view.strides[axis];
  }
  return result;
}

class Components {
 public:
  /// Throws InvalidArgument for what gma/theory.h does not accept.
  explicit Components(const Mixture& mixture) {
    const std::int64_t num_components = mixture.means.size(0);
    const std::int64_t dim = mixture.means.size(1);
    check(num_components > 0, "means: expected at least one component, got K = {}", num_components);
    check(dim > 0, "means: expected a routing size D of at least 1, got {}", dim);
    check_present("means", mixture.means);
    const View<const double, 2>& variances = mixture.variances;
    const std::int64_t rows = variances.size(0) == 1 ? 1 : num_components;
    const std::int64_t columns = rows == num_components && variances.size(1) == 1 ? 1 : dim;
    check_shape("variances", variances, "(K, D), (1, D) or (K, 1)", {rows, columns});
    check_shape("prior_logits", mixture.prior_logits, "(K)", {num_components});

    const View<const double, 3> all =
        broadcast_variances(with_heads(variances), num_components, dim);
    for (std::int64_t k = 0; k < num_components; ++k) {
      const double prior_logit = mixture.prior_logits(k);
      check(prior_logit < std::numeric_limits<double>::infinity(),
            "prior_logits: expected finite numbers or -inf, got {} for component {}", prior_logit,
            k);
      if (std::isinf(prior_logit)) continue;
      live_.push_back(k);
      means_.push_back(reference::load(mixture.means.at(k), dim, mixture.means.strides[1]));
      precisions_.push_back(reference::load(all.at(0, k), dim, all.strides[2]));
      for (std::int64_t d = 0; d < dim; ++d) {
        const double mean = means_.back()[d];
        double& precision = precisions_.back()[d];
        check(std::isfinite(mean), "means: expected finite numbers, got {} for component {}", mean,
              k);
        check(precision > 0 && std::isfinite(precision),
              "variances: expected finite numbers > 0, got {} for component {}", precision, k);
        precision = 1 / precision;
      }
    }
    check(!live_.empty(), "prior_logits: expected a component that is not -inf, got none");
  }

  std::int64_t size() const { return static_cast<std::int64_t>(live_.size()); }
  std::int64_t dim() const { return static_cast<std::int64_t>(means_.front().size()); }

  /// Which component of the mixture the live component k is.
  std::int64_t index(std::int64_t k) const { return live_[k]; }
  const Vector& mean(std::int64_t k) const { return means_[k]; }
  const Vector& precision(std::int64_t k) const { return precisions_[k]; }  ///< 1 / sigma2_k

  /// u_k(x) = (mu_k - x) / sigma2_k, the gradient of the log-density.
  Vector score(std::int64_t k, const Vector& x) const {
    Vector u(x.size());
    for (std::size_t d = 0; d < u.size(); ++d) u[d] = (means_[k][d] - x[d]) * precisions_[k][d];
    return u;
  }

 private:
  std::vector<std::int64_t> live_;
  std::vector<Vector> means_;
  std::vector<Vector> precisions_;
};

inline double norm(const Vector& a) {
  double sum = 0;
  for (const double value : a) sum += value * value;
  return std::sqrt(sum);
}

inline double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return std::sqrt(sum);
}

}  // namespace gma::theory
