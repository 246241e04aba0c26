// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Backward pass of the selective scan. Segments from last to first: their states are computed again
// from the one saved, then the gradient of the state walks back through them. It is derived beside
// the oracle, in src/reference/selective_scan.cc.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/scan_backward.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "cpu/scan-inl.h"
#include "cpu/selective_scan.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// What the tasks leave for the sums over channels, (blocks, B, T, S), and over sequences,
/// (B, S, E) and (B, E).
template <class A>
struct ScanPartials {
  explicit ScanPartials(const ScanArgs<A>& args)
      : db(ScanBlock<A>::blocks(args) * args.b.numel()),
        dc(db.size()),
        da(args.u.size(0) * args.a.numel()),
        dd(args.u.size(0) * args.d.numel()) {}

  AlignedArray<A> db;
  AlignedArray<A> dc;
  AlignedArray<double> da;
  AlignedArray<double> dd;
};

/// Workspace of one task at a time.
template <class A>
class ScanBackward {
 public:
  ScanBackward(const ScanArgs<A>& args, const ScanUpstream<A>& upstream,
               const ScanGradients<A>& gradients, const ScanPartials<A>& partials)
      : args_(args),
        upstream_(upstream),
        gradients_(gradients),
        partials_(partials),
        block_(args),
        start_(state_elements()),
        dh_(state_elements()),
        da_(state_elements()),
        dd_(kScanChannels),
        dy_(kTokenElements),
        dinput_(kTokenElements),
        dexponent_(kTokenElements),
        h_(kBlockElements + kStateRows),
        kept_(kBlockElements),
        db_(kBlockElements),
        dc_(kBlockElements) {}

  void run(std::int64_t task) {
    block_.begin(task);
    for (std::int64_t v = 0; v < block_.num_vectors(); ++v) {
      block_.load_state(upstream_.grad_final_state, v, dh(v));
    }
    da_.fill(0);
    dd_.fill(0);
    for (std::int64_t segment = scan_segments(args_.u.size(1)); segment-- > 0;) {
      load_segment(segment);
      for (std::int64_t s = 0; s < block_.num_states(); s += kScanStates) {
        db_.fill(0);
        dc_.fill(0);
        for (std::int64_t v = 0; v < block_.num_vectors(); ++v) {
          recompute(v, s);
          reverse(v, s);
        }
        store_sums(task, s);
      }
      for (std::int64_t v = 0; v < block_.num_vectors(); ++v) finish_segment(v);
    }
    finish();
  }

 private:
  static constexpr std::int64_t kStateRows = kScanStates * kLanes<A>;
  static constexpr std::int64_t kBlockElements = kScanSegmentTokens * kStateRows;
  static constexpr std::int64_t kTokenElements =
      ScanBlock<A>::kMaxVectors * ScanBlock<A>::kTokenVectors;

  std::int64_t state_elements() const {
    return ScanBlock<A>::kMaxVectors * block_.padded_states() * kLanes<A>;
  }
  std::int64_t state_offset(std::int64_t v) const { return v * block_.padded_states() * kLanes<A>; }
  A* start(std::int64_t v) const { return start_.data() + state_offset(v); }
  A* dh(std::int64_t v) const { return dh_.data() + state_offset(v); }
  double* da(std::int64_t v) const { return da_.data() + state_offset(v); }
  A* dy(std::int64_t v) const { return dy_.data() + v * ScanBlock<A>::kTokenVectors; }
  A* dinput(std::int64_t v) const { return dinput_.data() + v * ScanBlock<A>::kTokenVectors; }
  A* dexponent(std::int64_t v) const { return dexponent_.data() + v * ScanBlock<A>::kTokenVectors; }

  void load_segment(std::int64_t segment) {
    block_.load_segment(segment);
    for (std::int64_t v = 0; v < block_.num_vectors(); ++v) {
      block_.load_tokens(upstream_.grad_y, v, dy(v));
      block_.load_saved(upstream_.saved, segment, v, start(v));
    }
    dinput_.fill(0);
    dexponent_.fill(0);
  }

