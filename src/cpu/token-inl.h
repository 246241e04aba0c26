// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Responsibilities of single tokens, for the decoding step. A tile would pack the mixture first;
// here it is read as it lies, once. Vectors run over channels, and what they sum up is brought
// together for as many components at a time as a vector has lanes.

#if defined(GMA_CPU_TOKEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_TOKEN_INL_H_
#undef GMA_CPU_TOKEN_INL_H_
#else
#define GMA_CPU_TOKEN_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/aligned_array.h"
#include "cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Lane i of the result brings together all lanes of vectors[i], of which there are as many as
/// lanes. Overwrites them.
template <class A, class Combine>
HWY_INLINE Vec<A> join_lanes(Vec<A>* vectors, const Combine& combine) {
  const Tag<A> d;
  HWY_UNROLL(8)
  for (std::int64_t count = kLanes<A> / 2; count > 0; count /= 2) {
    HWY_UNROLL(8)
    for (std::int64_t i = 0; i < count; ++i) {
      const Vec<A> low = vectors[2 * i];
      const Vec<A> high = vectors[2 * i + 1];
      vectors[i] = combine(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
    }
  }
  return vectors[0];
}

/// Reciprocals of positive numbers and the logarithm of their product. Both are made of exponents
/// and significands apart: exponents are added and significands multiplied, which spares a
/// logarithm for every number, and two significands share a division.
template <class A>
class Determinant {
 public:
  // Defined here, and not by member initialisers, to be compiled for this instruction set.
  Determinant() {
    significand_ = hn::Set(Tag<A>(), A{1});
    exponent_ = hn::Zero(Bits());
  }

  /// Replaces a and b by 1 / a and 1 / b, and takes them into the product.
  HWY_INLINE void invert(Vec<A>& a, Vec<A>& b) {
    const Tag<A> d;
    const auto exponent_a = biased_exponent(a);
    const auto exponent_b = biased_exponent(b);
    const Vec<A> significand_a = significand(a);
    const Vec<A> significand_b = significand(b);
    const Vec<A> product = hn::Mul(significand_a, significand_b);
    const Vec<A> inverse = hn::Div(hn::Set(d, A{1}), product);
    a = hn::Mul(hn::Mul(significand_b, inverse), inverse_power(exponent_a));
    b = hn::Mul(hn::Mul(significand_a, inverse), inverse_power(exponent_b));
    exponent_ = hn::Add(exponent_, hn::Add(exponent_a, exponent_b));
    significand_ = hn::Mul(significand_, product);
    num_factors_ += 2;
    // Each product is below 4: the significand is renewed long before it could overflow.
    if (++num_products_ == 32) renew();
  }

  /// The product, lane by lane, is significand * 2^exponent; the former is in [1, 2).
  HWY_INLINE void finish(Vec<A>& significand, Vec<A>& exponent) {
    renew();
    significand = significand_;
    const auto bias = hn::Set(Bits(), static_cast<Integer>(num_factors_ * kBias));
    exponent = hn::ConvertTo(Tag<A>(), hn::Sub(exponent_, bias));
  }

 private:
  using Bits = hn::RebindToSigned<Tag<A>>;
  using Integer = hn::TFromD<Bits>;
  static constexpr int kMantissaBits = hwy::MantissaBits<A>();
  static constexpr Integer kBias = std::numeric_limits<A>::max_exponent - 1;

  static HWY_INLINE hn::Vec<Bits> biased_exponent(Vec<A> positive) {
    const hn::RebindToUnsigned<Tag<A>> du;
    return hn::BitCast(Bits(), hn::ShiftRight<kMantissaBits>(hn::BitCast(du, positive)));
  }
  static HWY_INLINE Vec<A> significand(Vec<A> positive) {
    const Bits di;
    const auto mantissa =
        hn::And(hn::BitCast(di, positive), hn::Set(di, (Integer{1} << kMantissaBits) - 1));
    return hn::BitCast(Tag<A>(), hn::Or(mantissa, hn::Set(di, kBias << kMantissaBits)));
  }
  static HWY_INLINE Vec<A> inverse_power(hn::Vec<Bits> biased) {
    const auto negated = hn::Sub(hn::Set(Bits(), 2 * kBias), biased);
    return hn::BitCast(Tag<A>(), hn::ShiftLeft<kMantissaBits>(negated));
  }

  void renew() {
    exponent_ = hn::Add(exponent_, biased_exponent(significand_));
    significand_ = significand(significand_);
    ++num_factors_;
    num_products_ = 0;
  }

  Vec<A> significand_;
  hn::Vec<Bits> exponent_;  ///< the sum of biased ones, of num_factors_ numbers
  std::int64_t num_factors_ = 0;
  int num_products_ = 0;  ///< in the significand since it was last renewed
};

/// Routes a few tokens through one head's mixture at a time.
template <class A>
class TokenRouter {
 public:
  TokenRouter(std::int64_t num_tokens, std::int64_t num_components, std::int64_t dim)
      : num_tokens_(num_tokens),
        num_components_(num_components),
        dim_(dim),
        x_stride_(round_up(dim, 2 * kLanes<A>)),
        gamma_stride_(round_up(num_components, kLanes<A>)),
        x_(round_up(num_tokens, 2) * x_stride_),
        gamma_(num_tokens * gamma_stride_),
        mean_(x_stride_),
        variance_(x_stride_),
        distances_(round_up(num_tokens, 2) * kLanes<A> * kLanes<A>) {
    x_.fill(0);
    mean_.fill(0);
    variance_.fill(1);
    distances_.fill(0);
  }

  /// The routing vector of a token.
  template <class S>
  void load(std::int64_t token, const S* from, std::int64_t stride) {
    copy(from, stride, x_.data() + token * x_stride_);
  }

  /// Responsibilities of all loaded tokens; `variances` is (Hk, K, D), broadcast.
  void route(const View<const A, 3>& means, const View<const A, 3>& variances,
             const View<const A, 2>& prior_logits, std::int64_t h) {
    const Tag<A> d;
    const Vec<A> excluded = hn::Set(d, -std::numeric_limits<A>::infinity());
    const auto sum = [](Vec<A> a, Vec<A> b) HWY_ATTR { return hn::Add(a, b); };
    const auto product = [](Vec<A> a, Vec<A> b) HWY_ATTR { return hn::Mul(a, b); };
    HWY_ALIGN A prior[kLanes<A>];
    for (std::int64_t first = 0; first < num_components_; first += kLanes<A>) {
      const std::int64_t count = std::min(kLanes<A>, num_components_ - first);
      Vec<A> significands[kLanes<A>], exponents[kLanes<A>];
      std::fill_n(prior, kLanes<A>, -std::numeric_limits<A>::infinity());
      for (std::int64_t lane = 0; lane < count; ++lane) {
        const std::int64_t k = first + lane;
        prior[lane] = prior_logits(h, k);
        measure(whole_vectors(means, h, k, mean_.data()),
                whole_vectors(variances, h, k, variance_.data()), lane)
            .finish(significands[lane], exponents[lane]);
      }
      for (std::int64_t lane = count; lane < kLanes<A>; ++lane) {
        significands[lane] = hn::Set(d, A{1});
        exponents[lane] = hn::Zero(d);
      }
      const Vec<A> log2 = hn::Set(d, A(0.693147180559945309));
      const Vec<A> log_determinant = hn::MulAdd(join_lanes<A>(exponents, sum), log2,
                                                hn::Log(d, join_lanes<A>(significands, product)));
      const Vec<A> half = hn::Set(d, A(0.5));
      const Vec<A> log_prior = hn::Load(d, prior);
      const Vec<A> log_weight = hn::NegMulAdd(half, log_determinant, log_prior);
      // By selection: a component that is excluded may hold anything.
      const auto is_excluded = hn::Eq(log_prior, excluded);
      for (std::int64_t token = 0; token < num_tokens_; ++token) {
        Vec<A> partial[kLanes<A>];
        for (std::int64_t lane = 0; lane < kLanes<A>; ++lane) {
          partial[lane] = hn::Load(d, distance(token, lane));
        }
        const Vec<A> logit = hn::NegMulAdd(half, join_lanes<A>(partial, sum), log_weight);
        hn::Store(hn::IfThenElse(is_excluded, excluded, logit), d, row(token) + first);
      }
    }
    for (std::int64_t token = 0; token < num_tokens_; ++token) softmax(row(token));
  }

  /// Of a token that has been routed, (K), padded with zeros to whole vectors.
  const A* gamma(std::int64_t token) const { return row(token); }

 private:
  A* row(std::int64_t token) const { return gamma_.data() + token * gamma_stride_; }
  // Where the distance of a token to one of the present components is left, a vector of parts.
  A* distance(std::int64_t token, std::int64_t lane) const {
    return distances_.data() + (token * kLanes<A> + lane) * kLanes<A>;
  }

  template <class S>
  void copy(const S* from, std::int64_t stride, A* to) const {
    if (stride == 1) {
      for (std::int64_t e = 0; e < dim_; ++e) to[e] = static_cast<A>(from[e]);
    } else {
      for (std::int64_t e = 0; e < dim_; ++e) to[e] = static_cast<A>(from[e * stride]);
    }
  }

  // A row of the mixture: the caller's own where it consists of whole pairs of vectors, otherwise a
  // copy in `buffer`, which is padded.
  const A* whole_vectors(const View<const A, 3>& rows, std::int64_t h, std::int64_t k,
                         A* buffer) const {
    const A* own = rows.at(h, k);
    if (rows.strides[2] == 1 && dim_ == x_stride_) return own;
    copy(own, rows.strides[2], buffer);
    return buffer;
  }

  // sum_d (x_d - mu_d)^2 / sigma2_d of every token, two tokens and two vectors of channels at a
  // time. Returns the determinant.
  HWY_INLINE Determinant<A> measure(const A* mean, const A* variance, std::int64_t lane) {
    const Tag<A> d;
    Determinant<A> determinant;
    for (std::int64_t token = 0; token < num_tokens_; token += 2) {
      determinant = Determinant<A>();
      const A* x0 = x_.data() + token * x_stride_;
      const A* x1 = x0 + x_stride_;
      Vec<A> sum0 = hn::Zero(d);
      Vec<A> sum1 = hn::Zero(d);
      for (std::int64_t e = 0, end = x_stride_; e < end; e += 2 * kLanes<A>) {
        const std::int64_t next = e + kLanes<A>;
        Vec<A> precision = hn::LoadU(d, variance + e);
        Vec<A> next_precision = hn::LoadU(d, variance + next);
        determinant.invert(precision, next_precision);
        const Vec<A> m = hn::LoadU(d, mean + e);
        sum0 = add_square(hn::Sub(m, hn::Load(d, x0 + e)), precision, sum0);
        sum1 = add_square(hn::Sub(m, hn::Load(d, x1 + e)), precision, sum1);
        const Vec<A> next_m = hn::LoadU(d, mean + next);
        sum0 = add_square(hn::Sub(next_m, hn::Load(d, x0 + next)), next_precision, sum0);
        sum1 = add_square(hn::Sub(next_m, hn::Load(d, x1 + next)), next_precision, sum1);
      }
      hn::Store(sum0, d, distance(token, lane));
      hn::Store(sum1, d, distance(token + 1, lane));
    }
    return determinant;
  }

  static HWY_INLINE Vec<A> add_square(Vec<A> difference, Vec<A> precision, Vec<A> sum) {
    return hn::MulAdd(difference, hn::Mul(difference, precision), sum);
  }

  // In place. The padding holds -inf and becomes 0.
  void softmax(A* logits) const {
    const Tag<A> d;
    Vec<A> largest = hn::Load(d, logits);
    for (std::int64_t k = kLanes<A>; k < gamma_stride_; k += kLanes<A>) {
      largest = hn::Max(largest, hn::Load(d, logits + k));
    }
    largest = hn::MaxOfLanes(d, largest);
    Vec<A> sum = hn::Zero(d);
    for (std::int64_t k = 0; k < gamma_stride_; k += kLanes<A>) {
      const Vec<A> weight = exp_nonpositive<A>(hn::Sub(hn::Load(d, logits + k), largest));
      sum = hn::Add(sum, weight);
      hn::Store(weight, d, logits + k);
    }
    const Vec<A> scale = hn::Div(hn::Set(d, A{1}), hn::SumOfLanes(d, sum));
    for (std::int64_t k = 0; k < gamma_stride_; k += kLanes<A>) {
      hn::Store(hn::Mul(hn::Load(d, logits + k), scale), d, logits + k);
    }
  }

  std::int64_t num_tokens_;
  std::int64_t num_components_;
  std::int64_t dim_;
  std::int64_t x_stride_;
  std::int64_t gamma_stride_;
  AlignedArray<A> x_;  ///< a row a token, an even number of them; the padding is 0
  AlignedArray<A> gamma_;
  AlignedArray<A> mean_;      ///< a copied row; its padding stays 0
  AlignedArray<A> variance_;  ///< likewise; its padding stays 1
  AlignedArray<A> distances_;
};

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
