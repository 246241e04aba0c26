// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Time of the operator, its gradient and its decoding step. `flop/s` counts useful work alone, the
// same for causal and bidirectional: forward 8NKD + 4NKDv a head, backward 24NKD + 8NKDv.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gma/gma.h"
#include "machine.h"

namespace {

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

/// One sequence of `tokens` queries, keys and values, and all that forward and backward write.
struct Sequence {
  Sequence(std::int64_t tokens, bool is_causal)
      : shape{1, tokens, kHeads, kSize},
        args{.query = query.view,
             .key = key.view,
             .value = value.view,
             .means = mixture.means.view,
             .variances = mixture.variances.view,
             .prior_logits = mixture.prior_logits.view,
             .is_causal = is_causal} {}

  void forward() { gma::forward<float>(args, {.output = output.view, .saved = saved}); }

  void backward() {
    gma::backward<float>(args, {.saved = saved, .grad_output = grad_output.view},
                         {.query = grad_query.view,
                          .key = grad_key.view,
                          .value = grad_value.view,
                          .means = grad_mixture.means.view,
                          .variances = grad_mixture.variances.view,
                          .prior_logits = grad_mixture.prior_logits.view});
  }

  Array<4>::Shape shape;
  Mixture mixture, grad_mixture;
  Array<4> query{shape, -2, 2}, key{shape, -2, 2}, value{shape, -2, 2}, output{shape, 0, 1};
  Array<4> grad_query{shape, 0, 1}, grad_key{shape, 0, 1}, grad_value{shape, 0, 1};
  Array<4> grad_output{shape, -2, 2};
  gma::AttentionArgs<float> args;
  std::int64_t segments = gma::saved_segments(args);
  Array<3> normalizer{Array<3>::Shape{1, shape[1], kHeads}, 0, 1};
  Array<4> segment_s{Array<4>::Shape{segments, kHeads, kComponents, kSize}, 0, 1};
  Array<3> segment_z{Array<3>::Shape{segments, kHeads, kComponents}, 0, 1};
  gma::Saved<float> saved{normalizer.view, segment_s.view, segment_z.view};
};

void count(benchmark::State& state, std::int64_t tokens, double flop_per_token_and_component) {
  const auto work = static_cast<double>(tokens * kHeads * kComponents);
  state.counters["flop/s"] = benchmark::Counter(work * flop_per_token_and_component,
                                                benchmark::Counter::kIsIterationInvariantRate);
  state.SetItemsProcessed(state.iterations() * tokens);
}

void forward(benchmark::State& state) {
  Sequence sequence(state.range(0), state.range(1) != 0);
  for (auto _ : state) sequence.forward();
  count(state, state.range(0), 12 * kSize);
}

void forward_and_backward(benchmark::State& state) {
  Sequence sequence(state.range(0), state.range(1) != 0);
  for (auto _ : state) {
    sequence.forward();
    sequence.backward();
  }
  count(state, state.range(0), 44 * kSize);
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

void sequences(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tokens", "causal"})->ArgsProduct({{1024, 8192}, {0, 1}});
  bench->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK(forward)->Apply(sequences);
BENCHMARK(forward_and_backward)->Apply(sequences);
BENCHMARK(step)->ArgName("heads")->Arg(1)->Arg(kHeads)->Unit(benchmark::kNanosecond)->UseRealTime();
BENCHMARK(step_data)->Unit(benchmark::kNanosecond)->UseRealTime();

}  // namespace
