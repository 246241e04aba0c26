// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Padding, packing, causality, and sequences that arrive in pieces.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cases.h"
#include "gma/attention.h"
#include "support/case.h"
#include "support/close.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace gma::test {
namespace {

/// What is left of the error budget when the same sums are taken in another order.
template <class T>
constexpr double kSplitTolerance = std::is_same_v<T, double> ? 1e-12 : 1e-5;

template <class T, std::size_t Rank>
testing::AssertionResult split_close(const Tensor<T, Rank>& actual, const Tensor<T, Rank>& whole) {
  const std::vector<double> expected = in_double(whole);
  return close(in_double(actual), expected, kSplitTolerance<T> * scale_of(expected));
}

template <class T, std::size_t Rank>
Tensor<T, Rank> tokens(const Tensor<T, Rank>& tensor, std::int64_t begin, std::int64_t end) {
  return slice(tensor, 1, begin, end);
}

/// The first `count` tokens of a problem, keys and queries.
template <class T>
Problem<T> piece_of(const Problem<T>& problem, std::int64_t begin, std::int64_t end) {
  Problem<T> piece = problem;
  piece.options.queries = piece.options.keys = end - begin;
  piece.query = tokens(problem.query, begin, end);
  piece.key = tokens(problem.key, begin, end);
  piece.value = tokens(problem.value, begin, end);
  piece.mask = tokens(problem.mask, begin, end);
  piece.grad_output = tokens(problem.grad_output, begin, end);
  return piece;
}

TEST_P(Cases, C01_FullyPaddedRowGivesZeroAndLeavesTheOthersAlone) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      Problem<T> problem = make_problem<T>({.batch = 3,
                                            .queries = 66,
                                            .keys = 66,
                                            .query_heads = 2,
                                            .key_heads = 2,
                                            .is_causal = is_causal,
                                            .has_mask = true});
      for (std::int64_t t = 0; t < 66; ++t) problem.mask(1, t) = false;
      const Results<T> results = solve(problem, backend());
      const auto row = [](const auto& tensor, std::int64_t b) {
        return slice(tensor, 0, b, b + 1);
      };
      EXPECT_TRUE(all_zero(row(results.output, 1)));
      EXPECT_TRUE(all_zero(row(results.dquery, 1)));
      EXPECT_TRUE(all_zero(row(results.dkey, 1)));
      EXPECT_TRUE(all_zero(row(results.dvalue, 1)));
      EXPECT_TRUE(all_zero(row(results.final_s, 1)));
      for (const std::int64_t b : {0, 2}) {
        const Results<T> alone = solve(sequence_of(problem, b), backend());
        EXPECT_TRUE(same_bits(row(results.output, b), alone.output));
        EXPECT_TRUE(same_bits(row(results.dquery, b), alone.dquery));
        EXPECT_TRUE(same_bits(row(results.dkey, b), alone.dkey));
        EXPECT_TRUE(same_bits(row(results.dvalue, b), alone.dvalue));
        EXPECT_TRUE(same_bits(row(results.final_s, b), alone.final_s));
        EXPECT_TRUE(same_bits(row(results.final_z, b), alone.final_z));
      }
    }
  });
}

/// The problem solved token by token from an empty state.
template <class T>
Results<T> solve_in_steps(const Problem<T>& problem, const Results<T>& whole, Backend backend) {
  Results<T> stepped = whole;
  stepped.output = Tensor<T, 4>(whole.output.shape());
  stepped.final_s.for_each([](auto& element) { element = 0; });
  stepped.final_z.for_each([](auto& element) { element = 0; });
  for (std::int64_t t = 0; t < whole.output.shape()[1]; ++t) {
    step<T>(step_args(problem, stepped, t, backend), token_of(stepped.output.view(), t));
  }
  return stepped;
}

TEST_P(Cases, C08_TwoHundredStepsEqualOnePass) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    const Problem<T> problem = make_problem<T>({.batch = 2,
                                                .queries = 200,
                                                .keys = 200,
                                                .query_heads = 4,
                                                .key_heads = 2,
                                                .dim = 20,
                                                .value_dim = 24,
                                                .components = 30,
                                                .is_causal = true});
    const Results<T> whole = solve_forward(problem, backend());
    const Results<T> stepped = solve_in_steps(problem, whole, backend());
    EXPECT_TRUE(split_close(stepped.output, whole.output));
    EXPECT_TRUE(split_close(stepped.final_s, whole.final_s));
    EXPECT_TRUE(split_close(stepped.final_z, whole.final_z));
  });
}

