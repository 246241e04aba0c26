// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Mixtures of one head, for the tests of gma/theory.h.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/covariance.h"
#include "gma/attention.h"
#include "gma/theory.h"
#include "support/tensor.h"

namespace gma::test {

using Point = std::vector<double>;

inline View<const double, 1> view_of(const Point& x) {
  return View<const double, 1>::contiguous(x.data(), {static_cast<std::int64_t>(x.size())});
}

inline double inner(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline double norm(const Point& a) { return std::sqrt(inner(a, a)); }

inline Point difference(Point a, const Point& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

inline double norm_1(const Point& a) {
  double sum = 0;
  for (const double value : a) sum += std::abs(value);
  return sum;
}

struct HeadOptions {
  CovarianceType covariance_type = CovarianceType::diag;
  std::int64_t components = 5;
  std::int64_t dim = 3;
  double variance = 1;  ///< variances lie between half and twice this
};

inline const char* name_of(CovarianceType type) {
  return type == CovarianceType::diag   ? "diag"
         : type == CovarianceType::tied ? "tied"
                                        : "spherical";
}

inline constexpr CovarianceType kCovarianceTypes[] = {CovarianceType::diag, CovarianceType::tied,
                                                      CovarianceType::spherical};

/// Means N(0, 1), prior logits N(0, 1 / 4).
struct Head {
  Head(const HeadOptions& options, Random& random)
      : means(normal<double, 2>({options.components, options.dim}, random)),
        variances(uniform<double, 2>(
            {options.covariance_type == CovarianceType::tied ? 1 : options.components,
             options.covariance_type == CovarianceType::spherical ? 1 : options.dim},
            random, options.variance / 2, options.variance * 2)),
        prior_logits(normal<double, 1>({options.components}, random, 0.5)) {}

  theory::Mixture mixture() const { return {means.view(), variances.view(), prior_logits.view()}; }
  std::int64_t components() const { return means.shape()[0]; }
  std::int64_t dim() const { return means.shape()[1]; }

  double variance(std::int64_t k, std::int64_t d) const {
    return variances(variances.shape()[0] == 1 ? 0 : k, variances.shape()[1] == 1 ? 0 : d);
  }

  /// u_k(x), by the definition.
  Point score(std::int64_t k, const Point& x) const {
    Point u;
    for (std::int64_t d = 0; d < dim(); ++d) u.push_back((means(k, d) - x[d]) / variance(k, d));
    return u;
  }

  Point responsibilities(const Point& x) const {
    Point gamma(static_cast<std::size_t>(components()));
    theory::responsibilities(mixture(), View<const double, 2>::contiguous(x.data(), {1, dim()}),
                             View<double, 2>::contiguous(gamma.data(), {1, components()}));
    return gamma;
  }

  Tensor<double, 2> responsibilities(const Tensor<double, 2>& x) const {
    Tensor<double, 2> gamma({x.shape()[0], components()});
    theory::responsibilities(mixture(), x.view(), gamma.view());
    return gamma;
  }

  Tensor<double, 2> jacobian(const Point& x) const {
    Tensor<double, 2> jacobian({components(), dim()});
    theory::responsibility_jacobian(mixture(), view_of(x), jacobian.view());
    return jacobian;
  }

  Tensor<double, 2> means;
  Tensor<double, 2> variances;
  Tensor<double, 1> prior_logits;
};

/// A matrix with the axes that the operator has beside: (1, N, 1, D) and (1, K, D).
template <class T>
View<T, 4> as_tokens(const View<T, 2>& rows) {
  return {rows.data, {1, rows.size(0), 1, rows.size(1)}, {0, rows.strides[0], 0, rows.strides[1]}};
}

template <class T>
View<T, 3> as_head(const View<T, 2>& rows) {
  return {rows.data, {1, rows.size(0), rows.size(1)}, {0, rows.strides[0], rows.strides[1]}};
}

/// The operator itself, by the oracle, on one head.
struct Attention {
  const Head& head;
  bool is_causal = false;
  double eps = 1e-6;

  /// (Tq, Dv) from (Tq, D), (Tk, D) and (Tk, Dv); S and Z, (K, Dv) and (K), where given.
  Tensor<double, 2> operator()(const Tensor<double, 2>& q, const Tensor<double, 2>& k,
                               const Tensor<double, 2>& v, Tensor<double, 2>* s = nullptr,
                               Tensor<double, 1>* z = nullptr) const {
    const theory::Mixture mixture = head.mixture();
    Tensor<double, 2> output({q.shape()[0], v.shape()[1]});
    AttentionOutputs<double> outputs{.output = as_tokens(output.view())};
    if (s != nullptr) {
      *s = Tensor<double, 2>({head.components(), v.shape()[1]});
      *z = Tensor<double, 1>({head.components()});
      outputs.final_state = {
          {s->view().data, {1, 1, head.components(), v.shape()[1]}, {0, 0, v.shape()[1], 1}},
          {z->view().data, {1, 1, head.components()}, {0, 0, 1}}};
    }
    const View<const double, 1>& logits = mixture.prior_logits;
    forward<double>({.query = as_tokens(q.view()),
                     .key = as_tokens(k.view()),
                     .value = as_tokens(v.view()),
                     .means = as_head(mixture.means),
                     .variances = as_head(mixture.variances),
                     .prior_logits = {logits.data, {1, logits.size(0)}, {0, logits.strides[0]}},
                     .is_causal = is_causal,
                     .eps = eps,
                     .backend = Backend::reference},
                    outputs);
    return output;
  }
};

/// J^T weights: the gradient of weights . gamma(x).
inline Point pull_back(const Tensor<double, 2>& jacobian, const Point& weights) {
  Point gradient(static_cast<std::size_t>(jacobian.shape()[1]));
  for (std::int64_t k = 0; k < jacobian.shape()[0]; ++k) {
    for (std::int64_t d = 0; d < jacobian.shape()[1]; ++d) {
      gradient[d] += jacobian(k, d) * weights[k];
    }
  }
  return gradient;
}

/// Uniform in direction, of length `radius` or, half of the time, shorter.
inline Point random_point(std::int64_t dim, double radius, Random& random) {
  Point x = normal<double, 1>({dim}, random).values();
  const double share = std::uniform_real_distribution<double>(0, 2)(random);
  const double scale = radius * std::min(share, 1.0) / norm(x);
  for (double& value : x) value *= scale;
  return x;
}

}  // namespace gma::test
