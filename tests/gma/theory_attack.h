// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What the attacks on the bounds of gma/theory.h have in common.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <string>
#include <utility>

#include "support/tensor.h"
#include "theory_head.h"

namespace gma::test {

inline Point moved(Point x, const Point& direction, double step) {
  for (std::size_t d = 0; d < x.size(); ++d) x[d] += step * direction[d];
  return x;
}

inline Point into_ball(Point x, double radius) {
  const double length = norm(x);
  for (double& value : x) value *= length > radius ? radius / length : 1;
  return x;
}

/// Climbs from `point`: steps along `direction(point)`, longer after a success and shorter after a
/// failure. `value` projects its argument on what is allowed before it evaluates it.
template <class Value, class Direction>
double climb(Point point, int steps, const Value& value, const Direction& direction) {
  double best = value(point);
  double step = 0.1;
  for (int i = 0; i < steps && step > 1e-9; ++i) {
    Point next = moved(point, direction(point), step);
    const double reached = value(next);
    step *= reached > best ? 2 : 0.4;
    if (reached > best) {
      best = reached;
      point = std::move(next);
    }
  }
  return best;
}

/// Reports what share of a bound an attack has reached.
inline void report(const std::string& name, double tightness) {
  testing::Test::RecordProperty("tightness_" + name, testing::PrintToString(tightness));
  std::cout << "tightness of " << name << ": " << tightness << "\n";
}

/// Where two scores of a head lie furthest apart within the ball, by iterations that never fall:
/// the distance is convex, so it is greatest where x is parallel to its gradient.
struct Extreme {
  double spread = 0;
  std::int64_t k = 0;
  std::int64_t l = 0;
  Point x;
};

inline Extreme find_extreme(const Head& head, double radius, Random& random) {
  const Point center(static_cast<std::size_t>(head.dim()));
  Extreme best{.x = center};
  for (std::int64_t k = 0; k < head.components(); ++k) {
    for (std::int64_t l = 0; l < k; ++l) {
      for (int start = 0; start < 4; ++start) {
        Point x = start == 0 ? center : random_point(head.dim(), radius, random);
        double before = -1;
        for (int i = 0; i < 400; ++i) {
          const Point apart = difference(head.score(k, x), head.score(l, x));
          const double spread = norm(apart);
          if (spread > best.spread) best = {spread, k, l, x};
          if (spread <= before * (1 + 1e-13)) break;
          before = spread;
          for (std::int64_t d = 0; d < head.dim(); ++d) {
            x[d] = apart[d] * (1 / head.variance(l, d) - 1 / head.variance(k, d));
          }
          const double length = norm(x);
          if (length == 0) break;
          for (double& value : x) value *= radius / length;
        }
      }
    }
  }
  return best;
}

/// Makes the two components of the extreme equally responsible there, and switches off the others.
inline void balance(Head& head, const Extreme& extreme) {
  const auto& [spread, k, l, x] = extreme;
  for (std::int64_t m = 0; m < head.components(); ++m) {
    if (m != k && m != l) head.prior_logits(m) = -std::numeric_limits<double>::infinity();
  }
  const Point gamma = head.responsibilities(x);
  head.prior_logits(k) -= std::log(gamma[k] / gamma[l]);
}

}  // namespace gma::test
