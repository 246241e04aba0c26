// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Vector helpers of the kernels: exp, tile packing and transposition. Compiled once an instruction
// set.

#if defined(GMA_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_VECTOR_INL_H_
#undef GMA_CPU_VECTOR_INL_H_
#else
#define GMA_CPU_VECTOR_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu/layout.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class A>
using Tag = hn::ScalableTag<A>;
template <class A>
using Vec = hn::Vec<Tag<A>>;
template <class A>
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(Tag<A>()));

/// exp(x) for x <= 0. In float the error is below 2 ulp for x >= -87, and the result 0 below. -inf
/// gives 0, NaN stays NaN. x = n log 2 + r with |r| <= log(2)/2, and exp(r) by its Taylor
/// polynomial of degree 7, whose remainder is below 2^-27.
template <class A>
HWY_INLINE Vec<A> exp_nonpositive(Vec<A> x) {
  const Tag<A> d;
  if constexpr (std::is_same_v<A, double>) {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
  } else {
    const hn::RebindToSigned<Tag<A>> di;
    const auto n = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504088896341F)));
    const Vec<A> nf = hn::ConvertTo(d, n);
    // log 2 in two parts, the first with trailing zeros, so that n times it is exact.
    Vec<A> r = hn::NegMulAdd(nf, hn::Set(d, 0.693359375F), x);
    r = hn::NegMulAdd(nf, hn::Set(d, -2.12194440054690583e-4F), r);
    Vec<A> p = hn::Set(d, 1.0F / 5040);
    p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 720));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 120));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 24));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 6));
    p = hn::MulAdd(p, r, hn::Set(d, 0.5F));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
    // Multiplied rather than added to the exponent, so that NaN stays NaN.
    const Vec<A> power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0F)), hn::Mul(p, power));
  }
}

/// Whether Highway's conversions of binary16 are the machine's own. Where it emulates them, they do
/// not round to nearest.
inline constexpr bool kHasHalfConversions = HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM;

/// Rows that the next tile will read, fetched into the second-level cache piece by piece while this
/// one is computed: rows of one head lie too far apart for the hardware to foresee.
class Prefetch {
 public:
  /// Rows of `dim` elements; nothing for elements that do not lie side by side.
  template <class T>
  void add(const T* rows, std::int64_t row_stride, std::int64_t element_stride, std::int64_t count,
           std::int64_t dim) {
    if (element_stride != 1 || num_sources_ == kMaxSources) return;
    const auto* address = reinterpret_cast<const char*>(rows);
    sources_[num_sources_++] = {address, row_stride * static_cast<std::int64_t>(sizeof(T)), count,
                                dim * static_cast<std::int64_t>(sizeof(T))};
    remaining_ += count;
  }

  /// Rows not yet fetched.
  std::int64_t remaining() const { return remaining_; }

  HWY_INLINE void advance(std::int64_t rows) {
    for (; rows > 0 && remaining_ > 0; --rows, --remaining_) {
      Source& source = sources_[next_];
      for (std::int64_t byte = 0; byte < source.bytes; byte += kLineBytes) {
        __builtin_prefetch(source.row + byte, kToRead, kIntoSecondLevel);
      }
      source.row += source.stride;
      if (--source.count == 0) ++next_;
    }
  }

 private:
  static constexpr int kToRead = 0;
  static constexpr int kIntoSecondLevel = 2;
  static constexpr std::int64_t kLineBytes = 64;
  static constexpr int kMaxSources = 2;

  struct Source {
    const char* row;
    std::int64_t stride;
    std::int64_t count;
    std::int64_t bytes;
  };

  Source sources_[kMaxSources] = {};
  int num_sources_ = 0;
  int next_ = 0;
  std::int64_t remaining_ = 0;
};

/// to[i] = from[i], converted; `to` and `from` are contiguous.
template <class T, class A>
void convert_row(const T* from, std::int64_t count, A* to) {
  std::int64_t i = 0;
  if constexpr (kHasHalfConversions && std::is_same_v<T, float16>) {
    const Tag<float> d;
    const hn::Rebind<hwy::float16_t, Tag<float>> dh;
    for (; i + kLanes<float> <= count; i += kLanes<float>) {
      const auto* half = reinterpret_cast<const hwy::float16_t*>(from + i);
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, half)), d, to + i);
    }
  } else if constexpr (kHasHalfConversions && std::is_same_v<A, float16>) {
    const Tag<float> d;
    const hn::Rebind<hwy::float16_t, Tag<float>> dh;
    for (; i + kLanes<float> <= count; i += kLanes<float>) {
      hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, from + i)), dh,
                 reinterpret_cast<hwy::float16_t*>(to + i));
    }
  }
  for (; i < count; ++i) to[i] = static_cast<A>(from[i]);
}