// Whole vectors on every instruction set, and determinants of many factors.
TEST_P(Cases, StepsOfManyChannelsAgreeWithTheOracle) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    const Problem<T> problem = make_problem<T>({.queries = 7,
                                                .keys = 7,
                                                .dim = 1344,
                                                .value_dim = 256,
                                                .components = 33,
                                                .is_causal = true});
    const Results<double> reference = solve_forward(in_double(problem), Backend::reference);
    const Results<T> whole = solve_forward(problem, backend());
    const Results<T> stepped = solve_in_steps(problem, whole, backend());
    EXPECT_TRUE(close(stepped.output, reference.output));
    EXPECT_TRUE(close(stepped.final_s, reference.final_s));
    EXPECT_TRUE(close(stepped.final_z, reference.final_z));
  });
}

TEST_P(Cases, C30_ReorderedStatesAreThoseOfTheirSequences) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    const Results<T> results =
        solve_forward(make_problem<T>({.batch = 3, .query_heads = 2, .key_heads = 2}), backend());
    const std::vector<std::int64_t> order = {2, 0, 0, 1};
    Tensor<T, 4> s({4, 2, 6, 8}, poison<T>(), Layout::head_major);
    Tensor<T, 3> z({4, 2, 6});
    reorder_state<T>({results.final_s.view(), results.final_z.view()}, order, {s.view(), z.view()});
    EXPECT_TRUE(same_bits(s, take(results.final_s, 0, order)));
    EXPECT_TRUE(same_bits(z, take(results.final_z, 0, order)));
  });
}

TEST_P(Cases, C09_PiecesEqualTheWhole) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    const std::vector<std::int64_t> borders = {0, 37, 42, 43, 44, 108, 173};
    const Problem<T> problem = make_problem<T>(
        {.batch = 2, .queries = 173, .keys = 173, .is_causal = true, .has_state = true});
    const Results<T> whole = solve_forward(problem, backend());
    Problem<T> rest = problem;
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      Problem<T> piece = piece_of(problem, borders[i], borders[i + 1]);
      piece.initial_s = rest.initial_s;
      piece.initial_z = rest.initial_z;
      const Results<T> results = solve_forward(piece, backend());
      EXPECT_TRUE(split_close(results.output, tokens(whole.output, borders[i], borders[i + 1])));
      rest.initial_s = results.final_s;
      rest.initial_z = results.final_z;
    }
    EXPECT_TRUE(split_close(rest.initial_s, whole.final_s));
    EXPECT_TRUE(split_close(rest.initial_z, whole.final_z));
  });
}

TEST_P(Cases, C10_PackedSequencesEqualSeparateRuns) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      const std::vector<std::int64_t> borders = {0, 0, 1, 17, 80, 80};
      const Problem<T> problem = make_problem<T>({.queries = 80,
                                                  .keys = 80,
                                                  .query_heads = 2,
                                                  .key_heads = 2,
                                                  .is_causal = is_causal,
                                                  .has_state = true,
                                                  .cu_seqlens_q = borders,
                                                  .cu_seqlens_k = borders});
      const Results<T> packed = solve(problem, backend());
      Tensor<double, 3> dmeans(packed.dmeans.shape(), 0.0);
      for (std::int64_t i = 0; i + 1 < std::ssize(borders); ++i) {
        const Results<T> alone = solve(sequence_of(problem, i), backend());
        const std::int64_t begin = borders[i];
        const std::int64_t end = borders[i + 1];
        EXPECT_TRUE(split_close(tokens(packed.output, begin, end), alone.output));
        EXPECT_TRUE(split_close(tokens(packed.dquery, begin, end), alone.dquery));
        EXPECT_TRUE(split_close(tokens(packed.dkey, begin, end), alone.dkey));
        EXPECT_TRUE(split_close(tokens(packed.dvalue, begin, end), alone.dvalue));
        EXPECT_TRUE(split_close(slice(packed.final_s, 0, i, i + 1), alone.final_s));
        EXPECT_TRUE(split_close(slice(packed.final_z, 0, i, i + 1), alone.final_z));
        EXPECT_TRUE(split_close(slice(packed.dinitial_s, 0, i, i + 1), alone.dinitial_s));
        EXPECT_TRUE(split_close(slice(packed.dinitial_z, 0, i, i + 1), alone.dinitial_z));
        for_each_index(dmeans.shape(), [&](auto index) {
          std::apply(dmeans.view(), index) += std::apply(alone.dmeans.view(), index);
        });
        if (begin == end) {
          EXPECT_TRUE(same_bits(alone.final_s, slice(problem.initial_s, 0, i, i + 1)));
          EXPECT_TRUE(same_bits(slice(packed.dinitial_z, 0, i, i + 1),
                                slice(problem.grad_final_z, 0, i, i + 1)));
        }
      }
      EXPECT_TRUE(close(packed.dmeans, dmeans));
    }
  });
}

