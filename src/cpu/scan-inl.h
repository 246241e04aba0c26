// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What both passes of the selective scan share. A task has up to kScanChannels channels of one
// sequence and walks it in segments. Vectors run over channels: a step size and an input then serve
// every state as they are, B and C are broadcast scalars, and no sum goes across lanes but those of
// dB and dC. A segment's arrays are [vector][token][lane], so that the inner loops, over tokens,
// read them in order; states of a vector are [state][lane].

#if defined(GMA_CPU_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_SCAN_INL_H_
#undef GMA_CPU_SCAN_INL_H_
#else
#define GMA_CPU_SCAN_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "common/aligned_array.h"
#include "cpu/layout.h"
#include "cpu/vector-inl.h"
#include "gma/selective_scan.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Channels of one task. It divides the work, and so the sums over channels, whatever the vectors.
inline constexpr std::int64_t kScanChannels = 64;
/// States of a vector that are carried side by side: chains enough to hide the latency of one.
inline constexpr int kScanStates = 4;

/// decay() takes its argument in units of 1 / kDecayScale: powers of two are cheaper in float.
template <class A>
inline constexpr A kDecayScale = std::is_same_v<A, double> ? A(1) : A(1.44269504088896341);

/// exp(x / kDecayScale) for x <= 0. In float 2^x = 2^n 2^r with |r| <= 1/2 and 2^r by the
/// polynomial of degree 5 whose largest error in units in the last place is least among those that
/// are 1 at r = 0: below 2.5 of them (2 with fused multiply-adds), and exact at 0, where an error
/// would be compounded from token to token. It ends at 2^-126 instead of going on to 0. NaN stays
/// NaN.
template <class A>
HWY_INLINE Vec<A> decay(Vec<A> x) {
  const Tag<A> d;
  if constexpr (std::is_same_v<A, double>) {
    return exp_nonpositive<A>(x);
  } else {
    const hn::RebindToSigned<Tag<A>> di;
    // In this order: where one operand is NaN, x86 takes the second.
    x = hn::Max(hn::Set(d, -126.0F), x);
    // Adding 1.5 2^23 rounds to an integer and leaves it in the low bits.
    const Vec<A> shifted = hn::Add(x, hn::Set(d, 0x1.8p23F));
    const Vec<A> r = hn::Sub(x, hn::Sub(shifted, hn::Set(d, 0x1.8p23F)));
    Vec<A> p = hn::Set(d, 1.322570748e-3F);
    p = hn::MulAdd(p, r, hn::Set(d, 9.671762938e-3F));
    p = hn::MulAdd(p, r, hn::Set(d, 5.550891439e-2F));
    p = hn::MulAdd(p, r, hn::Set(d, 2.402223704e-1F));
    p = hn::MulAdd(p, r, hn::Set(d, 6.931468292e-1F));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
    const auto one = hn::Set(di, std::bit_cast<std::int32_t>(1.0F));
    // Multiplied rather than added to the exponent of p, so that NaN stays NaN.
    return hn::Mul(p, hn::BitCast(d, hn::Add(exponent, one)));
  }
}

/// Rows of one vector of channels, `count` of them, into whole vectors; lanes past `channels` are
/// zero.
template <class A>
void load_vectors(const A* from, std::int64_t row_stride, std::int64_t channel_stride,
                  std::int64_t count, std::int64_t channels, A* to) {
  const Tag<A> d;
  if (channel_stride == 1 && channels == kLanes<A>) {
    for (std::int64_t i = 0; i < count; ++i) {
      hn::Store(hn::LoadU(d, from + i * row_stride), d, to + i * kLanes<A>);
    }
  } else {
    pack_rows<A, A>(from, row_stride, channel_stride, count, count, channels, nullptr, to,
                    kLanes<A>);
  }
}

/// The inverse of load_vectors.
template <class A>
void store_vectors(const A* from, std::int64_t count, std::int64_t channels, A* to,
                   std::int64_t row_stride, std::int64_t channel_stride) {
  const Tag<A> d;
  if (channel_stride == 1 && channels == kLanes<A>) {
    for (std::int64_t i = 0; i < count; ++i) {
      hn::StoreU(hn::Load(d, from + i * kLanes<A>), d, to + i * row_stride);
    }
  } else {
    unpack_rows<A, A>(from, kLanes<A>, count, channels, to, row_stride, channel_stride);
  }
}

/// The channels of one task, and what both passes read of them.
template <class A>
class ScanBlock {
 public:
  static constexpr std::int64_t kMaxVectors = kScanChannels / kLanes<A>;
  /// Elements of an array with a vector a token.
  static constexpr std::int64_t kTokenVectors = kScanSegmentTokens * kLanes<A>;

  explicit ScanBlock(const ScanArgs<A>& args)
      : args_(args),
        num_states_(args.a.size(1)),
        padded_states_(round_up(num_states_, kScanStates)),
        a_(kMaxVectors * padded_states_ * kLanes<A>),
        d_(kMaxVectors * kLanes<A>),
        u_(kMaxVectors * kTokenVectors),
        delta_(kMaxVectors * kTokenVectors),
        input_(kMaxVectors * kTokenVectors),
        b_(kScanSegmentTokens * padded_states_),
        c_(kScanSegmentTokens * padded_states_) {}

  static std::int64_t blocks(const ScanArgs<A>& args) {
    return (args.u.size(2) + kScanChannels - 1) / kScanChannels;
  }
  static std::int64_t tasks(const ScanArgs<A>& args) { return args.u.size(0) * blocks(args); }

