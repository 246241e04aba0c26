// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Memory layouts, and the same bits every time.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "cases.h"
#include "gma/attention.h"
#include "support/case.h"
#include "support/close.h"
#include "support/executor.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace gma::test {
namespace {

template <class T>
Problem<T> with_layout(Problem<T> problem, Layout layout) {
  problem.for_each_tensor([&](auto& tensor) { tensor = tensor.with_layout(layout); });
  return problem;
}

TEST_P(Cases, C24_EveryLayoutGivesTheSameBits) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      const Problem<T> problem = make_problem<T>({.batch = 2,
                                                  .queries = 130,
                                                  .keys = 130,
                                                  .query_heads = 4,
                                                  .key_heads = 2,
                                                  .dim = 11,
                                                  .value_dim = 9,
                                                  .components = 13,
                                                  .is_causal = is_causal,
                                                  .has_mask = true,
                                                  .has_state = true});
      const Results<T> contiguous = solve(problem, backend());
      for (const Layout layout : kLayouts) {
        SCOPED_TRACE(static_cast<int>(layout));
        const Problem<T> placed = with_layout(problem, layout);
        const Problem<T> before = placed;
        expect_same_bits(solve(placed, backend(), {}, layout), contiguous);
        EXPECT_TRUE(same_bits(placed.query, before.query));
        EXPECT_TRUE(same_bits(placed.value, before.value));
        EXPECT_TRUE(same_bits(placed.means, before.means));
      }
    }
  });
}

/// The same row for every batch entry and token, as expand() or the gradient of sum() hands it in.
template <class T>
View<const T, 4> broadcast(const Tensor<T, 4>& row, const View<const T, 4>& like) {
  View<const T, 4> view = row.view();
  view.shape = like.shape;
  view.strides[0] = view.strides[1] = 0;
  return view;
}

TEST_P(Cases, C24_StrideZeroIsACopy) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      const Case options{.batch = 2, .queries = 33, .keys = 33, .is_causal = is_causal};
      Problem<T> problem = make_problem<T>(options);
      const Problem<T> row = sequence_of(
          make_problem<T>({.batch = 1, .queries = 1, .keys = 1, .is_causal = is_causal}), 0);
      const auto expand = [](const Tensor<T, 4>& from, Tensor<T, 4>& to) {
        for_each_index(to.shape(),
                       [&](auto i) { std::apply(to.view(), i) = from(0, 0, i[2], i[3]); });
      };
      expand(row.value, problem.value);
      expand(row.grad_output, problem.grad_output);
      const Results<T> copied = solve(problem, backend());

      AttentionArgs<T> args = problem.args(backend());
      args.executor = threads(2);
      args.value = broadcast(row.value, args.value);
      Results<T> r = copied;
      r.output = Tensor<T, 4>(copied.output.shape());
      r.dkey = Tensor<T, 4>(copied.dkey.shape());
      Tensor<accumulate_t<T>, 4> segment_s(
          {saved_segments(args), 1, options.components, options.value_dim});
      Tensor<accumulate_t<T>, 3> segment_z({saved_segments(args), 1, options.components});
      const Saved<accumulate_t<T>> saved{r.normalizer.view(), segment_s.view(), segment_z.view()};
      forward<T>(args, {.output = r.output.view(), .final_state = {}, .saved = saved});
      backward<T>(args,
                  {.saved = saved,
                   .grad_output = broadcast(row.grad_output, args.value),
                   .grad_final_state = {}},
                  {.query = {},
                   .key = r.dkey.view(),
                   .value = {},
                   .means = {},
                   .variances = {},
                   .prior_logits = {},
                   .initial_state = {}});
      EXPECT_TRUE(same_bits(r.output, copied.output));
      EXPECT_TRUE(same_bits(r.dkey, copied.dkey));
    }
  });
}

TEST_P(Cases, C24_EachGradientAloneIsTheSame) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      const Problem<T> problem = make_problem<T>(
          {.batch = 2, .queries = 70, .keys = 70, .is_causal = is_causal, .has_state = true});
      const Results<T> all = solve(problem, backend());
      AttentionArgs<T> args = problem.args(backend());
      args.executor = threads(2);
      Tensor<accumulate_t<T>, 3> normalizer(all.normalizer.shape());
      Tensor<accumulate_t<T>, 4> segment_s({saved_segments(args), 1, 6, 8});
      Tensor<accumulate_t<T>, 3> segment_z({saved_segments(args), 1, 6});
      const Saved<accumulate_t<T>> saved{normalizer.view(), segment_s.view(), segment_z.view()};
      Tensor<T, 4> output(all.output.shape());
      forward<T>(args, {.output = output.view(), .final_state = {}, .saved = saved});

      const auto expect_alone = [&](const char* name, auto member, const auto& expected) {
        auto gradient = expected;
        gradient.for_each([](auto& element) { element = NAN; });
        AttentionGradients<T> gradients{};
        gradients.*member = gradient.view();
        backward<T>(
            args,
            {.saved = saved,
             .grad_output = problem.grad_output.view(),
             .grad_final_state = {problem.grad_final_s.view(), problem.grad_final_z.view()}},
            gradients);
        EXPECT_TRUE(same_bits(gradient, expected)) << name;
      };
      expect_alone("query", &AttentionGradients<T>::query, all.dquery);
      expect_alone("key", &AttentionGradients<T>::key, all.dkey);
      expect_alone("value", &AttentionGradients<T>::value, all.dvalue);
      expect_alone("means", &AttentionGradients<T>::means, all.dmeans);
      expect_alone("variances", &AttentionGradients<T>::variances, all.dvariances);
      expect_alone("prior_logits", &AttentionGradients<T>::prior_logits, all.dprior_logits);
    }
  });
}

/// The oracle has one thread and nothing to prove.
class Determinism : public ImplementationTest {};
INSTANTIATE_TEST_SUITE_P(All, Determinism, testing::ValuesIn(kernels()), test_name);

TEST_P(Determinism, C26_AHundredRunsHaveTheSameBits) {
  const Problem<float> problem = make_problem<float>({.batch = 2,
                                                      .queries = 600,
                                                      .keys = 600,
                                                      .query_heads = 2,
                                                      .key_heads = 2,
                                                      .is_causal = true,
                                                      .has_state = true});
  const Results<float> first = solve(problem, backend(), threads(2));
  for (int run = 1; run < 100 && !HasFailure(); ++run) {
    expect_same_bits(solve(problem, backend(), threads(2)), first);
  }
}

TEST_P(Determinism, C26_AnyNumberOfThreadsGivesTheSameBits) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      // Segments of their own in every schedule: none, one, short ones, some, many.
      for (const std::int64_t tokens : {0, 1, 40, 700, 5'000, 12'000}) {
        for (const std::int64_t heads : {1, 6}) {
          if (heads > 1 && tokens > 5'000) continue;  // Heads enough for all threads: nothing new.
          const Problem<T> problem = make_problem<T>({.batch = heads == 1 ? 1 : 3,
                                                      .queries = tokens,
                                                      .keys = tokens,
                                                      .query_heads = heads,
                                                      .key_heads = heads == 1 ? 1 : 2,
                                                      .dim = 4,
                                                      .value_dim = 5,
                                                      .components = 6,
                                                      .is_causal = is_causal,
                                                      .has_state = true});
          const Results<T> serial = solve(problem, backend(), serial_executor());
          for (const int count : {1, 2, 3, 16}) {
            SCOPED_TRACE(count);
            expect_same_bits(solve(problem, backend(), threads(count)), serial);
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace gma::test
