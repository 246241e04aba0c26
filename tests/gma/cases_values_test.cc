// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Calls whose answer is known in closed form or must not change, and numbers at the edge.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "cases.h"
#include "gma/attention.h"
#include "support/case.h"
#include "support/close.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace gma::test {
namespace {

INSTANTIATE_TEST_SUITE_P(All, Cases, testing::ValuesIn(implementations()), test_name);

constexpr double kVarianceFloor = 1e-4;

TEST_P(Cases, C02_OneComponentAverages) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      constexpr std::int64_t kTokens = 37;
      const Problem<T> problem = make_problem<T>({.queries = kTokens,
                                                  .keys = kTokens,
                                                  .components = 1,
                                                  .is_causal = is_causal,
                                                  .eps = 0.5});
      Tensor<double, 4> expected(problem.grad_output.shape());
      for (std::int64_t c = 0; c < expected.shape()[3]; ++c) {
        double sum = 0;
        for (std::int64_t t = 0; t < kTokens; ++t) {
          sum += problem.value(0, t, 0, c);
          expected(0, t, 0, c) = sum / (static_cast<double>(t + 1) + 0.5);
        }
        for (std::int64_t t = 0; t < kTokens && !is_causal; ++t) {
          expected(0, t, 0, c) = sum / (kTokens + 0.5);
        }
      }
      EXPECT_TRUE(close(solve_forward(problem, backend()).output, expected));
    }
  });
}

TEST_P(Cases, C03_ValuesOfOneGiveTheNormaliserOfTheKeptKeys) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    constexpr double kEps = 10;
    Problem<T> problem =
        make_problem<T>({.queries = 50, .keys = 50, .has_mask = true, .eps = kEps});
    problem.value = Tensor<T, 4>(problem.value.shape(), T{1});
    const Results<T> masked = solve(problem, backend());

    std::vector<std::int64_t> kept;
    for (std::int64_t j = 0; j < 50; ++j) {
      if (problem.mask(0, j)) kept.push_back(j);
    }
    ASSERT_LT(kept.size(), 50U);
    problem.key = take(problem.key, 1, kept);
    problem.value = take(problem.value, 1, kept);
    problem.mask = {};
    problem.options.keys = static_cast<std::int64_t>(kept.size());
    const Results<double> compact = expected(problem);

    EXPECT_TRUE(close(masked.normalizer, compact.normalizer));
    Tensor<double, 4> ratio(masked.output.shape());
    for_each_index(ratio.shape(), [&](auto i) {
      const double s = compact.normalizer(i[0], i[1], i[2]);
      ratio(i[0], i[1], i[2], i[3]) = s / (s + kEps);
    });
    EXPECT_TRUE(close(masked.output, ratio));
  });
}

TEST_P(Cases, C04_OneTokenEqualsAStepFromTheEmptyState) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      Problem<T> problem = make_problem<T>({.batch = 2,
                                            .queries = 1,
                                            .keys = 1,
                                            .query_heads = 2,
                                            .key_heads = 2,
                                            .is_causal = is_causal});
      problem.query = problem.key;
      const Results<T> whole = solve_forward(problem, backend());

      Results<T> stepped = whole;
      stepped.output = Tensor<T, 4>(whole.output.shape());
      stepped.final_s.for_each([](auto& element) { element = 0; });
      stepped.final_z.for_each([](auto& element) { element = 0; });
      step<T>(step_args(problem, stepped, 0, backend()), token_of(stepped.output.view(), 0));

      const Results<double> reference = expected(problem);
      EXPECT_TRUE(close(whole.output, reference.output));
      EXPECT_TRUE(close(stepped.output, reference.output));
      EXPECT_TRUE(close(stepped.final_s, reference.final_s));
      EXPECT_TRUE(close(stepped.final_z, reference.final_z));
    }
  });
}

