// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Time of the operator and its gradient over the shape grid, and of its decoding step. `flop/s`
// counts useful work alone, the same for causal and bidirectional: forward 8NKD + 4NKDv a head,
// backward 24NKD + 8NKDv.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gma/gma.h"
#include "machine.h"
#include "support/case.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace {

using gma::test::Case;
using gma::test::Problem;
using gma::test::Tensor;

constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kComponents = 128;
constexpr std::int64_t kSize = 64;  // of routing vectors and of values

/// Owns its elements, which are drawn at random: data of zeros alone would flatter the kernels.
template <std::size_t Rank>
struct Array {
  using Shape = typename gma::View<float, Rank>::Shape;

  Array(const Shape& shape, float low, float high) {
    view.shape = shape;
    elements.resize(static_cast<std::size_t>(view.numel()));
    view = gma::View<float, Rank>::contiguous(elements.data(), shape);
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> draw(low, high);
    for (float& element : elements) element = draw(generator);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::vector<float> elements;
  gma::View<float, Rank> view;
};

struct Mixture {
  explicit Mixture(std::int64_t heads = kHeads)
      : means({heads, kComponents, kSize}, -2, 2),
        variances({heads, kComponents, kSize}, 16, 48),
        prior_logits({heads, kComponents}, -1, 1) {}

  Array<3> means;
  Array<3> variances;
  Array<2> prior_logits;
};

/// A problem of the shape grid, and all that forward and backward write.
template <class T>
class Run {
 public:
  using A = gma::accumulate_t<T>;

  explicit Run(Problem<T> problem)
      : problem_(std::move(problem)),
        args_(problem_.args(gma::Backend::cpu)),
        output_(problem_.grad_output.shape()),
        normalizer_({args_.query.size(0), args_.query.size(1), args_.query.size(2)}),
        segment_s_({gma::saved_segments(args_), args_.key.size(2), args_.means.size(1),
                    args_.value.size(3)}),
        segment_z_({gma::saved_segments(args_), args_.key.size(2), args_.means.size(1)}),
        query_(problem_.query.shape()),
        key_(problem_.key.shape()),
        value_(problem_.value.shape()),
        means_(problem_.means.shape()),
        variances_(problem_.variances.shape()),
        prior_logits_(problem_.prior_logits.shape()) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void forward() { gma::forward<T>(args_, {.output = output_.view(), .saved = saved()}); }

  void backward() {
    gma::backward<T>(args_, {.saved = saved(), .grad_output = problem_.grad_output.view()},
                     {.query = query_.view(),
                      .key = key_.view(),
                      .value = value_.view(),
                      .means = means_.view(),
                      .variances = variances_.view(),
                      .prior_logits = prior_logits_.view()});
  }

 private:
  gma::Saved<A> saved() { return {normalizer_.view(), segment_s_.view(), segment_z_.view()}; }

  const Problem<T> problem_;
  const gma::AttentionArgs<T> args_;
  Tensor<T, 4> output_;
  Tensor<A, 3> normalizer_;
  Tensor<A, 4> segment_s_;
  Tensor<A, 3> segment_z_;
  Tensor<T, 4> query_, key_, value_;
  Tensor<A, 3> means_, variances_;
  Tensor<A, 2> prior_logits_;
};

template <class T>
Problem<T> problem_of(const Case& one) {
  Problem<float> problem = gma::test::make_problem<float>(one);
  if constexpr (std::is_same_v<T, float>) {
    return problem;
  } else {
    return gma::test::stored_as<T>(problem);
  }
}

void count(benchmark::State& state, std::int64_t tokens, double flop_per_token) {
  state.counters["flop/s"] = benchmark::Counter(static_cast<double>(tokens) * flop_per_token,
                                                benchmark::Counter::kIsIterationInvariantRate);
  state.SetItemsProcessed(state.iterations() * tokens);
}

/// Useful work a token: half for its queries and half for its keys, over their heads.
double flop_per_token(const Case& one, bool with_backward) {
  const auto heads = static_cast<double>(one.query_heads + one.key_heads) / 2;
  const auto size = static_cast<double>(with_backward ? 32 * one.dim + 12 * one.value_dim
                                                      : 8 * one.dim + 4 * one.value_dim);
  return heads * static_cast<double>(one.components) * size;
}

template <class T>
void forward(benchmark::State& state, const Case& one) {
  Run<T> run(problem_of<T>(one));
  for (auto _ : state) run.forward();
  count(state, one.queries, flop_per_token(one, false));
}

template <class T>
void forward_and_backward(benchmark::State& state, const Case& one) {
  Run<T> run(problem_of<T>(one));
  for (auto _ : state) {
    run.forward();
    run.backward();
  }
  count(state, one.queries, flop_per_token(one, true));
}

void step(benchmark::State& state) {
  const std::int64_t heads = state.range(0);
  const Mixture mixture(heads);
  const Array<3> token({1, heads, kSize}, -2, 2);
  const Array<3> output({1, heads, kSize}, 0, 1);
  const Array<4> s({1, heads, kComponents, kSize}, 0, 1);
  const Array<3> z({1, heads, kComponents}, 0, 1);
  for (auto _ : state) {
    gma::step<float>({.query = token.view,
                      .key = token.view,
                      .value = token.view,
                      .means = mixture.means.view,
                      .variances = mixture.variances.view,
                      .prior_logits = mixture.prior_logits.view,
                      .state = {s.view, z.view},
                      .executor = gma::serial_executor()},
                     output.view);
  }
  state.counters["ns_per_component"] = benchmark::Counter(
      static_cast<double>(heads * kComponents) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// What a step cannot do without: reading its mixture and its state.
void step_data(benchmark::State& state) {
  const Mixture mixture;
  const Array<4> s({1, kHeads, kComponents, kSize}, 0, 1);
  for (auto _ : state) {
    for (const auto* elements :
         {&mixture.means.elements, &mixture.variances.elements, &s.elements}) {
      benchmark::DoNotOptimize(gma::benchmarks::sum(*elements));
    }
  }
}

BENCHMARK(step)->ArgName("heads")->Arg(1)->Arg(kHeads)->Unit(benchmark::kNanosecond)->UseRealTime();
BENCHMARK(step_data)->Unit(benchmark::kNanosecond)->UseRealTime();

template <class T>
void register_grid(const std::string& type) {
  for (const Case& one : gma::test::benchmark_cases()) {
    for (const auto& [name, run] : {std::pair{"forward", &forward<T>},
                                    std::pair{"forward_and_backward", &forward_and_backward<T>}}) {
      benchmark::RegisterBenchmark((name + ("/" + one.name) + "/" + type).c_str(), run, one)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    }
  }
}

const bool kIsRegistered = [] {
  register_grid<float>("float");
  register_grid<gma::bfloat16>("bfloat16");
  return true;
}();

}  // namespace
