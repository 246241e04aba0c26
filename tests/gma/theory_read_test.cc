// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The bounds of the read-out (docs/theory.md, 5), against the operator itself and under attack as
// in theory_attack_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gma/theory.h"
#include "support/close.h"
#include "support/tensor.h"
#include "theory_attack.h"
#include "theory_head.h"

namespace gma::test {
namespace {

/// o = sum_k w_k S_k / (Z_k + eps), w the responsibilities under priors pi_k (Z_k + eps).
TEST(ReadOut, IsThePosteriorMeanOfTheState) {
  for (const double eps : {0.0, 0.5}) {
    Random random(19);
    const Head head({}, random);
    const Tensor<double, 2> q = normal<double, 2>({4, 3}, random);
    Tensor<double, 2> s;
    Tensor<double, 1> z;
    const Tensor<double, 2> output = Attention{.head = head, .eps = eps}(
        q, normal<double, 2>({7, 3}, random), normal<double, 2>({7, 2}, random), &s, &z);
    Head reader = head;
    for (std::int64_t k = 0; k < 5; ++k) reader.prior_logits(k) += std::log(z(k) + eps);
    const Tensor<double, 2> weights = reader.responsibilities(q);
    Tensor<double, 2> expected({4, 2}, 0.0);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t k = 0; k < 5; ++k) {
        for (std::int64_t d = 0; d < 2; ++d) {
          expected(i, d) += weights(i, k) * s(k, d) / (z(k) + eps);
        }
      }
    }
    EXPECT_TRUE(close(output, expected)) << "eps " << eps;
  }
}

/// Queries and keys as rows of one point, and what the operator makes of two versions of them.
class ReadOut {
 public:
  static constexpr std::int64_t kKeys = 3;
  static constexpr double kRadius = 2;

  ReadOut(const Head& head, double eps) : attention_{.head = head, .eps = eps} {
    values_(0, 0) = values_(2, 1) = 1;
    values_(1, 0) = -1;
  }

  const Tensor<double, 2>& values() const { return values_; }

  /// The rows of `point` from `begin` on, projected into the ball.
  Tensor<double, 2> rows(Point& point, std::int64_t begin, std::int64_t count) const {
    const std::int64_t dim = attention_.head.dim();
    Tensor<double, 2> rows({count, dim});
    for (std::int64_t i = 0; i < count; ++i) {
      const auto first = point.begin() + (begin + i) * dim;
      const Point row = into_ball({first, first + dim}, kRadius);
      std::ranges::copy(row, first);
      for (std::int64_t d = 0; d < dim; ++d) rows(i, d) = row[d];
    }
    return rows;
  }

  /// |o - o'| / |q - q'| for rows q, q', keys.
  double by_query(Point& point) const {
    const Tensor<double, 2> keys = rows(point, 2, kKeys);
    return ratio(attention_(rows(point, 0, 1), keys, values_),
                 attention_(rows(point, 1, 1), keys, values_), rows(point, 0, 1),
                 rows(point, 1, 1));
  }

  /// |o - o'| / max_j |k_j - k_j'| for rows q, keys, other keys.
  double by_keys(Point& point) const {
    const Tensor<double, 2> q = rows(point, 0, 1);
    const Tensor<double, 2> keys = rows(point, 1, kKeys);
    const Tensor<double, 2> others = rows(point, 1 + kKeys, kKeys);
    return ratio(attention_(q, keys, values_), attention_(q, others, values_), keys, others);
  }

  /// As by_query() with the keys' state as it is, over its own bound.
  double by_query_of_state(Point& point, double bound) const {
    Tensor<double, 2> s;
    Tensor<double, 1> z;
    attention_(rows(point, 0, 1), rows(point, 2, kKeys), values_, &s, &z);
    const double diameter = theory::state_diameter(s.view(), z.view(), attention_.eps);
    EXPECT_LE(diameter, theory::value_diameter(values_.view(), attention_.eps) * (1 + 1e-12));
    return by_query(point) / (bound * diameter);
  }

 private:
  /// Pairs closer than 1e-3 are refused, as above.
  static double ratio(const Tensor<double, 2>& o, const Tensor<double, 2>& other_o,
                      const Tensor<double, 2>& x, const Tensor<double, 2>& other_x) {
    double apart = 0;
    for (std::int64_t i = 0; i < x.shape()[0]; ++i) {
      apart = std::max(apart, norm(difference(slice(x, 0, i, i + 1).values(),
                                              slice(other_x, 0, i, i + 1).values())));
    }
    return apart < 1e-3 ? 0 : norm(difference(o.values(), other_o.values())) / apart;
  }

  Attention attention_;
  Tensor<double, 2> values_{{kKeys, 2}, 0.0};
};

/// The greatest value found by climbing along differences of it, from `starts` starts.
template <class Value>
double attack_along_differences(std::int64_t rows, std::int64_t dim, int starts, Random& random,
                                const Value& value) {
  const auto direction = [&](const Point& point) {
    Point gradient;
    for (std::size_t i = 0; i < point.size(); ++i) {
      Point above = point;
      Point below = point;
      above[i] += 1e-5;
      below[i] -= 1e-5;
      gradient.push_back(value(above) - value(below));
    }
    const double scale = 1 / std::max(norm(gradient), 1e-300);
    for (double& entry : gradient) entry *= scale;
    return gradient;
  };
  double best = 0;
  for (int start = 0; start < starts; ++start) {
    Point point;
    for (std::int64_t row = 0; row < rows; ++row) {
      const Point x = random_point(dim, ReadOut::kRadius, random);
      point.insert(point.end(), x.begin(), x.end());
    }
    best = std::max(best, climb(point, 60, value, direction));
  }
  return best;
}

