// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The claims of docs/theory.md that are equalities or hold at a point. theory_attack_test.cc tries
// to break those over a ball.
#include "gma/theory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "gma/attention.h"
#include "gma/error.h"
#include "support/close.h"
#include "support/finite_differences.h"
#include "support/tensor.h"
#include "theory_head.h"

namespace gma::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor<double, 2> affinity_of(const Tensor<double, 2>& gamma_q, const Tensor<double, 2>& gamma_k,
                              const theory::AffinityOptions& options = {}) {
  Tensor<double, 2> affinity({gamma_q.shape()[0], gamma_k.shape()[0]});
  theory::affinity(gamma_q.view(), gamma_k.view(), options, affinity.view());
  return affinity;
}

std::int64_t rank_of(const Tensor<double, 2>& matrix) {
  return theory::numerical_rank(matrix.view());
}

TEST(NumericalRank, CountsIndependentColumns) {
  Random random(1);
  Tensor<double, 2> matrix = normal<double, 2>({9, 12}, random);
  EXPECT_EQ(rank_of(matrix), 9);
  EXPECT_EQ(rank_of(slice(matrix, 0, 0, 4)), 4);
  for (std::int64_t i = 0; i < 9; ++i) {
    for (std::int64_t j = 3; j < 12; ++j) matrix(i, j) = matrix(i, j % 3) * 1e8 - matrix(i, 2) / 3;
  }
  EXPECT_EQ(rank_of(matrix), 3);
  EXPECT_EQ(theory::numerical_rank(matrix.view(), 0.999), 1);
  EXPECT_EQ(rank_of(Tensor<double, 2>({4, 5}, 0.0)), 0);
  EXPECT_EQ(rank_of(Tensor<double, 2>({0, 5})), 0);
}

TEST(Affinity, IsNonNegativeAndItsRankIsTheNumberOfComponents) {
  for (const CovarianceType type : kCovarianceTypes) {
    SCOPED_TRACE(name_of(type));
    Random random(2);
    Head head({.covariance_type = type}, random);
    const Tensor<double, 2> q = normal<double, 2>({23, 3}, random, 2.0);
    const Tensor<double, 2> k = normal<double, 2>({31, 3}, random, 2.0);
    const auto affinity = [&] {
      return affinity_of(head.responsibilities(q), head.responsibilities(k));
    };
    EXPECT_GE(std::ranges::min(affinity().values()), 0);
    EXPECT_EQ(rank_of(affinity()), 5);
    EXPECT_EQ(theory::bounds(head.mixture(), 1).rank, 5);
    EXPECT_EQ(rank_of(affinity_of(head.responsibilities(q), head.responsibilities(k),
                                  {.normalize = true})),
              5);
    head.prior_logits(1) = -kInfinity;
    head.means(1, 0) = kInfinity;
    EXPECT_EQ(rank_of(affinity()), 4);
    EXPECT_EQ(theory::bounds(head.mixture(), 1).rank, 4);
  }
}

TEST(Affinity, CausalHasFullRankButLowRankBlocks) {
  Random random(3);
  const Head head({}, random);
  const Tensor<double, 2> gamma = head.responsibilities(normal<double, 2>({20, 3}, random));
  const Tensor<double, 2> affinity = affinity_of(gamma, gamma, {.is_causal = true});
  EXPECT_EQ(rank_of(affinity), 20);
  for (std::int64_t cut = 1; cut < 20; ++cut) {
    const Tensor<double, 2> past = slice(slice(affinity, 0, cut, 20), 1, 0, cut);
    const Tensor<double, 2> future = slice(slice(affinity, 0, 0, cut), 1, cut, 20);
    EXPECT_LE(rank_of(past), 5) << cut;
    EXPECT_TRUE(all_zero(future)) << cut;
  }
}

