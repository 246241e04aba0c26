// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "support/problem.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/sequences.h"
#include "support/close.h"
#include "support/executor.h"

namespace gma::test {
namespace {

/// A view of a tensor, or an absent one.
template <class T, std::size_t Rank>
View<const T, Rank> view_of(const Tensor<T, Rank>& tensor) {
  return tensor.view();
}

/// Whether nothing between the elements was written to.
template <class T, std::size_t Rank>
testing::AssertionResult gaps_untouched(const Tensor<T, Rank>& tensor) {
  std::size_t written = 0;
  for (const T& value : tensor.storage()) written += !std::isnan(value);
  std::size_t elements = 0;
  for (const T& value : tensor.values()) elements += !std::isnan(value);
  if (written == elements) return testing::AssertionSuccess();
  return testing::AssertionFailure() << written - elements << " elements outside were written";
}

template <class T>
struct SavedTensors {
  using A = accumulate_t<T>;

  SavedTensors(const AttentionArgs<T>& args, Tensor<A, 3>& normalizers)
      : normalizer(normalizers),
        segment_s({saved_segments(args), args.key.size(2), args.means.size(1), args.value.size(3)}),
        segment_z({saved_segments(args), args.key.size(2), args.means.size(1)}) {}

  Saved<A> view() { return {normalizer.view(), segment_s.view(), segment_z.view()}; }

