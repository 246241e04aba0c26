// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/checks.h"
#include "gma/theory.h"
#include "reference/mixture.h"
#include "theory/components.h"

namespace gma::theory {
namespace {

/// The affine map x -> c + B x with diagonal B: the difference of two scores.
struct ScoreDifference {
  /// u_k - u_l has c = mu_k / sigma2_k - mu_l / sigma2_l and B = 1 / sigma2_l - 1 / sigma2_k.
  ScoreDifference(const Components& components, std::int64_t k, std::int64_t l)
      : c(components.mean(k).size()), b(c.size()) {
    for (std::size_t d = 0; d < c.size(); ++d) {
      c[d] = components.mean(k)[d] * components.precision(k)[d] -
             components.mean(l)[d] * components.precision(l)[d];
      b[d] = components.precision(l)[d] - components.precision(k)[d];
      slope = std::max(slope, std::abs(b[d]));
    }
    offset = norm(c);
  }

  /// The triangle inequality: at least what largest() returns.
  double quick_bound(double radius) const { return slope == 0 ? offset : offset + slope * radius; }

  /// max |c + B x| over |x| <= R. For every lambda > max_d b_d^2,
  ///   |c + B x|^2 <= |c + B x|^2 + lambda (R^2 - |x|^2)
  ///               <= lambda R^2 + sum_d c_d^2 lambda / (lambda - b_d^2),
  /// and the least of these is the maximum (duality of the trust region problem). Where the
  /// derivative by lambda has its zero is found by bisection; lambda on its right is a valid bound
  /// wherever the search stops. All is in units in which max_d |b_d| and R are 1, so that squares
  /// of large numbers do not overflow.
  double largest(double radius) const {
    const double unit = slope * radius;
    if (slope == 0 || offset == 0 || radius == 0 || !std::isfinite(unit + offset)) {
      return quick_bound(radius);
    }
    double low = 1;
    double high = 1 + offset / unit;
    for (int step = 0; step < 60; ++step) {
      const double lambda = low + (high - low) / 2;
      if (!(lambda > low && lambda < high)) break;
      (falls_at(lambda, unit) ? low : high) = lambda;
    }
    // Where the other is not a number, as where high is 1 to rounding, the quick bound holds.
    const double searched = unit * std::sqrt(dual(high, unit));
    return searched < quick_bound(radius) ? searched : quick_bound(radius);
  }

  Vector c;
  Vector b;
  double offset = 0;  ///< |c|
  double slope = 0;   ///< max_d |b_d|

 private:
  bool falls_at(double lambda, double unit) const {
    double sum = 0;
    for (std::size_t d = 0; d < c.size(); ++d) {
      const double steepness = b[d] / slope;
      const double share = c[d] / unit * steepness / (lambda - steepness * steepness);
      sum += share * share;
    }
    return sum > 1;
  }

  double dual(double lambda, double unit) const {
    double sum = lambda;
    for (std::size_t d = 0; d < c.size(); ++d) {
      const double share = c[d] / unit;
      const double steepness = b[d] / slope;
      if (c[d] != 0) sum += share * share * (lambda / (lambda - steepness * steepness));
    }
    return sum;
  }
};

double score_spread(const Components& components, double radius) {
  check(radius >= 0, "radius: expected a number >= 0, got {}", radius);
  double largest = 0;
  for (std::int64_t k = 0; k < components.size(); ++k) {
    for (std::int64_t l = 0; l < k; ++l) {
      const ScoreDifference difference(components, k, l);
      if (difference.quick_bound(radius) > largest) {
        largest = std::max(largest, difference.largest(radius));
      }
    }
  }
  return largest;
}

double diameter(const std::vector<Vector>& points) {
  double largest = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) largest = std::max(largest, distance(points[i], points[j]));
  }
  return largest;
}

void check_eps(double eps) {
  check(std::isfinite(eps) && eps >= 0, "eps: expected a finite number >= 0, got {}", eps);
}

}  // namespace

double score_spread(const Mixture& mixture, double radius) {
  return score_spread(Components(mixture), radius);
}

double coarse_score_spread(double radius, double largest_mean, double variance_floor) {
  check(radius >= 0, "radius: expected a number >= 0, got {}", radius);
  check(largest_mean >= 0, "largest_mean: expected a number >= 0, got {}", largest_mean);
  check(variance_floor > 0, "variance_floor: expected a number > 0, got {}", variance_floor);
  return (radius + 2 * largest_mean) / variance_floor;
}

double value_diameter(const View<const double, 2>& values, double eps) {
  check_extents("values", values);
  check_present("values", values);
  check_eps(eps);
  std::vector<Vector> points;
  points.reserve(static_cast<std::size_t>(values.size(0)) + 1);
  for (std::int64_t j = 0; j < values.size(0); ++j) {
    points.push_back(reference::load(values.at(j), values.size(1), values.strides[1]));
  }
  if (eps > 0) points.emplace_back(static_cast<std::size_t>(values.size(1)));
  return diameter(points);
}

double state_diameter(const View<const double, 2>& s, const View<const double, 1>& z, double eps) {
  check_extents("s", s);
  check_present("s", s);
  check_shape("z", z, "(K)", {s.size(0)});
  check_eps(eps);
  std::vector<Vector> points;
  for (std::int64_t k = 0; k < s.size(0); ++k) {
    check(z(k) >= 0, "z: expected numbers >= 0, got {} for component {}", z(k), k);
    if (z(k) + eps == 0) continue;
    points.push_back(reference::load(s.at(k), s.size(1), s.strides[1]));
    for (double& value : points.back()) value /= z(k) + eps;
  }
  return diameter(points);
}

Bounds bounds(const Mixture& mixture, double radius) {
  const Components components(mixture);
  double largest_mean = 0;
  double largest_precision = 0;
  for (std::int64_t k = 0; k < components.size(); ++k) {
    largest_mean = std::max(largest_mean, norm(components.mean(k)));
    largest_precision = std::max(largest_precision, std::ranges::max(components.precision(k)));
  }
  const double spread = score_spread(components, radius);
  return {.radius = radius,
          .rank = components.size(),
          .score_spread = spread,
          .coarse_score_spread = coarse_score_spread(radius, largest_mean, 1 / largest_precision),
          .responsibilities = spread / 2,
          .responsibilities_2 = spread / std::sqrt(8.0),
          .gradient = spread / 4,
          .read_query = spread / 4,
          .read_key = spread / 2};
}

}  // namespace gma::theory