TEST(Affinity, NormalizedRowsSumToTheirShareAndMakeTheOutput) {
  Random random(4);
  const Head head({}, random);
  const Tensor<double, 2> q = normal<double, 2>({9, 3}, random);
  const Tensor<double, 2> k = normal<double, 2>({9, 3}, random);
  const Tensor<double, 2> v = normal<double, 2>({9, 2}, random);
  const Tensor<double, 2> gamma_q = head.responsibilities(q);
  const Tensor<double, 2> gamma_k = head.responsibilities(k);
  for (const bool is_causal : {false, true}) {
    for (const double eps : {0.0, 1e-6, 0.5}) {
      SCOPED_TRACE(testing::Message() << "eps " << eps << (is_causal ? ", causal" : ""));
      const Tensor<double, 2> plain = affinity_of(gamma_q, gamma_k, {.is_causal = is_causal});
      const Tensor<double, 2> normalized =
          affinity_of(gamma_q, gamma_k, {.is_causal = is_causal, .normalize = true, .eps = eps});
      Tensor<double, 2> product({9, 2}, 0.0);
      for (std::int64_t i = 0; i < 9; ++i) {
        double s = 0;
        double sum = 0;
        for (std::int64_t j = 0; j < 9; ++j) {
          s += plain(i, j);
          sum += normalized(i, j);
          for (std::int64_t d = 0; d < 2; ++d) product(i, d) += normalized(i, j) * v(j, d);
        }
        EXPECT_NEAR(sum, s / (s + eps), 1e-14);
      }
      EXPECT_TRUE(
          close(product, Attention{.head = head, .is_causal = is_causal, .eps = eps}(q, k, v)));
    }
  }
}

TEST(Affinity, RowsThatReadNothingAreZero) {
  const Tensor<double, 2> gamma({2, 3}, 0.0);
  EXPECT_TRUE(all_zero(affinity_of(gamma, gamma, {.normalize = true, .eps = 0})));
}

/// The greatest |J v|_1 over unit v, which some vector of signs attains as |J^T signs|.
double norm_2_to_1(const Tensor<double, 2>& jacobian) {
  const std::int64_t rows = jacobian.shape()[0];
  double largest = 0;
  for (std::int64_t bits = 0; bits < std::int64_t{1} << rows; ++bits) {
    Point signs;
    for (std::int64_t k = 0; k < rows; ++k) signs.push_back((bits >> k & 1) != 0 ? 1 : -1);
    largest = std::max(largest, norm(pull_back(jacobian, signs)));
  }
  return largest;
}

TEST(Jacobian, EqualsFiniteDifferencesAndStaysBelowItsBounds) {
  for (const CovarianceType type : kCovarianceTypes) {
    SCOPED_TRACE(name_of(type));
    Random random(5);
    const Head head({.covariance_type = type}, random);
    double tightest = 0;
    for (int trial = 0; trial < 60; ++trial) {
      const Point x = random_point(3, 4, random);
      const Point gamma = head.responsibilities(x);
      const Tensor<double, 2> jacobian = head.jacobian(x);
      double spread = 0;
      for (std::int64_t k = 0; k < 5; ++k) {
        for (std::int64_t l = 0; l < k; ++l) {
          spread = std::max(spread, norm(difference(head.score(k, x), head.score(l, x))));
        }
      }
      for (std::int64_t k = 0; k < 5; ++k) {
        Tensor<double, 1> point({3});
        std::size_t d = 0;
        point.for_each([&](double& element) { element = x[d++]; });
        const auto expected =
            finite_differences(point, [&] { return head.responsibilities(point.values())[k]; });
        const Point row = slice(jacobian, 0, k, k + 1).values();
        EXPECT_TRUE(close(row, in_double(expected), 1e-9));
        EXPECT_LE(norm(row), gamma[k] * (1 - gamma[k]) * spread * (1 + 1e-9));
      }
      const double bound = theory::jacobian_bound(head.mixture(), view_of(x));
      const double actual = norm_2_to_1(jacobian);
      EXPECT_LE(actual, bound * (1 + 1e-9));
      EXPECT_LE(bound, spread / 2 * (1 + 1e-9));
      EXPECT_LE(spread, theory::score_spread(head.mixture(), 4) * (1 + 1e-9));
      tightest = std::max(tightest, actual / bound);
    }
    EXPECT_GE(tightest, 0.6);
    RecordProperty(std::string("tightness_") + name_of(type), testing::PrintToString(tightest));
  }
}

TEST(Jacobian, BoundVanishesWhereOneComponentOwnsThePoint) {
  Random random(6);
  Head head({.components = 2}, random);
  const Point x(3, 0.0);
  const double shared = theory::jacobian_bound(head.mixture(), view_of(x));
  head.prior_logits(0) = 30;
  EXPECT_LE(theory::jacobian_bound(head.mixture(), view_of(x)), 1e-10 * shared);
}

