// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The oracle against the definition, and every gradient, of the oracle and of the kernels in
// double, against finite differences.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/case.h"
#include "support/close.h"
#include "support/finite_differences.h"
#include "support/implementation.h"
#include "support/plain.h"
#include "support/problem.h"

namespace gma::test {
namespace {

template <std::size_t Rank>
double inner_product(const Tensor<double, Rank>& a, const Tensor<double, Rank>& weights) {
  const std::vector<double> left = a.values();
  const std::vector<double> right = weights.values();
  double sum = 0;
  for (std::size_t i = 0; i < right.size(); ++i) sum += left[i] * right[i];
  return sum;
}

/// The function whose gradient backward computes.
double loss(const Problem<double>& problem, Backend backend) {
  const Results<double> results = solve_forward(problem, backend);
  return inner_product(results.output, problem.grad_output) +
         inner_product(results.final_s, problem.grad_final_s) +
         inner_product(results.final_z, problem.grad_final_z);
}

class Gradients : public ImplementationTest {};

TEST_P(Gradients, C25_EqualFiniteDifferences) {
  for (const Case& one : gradient_cases()) {
    SCOPED_TRACE(one.name);
    Problem<double> problem = make_problem<double>(one);
    const Results<double> results = solve(problem, backend());
    const auto check = [&](const char* name, auto& point, const auto& gradient) {
      if (point.empty()) return;
      const auto expected = finite_differences(point, [&] { return loss(problem, backend()); });
      EXPECT_TRUE(close(in_double(gradient), in_double(expected),
                        1e-9 * (1 + scale_of(in_double(expected)))))
          << name;
    };
    check("query", problem.query, results.dquery);
    check("key", problem.key, results.dkey);
    check("value", problem.value, results.dvalue);
    check("means", problem.means, results.dmeans);
    check("variances", problem.variances, results.dvariances);
    check("prior_logits", problem.prior_logits, results.dprior_logits);
    check("initial_s", problem.initial_s, results.dinitial_s);
    check("initial_z", problem.initial_z, results.dinitial_z);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Gradients, testing::ValuesIn(implementations()), test_name);

TEST(Oracle, EqualsTheExplicitAffinity) {
  std::vector<Case> cases = option_cases();
  for (const Case& one : size_cases()) cases.push_back(one);
  for (const Case& one : cases) {
    if (one.has_state || one.dropout_p > 0) continue;
    SCOPED_TRACE(one.name);
    const Problem<double> problem = make_problem<double>(one);
    const Results<double> results = solve_forward(problem, Backend::reference);
    EXPECT_TRUE(close(results.output, plain_output(problem)));
  }
}

}  // namespace
}  // namespace gma::test