TEST_P(Cases, C12_PaddingAsAnExtraSequenceChangesNoBit) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      const Problem<T> padded = make_problem<T>({.queries = 100,
                                                 .keys = 100,
                                                 .is_causal = is_causal,
                                                 .cu_seqlens_q = {0, 30, 83, 100},
                                                 .cu_seqlens_k = {0, 30, 83, 100}});
      Problem<T> bare = piece_of(padded, 0, 83);
      bare.options.cu_seqlens_q = bare.options.cu_seqlens_k = {0, 30, 83};
      const Results<T> with = solve(padded, backend());
      const Results<T> without = solve(bare, backend());
      EXPECT_TRUE(same_bits(tokens(with.output, 0, 83), without.output));
      EXPECT_TRUE(same_bits(tokens(with.dquery, 0, 83), without.dquery));
      EXPECT_TRUE(same_bits(tokens(with.dkey, 0, 83), without.dkey));
      EXPECT_TRUE(same_bits(tokens(with.dvalue, 0, 83), without.dvalue));
    }
  });
}

TEST_P(Cases, C13_LeftRightAndNoPaddingAgree) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    constexpr std::int64_t kReal = 45;
    constexpr std::int64_t kPadded = 70;
    for (const bool is_causal : {false, true}) {
      const Problem<T> data =
          make_problem<T>({.queries = kPadded, .keys = kPadded, .is_causal = is_causal});
      const Problem<T> bare = piece_of(data, 0, kReal);
      const Results<T> expected = solve(bare, backend());
      for (const std::int64_t first : {std::int64_t{0}, kPadded - kReal}) {
        Problem<T> padded = data;
        padded.mask = Tensor<bool, 2>({1, kPadded}, false);
        padded.grad_output.for_each([](T& element) { element = 0; });
        for (std::int64_t t = 0; t < kReal; ++t) padded.mask(0, first + t) = true;
        for_each_index(bare.query.shape(), [&](auto i) {
          padded.query(0, first + i[1], i[2], i[3]) = std::apply(bare.query.view(), i);
          padded.key(0, first + i[1], i[2], i[3]) = std::apply(bare.key.view(), i);
        });
        for_each_index(bare.value.shape(), [&](auto i) {
          padded.value(0, first + i[1], i[2], i[3]) = std::apply(bare.value.view(), i);
          padded.grad_output(0, first + i[1], i[2], i[3]) = std::apply(bare.grad_output.view(), i);
        });
        const Results<T> results = solve(padded, backend());
        EXPECT_TRUE(split_close(tokens(results.output, first, first + kReal), expected.output));
        EXPECT_TRUE(split_close(tokens(results.dkey, first, first + kReal), expected.dkey));
        EXPECT_TRUE(split_close(results.final_s, expected.final_s));
        EXPECT_TRUE(close(in_double(results.dmeans), in_double(expected.dmeans),
                          relative_tolerance<T>() * scale_of(in_double(expected.dmeans))));
      }
    }
  });
}