/// A parameter of component k moves gamma by 2 gamma_k (1 - gamma_k) times what it moves l_k by.
TEST(Jacobian, OfParametersIsModulatedByTheResponsibility) {
  Random random(7);
  Head head({}, random);
  const Point x = random_point(3, 2, random);
  const Point gamma = head.responsibilities(x);
  /// sum_m |d gamma_m / d parameter| for each parameter.
  const auto movement = [&](auto& parameters) {
    Tensor<double, std::tuple_size_v<std::remove_cvref_t<decltype(parameters.shape())>>> sum(
        parameters.shape(), 0.0);
    for (std::int64_t m = 0; m < 5; ++m) {
      std::vector<double> row =
          finite_differences(parameters, [&] { return head.responsibilities(x)[m]; }).values();
      std::size_t i = 0;
      sum.for_each([&](double& element) { element += std::abs(row[i++]); });
    }
    return sum;
  };
  const auto by_logits = movement(head.prior_logits);
  const auto by_means = movement(head.means);
  const auto by_variances = movement(head.variances);
  for (std::int64_t k = 0; k < 5; ++k) {
    const double modulation = 2 * gamma[k] * (1 - gamma[k]);
    const Point u = head.score(k, x);
    EXPECT_NEAR(by_logits(k), modulation, 1e-9);
    for (std::int64_t d = 0; d < 3; ++d) {
      EXPECT_NEAR(by_means(k, d), modulation * std::abs(u[d]), 1e-8);
      EXPECT_NEAR(by_variances(k, d),
                  modulation * std::abs(u[d] * u[d] - 1 / head.variance(k, d)) / 2, 1e-8);
    }
  }
}

TEST(Bounds, DoNotOverflowWhereVariancesAreTiny) {
  Random random(9);
  Head head({}, random);
  const double spread = theory::score_spread(head.mixture(), 2);
  // Routing vectors in another unit, a power of 2: variances near 1e-160, precisions near 1e160.
  const double unit = std::ldexp(1.0, -266);
  head.means.for_each([&](double& mean) { mean *= unit; });
  head.variances.for_each([&](double& variance) { variance *= unit * unit; });
  EXPECT_NEAR(theory::score_spread(head.mixture(), 2 * unit) * unit / spread, 1, 1e-12);
  // Where even the scores overflow, the bound is infinite, which is true.
  head.means.for_each([&](double& mean) { mean /= unit * unit; });
  EXPECT_EQ(theory::score_spread(head.mixture(), 2 * unit), kInfinity);
}

TEST(Bounds, AreMultiplesOfTheScoreSpread) {
  Random random(8);
  for (const CovarianceType type : kCovarianceTypes) {
    SCOPED_TRACE(name_of(type));
    const Head head({.covariance_type = type, .components = 7}, random);
    const theory::Bounds bounds = theory::bounds(head.mixture(), 2);
    const double spread = theory::score_spread(head.mixture(), 2);
    EXPECT_EQ(bounds.radius, 2);
    EXPECT_EQ(bounds.rank, 7);
    EXPECT_EQ(bounds.score_spread, spread);
    EXPECT_EQ(bounds.responsibilities, spread / 2);
    EXPECT_DOUBLE_EQ(bounds.responsibilities_2, spread / (2 * std::sqrt(2)));
    EXPECT_EQ(bounds.gradient, spread / 4);
    EXPECT_EQ(bounds.read_query, spread / 4);
    EXPECT_EQ(bounds.read_key, spread / 2);
    EXPECT_LE(spread, bounds.coarse_score_spread);
    EXPECT_EQ(std::isinf(theory::score_spread(head.mixture(), kInfinity)),
              type != CovarianceType::tied);
  }
}

