// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Linear attention: the oracle against the explicit affinity and finite differences, the kernels
// against the oracle.
#include "gma/linear_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/sequences.h"
#include "gma/error.h"
#include "support/case.h"
#include "support/close.h"
#include "support/executor.h"
#include "support/finite_differences.h"
#include "support/implementation.h"
#include "support/problem.h"

namespace gma::test {
namespace {

/// Features for a case: those of a problem with as many channels as components, made positive.
template <class T>
Problem<T> make_features(Case one) {
  one.dim = one.components;
  Problem<T> problem = make_problem<T>(one);
  for (Tensor<T, 4>* features : {&problem.query, &problem.key}) {
    features->for_each([](T& element) { element = std::abs(element) + T(0.01); });
  }
  return problem;
}

template <class T>
LinearAttentionArgs<T> linear_args(const Problem<T>& problem, Backend backend) {
  const AttentionArgs<T> args = problem.args(backend);
  return {.query = args.query,
          .key = args.key,
          .value = args.value,
          .is_causal = args.is_causal,
          .key_padding_mask = args.key_padding_mask,
          .cu_seqlens_q = args.cu_seqlens_q,
          .cu_seqlens_k = args.cu_seqlens_k,
          .initial_state = args.initial_state,
          .eps = args.eps,
          .backend = backend,
          .executor = threads(2)};
}

/// Forward and, with `saved`, all that backward needs.
template <class T>
struct Pass {
  explicit Pass(const LinearAttentionArgs<T>& args, const Problem<T>& problem, Layout layout)
      : normalizer({args.query.size(0), args.query.size(1), args.query.size(2)}, NAN, layout),
        segment_s({saved_segments(args), args.key.size(2), args.key.size(3), args.value.size(3)}),
        segment_z({saved_segments(args), args.key.size(2), args.key.size(3)}) {
    const Case& c = problem.options;
    results.output = Tensor<T, 4>(problem.grad_output.shape(), NAN, layout);
    results.final_s =
        Tensor<T, 4>({c.num_sequences(), c.key_heads, c.components, c.value_dim}, NAN, layout);
    results.final_z = Tensor<T, 3>({c.num_sequences(), c.key_heads, c.components}, NAN, layout);
    linear_attention_forward<T>(args,
                                {.output = results.output.view(),
                                 .final_state = {results.final_s.view(), results.final_z.view()},
                                 .saved = {normalizer.view(), segment_s.view(), segment_z.view()}});
    results.normalizer = normalizer;
  }

  Saved<const T> saved() const { return {normalizer.view(), segment_s.view(), segment_z.view()}; }