TEST_P(Cases, C05_NothingInNothingOut) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      const Results<T> no_tokens =
          solve(make_problem<T>({.queries = 0, .keys = 0, .is_causal = is_causal}), backend());
      EXPECT_EQ(no_tokens.output.shape(), (std::array<std::int64_t, 4>{1, 0, 1, 8}));
      EXPECT_TRUE(all_zero(no_tokens.final_s));
      EXPECT_TRUE(all_zero(no_tokens.final_z));
      EXPECT_TRUE(all_zero(no_tokens.dmeans));
      EXPECT_TRUE(all_zero(no_tokens.dvariances));
      EXPECT_TRUE(all_zero(no_tokens.dprior_logits));

      const Results<T> no_batch = solve(
          make_problem<T>({.batch = 0, .is_causal = is_causal, .has_state = true}), backend());
      EXPECT_TRUE(all_zero(no_batch.dmeans));
      EXPECT_TRUE(all_zero(no_batch.dprior_logits));

      const Problem<T> problem =
          make_problem<T>({.queries = 0, .keys = 0, .is_causal = is_causal, .has_state = true});
      const Results<T> passed = solve(problem, backend());
      EXPECT_TRUE(same_bits(passed.final_s, problem.initial_s));
      EXPECT_TRUE(same_bits(passed.final_z, problem.initial_z));
      EXPECT_TRUE(same_bits(passed.dinitial_s, problem.grad_final_s));
      EXPECT_TRUE(same_bits(passed.dinitial_z, problem.grad_final_z));
    }
    const Results<T> no_keys = solve(make_problem<T>({.queries = 9, .keys = 0}), backend());
    EXPECT_TRUE(all_zero(no_keys.output));
    EXPECT_TRUE(all_zero(no_keys.dquery));
    EXPECT_TRUE(all_zero(no_keys.normalizer));
    EXPECT_TRUE(all_zero(no_keys.dmeans));
    const Results<T> no_queries = solve(make_problem<T>({.queries = 0, .keys = 9}), backend());
    EXPECT_TRUE(all_zero(no_queries.dkey));
    EXPECT_TRUE(all_zero(no_queries.dvalue));
    EXPECT_TRUE(all_finite(no_queries.final_s));
  });
}

TEST_P(Cases, C16_OrderOfPairsAndOfComponentsDoesNotMatter) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    const Problem<T> problem = make_problem<T>({.queries = 40, .keys = 300, .components = 11});
    const Results<double> reference = expected(problem);
    Random random(5);
    const auto shuffled = [&](std::int64_t size) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(size));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, random);
      return order;
    };

    const std::vector<std::int64_t> pairs = shuffled(300);
    Problem<T> permuted = problem;
    permuted.key = take(problem.key, 1, pairs);
    permuted.value = take(problem.value, 1, pairs);
    const Results<T> by_pair = solve(permuted, backend());
    EXPECT_TRUE(close(by_pair.output, reference.output));
    EXPECT_TRUE(close(by_pair.dkey, take(reference.dkey, 1, pairs)));
    EXPECT_TRUE(close(by_pair.dmeans, reference.dmeans));

    const std::vector<std::int64_t> components = shuffled(11);
    permuted = problem;
    permuted.means = take(problem.means, 1, components);
    permuted.variances = take(problem.variances, 1, components);
    permuted.prior_logits = take(problem.prior_logits, 1, components);
    const Results<T> by_component = solve(permuted, backend());
    EXPECT_TRUE(close(by_component.output, reference.output));
    EXPECT_TRUE(close(by_component.dquery, reference.dquery));
    EXPECT_TRUE(close(by_component.dmeans, take(reference.dmeans, 1, components)));
    EXPECT_TRUE(close(by_component.final_s, take(reference.final_s, 2, components)));
  });
}

template <class T>
void expect_sane_at_the_floor(const Problem<T>& problem, Backend backend) {
  const Results<T> results = solve(problem, backend);
  expect_finite(results);
  const std::vector<double> z = in_double(results.final_z);
  EXPECT_NEAR(std::accumulate(z.begin(), z.end(), 0.0), 70.0, 70 * 1e-6);
}

template <class T>
Problem<T> huge_problem(CovarianceType type, bool is_causal) {
  Random random(3);
  Problem<T> problem = make_problem<T>(
      {.queries = 70, .keys = 70, .is_causal = is_causal, .eps = 0, .covariance_type = type});
  problem.query = normal<T, 4>(problem.query.shape(), random, 1e4);
  problem.key = normal<T, 4>(problem.key.shape(), random, 1e4);
  problem.variances.for_each([](T& variance) { variance = static_cast<T>(kVarianceFloor); });
  return problem;
}

