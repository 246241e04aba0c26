// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// A call of the selective scan with its data, and all that forward and backward make of it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gma/selective_scan.h"
#include "support/close.h"
#include "support/executor.h"
#include "support/tensor.h"

namespace gma::test {

struct ScanCase {
  std::int64_t batch = 1;
  std::int64_t tokens = 5;
  std::int64_t channels = 3;
  std::int64_t states = 2;
  bool has_state = true;  ///< an initial state, and a gradient of the final one

  std::string name() const {
    return fmt::format("B{} T{} E{} S{}{}", batch, tokens, channels, states,
                       has_state ? " state" : "");
  }
};

/// Inputs and upstream gradients. Empty tensors are absent arguments.
template <class T>
struct ScanProblem {
  Tensor<T, 3> u, delta;
  Tensor<T, 2> a;
  Tensor<T, 3> b, c;
  Tensor<T, 1> d;
  Tensor<T, 3> initial_state;
  Tensor<T, 3> grad_y, grad_final_state;

  /// Views of the above; valid for as long as this lives unchanged.
  ScanArgs<T> args(Backend backend, const Executor& executor = threads(2)) const {
    return {.u = u.view(),
            .delta = delta.view(),
            .a = a.view(),
            .b = b.view(),
            .c = c.view(),
            .d = d.view(),
            .initial_state = initial_state.view(),
            .backend = backend,
            .executor = executor};
  }

  /// Calls `body(name, tensor)` for every input that is present.
  template <class Body>
  void for_each_input(Body body) {
    const auto visit = [&](const char* name, auto& tensor) {
      if (!tensor.empty()) body(name, tensor);
    };
    visit("u", u);
    visit("delta", delta);
    visit("a", a);
    visit("b", b);
    visit("c", c);
    visit("d", d);
    visit("initial_state", initial_state);
  }
};

template <class T>
struct ScanResults {
  Tensor<T, 3> y, final_state;
  Tensor<T, 3> du, ddelta;
  Tensor<T, 2> da;
  Tensor<T, 3> db, dc;
  Tensor<T, 1> dd;
  Tensor<T, 3> dinitial_state;