/// Copies `count` tokens of `dim` elements into padded rows. Elements past `dim`, tokens past
/// `count` up to `padded_count`, and tokens for which `keep` is false become 0. `keep` may be null.
template <class T, class A>
void pack_rows(const T* from, std::int64_t token_stride, std::int64_t element_stride,
               std::int64_t count, std::int64_t padded_count, std::int64_t dim, const bool* keep,
               A* to, std::int64_t to_stride) {
  for (std::int64_t i = 0; i < padded_count; ++i) {
    A* row = to + i * to_stride;
    const bool filled = i < count && (keep == nullptr || keep[i]);
    if (filled) {
      const T* source = from + i * token_stride;
      if (element_stride == 1) {
        convert_row(source, dim, row);
      } else {
        for (std::int64_t e = 0; e < dim; ++e) row[e] = static_cast<A>(source[e * element_stride]);
      }
    }
    std::fill(row + (filled ? dim : 0), row + to_stride, A{0});
  }
}

/// The inverse of pack_rows, without padding.
template <class T, class A>
void unpack_rows(const A* from, std::int64_t from_stride, std::int64_t count, std::int64_t dim,
                 T* to, std::int64_t token_stride, std::int64_t element_stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    const A* row = from + i * from_stride;
    T* target = to + i * token_stride;
    if (element_stride == 1) {
      convert_row(row, dim, target);
    } else {
      for (std::int64_t e = 0; e < dim; ++e) target[e * element_stride] = static_cast<T>(row[e]);
    }
  }
}

/// to[c][r] = from[r][c] for whole blocks of 16 bytes: `rows` and `columns` count elements and may
/// run into the padding of either array.
template <class A>
void transpose(const A* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
               A* to, std::int64_t to_stride) {
  constexpr std::int64_t kBlock = 16 / static_cast<std::int64_t>(sizeof(A));
  const hn::FixedTag<A, kBlock> d;
  for (std::int64_t c = 0; c < columns; c += kBlock) {
    for (std::int64_t r = 0; r < rows; r += kBlock) {
      const A* in = from + r * from_stride + c;
      A* out = to + c * to_stride + r;
      const auto a = hn::LoadU(d, in);
      const auto b = hn::LoadU(d, in + from_stride);
      if constexpr (kBlock == 2) {
        hn::StoreU(hn::InterleaveLower(d, a, b), d, out);
        hn::StoreU(hn::InterleaveUpper(d, a, b), d, out + to_stride);
      } else {
        const hn::Repartition<double, decltype(d)> d2;
        const auto wide = [d2](auto v) HWY_ATTR { return hn::BitCast(d2, v); };
        const auto e = hn::LoadU(d, in + 2 * from_stride);
        const auto f = hn::LoadU(d, in + 3 * from_stride);
        const auto ab_low = wide(hn::InterleaveLower(d, a, b));
        const auto ef_low = wide(hn::InterleaveLower(d, e, f));
        const auto ab_high = wide(hn::InterleaveUpper(d, a, b));
        const auto ef_high = wide(hn::InterleaveUpper(d, e, f));
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, ab_low, ef_low)), d, out);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, ab_low, ef_low)), d, out + to_stride);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, ab_high, ef_high)), d,
                   out + 2 * to_stride);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, ab_high, ef_high)), d,
                   out + 3 * to_stride);
      }
    }
  }
}

/// Sum of products of `count` elements, rounded up to whole vectors.
template <class A>
HWY_INLINE A dot(const A* a, const A* b, std::int64_t count) {
  const Tag<A> d;
  Vec<A> sum = hn::Zero(d);
  for (std::int64_t i = 0; i < count; i += kLanes<A>) {
    sum = hn::MulAdd(hn::Load(d, a + i), hn::Load(d, b + i), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