TEST_P(Cases, C17_HugeInputsAtTheVarianceFloor) {
  for (const CovarianceType type :
       {CovarianceType::diag, CovarianceType::tied, CovarianceType::spherical}) {
    for (const bool is_causal : {false, true}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(type) << (is_causal ? ", causal" : ""));
      expect_sane_at_the_floor(huge_problem<double>(type, is_causal), backend());
      auto problem = huge_problem<float>(type, is_causal);
      expect_sane_at_the_floor(problem, backend());
      expect_sane_at_the_floor(stored_as<bfloat16>(problem), backend());
      problem = huge_problem<float>(type, is_causal);
      expect_sane_at_the_floor(stored_as<float16>(problem), backend());
    }
  }
}

/// One key: Z holds its responsibilities, whose ratio is that of the densities. `tolerance` is on
/// the difference of two log-densities; hopeless components are left out.
void expect_log_densities(const Results<float>& results, const Results<double>& reference,
                          double tolerance) {
  for (std::int64_t b = 0; b < reference.final_z.shape()[0]; ++b) {
    const double ratio = reference.final_z(b, 0, 0) / reference.final_z(b, 0, 1);
    if (!(std::abs(std::log(ratio)) <= 20)) continue;
    const double actual = static_cast<double>(results.final_z(b, 0, 0)) / results.final_z(b, 0, 1);
    EXPECT_LE(std::abs(std::log(actual) - std::log(ratio)), tolerance) << b;
  }
}

TEST_P(Cases, C18_LogDensityFarFromTheOrigin) {
  constexpr double kCenter = 1e4;
  for (const CovarianceType type :
       {CovarianceType::diag, CovarianceType::tied, CovarianceType::spherical}) {
    const Problem<float> problem = make_problem<float>({.batch = 50,
                                                        .queries = 1,
                                                        .keys = 1,
                                                        .components = 2,
                                                        .variance = 1,
                                                        .offset = kCenter,
                                                        .covariance_type = type});
    expect_log_densities(solve_forward(problem, backend()), expected(problem), 1e-3);
  }
}

TEST_P(Cases, LogDensityOfManyChannels) {
  for (const CovarianceType type :
       {CovarianceType::diag, CovarianceType::tied, CovarianceType::spherical}) {
    Problem<float> problem = make_problem<float>({.batch = 50,
                                                  .queries = 1,
                                                  .keys = 1,
                                                  .dim = 4096,
                                                  .components = 2,
                                                  .covariance_type = type});
    // Components near each other, but not near the points: densities of the order of exp(-2000)
    // that differ by little.
    for (std::int64_t d = 0; d < 4096; ++d) {
      problem.means(0, 1, d) = problem.means(0, 0, d) + 0.01F * problem.means(0, 1, d);
      problem.variances(0, problem.variances.shape()[1] - 1, d % problem.variances.shape()[2]) =
          problem.variances(0, 0, d % problem.variances.shape()[2]);
    }
    expect_log_densities(solve_forward(problem, backend()), expected(problem), 1e-3);
  }
}

TEST_P(Cases, NanIsSeen) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    const Problem<T> sound = make_problem<T>({.queries = 9, .keys = 9, .components = 5});
    Problem<T> query = sound;
    query.query(0, 4, 0, 1) = std::numeric_limits<T>::quiet_NaN();
    const Results<T> results = solve_forward(query, backend());
    const Results<T> expected = solve_forward(sound, backend());
    for (std::int64_t i = 0; i < 9; ++i) {
      const T value = results.output(0, i, 0, 0);
      EXPECT_TRUE(i == 4 ? std::isnan(value) : value == expected.output(0, i, 0, 0)) << i;
    }

    Problem<T> mean = sound;
    mean.means(0, 2, 0) = std::numeric_limits<T>::quiet_NaN();
    EXPECT_TRUE(std::isnan(solve_forward(mean, backend()).output(0, 0, 0, 0)));
  });
}

TEST_P(Cases, C19_ExtremeVariancesAndCoincidences) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    using A = accumulate_t<T>;
    const auto variance = [](double raw) {
      return static_cast<A>((raw > 30 ? raw : std::log1p(std::exp(raw))) + kVarianceFloor);
    };
    for (const bool is_causal : {false, true}) {
      Problem<T> problem =
          make_problem<T>({.queries = 20, .keys = 20, .components = 6, .is_causal = is_causal});
      for (std::int64_t d = 0; d < problem.options.dim; ++d) {
        problem.variances(0, 0, d) = variance(-40);
        problem.variances(0, 1, d) = variance(40);
        problem.means(0, 3, d) = problem.means(0, 2, d);
        problem.variances(0, 3, d) = problem.variances(0, 2, d);
        problem.means(0, 4, d) = problem.key(0, 7, 0, d);
        problem.variances(0, 4, d) = variance(-40);
      }
      problem.prior_logits(0, 3) = problem.prior_logits(0, 2);
      const Results<T> results = solve(problem, backend());
      expect_finite(results);
      expect_close(results, expected(problem));
    }
  });
}