  /// Turns to the channels of `task`: A, scaled for decay(), and D.
  void begin(std::int64_t task) {
    batch_ = task / blocks(args_);
    first_channel_ = task % blocks(args_) * kScanChannels;
    const std::int64_t count = std::min(kScanChannels, args_.u.size(2) - first_channel_);
    num_vectors_ = (count + kLanes<A> - 1) / kLanes<A>;
    a_.fill(0);
    for (std::int64_t v = 0; v < num_vectors_; ++v) {
      load_vectors(args_.a.at(channel(v)), args_.a.strides[1], args_.a.strides[0], num_states_,
                   channels(v), a(v));
      load_vectors(args_.d.at(channel(v)), 0, args_.d.strides[0], 1, channels(v), d(v));
    }
    for (std::int64_t i = 0; i < a_.size(); ++i) a_.data()[i] *= kDecayScale<A>;
  }

  /// Turns to a segment of the sequence: u, delta, their product, B and C.
  void load_segment(std::int64_t segment) {
    const Tag<A> tag;
    first_token_ = segment * kScanSegmentTokens;
    num_tokens_ = std::min(kScanSegmentTokens, args_.u.size(1) - first_token_);
    for (std::int64_t v = 0; v < num_vectors_; ++v) {
      load_tokens(args_.u, v, u(v));
      load_tokens(args_.delta, v, delta(v));
      for (std::int64_t i = 0; i < num_tokens_ * kLanes<A>; i += kLanes<A>) {
        hn::Store(hn::Mul(hn::Load(tag, u(v) + i), hn::Load(tag, delta(v) + i)), tag, input(v) + i);
      }
    }
    load_states(args_.b, b_.data());
    load_states(args_.c, c_.data());
  }

  /// From or to (B, T, E), the tokens of the segment and the channels of vector v.
  void load_tokens(const View<const A, 3>& from, std::int64_t v, A* to) const {
    load_vectors(from.at(batch_, first_token_, channel(v)), from.strides[1], from.strides[2],
                 num_tokens_, channels(v), to);
  }
  void store_tokens(const A* from, std::int64_t v, const View<A, 3>& to) const {
    store_vectors(from, num_tokens_, channels(v), to.at(batch_, first_token_, channel(v)),
                  to.strides[1], to.strides[2]);
  }

  /// States of vector v from (B, E, S); zero where there are none.
  void load_state(const View<const A, 3>& from, std::int64_t v, A* to) const {
    std::fill_n(to, padded_states_ * kLanes<A>, A{0});
    if (!from) return;
    load_vectors(from.at(batch_, channel(v)), from.strides[2], from.strides[1], num_states_,
                 channels(v), to);
  }
  void store_state(const A* from, std::int64_t v, const View<A, 3>& to) const {
    if (!to) return;
    store_vectors(from, num_states_, channels(v), to.at(batch_, channel(v)), to.strides[2],
                  to.strides[1]);
  }

  /// The same from and to (B, segments, S, E).
  void load_saved(const View<const A, 4>& from, std::int64_t segment, std::int64_t v, A* to) const {
    std::fill_n(to, padded_states_ * kLanes<A>, A{0});
    load_vectors(from.at(batch_, segment, 0, channel(v)), from.strides[2], from.strides[3],
                 num_states_, channels(v), to);
  }
  void store_saved(const A* from, std::int64_t segment, std::int64_t v,
                   const View<A, 4>& to) const {
    if (!to) return;
    store_vectors(from, num_states_, channels(v), to.at(batch_, segment, 0, channel(v)),
                  to.strides[2], to.strides[3]);
  }

  std::int64_t batch() const { return batch_; }
  std::int64_t first_channel() const { return first_channel_; }
  std::int64_t num_vectors() const { return num_vectors_; }
  std::int64_t num_states() const { return num_states_; }
  /// Rounded up to kScanStates; the states past num_states() stay zero.
  std::int64_t padded_states() const { return padded_states_; }
  std::int64_t first_token() const { return first_token_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  /// Channels that vector v holds.
  std::int64_t channels(std::int64_t v) const {
    return std::min(kLanes<A>, args_.u.size(2) - channel(v));
  }

  A* a(std::int64_t v) const { return a_.data() + v * padded_states_ * kLanes<A>; }
  A* d(std::int64_t v) const { return d_.data() + v * kLanes<A>; }
  A* u(std::int64_t v) const { return u_.data() + v * kTokenVectors; }
  A* delta(std::int64_t v) const { return delta_.data() + v * kTokenVectors; }
  A* input(std::int64_t v) const { return input_.data() + v * kTokenVectors; }  ///< delta u
  /// B and C of the segment, padded_states() a token.
  const A* b() const { return b_.data(); }
  const A* c() const { return c_.data(); }

 private:
  std::int64_t channel(std::int64_t v) const { return first_channel_ + v * kLanes<A>; }

  void load_states(const View<const A, 3>& from, A* to) const {
    pack_rows<A, A>(from.at(batch_, first_token_), from.strides[1], from.strides[2], num_tokens_,
                    num_tokens_, num_states_, nullptr, to, padded_states_);
  }

  const ScanArgs<A>& args_;
  std::int64_t num_states_;
  std::int64_t padded_states_;
  AlignedArray<A> a_;
  AlignedArray<A> d_;
  AlignedArray<A> u_;
  AlignedArray<A> delta_;
  AlignedArray<A> input_;
  AlignedArray<A> b_;
  AlignedArray<A> c_;
  std::int64_t batch_ = 0;
  std::int64_t first_channel_ = 0;
  std::int64_t num_vectors_ = 0;
  std::int64_t first_token_ = 0;
  std::int64_t num_tokens_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