  Tensor<T, 3> normalizer;
  Tensor<T, 4> segment_s;
  Tensor<T, 3> segment_z;
  Results<T> results;
};

template <class T>
Results<T> solve_linear(const Problem<T>& problem, Backend backend, const Executor& executor = {},
                        Layout layout = Layout::contiguous) {
  LinearAttentionArgs<T> args = linear_args(problem, backend);
  if (executor.run) args.executor = executor;
  Pass<T> pass(args, problem, layout);
  Results<T>& r = pass.results;
  r.dquery = Tensor<T, 4>(problem.query.shape(), NAN, layout);
  r.dkey = Tensor<T, 4>(problem.key.shape(), NAN, layout);
  r.dvalue = Tensor<T, 4>(problem.value.shape(), NAN, layout);
  r.dinitial_s = Tensor<T, 4>(r.final_s.shape(), NAN, layout);
  r.dinitial_z = Tensor<T, 3>(r.final_z.shape(), NAN, layout);
  State<const T> grad_final_state;
  if (!problem.grad_final_s.empty()) {
    grad_final_state = {problem.grad_final_s.view(), problem.grad_final_z.view()};
  }
  linear_attention_backward<T>(args,
                               {.saved = pass.saved(),
                                .grad_output = problem.grad_output.view(),
                                .grad_final_state = grad_final_state},
                               {.query = r.dquery.view(),
                                .key = r.dkey.view(),
                                .value = r.dvalue.view(),
                                .initial_state = {r.dinitial_s.view(), r.dinitial_z.view()}});
  return r;
}

/// Cases that mean something without a mixture.
std::vector<Case> feature_cases(const std::vector<Case>& all) {
  std::vector<Case> cases;
  for (const Case& one : all) {
    if (one.covariance_type == CovarianceType::diag && one.dropout_p == 0 && one.offset == 0) {
      cases.push_back(one);
      // With one feature and no eps every gradient but the value's cancels to zero.
      if (one.components == 1) cases.back().eps = 0.5;
    }
  }
  Case everything{.name = "everything",
                  .batch = 2,
                  .queries = 530,
                  .keys = 530,
                  .query_heads = 6,
                  .key_heads = 3,
                  .value_dim = 20,
                  .components = 10,
                  .has_mask = true,
                  .has_state = true};
  cases.push_back(everything);
  everything.is_causal = true;
  cases.push_back(everything);
  return cases;
}

template <class T>
void expect_kernels_agree(const std::vector<Case>& cases) {
  for (const Case& one : feature_cases(cases)) {
    SCOPED_TRACE(one.name);
    const Problem<T> problem = make_features<T>(one);
    const Results<double> reference = solve_linear(in_double(problem), Backend::reference);
    for (const Implementation& kernel : kernels()) {
      SCOPED_TRACE(name_of(kernel));
      const ScopedTarget target(kernel);
      expect_close(solve_linear(problem, kernel.backend), reference);
    }
  }
}

/// The definition: an explicit affinity between every query and every key.
Tensor<double, 4> explicit_output(const Problem<double>& problem) {
  const LinearAttentionArgs<double> args = linear_args(problem, Backend::reference);
  const std::int64_t group = args.query.size(2) / args.key.size(2);
  Tensor<double, 4> output(problem.grad_output.shape(), 0.0);
  for (const Sequence& sequence : sequences(args)) {
    const std::int64_t b = sequence.batch;
    for (std::int64_t h = 0; h < args.query.size(2); ++h) {
      for (std::int64_t i = sequence.q_begin; i < sequence.q_end; ++i) {
        double normalizer = args.eps;
        for (std::int64_t j = sequence.k_begin; j < sequence.k_end; ++j) {
          if (args.is_causal && j > i) break;
          if (args.key_padding_mask && !args.key_padding_mask(b, j)) continue;
          double affinity = 0;
          for (std::int64_t r = 0; r < args.key.size(3); ++r) {
            affinity += args.query(b, i, h, r) * args.key(b, j, h / group, r);
          }
          normalizer += affinity;
          for (std::int64_t e = 0; e < args.value.size(3); ++e) {
            output(b, i, h, e) += affinity * args.value(b, j, h / group, e);
          }
        }
        for (std::int64_t e = 0; e < args.value.size(3); ++e) {
          output(b, i, h, e) = normalizer == 0 ? 0 : output(b, i, h, e) / normalizer;
        }
      }
    }
  }
  return output;
}

TEST(LinearAttention, OracleEqualsTheExplicitAffinity) {
  for (const Case& one : feature_cases(option_cases())) {
    if (one.has_state) continue;
    SCOPED_TRACE(one.name);
    const Problem<double> problem = make_features<double>(one);
    EXPECT_TRUE(close(solve_linear(problem, Backend::reference).output, explicit_output(problem)));
  }
}

class LinearGradients : public ImplementationTest {};

TEST_P(LinearGradients, C25_EqualFiniteDifferences) {
  const auto inner_product = [](const auto& a, const auto& weights) {
    const std::vector<double> left = in_double(a);
    const std::vector<double> right = in_double(weights);
    double sum = 0;
    for (std::size_t i = 0; i < right.size(); ++i) sum += left[i] * right[i];
    return sum;
  };
  for (const Case& one : feature_cases(gradient_cases())) {
    if (one.queries > 100) continue;
    SCOPED_TRACE(one.name);
    Problem<double> problem = make_features<double>(one);
    const Results<double> results = solve_linear(problem, backend());
    const auto loss = [&] {
      const Pass<double> pass(linear_args(problem, backend()), problem, Layout::contiguous);
      return inner_product(pass.results.output, problem.grad_output) +
             inner_product(pass.results.final_s, problem.grad_final_s) +
             inner_product(pass.results.final_z, problem.grad_final_z);
    };
    const auto check = [&](const char* name, auto& point, const auto& gradient) {
      if (point.empty()) return;
      const auto expected = finite_differences(point, loss);
      EXPECT_TRUE(close(in_double(gradient), in_double(expected),
                        1e-9 * (1 + scale_of(in_double(expected)))))
          << name;
    };
    check("query", problem.query, results.dquery);
    check("key", problem.key, results.dkey);
    check("value", problem.value, results.dvalue);
    check("initial_s", problem.initial_s, results.dinitial_s);
    check("initial_z", problem.initial_z, results.dinitial_z);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearGradients, testing::ValuesIn(implementations()), test_name);

template <class T>
class LinearKernels : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(LinearKernels, Types);

TYPED_TEST(LinearKernels, C06_AgreeAtEveryLength) {
  expect_kernels_agree<TypeParam>(length_cases());
}

TYPED_TEST(LinearKernels, C07_AgreeAtEverySize) { expect_kernels_agree<TypeParam>(size_cases()); }

TYPED_TEST(LinearKernels, AgreeWithEveryOption) { expect_kernels_agree<TypeParam>(option_cases()); }

class LinearCases : public ImplementationTest {};

TEST_P(LinearCases, C26_SameBitsForAnyNumberOfThreads) {
  for (const bool is_causal : {false, true}) {
    const Problem<float> problem = make_features<float>({.batch = 2,
                                                         .queries = 1500,
                                                         .keys = 1500,
                                                         .query_heads = 2,
                                                         .value_dim = 9,
                                                         .components = 21,
                                                         .is_causal = is_causal,
                                                         .has_mask = true,
                                                         .has_state = true});
    const Results<float> serial = solve_linear(problem, backend(), serial_executor());
    for (const int count : {1, 2, 4}) {
      SCOPED_TRACE(count);
      expect_same_bits(solve_linear(problem, backend(), threads(count)), serial);
    }
  }
}

TEST_P(LinearCases, C24_TakesAnyLayout) {
  for (const bool is_causal : {false, true}) {
    const Problem<float> problem = make_features<float>({.batch = 2,
                                                         .queries = 70,
                                                         .keys = 70,
                                                         .query_heads = 4,
                                                         .key_heads = 2,
                                                         .value_dim = 5,
                                                         .components = 6,
                                                         .is_causal = is_causal,
                                                         .has_mask = true});
    const Results<float> expected = solve_linear(problem, backend());
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(static_cast<int>(layout));
      Problem<float> laid_out = problem;
      laid_out.for_each_tensor([&](auto& tensor) { tensor = tensor.with_layout(layout); });
      expect_same_bits(solve_linear(laid_out, backend(), {}, layout), expected);
    }
  }
}

TEST_P(LinearCases, C14_C15_MaskedAndFutureTokensMayHoldAnything) {
  Problem<float> problem = make_features<float>({.queries = 300,
                                                 .keys = 300,
                                                 .value_dim = 5,
                                                 .components = 6,
                                                 .is_causal = true,
                                                 .has_mask = true});
  // The last 40 tokens are read by nothing that has a gradient.
  for (std::int64_t t = 260; t < 300; ++t) {
    for (std::int64_t e = 0; e < 5; ++e) problem.grad_output(0, t, 0, e) = 0;
  }
  const Results<float> expected = solve_linear(problem, backend());
  for (std::int64_t t = 0; t < 300; ++t) {
    const bool is_masked = !problem.mask(0, t);
    const float spoilt = t % 2 == 0 ? std::numeric_limits<float>::infinity() : NAN;
    if (t >= 260) problem.query(0, t, 0, 1) = spoilt;
    if (t < 260 && !is_masked) continue;
    problem.key(0, t, 0, 2) = spoilt;
    problem.value(0, t, 0, 3) = spoilt;
  }
  const Results<float> results = solve_linear(problem, backend());
  EXPECT_TRUE(same_bits(slice(results.output, 1, 0, 260), slice(expected.output, 1, 0, 260)));
  EXPECT_TRUE(same_bits(slice(results.dquery, 1, 0, 260), slice(expected.dquery, 1, 0, 260)));
  EXPECT_TRUE(same_bits(results.dkey, expected.dkey));
  EXPECT_TRUE(same_bits(results.dvalue, expected.dvalue));
}

TEST_P(LinearCases, C09_PiecesEqualTheWhole) {
  const Problem<double> problem = make_features<double>({.queries = 172,
                                                         .keys = 172,
                                                         .query_heads = 2,
                                                         .value_dim = 5,
                                                         .components = 6,
                                                         .is_causal = true,
                                                         .has_state = true});
  const Results<double> whole = solve_linear(problem, backend());
  Tensor<double, 4> s = problem.initial_s;
  Tensor<double, 3> z = problem.initial_z;
  std::int64_t begin = 0;
  for (const std::int64_t count : {37, 5, 1, 1, 64, 64}) {
    SCOPED_TRACE(begin);
    Problem<double> piece = problem;
    piece.options.queries = piece.options.keys = count;
    for (Tensor<double, 4>* tensor : {&piece.query, &piece.key, &piece.value, &piece.grad_output}) {
      *tensor = slice(*tensor, 1, begin, begin + count);
    }
    piece.initial_s = s;
    piece.initial_z = z;
    const Results<double> results = solve_linear(piece, backend());
    EXPECT_TRUE(close(results.output, slice(whole.output, 1, begin, begin + count)));
    s = results.final_s;
    z = results.final_z;
    begin += count;
  }
  EXPECT_TRUE(close(s, whole.final_s));
  EXPECT_TRUE(close(z, whole.final_z));
}

TEST_P(LinearCases, C05_NothingToDo) {
  for (const auto& [queries, keys] : {std::pair{0, 0}, std::pair{3, 0}, std::pair{0, 3}}) {
    const Problem<float> problem = make_features<float>(
        {.queries = queries, .keys = keys, .value_dim = 2, .components = 3, .has_state = true});
    const Results<float> results = solve_linear(problem, backend());
    EXPECT_TRUE(all_finite(results.output));
    if (keys == 0) {
      EXPECT_TRUE(same_bits(results.final_s, problem.initial_s));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearCases, testing::ValuesIn(implementations()), test_name);

TEST(LinearAttention, RefusesByName) {
  const Problem<float> problem = make_features<float>(
      {.batch = 2, .query_heads = 4, .key_heads = 2, .components = 3, .has_state = true});
  const auto expect_refused = [&](auto spoil, const std::string& message) {
    LinearAttentionArgs<float> args = linear_args(problem, Backend::automatic);
    Tensor<float, 4> output(problem.grad_output.shape());
    AttentionOutputs<float> outputs{.output = output.view()};
    spoil(args, outputs);
    try {
      linear_attention_forward(args, outputs);
      ADD_FAILURE() << "nothing was thrown for " << message;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  };
  expect_refused([](auto& args, auto&) { args.key.shape[3] = 4; },
                 "key: expected shape (B, Tk, Hk, R) = (2, 19, 2, 3), got (2, 19, 2, 4)");
  expect_refused([](auto& args, auto&) { args.value.shape[1] = 18; }, "value: expected shape");
  expect_refused([](auto& args, auto&) { args.query.shape[2] = 3; },
                 "query: expected its number of heads to be a multiple of key's 2, got 3");
  expect_refused([](auto& args, auto&) { args.query.shape[3] = 0; }, "got R = 0");
  expect_refused(
      [](auto& args, auto&) {
        args.is_causal = true;
        args.query.shape[1] = 18;
      },
      "is_causal: expected as many queries as keys, got Tq = 18 and Tk = 19");
  expect_refused([](auto& args, auto&) { args.initial_state.s.shape[2] = 4; },
                 "initial_state: expected S of shape (sequences, Hk, R, Dv) = (2, 2, 3, 8)");
  expect_refused([](auto& args, auto&) { args.eps = -1; }, "eps: expected a finite number >= 0");
  expect_refused([](auto&, auto& outputs) { outputs.output.shape[3] = 7; },
                 "output: expected shape (B, Tq, Hq, Dv)");
}

}  // namespace
}  // namespace gma::test