  /// h before the segment and after each of its tokens, and the factors exp(delta A) between them.
  HWY_NOINLINE void recompute(std::int64_t v, std::int64_t state) {
    const Tag<A> d;
    const A* delta_rows = block_.delta(v);
    const A* input_rows = block_.input(v);
    const A* b = block_.b() + state;
    A* h_rows = h_.data();
    A* kept_rows = kept_.data();
    Vec<A> a[kScanStates];
    Vec<A> h[kScanStates];
    for (int i = 0; i < kScanStates; ++i) {
      a[i] = hn::Load(d, block_.a(v) + (state + i) * kLanes<A>);
      h[i] = hn::Load(d, start(v) + (state + i) * kLanes<A>);
      hn::Store(h[i], d, h_rows + i * kLanes<A>);
    }
    for (std::int64_t t = 0; t < block_.num_tokens(); ++t) {
      const Vec<A> delta = hn::Load(d, delta_rows + t * kLanes<A>);
      const Vec<A> input = hn::Load(d, input_rows + t * kLanes<A>);
      h_rows += kStateRows;
      for (int i = 0; i < kScanStates; ++i) {
        const Vec<A> kept = decay<A>(hn::Mul(delta, a[i]));
        h[i] = hn::MulAdd(kept, h[i], hn::Mul(input, hn::Set(d, b[i])));
        hn::Store(kept, d, kept_rows + i * kLanes<A>);
        hn::Store(h[i], d, h_rows + i * kLanes<A>);
      }
      kept_rows += kStateRows;
      b += block_.padded_states();
    }
  }

  /// Last token first: dh of each token, and its share of every other gradient. dinput gains the
  /// gradient of delta u, dexponent that of the exponents times A, as A is scaled for decay().
  HWY_NOINLINE void reverse(std::int64_t v, std::int64_t state) {
    const Tag<A> d;
    const std::int64_t stride = block_.padded_states();
    A* dh_rows = dh(v) + state * kLanes<A>;
    Vec<A> a[kScanStates];
    Vec<A> dh[kScanStates];
    Vec<A> da[kScanStates];
    for (int i = 0; i < kScanStates; ++i) {
      a[i] = hn::Load(d, block_.a(v) + (state + i) * kLanes<A>);
      dh[i] = hn::Load(d, dh_rows + i * kLanes<A>);
      da[i] = hn::Zero(d);
    }
    for (std::int64_t t = block_.num_tokens(); t-- > 0;) {
      const A* b = block_.b() + t * stride + state;
      const A* c = block_.c() + t * stride + state;
      const A* before = h_.data() + t * kStateRows;
      const A* after = before + kStateRows;
      const A* kept_row = kept_.data() + t * kStateRows;
      A* db_row = db_.data() + t * kStateRows;
      A* dc_row = dc_.data() + t * kStateRows;
      const Vec<A> delta = hn::Load(d, block_.delta(v) + t * kLanes<A>);
      const Vec<A> input = hn::Load(d, block_.input(v) + t * kLanes<A>);
      const Vec<A> dy = hn::Load(d, this->dy(v) + t * kLanes<A>);
      Vec<A> dinput = hn::Load(d, this->dinput(v) + t * kLanes<A>);
      Vec<A> dexponent = hn::Load(d, this->dexponent(v) + t * kLanes<A>);
      for (int i = 0; i < kScanStates; ++i) {
        const std::int64_t lane = i * kLanes<A>;
        const Vec<A> kept = hn::Load(d, kept_row + lane);
        hn::Store(hn::MulAdd(dy, hn::Load(d, after + lane), hn::Load(d, dc_row + lane)), d,
                  dc_row + lane);
        dh[i] = hn::MulAdd(dy, hn::Set(d, c[i]), dh[i]);
        hn::Store(hn::MulAdd(dh[i], input, hn::Load(d, db_row + lane)), d, db_row + lane);
        dinput = hn::MulAdd(dh[i], hn::Set(d, b[i]), dinput);
        dh[i] = hn::Mul(dh[i], kept);
        const Vec<A> of_exponent = hn::Mul(dh[i], hn::Load(d, before + lane));
        da[i] = hn::MulAdd(of_exponent, delta, da[i]);
        dexponent = hn::MulAdd(of_exponent, a[i], dexponent);
      }
      hn::Store(dinput, d, this->dinput(v) + t * kLanes<A>);
      hn::Store(dexponent, d, this->dexponent(v) + t * kLanes<A>);
    }
    for (int i = 0; i < kScanStates; ++i) {
      hn::Store(dh[i], d, dh_rows + i * kLanes<A>);
      add_to_total(da[i], this->da(v) + (state + i) * kLanes<A>);
    }
  }