  /// Calls `body(name, member, other's member)` for every tensor.
  template <class U, class Body>
  void for_each_with(const ScanResults<U>& other, Body body) const {
    body("y", y, other.y);
    body("final_state", final_state, other.final_state);
    body("du", du, other.du);
    body("ddelta", ddelta, other.ddelta);
    body("da", da, other.da);
    body("db", db, other.db);
    body("dc", dc, other.dc);
    body("dd", dd, other.dd);
    body("dinitial_state", dinitial_state, other.dinitial_state);
  }
};

/// Step sizes from 0.001 to 0.7 and A from -0.1 to -8, so that some states are kept for hundreds of
/// tokens and others for one.
template <class T>
ScanProblem<T> make_scan_problem(const ScanCase& s, std::uint64_t seed = 0) {
  Random random(seed);
  ScanProblem<T> p;
  const std::array tokens = {s.batch, s.tokens, s.channels};
  const std::array selections = {s.batch, s.tokens, s.states};
  const std::array state = {s.batch, s.channels, s.states};
  p.u = normal<T, 3>(tokens, random);
  p.delta = uniform<T, 3>(tokens, random, -7, -0.4);
  p.delta.for_each([](T& delta) { delta = std::exp(delta); });
  p.a = uniform<T, 2>({s.channels, s.states}, random, -2.3, 2.1);
  p.a.for_each([](T& a) { a = -std::exp(a); });
  p.b = normal<T, 3>(selections, random);
  p.c = normal<T, 3>(selections, random);
  p.d = normal<T, 1>({s.channels}, random);
  p.grad_y = normal<T, 3>(tokens, random);
  if (s.has_state) {
    p.initial_state = normal<T, 3>(state, random);
    p.grad_final_state = normal<T, 3>(state, random);
  }
  return p;
}

template <class T>
ScanProblem<double> in_double(const ScanProblem<T>& p) {
  return {convert<double>(p.u),
          convert<double>(p.delta),
          convert<double>(p.a),
          convert<double>(p.b),
          convert<double>(p.c),
          convert<double>(p.d),
          convert<double>(p.initial_state),
          convert<double>(p.grad_y),
          convert<double>(p.grad_final_state)};
}

/// Whether everything in memory that `tensor` does not hold is as it was: NaN.
template <class T, std::size_t Rank>
bool gaps_are_untouched(const Tensor<T, Rank>& tensor) {
  std::size_t written = 0;
  for (const T value : tensor.storage()) written += !std::isnan(value);
  std::size_t elements = 0;
  for (const T value : tensor.values()) elements += !std::isnan(value);
  return written == elements;
}

/// Forward and backward. Everything that is to be written is NaN before and lies in memory as
/// `layout` says; the test fails where anything else is written to.
template <class T>
ScanResults<T> solve(const ScanProblem<T>& p, Backend backend,
                     const Executor& executor = threads(2), Layout layout = Layout::contiguous) {
  const auto [batch, num_tokens, channels] = p.u.shape();
  const std::int64_t states = p.a.shape()[1];
  ScanResults<T> r;
  const auto prepare = [&](auto& tensor, const auto& shape) {
    tensor = std::remove_reference_t<decltype(tensor)>(shape, NAN, layout);
  };
  const std::array state = {batch, channels, states};
  prepare(r.y, p.u.shape());
  prepare(r.final_state, state);
  prepare(r.du, p.u.shape());
  prepare(r.ddelta, p.u.shape());
  prepare(r.da, p.a.shape());
  prepare(r.db, p.b.shape());
  prepare(r.dc, p.b.shape());
  prepare(r.dd, p.d.shape());
  prepare(r.dinitial_state, state);
  Tensor<T, 4> saved({batch, scan_segments(num_tokens), states, channels}, NAN, layout);

  const ScanArgs<T> args = p.args(backend, executor);
  selective_scan<T>(args,
                    {.y = r.y.view(), .final_state = r.final_state.view(), .saved = saved.view()});
  selective_scan_backward<T>(args,
                             {.saved = std::as_const(saved).view(),
                              .grad_y = p.grad_y.view(),
                              .grad_final_state = p.grad_final_state.view()},
                             {.u = r.du.view(),
                              .delta = r.ddelta.view(),
                              .a = r.da.view(),
                              .b = r.db.view(),
                              .c = r.dc.view(),
                              .d = r.dd.view(),
                              .initial_state = r.dinitial_state.view()});
  r.for_each_with(r, [](const char* name, const auto& tensor, const auto&) {
    EXPECT_TRUE(gaps_are_untouched(tensor)) << name;
  });
  EXPECT_TRUE(gaps_are_untouched(saved));
  return r;
}

/// Forward alone, without keeping anything for backward: y and the final state.
template <class T>
ScanResults<T> solve_forward(const ScanProblem<T>& p, Backend backend) {
  ScanResults<T> r;
  r.y = Tensor<T, 3>(p.u.shape());
  r.final_state = Tensor<T, 3>({p.u.shape()[0], p.u.shape()[2], p.a.shape()[1]});
  selective_scan<T>(p.args(backend), {.y = r.y.view(), .final_state = r.final_state.view()});
  return r;
}

/// The tokens [begin, end) of a problem, after `state`.
template <class T>
ScanProblem<T> tokens_of(const ScanProblem<T>& p, std::int64_t begin, std::int64_t end,
                         const Tensor<T, 3>& state) {
  ScanProblem<T> part = p;
  for (Tensor<T, 3> ScanProblem<T>::* tensor :
       {&ScanProblem<T>::u, &ScanProblem<T>::delta, &ScanProblem<T>::b, &ScanProblem<T>::c,
        &ScanProblem<T>::grad_y}) {
    part.*tensor = slice(p.*tensor, 1, begin, end);
  }
  part.initial_state = state;
  return part;
}

}  // namespace gma::test
