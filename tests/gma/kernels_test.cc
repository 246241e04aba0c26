// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The kernels against the oracle, on every instruction set of this machine, over the shape grid.
#include <gtest/gtest.h>

#include <vector>

#include "support/case.h"
#include "support/close.h"
#include "support/implementation.h"
#include "support/plain.h"
#include "support/problem.h"

namespace gma::test {
namespace {

/// Solves each case with every kernel; the oracle runs once a case.
template <class T>
void expect_kernels_agree(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const Problem<T> problem = make_problem<T>(one);
    const Results<double> reference = expected(problem);
    for (const Implementation& kernel : kernels()) {
      SCOPED_TRACE(name_of(kernel));
      const ScopedTarget target(kernel);
      expect_close(solve(problem, kernel.backend), reference);
    }
  }
}

template <class T>
class Kernels : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Kernels, Types);

TYPED_TEST(Kernels, C06_AgreeAtEveryLength) { expect_kernels_agree<TypeParam>(length_cases()); }

TYPED_TEST(Kernels, C07_AgreeAtEverySize) { expect_kernels_agree<TypeParam>(size_cases()); }

TYPED_TEST(Kernels, AgreeWithEveryOption) { expect_kernels_agree<TypeParam>(option_cases()); }

TYPED_TEST(Kernels, OutputIsAsGoodAsAPlainComputation) {
  std::vector<Case> cases = option_cases();
  for (const Case& one : size_cases()) cases.push_back(one);
  for (const Case& one : cases) {
    if (one.has_state || one.dropout_p > 0) continue;
    // One 1 / sigma for all channels rounds a long distance one way, where the plain computation
    // averages over as many divisions.
    if (one.far_every > 0 && one.covariance_type == CovarianceType::spherical) continue;
    SCOPED_TRACE(one.name);
    const Problem<TypeParam> problem = make_problem<TypeParam>(one);
    const Tensor<TypeParam, 4> plain = plain_output(problem);
    const Results<double> reference = solve_forward(in_double(problem), Backend::reference);
    for (const Implementation& kernel : kernels()) {
      SCOPED_TRACE(name_of(kernel));
      const ScopedTarget target(kernel);
      const Results<TypeParam> results = solve_forward(problem, kernel.backend);
      EXPECT_TRUE(close(results.output, reference.output, plain));
    }
  }
}

}  // namespace
}  // namespace gma::test