  /// Sums over a whole sequence are held in double.
  static void add_to_total(Vec<A> sum, double* total) {
    HWY_ALIGN A lanes[kLanes<A>];
    hn::Store(sum, Tag<A>(), lanes);
    for (std::int64_t i = 0; i < kLanes<A>; ++i) total[i] += static_cast<double>(lanes[i]);
  }

  /// dB and dC of the segment and of kScanStates states, summed over the task's channels.
  void store_sums(std::int64_t task, std::int64_t state) {
    const Tag<A> d;
    const std::int64_t block = task % ScanBlock<A>::blocks(args_);
    const std::int64_t first =
        (block * args_.u.size(0) + block_.batch()) * args_.u.size(1) + block_.first_token();
    const std::int64_t count = std::min<std::int64_t>(kScanStates, block_.num_states() - state);
    for (std::int64_t t = 0; t < block_.num_tokens(); ++t) {
      const std::int64_t to = (first + t) * block_.num_states() + state;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t from = t * kStateRows + i * kLanes<A>;
        partials_.db.data()[to + i] =
            hn::GetLane(hn::SumOfLanes(d, hn::Load(d, db_.data() + from)));
        partials_.dc.data()[to + i] =
            hn::GetLane(hn::SumOfLanes(d, hn::Load(d, dc_.data() + from)));
      }
    }
  }

  /// du, ddelta and dD of the segment.
  void finish_segment(std::int64_t v) {
    const Tag<A> d;
    const Vec<A> skip = hn::Load(d, block_.d(v));
    const Vec<A> scale = hn::Set(d, A(1) / kDecayScale<A>);
    Vec<A> dskip = hn::Zero(d);
    A* du = dinput(v);
    A* ddelta = dexponent(v);
    for (std::int64_t i = 0; i < block_.num_tokens() * kLanes<A>; i += kLanes<A>) {
      const Vec<A> u = hn::Load(d, block_.u(v) + i);
      const Vec<A> dy = hn::Load(d, this->dy(v) + i);
      const Vec<A> dinput = hn::Load(d, du + i);
      hn::Store(hn::MulAdd(hn::Load(d, ddelta + i), scale, hn::Mul(dinput, u)), d, ddelta + i);
      hn::Store(hn::MulAdd(dinput, hn::Load(d, block_.delta(v) + i), hn::Mul(dy, skip)), d, du + i);
      dskip = hn::MulAdd(dy, u, dskip);
    }
    add_to_total(dskip, dd_.data() + v * kLanes<A>);
    if (gradients_.u) block_.store_tokens(du, v, gradients_.u);
    if (gradients_.delta) block_.store_tokens(ddelta, v, gradients_.delta);
  }

  void finish() {
    const std::int64_t num_channels = args_.u.size(2);
    for (std::int64_t v = 0; v < block_.num_vectors(); ++v) {
      block_.store_state(dh(v), v, gradients_.initial_state);
      const std::int64_t channel = block_.first_channel() + v * kLanes<A>;
      for (std::int64_t s = 0; s < block_.num_states(); ++s) {
        const std::int64_t row = block_.batch() * block_.num_states() + s;
        std::copy_n(da(v) + s * kLanes<A>, block_.channels(v),
                    partials_.da.data() + row * num_channels + channel);
      }
      std::copy_n(dd_.data() + v * kLanes<A>, block_.channels(v),
                  partials_.dd.data() + block_.batch() * num_channels + channel);
    }
  }

  const ScanArgs<A>& args_;
  const ScanUpstream<A>& upstream_;
  const ScanGradients<A>& gradients_;
  const ScanPartials<A>& partials_;
  ScanBlock<A> block_;
  AlignedArray<A> start_;    ///< h before the segment
  AlignedArray<A> dh_;       ///< the gradient of h that comes from later tokens
  AlignedArray<double> da_;  ///< laid out as they are
  AlignedArray<double> dd_;
  AlignedArray<A> dy_;
  AlignedArray<A> dinput_;
  AlignedArray<A> dexponent_;
  // kScanStates states of one vector, [token][state][lane].
  AlignedArray<A> h_;
  AlignedArray<A> kept_;
  AlignedArray<A> db_;
  AlignedArray<A> dc_;
};