TEST_P(Cases, C20_SwitchedOffComponentIsInert) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    using A = accumulate_t<T>;
    for (const A prior : {A{-1e4}, -std::numeric_limits<A>::infinity()}) {
      Problem<T> problem =
          make_problem<T>({.queries = 40, .keys = 40, .components = 5, .is_causal = true});
      Problem<T> without = problem;
      const std::vector<std::int64_t> others = {0, 1, 3, 4};
      without.options.components = 4;
      without.means = take(problem.means, 1, others);
      without.variances = take(problem.variances, 1, others);
      without.prior_logits = take(problem.prior_logits, 1, others);
      const Results<double> reference = expected(without);

      problem.prior_logits(0, 2) = prior;
      const Results<T> results = solve(problem, backend());
      expect_finite(results);
      EXPECT_TRUE(close(results.output, reference.output));
      EXPECT_TRUE(close(results.dquery, reference.dquery));
      EXPECT_TRUE(close(take(results.dmeans, 1, others), reference.dmeans));
      EXPECT_TRUE(all_zero(slice(results.dmeans, 1, 2, 3)));
      EXPECT_TRUE(all_zero(slice(results.dvariances, 1, 2, 3)));
      EXPECT_TRUE(all_zero(slice(results.dprior_logits, 1, 2, 3)));
      EXPECT_TRUE(all_zero(slice(results.final_s, 2, 2, 3)));
      EXPECT_TRUE(all_zero(slice(results.final_z, 2, 2, 3)));
    }
  });
}

TEST_P(Cases, C20_SwitchedOffComponentMayHoldAnything) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const CovarianceType type : {CovarianceType::diag, CovarianceType::spherical}) {
    Problem<float> problem = make_problem<float>({.queries = 20,
                                                  .keys = 20,
                                                  .components = 3,
                                                  .is_causal = true,
                                                  .has_state = true,
                                                  .covariance_type = type});
    problem.prior_logits(0, 1) = -kInfinity;
    const Results<float> clean = solve(problem, backend());
    Results<float> clean_step = clean;
    step<float>(step_args(problem, clean_step, 0, backend()),
                token_of(clean_step.output.view(), 0));
    for (const auto& [mean, variance] :
         {std::pair{kNan, 1.0F}, std::pair{kInfinity, 1.0F}, std::pair{0.0F, kNan},
          std::pair{0.0F, 0.0F}, std::pair{0.0F, -1.0F}, std::pair{1e30F, 1e-30F}}) {
      SCOPED_TRACE(testing::Message() << mean << ' ' << variance);
      problem.means(0, 1, 0) = mean;
      problem.variances(0, 1, 0) = variance;
      expect_same_bits(solve(problem, backend()), clean);
      Results<float> stepped = clean;
      step<float>(step_args(problem, stepped, 0, backend()), token_of(stepped.output.view(), 0));
      expect_same_bits(stepped, clean_step);
    }
  }
}

TEST_P(Cases, C21_DisjointComponentsReadNothing) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const double eps : {0.0, 1e-6}) {
      for (const bool is_causal : {false, true}) {
        Problem<T> problem = make_problem<T>(
            {.queries = 30, .keys = 30, .components = 2, .is_causal = is_causal, .eps = eps});
        const auto shift = [](auto part, double offset) {
          part.for_each([&](auto& element) { element += static_cast<T>(offset); });
          return part;
        };
        problem.query = shift(problem.query, 200);
        problem.key = shift(problem.key, -200);
        for (std::int64_t d = 0; d < problem.options.dim; ++d) {
          problem.means(0, 0, d) = 200;
          problem.means(0, 1, d) = -200;
        }
        const Results<T> results = solve(problem, backend());
        expect_finite(results);
        EXPECT_TRUE(all_zero(results.output));
      }
    }
  });
}

}  // namespace
}  // namespace gma::test