  Tensor<A, 3>& normalizer;
  Tensor<A, 4> segment_s;
  Tensor<A, 3> segment_z;
};

}  // namespace

template <class T>
AttentionArgs<T> Problem<T>::args(Backend backend) const {
  return {.query = query.view(),
          .key = key.view(),
          .value = value.view(),
          .means = means.view(),
          .variances = variances.view(),
          .prior_logits = prior_logits.view(),
          .is_causal = options.is_causal,
          .key_padding_mask = view_of(mask),
          .cu_seqlens_q = options.cu_seqlens_q,
          .cu_seqlens_k = options.cu_seqlens_k,
          .initial_state = {view_of(initial_s), view_of(initial_z)},
          .eps = options.eps,
          .dropout_p = options.dropout_p,
          .dropout_seed = 0x123456789abcdef0U,
          .backend = backend,
          .executor = threads(2)};
}

template <class T>
Problem<T> make_problem(const Case& c, std::uint64_t seed) {
  using A = accumulate_t<T>;
  Random random(seed);
  Problem<T> problem;
  problem.options = c;
  problem.query = normal<T, 4>({c.batch, c.queries, c.query_heads, c.dim}, random, 1, c.offset);
  problem.key = normal<T, 4>({c.batch, c.keys, c.key_heads, c.dim}, random, 1, c.offset);
  if (c.far_every > 0) {
    for (Tensor<T, 4>* x : {&problem.query, &problem.key}) {
      std::int64_t index = 0;
      x->for_each([&](T& value) {
        if (index++ / c.dim % c.far_every == 0) value = static_cast<T>(20) * value;
      });
    }
  }
  problem.value = normal<T, 4>({c.batch, c.keys, c.key_heads, c.value_dim}, random);
  problem.means = normal<A, 3>({c.key_heads, c.components, c.dim}, random, 1, c.offset);
  problem.variances =
      uniform<A, 3>({c.key_heads, c.covariance_type == CovarianceType::tied ? 1 : c.components,
                     c.covariance_type == CovarianceType::spherical ? 1 : c.dim},
                    random, c.variance / 2, c.variance * 2);
  problem.prior_logits = normal<A, 2>({c.key_heads, c.components}, random);
  problem.grad_output = normal<T, 4>({c.batch, c.queries, c.query_heads, c.value_dim}, random);
  if (c.has_mask) {
    problem.mask = Tensor<bool, 2>({c.batch, c.keys});
    problem.mask.for_each([&](bool& keep) { keep = random() % 4 != 0; });
  }
  if (c.has_state) {
    const std::int64_t sequences = c.num_sequences();
    problem.initial_s = normal<A, 4>({sequences, c.key_heads, c.components, c.value_dim}, random);
    problem.initial_z = uniform<A, 3>({sequences, c.key_heads, c.components}, random, 0.1, 2);
    problem.grad_final_s =
        normal<A, 4>({sequences, c.key_heads, c.components, c.value_dim}, random, 0.3);
    problem.grad_final_z = normal<A, 3>({sequences, c.key_heads, c.components}, random, 0.3);
  }
  return problem;
}

template <class T>
Problem<T> stored_as(Problem<float>& problem) {
  const auto store = [](Tensor<float, 4>& wide) {
    Tensor<T, 4> narrow = convert<T>(wide);
    wide = convert<float>(narrow);
    return narrow;
  };
  return {.options = problem.options,
          .query = store(problem.query),
          .key = store(problem.key),
          .value = store(problem.value),
          .means = problem.means,
          .variances = problem.variances,
          .prior_logits = problem.prior_logits,
          .mask = problem.mask,
          .initial_s = problem.initial_s,
          .initial_z = problem.initial_z,
          .grad_output = store(problem.grad_output),
          .grad_final_s = problem.grad_final_s,
          .grad_final_z = problem.grad_final_z};
}

template <class T>
Problem<T> sequence_of(const Problem<T>& problem, std::int64_t index) {
  const Sequence sequence = sequences(problem.args(Backend::reference)).at(index);
  const auto rows = [&](const auto& tensor, std::int64_t begin, std::int64_t end) {
    return slice(slice(tensor, 0, sequence.batch, sequence.batch + 1), 1, begin, end);
  };
  const auto state = [&](const auto& tensor) { return slice(tensor, 0, index, index + 1); };
  Problem<T> one = problem;
  one.options.batch = 1;
  one.options.queries = sequence.num_queries();
  one.options.keys = sequence.num_keys();
  one.options.cu_seqlens_q.clear();
  one.options.cu_seqlens_k.clear();
  one.query = rows(problem.query, sequence.q_begin, sequence.q_end);
  one.key = rows(problem.key, sequence.k_begin, sequence.k_end);
  one.value = rows(problem.value, sequence.k_begin, sequence.k_end);
  one.mask = rows(problem.mask, sequence.k_begin, sequence.k_end);
  one.grad_output = rows(problem.grad_output, sequence.q_begin, sequence.q_end);
  one.initial_s = state(problem.initial_s);
  one.initial_z = state(problem.initial_z);
  one.grad_final_s = state(problem.grad_final_s);
  one.grad_final_z = state(problem.grad_final_z);
  return one;
}

Problem<double> in_double(const Problem<float>& problem) {
  return {.options = problem.options,
          .query = convert<double>(problem.query),
          .key = convert<double>(problem.key),
          .value = convert<double>(problem.value),
          .means = convert<double>(problem.means),
          .variances = convert<double>(problem.variances),
          .prior_logits = convert<double>(problem.prior_logits),
          .mask = problem.mask,
          .initial_s = convert<double>(problem.initial_s),
          .initial_z = convert<double>(problem.initial_z),
          .grad_output = convert<double>(problem.grad_output),
          .grad_final_s = convert<double>(problem.grad_final_s),
          .grad_final_z = convert<double>(problem.grad_final_z)};
}

Problem<double> in_double(const Problem<double>& problem) { return problem; }

template <class T>
Results<T> solve_forward(const Problem<T>& problem, Backend backend, const Executor& executor) {
  AttentionArgs<T> args = problem.args(backend);
  args.executor = executor.run ? executor : threads(2);
  const Case& c = problem.options;
  Results<T> results;
  results.output = decltype(results.output)(problem.grad_output.shape());
  results.final_s =
      decltype(results.final_s)({c.num_sequences(), c.key_heads, c.components, c.value_dim});
  results.final_z = decltype(results.final_z)({c.num_sequences(), c.key_heads, c.components});
  forward<T>(args, {.output = results.output.view(),
                    .final_state = {results.final_s.view(), results.final_z.view()},
                    .saved = {}});
  return results;
}

template <class T>
Results<T> solve(const Problem<T>& problem, Backend backend, const Executor& executor,
                 Layout layout) {
  AttentionArgs<T> args = problem.args(backend);
  args.executor = executor.run ? executor : threads(2);
  const Case& c = problem.options;
  const auto prepare = [&](auto& tensor, const auto& shape) {
    using Tensor = std::remove_reference_t<decltype(tensor)>;
    tensor = Tensor(shape, poison<typename Tensor::Element>(), layout);
  };
  Results<T> r;
  prepare(r.output, problem.grad_output.shape());
  prepare(r.normalizer, View<T, 3>{nullptr, {c.batch, c.queries, c.query_heads}, {}}.shape);
  prepare(r.dquery, problem.query.shape());
  prepare(r.dkey, problem.key.shape());
  prepare(r.dvalue, problem.value.shape());
  prepare(r.dmeans, problem.means.shape());
  prepare(r.dvariances, problem.variances.shape());
  prepare(r.dprior_logits, problem.prior_logits.shape());
  const std::array state_shape = {c.num_sequences(), c.key_heads, c.components, c.value_dim};
  const std::array sum_shape = {c.num_sequences(), c.key_heads, c.components};
  prepare(r.final_s, state_shape);
  prepare(r.final_z, sum_shape);
  prepare(r.dinitial_s, state_shape);
  prepare(r.dinitial_z, sum_shape);

  SavedTensors<T> saved(args, r.normalizer);
  forward<T>(args, {.output = r.output.view(),
                    .final_state = {r.final_s.view(), r.final_z.view()},
                    .saved = saved.view()});
  const Saved<const accumulate_t<T>> kept = saved.view();
  backward<T>(args,
              {.saved = kept,
               .grad_output = problem.grad_output.view(),
               .grad_final_state = {view_of(problem.grad_final_s), view_of(problem.grad_final_z)}},
              {.query = r.dquery.view(),
               .key = r.dkey.view(),
               .value = r.dvalue.view(),
               .means = r.dmeans.view(),
               .variances = r.dvariances.view(),
               .prior_logits = r.dprior_logits.view(),
               .initial_state = {r.dinitial_s.view(), r.dinitial_z.view()}});
  r.for_each_with(r, [](const char* name, const auto& tensor, const auto&) {
    EXPECT_TRUE(gaps_untouched(tensor)) << name;
  });
  return r;
}

template <class T>
void expect_close(const Results<T>& actual, const Results<double>& expected,
                  const Leniency& leniency) {
  actual.for_each_with(expected, [&](const char* name, const auto& a, const auto& e) {
    EXPECT_TRUE(close(a, e, leniency)) << name;
  });
}

template <class T>
void expect_same_bits(const Results<T>& actual, const Results<T>& expected) {
  actual.for_each_with(expected, [](const char* name, const auto& a, const auto& e) {
    EXPECT_TRUE(same_bits(a, e)) << name;
  });
}

template <class T>
void expect_finite(const Results<T>& results) {
  results.for_each_with(results, [](const char* name, const auto& tensor, const auto&) {
    EXPECT_TRUE(all_finite(tensor)) << name;
  });
}

template struct Problem<float>;
template struct Problem<double>;
template struct Problem<bfloat16>;
template struct Problem<float16>;
template Problem<bfloat16> stored_as(Problem<float>&);
template Problem<float16> stored_as(Problem<float>&);
template Problem<float> make_problem(const Case&, std::uint64_t);
template Problem<double> make_problem(const Case&, std::uint64_t);
template Problem<float> sequence_of(const Problem<float>&, std::int64_t);
template Problem<double> sequence_of(const Problem<double>&, std::int64_t);
template Results<float> solve(const Problem<float>&, Backend, const Executor&, Layout);
template Results<double> solve(const Problem<double>&, Backend, const Executor&, Layout);
template Results<bfloat16> solve(const Problem<bfloat16>&, Backend, const Executor&, Layout);
template Results<float16> solve(const Problem<float16>&, Backend, const Executor&, Layout);
template Results<bfloat16> solve_forward(const Problem<bfloat16>&, Backend, const Executor&);
template Results<float16> solve_forward(const Problem<float16>&, Backend, const Executor&);
template Results<float> solve_forward(const Problem<float>&, Backend, const Executor&);
template Results<double> solve_forward(const Problem<double>&, Backend, const Executor&);
template void expect_close(const Results<float>&, const Results<double>&, const Leniency&);
template void expect_close(const Results<double>&, const Results<double>&, const Leniency&);
template void expect_same_bits(const Results<float>&, const Results<float>&);
template void expect_same_bits(const Results<double>&, const Results<double>&);
template void expect_finite(const Results<float>&);
template void expect_finite(const Results<double>&);
template void expect_finite(const Results<bfloat16>&);
template void expect_finite(const Results<float16>&);

}  // namespace gma::test