/// target = the sum over blocks of (blocks, B, T, S), in their order.
template <class A>
void sum_blocks(const ScanArgs<A>& args, const AlignedArray<A>& partial, const View<A, 3>& target) {
  if (!target) return;
  const std::int64_t tokens = args.u.size(1);
  const std::int64_t num_states = args.a.size(1);
  args.executor.run(args.u.size(0) * tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      A* to = target.at(row / tokens, row % tokens);
      for (std::int64_t s = 0; s < num_states; ++s) {
        A sum = 0;
        for (std::int64_t i = row * num_states + s; i < partial.size(); i += target.numel()) {
          sum += partial.data()[i];
        }
        to[s * target.strides[2]] = sum;
      }
    }
  });
}

/// The sum of `values[i]`, `values[i + stride]`, ... over the sequences.
inline double sum_sequences(const AlignedArray<double>& values, std::int64_t i,
                            std::int64_t stride) {
  double sum = 0;
  for (; i < values.size(); i += stride) sum += values.data()[i];
  return sum;
}

template <class A>
void run_scan_backward(const ScanArgs<A>& args, const ScanUpstream<A>& upstream,
                       const ScanGradients<A>& gradients) {
  const ScanPartials<A> partials(args);
  args.executor.run(ScanBlock<A>::tasks(args), [&](std::int64_t begin, std::int64_t end) {
    ScanBackward<A> worker(args, upstream, gradients, partials);
    for (std::int64_t task = begin; task < end; ++task) worker.run(task);
  });
  sum_blocks(args, partials.db, gradients.b);
  sum_blocks(args, partials.dc, gradients.c);
  const auto& [num_channels, num_states] = args.a.shape;
  for (std::int64_t e = 0; e < num_channels; ++e) {
    if (gradients.d) {
      gradients.d(e) = static_cast<A>(sum_sequences(partials.dd, e, num_channels));
    }
    for (std::int64_t s = 0; gradients.a && s < num_states; ++s) {
      gradients.a(e, s) = static_cast<A>(
          sum_sequences(partials.da, s * num_channels + e, num_states * num_channels));
    }
  }
}

void scan_backward_float(const ScanArgs<float>& args, const ScanUpstream<float>& upstream,
                         const ScanGradients<float>& gradients) {
  run_scan_backward(args, upstream, gradients);
}
void scan_backward_double(const ScanArgs<double>& args, const ScanUpstream<double>& upstream,
                          const ScanGradients<double>& gradients) {
  run_scan_backward(args, upstream, gradients);
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::cpu {

HWY_EXPORT(scan_backward_float);
HWY_EXPORT(scan_backward_double);

template <>
void selective_scan_backward(const ScanArgs<float>& args, const ScanUpstream<float>& upstream,
                             const ScanGradients<float>& gradients) {
  HWY_DYNAMIC_DISPATCH(scan_backward_float)(args, upstream, gradients);
}
template <>
void selective_scan_backward(const ScanArgs<double>& args, const ScanUpstream<double>& upstream,
                             const ScanGradients<double>& gradients) {
  HWY_DYNAMIC_DISPATCH(scan_backward_double)(args, upstream, gradients);
}

}  // namespace gma::cpu
#endif  // HWY_ONCE
