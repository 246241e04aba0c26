// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Forward pass of the selective scan: bound by its B T E S exponentials.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/scan_forward.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cstdint>

#include "cpu/scan-inl.h"
#include "cpu/selective_scan.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Carries states [state, state + kScanStates) of one vector over a segment: h moves on, and y
/// gains their part of C h.
template <class A>
HWY_INLINE void scan_states(const ScanBlock<A>& block, std::int64_t v, std::int64_t state,
                            A* state_h, A* y) {
  const Tag<A> d;
  const A* a_rows = block.a(v) + state * kLanes<A>;
  A* h_rows = state_h + state * kLanes<A>;
  const A* delta_rows = block.delta(v);
  const A* input_rows = block.input(v);
  const A* b = block.b() + state;
  const A* c = block.c() + state;
  Vec<A> a[kScanStates];
  Vec<A> h[kScanStates];
  for (int i = 0; i < kScanStates; ++i) {
    a[i] = hn::Load(d, a_rows + i * kLanes<A>);
    h[i] = hn::Load(d, h_rows + i * kLanes<A>);
  }
  for (std::int64_t t = 0; t < block.num_tokens(); ++t) {
    const Vec<A> delta = hn::Load(d, delta_rows + t * kLanes<A>);
    const Vec<A> input = hn::Load(d, input_rows + t * kLanes<A>);
    Vec<A> sum = hn::Load(d, y + t * kLanes<A>);
    for (int i = 0; i < kScanStates; ++i) {
      const Vec<A> kept = decay<A>(hn::Mul(delta, a[i]));
      h[i] = hn::MulAdd(kept, h[i], hn::Mul(input, hn::Set(d, b[i])));
      sum = hn::MulAdd(h[i], hn::Set(d, c[i]), sum);
    }
    hn::Store(sum, d, y + t * kLanes<A>);
    b += block.padded_states();
    c += block.padded_states();
  }
  for (int i = 0; i < kScanStates; ++i) hn::Store(h[i], d, h_rows + i * kLanes<A>);
}

/// Workspace of one task at a time.
template <class A>
class ScanForward {
 public:
  ScanForward(const ScanArgs<A>& args, const ScanOutputs<A>& outputs)
      : args_(args),
        outputs_(outputs),
        block_(args),
        h_(ScanBlock<A>::kMaxVectors * block_.padded_states() * kLanes<A>),
        y_(ScanBlock<A>::kTokenVectors) {}

  void run(std::int64_t task) {
    block_.begin(task);
    for (std::int64_t v = 0; v < block_.num_vectors(); ++v) {
      block_.load_state(args_.initial_state, v, h(v));
    }
    const std::int64_t segments = scan_segments(args_.u.size(1));
    for (std::int64_t segment = 0; segment < segments; ++segment) {
      block_.load_segment(segment);
      for (std::int64_t v = 0; v < block_.num_vectors(); ++v) {
        block_.store_saved(h(v), segment, v, outputs_.saved);
        run_vector(v);
      }
    }
    for (std::int64_t v = 0; v < block_.num_vectors(); ++v) {
      block_.store_state(h(v), v, outputs_.final_state);
    }
  }

 private:
  A* h(std::int64_t v) const { return h_.data() + v * block_.padded_states() * kLanes<A>; }

  void run_vector(std::int64_t v) {
    const Tag<A> d;
    const Vec<A> skip = hn::Load(d, block_.d(v));
    for (std::int64_t i = 0; i < block_.num_tokens() * kLanes<A>; i += kLanes<A>) {
      hn::Store(hn::Mul(skip, hn::Load(d, block_.u(v) + i)), d, y_.data() + i);
    }
    for (std::int64_t s = 0; s < block_.num_states(); s += kScanStates) {
      scan_states(block_, v, s, h(v), y_.data());
    }
    block_.store_tokens(y_.data(), v, outputs_.y);
  }

  const ScanArgs<A>& args_;
  const ScanOutputs<A>& outputs_;
  ScanBlock<A> block_;
  AlignedArray<A> h_;
  AlignedArray<A> y_;
};

template <class A>
void run_scan(const ScanArgs<A>& args, const ScanOutputs<A>& outputs) {
  args.executor.run(ScanBlock<A>::tasks(args), [&](std::int64_t begin, std::int64_t end) {
    ScanForward<A> worker(args, outputs);
    for (std::int64_t task = begin; task < end; ++task) worker.run(task);
  });
}

void scan_float(const ScanArgs<float>& args, const ScanOutputs<float>& outputs) {
  run_scan(args, outputs);
}
void scan_double(const ScanArgs<double>& args, const ScanOutputs<double>& outputs) {
  run_scan(args, outputs);
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::cpu {

HWY_EXPORT(scan_float);
HWY_EXPORT(scan_double);

template <>
void selective_scan(const ScanArgs<float>& args, const ScanOutputs<float>& outputs) {
  HWY_DYNAMIC_DISPATCH(scan_float)(args, outputs);
}
template <>
void selective_scan(const ScanArgs<double>& args, const ScanOutputs<double>& outputs) {
  HWY_DYNAMIC_DISPATCH(scan_double)(args, outputs);
}

}  // namespace gma::cpu
#endif  // HWY_ONCE
