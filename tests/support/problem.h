// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// A call with its data, and all that forward and backward make of it.
#pragma once

#include <cstdint>
#include <string>

#include "gma/attention.h"
#include "support/case.h"
#include "support/close.h"
#include "support/executor.h"
#include "support/implementation.h"
#include "support/tensor.h"

namespace gma::test {

/// Inputs and upstream gradients. Empty tensors are absent arguments.
template <class T>
struct Problem {
  using A = accumulate_t<T>;

  Case options;
  Tensor<T, 4> query, key, value;
  Tensor<A, 3> means, variances;
  Tensor<A, 2> prior_logits;
  Tensor<bool, 2> mask;
  Tensor<A, 4> initial_s;
  Tensor<A, 3> initial_z;
  Tensor<T, 4> grad_output;
  Tensor<A, 4> grad_final_s;
  Tensor<A, 3> grad_final_z;

  /// Views of the above; valid for as long as this lives unchanged.
  AttentionArgs<T> args(Backend backend) const;

  /// Calls `body(tensor)` for every tensor that is present.
  template <class Body>
  void for_each_tensor(Body body) {
    const auto visit = [&](auto&... tensors) {
      (void(tensors.empty() ? void() : body(tensors)), ...);
    };
    visit(query, key, value, means, variances, prior_logits, mask, initial_s, initial_z,
          grad_output, grad_final_s, grad_final_z);
  }
};

/// Random data for a case, the same for the same seed.
template <class T>
Problem<T> make_problem(const Case& options, std::uint64_t seed = 1);

/// The problem with query, key, value and the output's gradient stored as T, a type of 16 bits;
/// makes `problem` hold exactly what is stored.
template <class T>
Problem<T> stored_as(Problem<float>& problem);

/// One sequence of a problem, as a problem with B = 1.
template <class T>
Problem<T> sequence_of(const Problem<T>& problem, std::int64_t index);

/// The same numbers in double.
Problem<double> in_double(const Problem<float>& problem);
Problem<double> in_double(const Problem<double>& problem);

template <class T>
struct Results {
  using A = accumulate_t<T>;

  Tensor<T, 4> output;
  Tensor<A, 4> final_s;
  Tensor<A, 3> final_z;
  Tensor<A, 3> normalizer;
  Tensor<T, 4> dquery, dkey, dvalue;
  Tensor<A, 3> dmeans, dvariances;
  Tensor<A, 2> dprior_logits;
  Tensor<A, 4> dinitial_s;
  Tensor<A, 3> dinitial_z;

  /// Calls `body(name, member, other's member)` for every tensor.
  template <class U, class Body>
  void for_each_with(const Results<U>& other, Body body) const {
    body("output", output, other.output);
    body("final_s", final_s, other.final_s);
    body("final_z", final_z, other.final_z);
    body("normalizer", normalizer, other.normalizer);
    body("dquery", dquery, other.dquery);
    body("dkey", dkey, other.dkey);
    body("dvalue", dvalue, other.dvalue);
    body("dmeans", dmeans, other.dmeans);
    body("dvariances", dvariances, other.dvariances);
    body("dprior_logits", dprior_logits, other.dprior_logits);
    body("dinitial_s", dinitial_s, other.dinitial_s);
    body("dinitial_z", dinitial_z, other.dinitial_z);
  }
};

/// Forward and backward, on two threads unless told otherwise. Everything that is to be written is
/// NaN before and lies in memory as `layout` says; the test fails where anything else is written
/// to.
template <class T>
Results<T> solve(const Problem<T>& problem, Backend backend, const Executor& executor = {},
                 Layout layout = Layout::contiguous);

/// Forward alone, without keeping anything for backward: output and final state.
template <class T>
Results<T> solve_forward(const Problem<T>& problem, Backend backend, const Executor& executor = {});

/// The oracle's answer in double.
template <class T>
Results<double> expected(const Problem<T>& problem) {
  return solve(in_double(problem), Backend::reference);
}

/// Token `t` of a (B, T, H, D) view.
template <class T>
View<T, 3> token_of(const View<T, 4>& view, std::int64_t t) {
  return {view.at(0, t),
          {view.size(0), view.size(2), view.size(3)},
          {view.strides[0], view.strides[2], view.strides[3]}};
}

/// The step that takes token `t` of a problem and the final state in `results`, which it updates.
template <class T>
StepArgs<T> step_args(const Problem<T>& problem, Results<T>& results, std::int64_t t,
                      Backend backend) {
  return {.query = token_of(problem.query.view(), t),
          .key = token_of(problem.key.view(), t),
          .value = token_of(problem.value.view(), t),
          .means = problem.means.view(),
          .variances = problem.variances.view(),
          .prior_logits = problem.prior_logits.view(),
          .state = {results.final_s.view(), results.final_z.view()},
          .eps = problem.options.eps,
          .backend = backend,
          .executor = threads(2)};
}

/// Every tensor of `actual` is close to that of `expected`.
template <class T>
void expect_close(const Results<T>& actual, const Results<double>& expected,
                  const Leniency& leniency = {});

template <class T>
void expect_same_bits(const Results<T>& actual, const Results<T>& expected);

template <class T>
void expect_finite(const Results<T>& results);

}  // namespace gma::test
