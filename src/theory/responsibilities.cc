// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/checks.h"
#include "gma/theory.h"
#include "reference/mixture.h"
#include "theory/components.h"

namespace gma::theory {
namespace {

reference::Mixture oracle(const Mixture& mixture) {
  return {with_heads(mixture.means), with_heads(mixture.variances),
          with_heads(mixture.prior_logits), 0};
}

/// Scores and responsibilities of the live components at a point.
struct Point {
  Point(const Components& components, const Mixture& mixture, const View<const double, 1>& x) {
    check_shape("x", x, "(D)", {components.dim()});
    const Vector position = reference::load(x.data, x.size(0), x.strides[0]);
    const Vector all = oracle(mixture).responsibilities(position);
    for (std::int64_t k = 0; k < components.size(); ++k) {
      gamma.push_back(all[components.index(k)]);
      scores.push_back(components.score(k, position));
    }
  }

  Vector gamma;
  std::vector<Vector> scores;
};

}  // namespace

void responsibilities(const Mixture& mixture, const View<const double, 2>& x,
                      const View<double, 2>& gamma) {
  const Components components(mixture);
  check_shape("x", x, "(N, D)", {x.size(0), components.dim()});
  check_shape("gamma", gamma, "(N, K)", {x.size(0), mixture.means.size(0)});
  const reference::Mixture head = oracle(mixture);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    reference::store(head.responsibilities(reference::load(x.at(i), x.size(1), x.strides[1])),
                     gamma.at(i), gamma.strides[1]);
  }
}

void responsibility_jacobian(const Mixture& mixture, const View<const double, 1>& x,
                             const View<double, 2>& jacobian) {
  const Components components(mixture);
  const Point point(components, mixture, x);
  check_shape("jacobian", jacobian, "(K, D)", mixture.means.shape);

  for (std::int64_t k = 0; k < mixture.means.size(0); ++k) {
    for (std::int64_t d = 0; d < components.dim(); ++d) jacobian(k, d) = 0;
  }
  for (std::int64_t d = 0; d < components.dim(); ++d) {
    double mean = 0;
    for (std::size_t k = 0; k < point.gamma.size(); ++k)
      mean += point.gamma[k] * point.scores[k][d];
    for (std::int64_t k = 0; k < components.size(); ++k) {
      jacobian(components.index(k), d) = point.gamma[k] * (point.scores[k][d] - mean);
    }
  }
}

double jacobian_bound(const Mixture& mixture, const View<const double, 1>& x) {
  const Components components(mixture);
  const Point point(components, mixture, x);
  double largest = 0;
  double expected = 0;
  for (std::size_t k = 0; k < point.gamma.size(); ++k) {
    for (std::size_t l = 0; l < k; ++l) {
      const double apart = distance(point.scores[k], point.scores[l]);
      largest = std::max(largest, apart);
      expected += 2 * point.gamma[k] * point.gamma[l] * apart;
    }
  }
  return std::min(largest / 2, expected);
}

}  // namespace gma::theory