TEST(Diameter, IsThatOfValuesWithZeroAndOfTheRowsThatAreRead) {
  Tensor<double, 2> values({3, 2}, 0.0);
  values(0, 0) = 3;
  values(1, 1) = 4;
  values(2, 0) = values(2, 1) = 3;
  EXPECT_DOUBLE_EQ(theory::value_diameter(values.view(), 0), 5);
  values(0, 0) = values(1, 1) = 3;
  EXPECT_DOUBLE_EQ(theory::value_diameter(values.view(), 0), std::sqrt(18));
  EXPECT_DOUBLE_EQ(theory::value_diameter(slice(values, 0, 2, 3).view(), 0), 0);
  EXPECT_DOUBLE_EQ(theory::value_diameter(slice(values, 0, 2, 3).view(), 1e-6), std::sqrt(18));

  Tensor<double, 1> z({3}, 2.0);
  EXPECT_DOUBLE_EQ(theory::state_diameter(values.view(), z.view(), 0), std::sqrt(4.5));
  z(0) = 0;
  EXPECT_DOUBLE_EQ(theory::state_diameter(values.view(), z.view(), 1), std::sqrt(10));
  EXPECT_DOUBLE_EQ(theory::state_diameter(values.view(), z.view(), 0), 1.5);
}

struct Refusal {
  std::string name;
  std::function<void(Head&)> spoil;
  std::string message;
};

void PrintTo(const Refusal& refusal, std::ostream* stream) { *stream << refusal.name; }

class TheoryRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(TheoryRefuses, MixturesWithOneClearError) {
  Random random(9);
  Head head({}, random);
  GetParam().spoil(head);
  try {
    theory::bounds(head.mixture(), 1);
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TheoryRefuses,
    testing::Values(
        Refusal{"no_components", [](Head& head) { head.means = Tensor<double, 2>({0, 3}); },
                "means: expected at least one component, got K = 0"},
        Refusal{"no_channels", [](Head& head) { head.means = Tensor<double, 2>({5, 0}); },
                "means: expected a routing size D of at least 1, got 0"},
        Refusal{"variances_shape",
                [](Head& head) { head.variances = Tensor<double, 2>({4, 3}, 1.0); },
                "variances: expected shape (K, D), (1, D) or (K, 1) = (5, 3), got (4, 3)"},
        Refusal{"variance_zero", [](Head& head) { head.variances(2, 1) = 0; },
                "variances: expected finite numbers > 0, got 0 for component 2"},
        Refusal{"mean_nan", [](Head& head) { head.means(1, 0) = std::nan(""); },
                "means: expected finite numbers, got nan for component 1"},
        Refusal{"logits_shape", [](Head& head) { head.prior_logits = Tensor<double, 1>({4}, 0.0); },
                "prior_logits: expected shape (K) = (5), got (4)"},
        Refusal{"logit_nan", [](Head& head) { head.prior_logits(3) = std::nan(""); },
                "prior_logits: expected finite numbers or -inf, got nan for component 3"},
        Refusal{"all_off",
                [](Head& head) { head.prior_logits = Tensor<double, 1>({5}, -kInfinity); },
                "prior_logits: expected a component that is not -inf, got none"}),
    [](const auto& test) { return test.param.name; });

TEST(TheoryArguments, AreRefused) {
  Random random(10);
  const Head head({}, random);
  const theory::Mixture mixture = head.mixture();
  const Tensor<double, 2> matrix({2, 5}, 0.1);
  EXPECT_THROW(theory::score_spread(mixture, -1), InvalidArgument);
  EXPECT_THROW(theory::score_spread(mixture, std::nan("")), InvalidArgument);
  EXPECT_THROW(theory::jacobian_bound(mixture, view_of(Point(2))), InvalidArgument);
  EXPECT_THROW(head.responsibilities(Tensor<double, 2>({4, 2}, 0.0)), InvalidArgument);
  EXPECT_THROW(affinity_of(matrix, Tensor<double, 2>({2, 4}, 0.1)), InvalidArgument);
  EXPECT_THROW(affinity_of(matrix, matrix, {.eps = -1}), InvalidArgument);
  EXPECT_THROW(affinity_of(matrix, Tensor<double, 2>({3, 5}, 0.1), {.is_causal = true}),
               InvalidArgument);
  EXPECT_THROW(rank_of(Tensor<double, 2>({2, 2}, std::nan(""))), InvalidArgument);
  EXPECT_THROW(theory::numerical_rank(matrix.view(), 1), InvalidArgument);
  EXPECT_THROW(theory::coarse_score_spread(1, 1, 0), InvalidArgument);
  EXPECT_THROW(theory::value_diameter(matrix.view(), -1), InvalidArgument);
  EXPECT_THROW(theory::state_diameter(matrix.view(), Tensor<double, 1>({2}, -1.0).view(), 0),
               InvalidArgument);
}

}  // namespace
}  // namespace gma::test
