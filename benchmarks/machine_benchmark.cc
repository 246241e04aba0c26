// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What the machine can do: multiply-adds with nothing else in the way, on the instruction set that
// the kernels use.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine_benchmark.cc"
#include <benchmark/benchmark.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cstdint>
#include <vector>

#include "machine.h"

HWY_BEFORE_NAMESPACE();
namespace gma::benchmarks {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// `count` rounds of one multiply-add on each of twelve accumulators. Returns the flops.
double multiply_add(std::int64_t count, float* result) {
  constexpr int kAccumulators = 12;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const V x = hn::Set(d, 0.999F);
  const V y = hn::Set(d, 1e-3F);
  V sum[kAccumulators];
  HWY_UNROLL(12)
  for (int i = 0; i < kAccumulators; ++i) sum[i] = hn::Set(d, static_cast<float>(i));
  for (std::int64_t n = 0; n < count; ++n) {
    HWY_UNROLL(12)
    for (int i = 0; i < kAccumulators; ++i) sum[i] = hn::MulAdd(sum[i], x, y);
  }
  V total = sum[0];
  HWY_UNROLL(12)
  for (int i = 1; i < kAccumulators; ++i) total = hn::Add(total, sum[i]);
  *result = hn::GetLane(hn::SumOfLanes(d, total));
  return 2.0 * kAccumulators * static_cast<double>(hn::Lanes(d)) * static_cast<double>(count);
}

float sum(const float* data, std::int64_t count) {
  constexpr int kAccumulators = 8;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kAccumulators];
  HWY_UNROLL(8)
  for (int i = 0; i < kAccumulators; ++i) sums[i] = hn::Zero(d);
  for (std::int64_t n = 0; n + kAccumulators * lanes <= count; n += kAccumulators * lanes) {
    HWY_UNROLL(8)
    for (int i = 0; i < kAccumulators; ++i) {
      sums[i] = hn::Add(sums[i], hn::LoadU(d, data + n + i * lanes));
    }
  }
  HWY_UNROLL(8)
  for (int i = 1; i < kAccumulators; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  return hn::GetLane(hn::SumOfLanes(d, sums[0]));
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace gma::benchmarks
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::benchmarks {

HWY_EXPORT(sum);

float sum(const std::vector<float>& data) {
  return HWY_DYNAMIC_DISPATCH(sum)(data.data(), static_cast<std::int64_t>(data.size()));
}

namespace {

HWY_EXPORT(multiply_add);
HWY_EXPORT(target_name);

void fma_peak(benchmark::State& state) {
  double flops = 0;
  for (auto _ : state) {
    float result = 0;
    flops += HWY_DYNAMIC_DISPATCH(multiply_add)(100'000, &result);
    benchmark::DoNotOptimize(result);
  }
  state.counters["flop/s"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
  state.SetLabel(HWY_DYNAMIC_DISPATCH(target_name)());
}
// On one thread, and on all at once: virtual cores may be threads of one real core.
BENCHMARK(fma_peak)->UseRealTime()->ThreadPerCpu();
BENCHMARK(fma_peak)->UseRealTime();

}  // namespace
}  // namespace gma::benchmarks
#endif  // HWY_ONCE