TEST(ReadBound, WithstandsAscentOverQueriesAndKeys) {
  constexpr double kEps = 0.01;
  constexpr int kStarts = 3;
  for (const CovarianceType type : kCovarianceTypes) {
    SCOPED_TRACE(name_of(type));
    Random random(16);
    Head head({.covariance_type = type, .components = 2, .dim = 2, .variance = 0.5}, random);
    balance(head, find_extreme(head, ReadOut::kRadius, random));
    const ReadOut read(head, kEps);
    const theory::Bounds bounds = theory::bounds(head.mixture(), ReadOut::kRadius);
    const double diameter = theory::value_diameter(read.values().view(), kEps);

    const double by_query =
        attack_along_differences(2 + ReadOut::kKeys, 2, kStarts, random,
                                 [&](Point& point) { return read.by_query(point); }) /
        (bounds.read_query * diameter);
    const double by_state = attack_along_differences(
        2 + ReadOut::kKeys, 2, kStarts, random,
        [&](Point& point) { return read.by_query_of_state(point, bounds.read_query); });
    const double by_keys =
        attack_along_differences(1 + 2 * ReadOut::kKeys, 2, kStarts, random,
                                 [&](Point& point) { return read.by_keys(point); }) /
        (bounds.read_key * diameter);
    report(std::string("read_query_") + name_of(type), by_query);
    report(std::string("read_query_of_state_") + name_of(type), by_state);
    report(std::string("read_key_") + name_of(type), by_keys);
    for (const double share : {by_query, by_state, by_keys}) EXPECT_LT(share, 1);
    EXPECT_GT(by_query, 0.18);
    EXPECT_GT(by_state, 0.3);
    EXPECT_GT(by_keys, 0.05);
  }
}

/// Two components far apart, and values that the components keep apart. A query between them, or
/// two keys that lie with the other component than their query, move the output as fast as a bound
/// allows.
TEST(ReadBound, IsNearlyAttained) {
  Random random(18);
  Head head({.covariance_type = CovarianceType::tied, .components = 2, .dim = 1}, random);
  head.means(0, 0) = 1;
  head.means(1, 0) = -1;
  head.variances(0, 0) = 1;
  head.prior_logits(0) = head.prior_logits(1) = 0;
  const Attention attention{.head = head, .eps = 0};
  const theory::Bounds bounds = theory::bounds(head.mixture(), 5);
  EXPECT_DOUBLE_EQ(bounds.score_spread, 2);

  const auto column = [](double first, double second) {
    Tensor<double, 2> rows({2, 1}, first);
    rows(1, 0) = second;
    return rows;
  };
  constexpr double kStep = 1e-3;
  const Tensor<double, 2> values = column(1, -1);
  const double diameter = theory::value_diameter(values.view(), 0);
  EXPECT_EQ(diameter, 2);

  const Tensor<double, 2> outputs = attention(column(kStep, -kStep), column(5, -5), values);
  const double by_query =
      (outputs(0, 0) - outputs(1, 0)) / (2 * kStep) / (bounds.read_query * diameter);
  const Tensor<double, 2> query({1, 1}, 5.0);
  const double by_keys = (attention(query, column(-2.5 + kStep, -2.5 - kStep), values)(0, 0) -
                          attention(query, column(-2.5, -2.5), values)(0, 0)) /
                         kStep / (bounds.read_key * diameter);
  report("read_query_at_best", by_query);
  report("read_key_at_best", by_keys);
  for (const double share : {by_query, by_keys}) {
    EXPECT_LT(share, 1);
    EXPECT_GT(share, 0.97);
  }
}

/// Outputs are means of the values with weights that sum to at most 1.
TEST(ReadBound, OutputsMoveNoFurtherThanTheValues) {
  Random random(17);
  const Head head({}, random);
  const Attention attention{.head = head};
  const Tensor<double, 2> q = normal<double, 2>({5, 3}, random);
  const Tensor<double, 2> k = normal<double, 2>({8, 3}, random);
  for (int trial = 0; trial < 20; ++trial) {
    const Tensor<double, 2> v = normal<double, 2>({8, 4}, random);
    Tensor<double, 2> moved_v = v;
    double furthest = 0;
    for (std::int64_t j = 0; j < 8; ++j) {
      const Point by = random_point(4, 1, random);
      for (std::int64_t d = 0; d < 4; ++d) moved_v(j, d) += by[d];
      furthest = std::max(furthest, norm(by));
    }
    const Tensor<double, 2> o = attention(q, k, v);
    const Tensor<double, 2> other = attention(q, k, moved_v);
    for (std::int64_t i = 0; i < 5; ++i) {
      EXPECT_LE(
          norm(difference(slice(o, 0, i, i + 1).values(), slice(other, 0, i, i + 1).values())),
          furthest);
    }
  }
}

}  // namespace
}  // namespace gma::test