TEST_P(Cases, C14_WhatPaddingHoldsHasNoEffect) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const bool is_causal : {false, true}) {
      Problem<T> problem = make_problem<T>({.batch = 2,
                                            .queries = 300,
                                            .keys = 300,
                                            .is_causal = is_causal,
                                            .has_mask = true,
                                            .has_state = true});
      for_each_index(problem.grad_output.shape(), [&](auto i) {
        if (!problem.mask(i[0], i[1])) problem.grad_output(i[0], i[1], i[2], i[3]) = 0;
      });
      const Results<T> clean = solve(problem, backend());
      for (const T rubbish :
           {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
        Problem<T> dirty = problem;
        const auto plant = [&](auto& tensor) {
          for_each_index(tensor.shape(), [&](auto i) {
            if (!problem.mask(i[0], i[1])) tensor(i[0], i[1], i[2], i[3]) = rubbish;
          });
        };
        plant(dirty.query);
        plant(dirty.key);
        plant(dirty.value);
        Results<T> results = solve(dirty, backend());
        // The outputs of padded queries may be anything; everything else has the same bits.
        for_each_index(results.output.shape(), [&](auto i) {
          if (problem.mask(i[0], i[1])) return;
          std::apply(results.output.view(), i) = std::apply(clean.output.view(), i);
        });
        for_each_index(results.normalizer.shape(), [&](auto i) {
          if (problem.mask(i[0], i[1])) return;
          std::apply(results.normalizer.view(), i) = std::apply(clean.normalizer.view(), i);
        });
        expect_same_bits(results, clean);
        expect_finite(results);
      }
    }
  });
}

/// Calls `check(t, clean, dirty)` with the results of a causal problem of which only what comes
/// before token t has a gradient, without and with rubbish in token t.
template <class T, class Check>
void with_rubbish(Backend backend, T rubbish, Check check) {
  for (const std::int64_t t : {0, 1, 63, 64, 255, 256, 300, 511, 512, 599}) {
    SCOPED_TRACE(t);
    Problem<T> problem = make_problem<T>({.queries = 600, .keys = 600, .is_causal = true});
    for_each_index(problem.grad_output.shape(), [&](auto i) {
      if (i[1] >= t) std::apply(problem.grad_output.view(), i) = 0;
    });
    const Results<T> clean = solve(problem, backend);
    for (std::int64_t d = 0; d < problem.options.dim; ++d) {
      problem.query(0, t, 0, d) = problem.key(0, t, 0, d) = rubbish;
    }
    for (std::int64_t c = 0; c < problem.options.value_dim; ++c) {
      problem.value(0, t, 0, c) = rubbish;
    }
    check(t, clean, solve(problem, backend));
  }
}

TEST_P(Cases, C15_FutureTokenDoesNotTouchThePast) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const T rubbish : {T{1e6}, std::numeric_limits<T>::quiet_NaN()}) {
      with_rubbish(backend(), rubbish, [](auto t, const auto& clean, const auto& dirty) {
        EXPECT_TRUE(same_bits(tokens(dirty.output, 0, t), tokens(clean.output, 0, t)));
        EXPECT_TRUE(all_zero(tokens(dirty.dkey, t + 1, 600)));
        EXPECT_TRUE(all_zero(tokens(dirty.dvalue, t + 1, 600)));
      });
    }
  });
}

TEST_P(Cases, C15_WhatNoGradientReachesMayHoldAnything) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (const T rubbish : {T{1e6}, std::numeric_limits<T>::quiet_NaN()}) {
      with_rubbish(backend(), rubbish, [](auto t, const auto& clean, const auto& dirty) {
        EXPECT_TRUE(same_bits(tokens(dirty.dquery, 0, t), tokens(clean.dquery, 0, t)));
        EXPECT_TRUE(same_bits(tokens(dirty.dkey, 0, t), tokens(clean.dkey, 0, t)));
        EXPECT_TRUE(same_bits(tokens(dirty.dvalue, 0, t), tokens(clean.dvalue, 0, t)));
        EXPECT_TRUE(all_zero(tokens(dirty.dquery, t, 600)));
        EXPECT_TRUE(all_zero(tokens(dirty.dkey, t, 600)));
        EXPECT_TRUE(all_zero(tokens(dirty.dvalue, t, 600)));
        EXPECT_TRUE(same_bits(dirty.dmeans, clean.dmeans));
        EXPECT_TRUE(same_bits(dirty.dvariances, clean.dvariances));
        EXPECT_TRUE(same_bits(dirty.dprior_logits, clean.dprior_logits));
      });
    }
  });
}

}  // namespace
}  // namespace gma::test
