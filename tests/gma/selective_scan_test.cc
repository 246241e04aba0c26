// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The selective scan: the oracle's gradients against finite differences, the kernels against the
// oracle on every instruction set of this machine, and what every implementation must survive.
#include "gma/selective_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/close.h"
#include "support/executor.h"
#include "support/finite_differences.h"
#include "support/implementation.h"
#include "support/scan_problem.h"

namespace gma::test {
namespace {

// The scan's sums are short and of few cancellations: a twentieth of the tolerance is enough.
constexpr Leniency kScan{.factor = 0.05};

template <std::size_t Rank>
double inner_product(const Tensor<double, Rank>& a, const Tensor<double, Rank>& weights) {
  const std::vector<double> left = a.values(), right = weights.values();
  double sum = 0;
  for (std::size_t i = 0; i < right.size(); ++i) sum += left[i] * right[i];
  return sum;
}

class Scan : public ImplementationTest {};
INSTANTIATE_TEST_SUITE_P(All, Scan, testing::ValuesIn(implementations()), test_name);

TEST_P(Scan, GradientsEqualFiniteDifferences) {
  const std::vector<ScanCase> cases = {
      {.batch = 2, .tokens = 4, .channels = 3, .states = 2},
      {.tokens = 3, .channels = 2, .states = 5, .has_state = false},
      {.tokens = 1, .channels = 1, .states = 1},
      {.tokens = 66, .channels = 1, .states = 1},
  };
  for (const ScanCase& one : cases) {
    SCOPED_TRACE(one.name());
    ScanProblem<double> problem = make_scan_problem<double>(one);
    // Steps of the differences must not lead below delta = 0.
    problem.delta.for_each([](double& delta) { delta += 0.01; });
    const ScanResults<double> results = solve(problem, backend());
    const auto loss = [&] {
      const ScanResults<double> at = solve_forward(problem, backend());
      return inner_product(at.y, problem.grad_y) +
             inner_product(at.final_state, problem.grad_final_state);
    };
    const auto check = [&](const char* name, auto& point, const auto& gradient) {
      if (point.empty()) return;
      const auto expected = in_double(finite_differences(point, loss));
      EXPECT_TRUE(close(in_double(gradient), expected, 1e-9 * (1 + scale_of(expected)))) << name;
    };
    check("u", problem.u, results.du);
    check("delta", problem.delta, results.ddelta);
    check("a", problem.a, results.da);
    check("b", problem.b, results.db);
    check("c", problem.c, results.dc);
    check("d", problem.d, results.dd);
    check("initial_state", problem.initial_state, results.dinitial_state);
  }
}

template <class T>
class ScanKernels : public testing::Test {
 protected:
  static void expect_agreement(const std::vector<ScanCase>& cases) {
    for (const ScanCase& one : cases) {
      SCOPED_TRACE(one.name());
      const ScanProblem<T> problem = make_scan_problem<T>(one);
      const ScanResults<double> expected = solve(in_double(problem), Backend::reference);
      for (const Implementation& kernel : kernels()) {
        SCOPED_TRACE(name_of(kernel));
        const ScopedTarget target(kernel);
        solve(problem, kernel.backend)
            .for_each_with(expected, [](const char* name, const auto& x, const auto& y) {
              EXPECT_TRUE(close(x, y, kScan)) << name;
            });
      }
    }
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ScanKernels, Types);

TYPED_TEST(ScanKernels, AgreeAtEveryLength) {
  std::vector<ScanCase> cases;
  for (const std::int64_t tokens : {1, 2, 3, 63, 64, 65, 127, 128, 129, 300}) {
    cases.push_back({.batch = 2, .tokens = tokens, .channels = 9, .states = 4});
    cases.push_back({.tokens = tokens, .channels = 2, .states = 3, .has_state = false});
  }
  TestFixture::expect_agreement(cases);
}

TYPED_TEST(ScanKernels, AgreeAtEverySize) {
  std::vector<ScanCase> cases;
  for (const std::int64_t channels : {1, 3, 4, 8, 15, 16, 17, 63, 64, 65, 144}) {
    for (const std::int64_t states : {1, 2, 4, 5, 16, 19}) {
      cases.push_back({.batch = 2, .tokens = 70, .channels = channels, .states = states});
    }
  }
  TestFixture::expect_agreement(cases);
}

TYPED_TEST(ScanKernels, ErrorsDoNotGrowWithTheSequence) {
  TestFixture::expect_agreement({{.tokens = 20000, .channels = 5, .states = 2}});
}

TYPED_TEST(ScanKernels, TakeAndWriteAnyLayout) {
  const ScanCase one{.batch = 2, .tokens = 67, .channels = 21, .states = 5};
  const ScanProblem<TypeParam> problem = make_scan_problem<TypeParam>(one);
  for (const Implementation& kernel : kernels()) {
    SCOPED_TRACE(name_of(kernel));
    const ScopedTarget target(kernel);
    const ScanResults<TypeParam> expected = solve(problem, kernel.backend);
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(static_cast<int>(layout));
      ScanProblem<TypeParam> moved = problem;
      moved.for_each_input([&](const char*, auto& x) { x = x.with_layout(layout); });
      moved.grad_y = moved.grad_y.with_layout(layout);
      moved.grad_final_state = moved.grad_final_state.with_layout(layout);
      solve(moved, kernel.backend, threads(2), layout)
          .for_each_with(expected, [](const char* name, const auto& x, const auto& y) {
            EXPECT_TRUE(same_bits(x, y)) << name;
          });
    }
  }
}

TYPED_TEST(ScanKernels, HaveTheSameBitsForAnyNumberOfThreads) {
  const ScanCase one{.batch = 3, .tokens = 130, .channels = 150, .states = 6};
  const ScanProblem<TypeParam> problem = make_scan_problem<TypeParam>(one);
  const ScanResults<TypeParam> expected = solve(problem, Backend::cpu, serial_executor());
  for (const int count : {2, 3, 5}) {
    SCOPED_TRACE(count);
    solve(problem, Backend::cpu, threads(count))
        .for_each_with(expected, [](const char* name, const auto& x, const auto& y) {
          EXPECT_TRUE(same_bits(x, y)) << name;
        });
  }
}

TYPED_TEST(ScanKernels, PiecesHaveTheBitsOfTheWhole) {
  const ScanProblem<TypeParam> problem =
      make_scan_problem<TypeParam>({.batch = 2, .tokens = 173, .channels = 11, .states = 5});
  for (const Implementation& kernel : kernels()) {
    SCOPED_TRACE(name_of(kernel));
    const ScopedTarget target(kernel);
    const ScanResults<TypeParam> whole = solve_forward(problem, kernel.backend);
    Tensor<TypeParam, 3> state = problem.initial_state;
    std::int64_t begin = 0;
    for (const std::int64_t count : {37, 5, 1, 1, 64, 65}) {
      const ScanResults<TypeParam> part =
          solve_forward(tokens_of(problem, begin, begin + count, state), kernel.backend);
      EXPECT_TRUE(same_bits(part.y, slice(whole.y, 1, begin, begin + count))) << begin;
      state = part.final_state;
      begin += count;
    }
    EXPECT_EQ(begin, 173);
    EXPECT_TRUE(same_bits(state, whole.final_state));
  }
}

TEST_P(Scan, AStepOfZeroLeavesTheState) {
  ScanProblem<float> problem =
      make_scan_problem<float>({.tokens = 70, .channels = 10, .states = 3});
  problem.delta.for_each([](float& delta) { delta = 0; });
  const ScanResults<float> results = solve(problem, backend());
  EXPECT_TRUE(same_bits(results.final_state, problem.initial_state));
  EXPECT_TRUE(all_zero(results.da));
  EXPECT_TRUE(all_zero(results.db));
  results.for_each_with(results, [](const char* name, const auto& tensor, const auto&) {
    EXPECT_TRUE(all_finite(tensor)) << name;
  });
}

TEST_P(Scan, ALargeStepForgets) {
  for (const float step : {50.0F, 1e4F, 1e30F}) {
    ScanProblem<float> problem =
        make_scan_problem<float>({.tokens = 70, .channels = 10, .states = 3});
    problem.a.for_each([](float& a) { a -= 2; });
    problem.delta(0, 40, 2) = step;
    const ScanResults<float> results = solve(problem, backend());
    results.for_each_with(results, [](const char* name, const auto& tensor, const auto&) {
      EXPECT_TRUE(all_finite(tensor)) << name;
    });
    float expected = problem.d(2) * problem.u(0, 40, 2);
    for (int s = 0; s < 3; ++s) {
      expected += problem.c(0, 40, s) * step * problem.u(0, 40, 2) * problem.b(0, 40, s);
    }
    EXPECT_NEAR(results.y(0, 40, 2), expected, 1e-5F * std::abs(expected));
  }
}

TEST_P(Scan, EmptyShapes) {
  for (const ScanCase& one : {ScanCase{.tokens = 0}, ScanCase{.batch = 0}, ScanCase{.channels = 0},
                              ScanCase{.tokens = 0, .has_state = false}}) {
    SCOPED_TRACE(one.name());
    const ScanProblem<double> problem = make_scan_problem<double>(one);
    const ScanResults<double> results = solve(problem, backend());
    EXPECT_TRUE(all_zero(results.da));
    EXPECT_TRUE(all_zero(results.dd));
    if (one.tokens > 0 || one.batch == 0 || one.channels == 0) continue;
    if (one.has_state) {
      EXPECT_TRUE(same_bits(results.final_state, problem.initial_state));
      EXPECT_TRUE(same_bits(results.dinitial_state, problem.grad_final_state));
    } else {
      EXPECT_TRUE(all_zero(results.final_state));
    }
  }
}

TEST_P(Scan, LooksBackOnly) {
  const ScanProblem<float> problem =
      make_scan_problem<float>({.batch = 2, .tokens = 150, .channels = 20, .states = 3});
  const ScanResults<float> before = solve_forward(problem, backend());
  ScanProblem<float> spoilt = problem;
  for (int e = 0; e < 20; ++e) spoilt.u(1, 77, e) = std::numeric_limits<float>::quiet_NaN();
  const ScanResults<float> after = solve_forward(spoilt, backend());
  EXPECT_TRUE(same_bits(slice(after.y, 0, 0, 1), slice(before.y, 0, 0, 1)));
  EXPECT_TRUE(same_bits(slice(slice(after.y, 0, 1, 2), 1, 0, 77),
                        slice(slice(before.y, 0, 1, 2), 1, 0, 77)));
  for (int e = 0; e < 20; ++e) EXPECT_TRUE(std::isnan(after.y(1, 77, e)));
}

TEST_P(Scan, NanIsNotHidden) {
  for (const char* spoilt : {"u", "delta", "a", "b", "c", "d", "initial_state"}) {
    SCOPED_TRACE(spoilt);
    ScanProblem<float> problem =
        make_scan_problem<float>({.tokens = 3, .channels = 4, .states = 2});
    problem.for_each_input([&](const std::string& name, auto& tensor) {
      if (name != spoilt) return;
      tensor.for_each([](float& x) { x = std::numeric_limits<float>::quiet_NaN(); });
    });
    const ScanResults<float> results = solve_forward(problem, backend());
    for (const float value : results.y.values()) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(Scan, GradientsMayBeAbsent) {
  const ScanProblem<float> problem =
      make_scan_problem<float>({.batch = 2, .tokens = 70, .channels = 5, .states = 3});
  const ScanResults<float> all = solve(problem, backend());
  Tensor<float, 3> y({2, 70, 5}), du({2, 70, 5});
  Tensor<float, 4> saved({2, 2, 3, 5});
  const ScanArgs<float> args = problem.args(backend());
  selective_scan<float>(args, {.y = y.view(), .saved = saved.view()});
  selective_scan_backward<float>(args,
                                 {.saved = std::as_const(saved).view(),
                                  .grad_y = problem.grad_y.view(),
                                  .grad_final_state = problem.grad_final_state.view()},
                                 {.u = du.view()});
  EXPECT_TRUE(same_bits(y, all.y));
  EXPECT_TRUE(same_bits(du, all.du));
}

}  // namespace
}  // namespace gma::test
