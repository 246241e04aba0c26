// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Responsibilities of a tile of tokens and their gradient. Everything runs over vectors of tokens
// but the last step, the gradients of x and of the mixture, which runs over vectors of channels.

#if defined(GMA_CPU_ROUTING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_ROUTING_INL_H_
#undef GMA_CPU_ROUTING_INL_H_
#else
#define GMA_CPU_ROUTING_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "common/dropout.h"
#include "cpu/mixture.h"
#include "cpu/product-inl.h"
#include "cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Channels whose squares are summed before they join the log-density: rounding errors then grow
/// with this and with the number of such sums, not with their product.
inline constexpr std::int64_t kDistanceChannels = 64;

/// Takes channels [begin, end) into
/// log pi_k - 1/2 sum_d [log sigma2_kd + (x_d - mu_kd)^2 / sigma2_kd], for kRows components and
/// kVecs vectors of tokens; the last ones bring what does not depend on x. The distance is taken
/// directly: x^2 - 2 x mu + mu^2 would cancel where |x| is large beside sigma.
template <int kRows, int kVecs, class A>
HWY_INLINE void logits_block(const HeadMixture<A>& mixture, std::int64_t k, std::int64_t begin,
                             std::int64_t end, const A* x_t, A* logits_t) {
  const Tag<A> d;
  const bool is_first = begin == 0;
  const bool is_last = end == mixture.dim;
  Vec<A> distance[kRows][kVecs];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVecs; ++v) distance[r][v] = hn::Zero(d);
  }
  const A* mean = mixture.means + k * mixture.stride;
  const A* inverse_std = mixture.inverse_std + k * mixture.stride;
  for (std::int64_t e = begin; e < end; ++e) {
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> m = hn::Set(d, mean[r * mixture.stride + e]);
      const Vec<A> s = hn::Set(d, inverse_std[r * mixture.stride + e]);
      HWY_UNROLL(16)
      for (int v = 0; v < kVecs; ++v) {
        const Vec<A> x = hn::Load(d, x_t + e * kTokenStride<A> + v * kLanes<A>);
        const Vec<A> t = hn::Mul(hn::Sub(x, m), s);
        distance[r][v] = hn::MulAdd(t, t, distance[r][v]);
      }
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    const Vec<A> log_weight = hn::Set(d, mixture.log_weights[k + r]);
    HWY_UNROLL(16)
    for (int v = 0; v < kVecs; ++v) {
      A* to = logits_t + r * kTokenStride<A> + v * kLanes<A>;
      const Vec<A> before = !is_first ? hn::Load(d, to) : is_last ? log_weight : hn::Zero(d);
      const Vec<A> sum = hn::NegMulAdd(hn::Set(d, A(0.5)), distance[r][v], before);
      hn::Store(is_first || !is_last ? sum : hn::Add(sum, log_weight), d, to);
    }
  }
}

template <int kRows, int kVecs, class A>
HWY_INLINE void logits_rows(const HeadMixture<A>& mixture, std::int64_t k, const A* x_t,
                            A* logits_t) {
  for (std::int64_t begin = 0; begin < mixture.dim; begin += kDistanceChannels) {
    const std::int64_t end = std::min(begin + kDistanceChannels, mixture.dim);
    logits_block<kRows, kVecs>(mixture, k, begin, end, x_t, logits_t + k * kTokenStride<A>);
  }
}

/// Accumulators of a block: as many as hide the latency of a multiply-add.
inline constexpr int kLogitsBlock = HWY_TARGET <= HWY_AVX3 ? 16 : 8;

/// kVecs vectors of tokens, all components. Few components and many tokens are best: each element
/// of the mixture has to be broadcast.
template <int kVecs, class A>
void logits_columns(const HeadMixture<A>& mixture, const A* x_t, A* logits_t, Prefetch& prefetch) {
  constexpr int kRows = kLogitsBlock / kVecs;
  std::int64_t k = 0;
  for (; k + kRows <= mixture.num_components; k += kRows) {
    prefetch.advance(1);
    logits_rows<kRows, kVecs>(mixture, k, x_t, logits_t);
  }
  for (; k < mixture.num_components; ++k) {
    logits_rows<1, kVecs>(mixture, k, x_t, logits_t);
  }
}

template <class A>
void logits(const HeadMixture<A>& mixture, const A* x_t, std::int64_t tokens, A* logits_t,
            Prefetch& prefetch) {
  std::int64_t i = 0;
  for (; i + 4 * kLanes<A> <= tokens; i += 4 * kLanes<A>) {
    logits_columns<4>(mixture, x_t + i, logits_t + i, prefetch);
  }
  for (; i + 2 * kLanes<A> <= tokens; i += 2 * kLanes<A>) {
    logits_columns<2>(mixture, x_t + i, logits_t + i, prefetch);
  }
  for (; i < tokens; i += kLanes<A>) logits_columns<1>(mixture, x_t + i, logits_t + i, prefetch);
}

/// Softmax over components, in place; columns of tokens whose `kept` is 0 rather than 1 become 0.
template <class A>
void softmax(std::int64_t num_components, std::int64_t tokens, const A* kept, A* gamma_t) {
  const Tag<A> d;
  for (std::int64_t i = 0; i < tokens; i += kLanes<A>) {
    A* column = gamma_t + i;
    Vec<A> largest = hn::Load(d, column);
    for (std::int64_t k = 1; k < num_components; ++k) {
      largest = hn::Max(largest, hn::Load(d, column + k * kTokenStride<A>));
    }
    Vec<A> sum = hn::Zero(d);
    for (std::int64_t k = 0; k < num_components; ++k) {
      A* at = column + k * kTokenStride<A>;
      const Vec<A> weight = exp_nonpositive<A>(hn::Sub(hn::Load(d, at), largest));
      sum = hn::Add(sum, weight);
      hn::Store(weight, d, at);
    }
    const Vec<A> scale = hn::Div(hn::Load(d, kept + i), sum);
    for (std::int64_t k = 0; k < num_components; ++k) {
      A* at = column + k * kTokenStride<A>;
      hn::Store(hn::Mul(hn::Load(d, at), scale), d, at);
    }
  }
}

/// dropped = gamma * factor.
template <class A>
void drop(const Dropout& dropout, const TileOrigin& origin, std::int64_t num_components,
          std::int64_t tokens, const A* gamma_t, A* dropped_t) {
  std::uint32_t keys[kTileTokens];
  for (std::int64_t i = 0; i < tokens; ++i) {
    keys[i] = dropout.token_key(origin.sequence, origin.head, origin.side, origin.first_token + i);
  }
  for (std::int64_t k = 0; k < num_components; ++k) {
    const std::int64_t row = k * kTokenStride<A>;
    for (std::int64_t i = 0; i < tokens; ++i) {
      dropped_t[row + i] = gamma_t[row + i] * static_cast<A>(dropout.factor(keys[i], k));
    }
  }
}

/// Through the softmax: dl_k = w_k g_k - gamma_k sum_k w_k g_k, in place of g; `weights_t` is gamma
/// after dropout (or gamma itself). Adds each row's sum to grad_logits. Tokens that are not kept
/// get 0 by selection, for their g may be NaN.
template <class A>
void softmax_backward(std::int64_t num_components, std::int64_t tokens, const A* kept,
                      const A* gamma_t, const A* weights_t, A* grad_t, A* grad_logits) {
  const Tag<A> d;
  HWY_ALIGN A mean[kTileTokens];
  for (std::int64_t i = 0; i < tokens; i += kLanes<A>) {
    const auto is_kept = hn::Gt(hn::Load(d, kept + i), hn::Zero(d));
    Vec<A> sum = hn::Zero(d);
    for (std::int64_t k = 0; k < num_components; ++k) {
      const std::int64_t at = k * kTokenStride<A> + i;
      const Vec<A> product = hn::Mul(hn::Load(d, weights_t + at), hn::Load(d, grad_t + at));
      const Vec<A> g = hn::IfThenElseZero(is_kept, product);
      hn::Store(g, d, grad_t + at);
      sum = hn::Add(sum, g);
    }
    hn::Store(sum, d, mean + i);
  }
  for (std::int64_t k = 0; k < num_components; ++k) {
    const std::int64_t row = k * kTokenStride<A>;
    Vec<A> sum = hn::Zero(d);
    for (std::int64_t i = 0; i < tokens; i += kLanes<A>) {
      const Vec<A> dl = hn::NegMulAdd(hn::Load(d, gamma_t + row + i), hn::Load(d, mean + i),
                                      hn::Load(d, grad_t + row + i));
      hn::Store(dl, d, grad_t + row + i);
      sum = hn::Add(sum, dl);
    }
    grad_logits[k] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

/// Sums over tokens from which the mixture's gradients follow, with t = (x - mu) / sigma:
/// sum dl, and sum dl t and sum dl t^2 of the tokens that take the direct distance. Of the others,
/// sum dl [y, |y|^2, 1].
template <class A>
struct Moments {
  A* zeroth;    ///< (K)
  A* first;     ///< (K, stride of HeadMixture)
  A* second;    ///< the same
  A* expanded;  ///< (K, stride of ExpandedMixture), or null
};

/// For kRows components and one vector of channels: adds to the moments, and to dx.
template <int kRows, class A>
HWY_INLINE void moments_block(const HeadMixture<A>& mixture, std::int64_t k, std::int64_t e,
                              std::int64_t count, const A* grad_t, Rows<const A> x,
                              const Moments<A>& moments, Rows<A> dx) {
  const Tag<A> d;
  Vec<A> mean[kRows], inverse_std[kRows], first[kRows], second[kRows];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    mean[r] = hn::Load(d, mixture.means + (k + r) * mixture.stride + e);
    inverse_std[r] = hn::Load(d, mixture.inverse_std + (k + r) * mixture.stride + e);
    first[r] = hn::Zero(d);
    second[r] = hn::Zero(d);
  }
  const A* dl = grad_t + k * kTokenStride<A>;
  for (std::int64_t i = 0; i < count; ++i) {
    const Vec<A> xi = hn::Load(d, x.data + i * x.stride + e);
    A* dxi = dx.data + i * dx.stride + e;
    Vec<A> sum = hn::Load(d, dxi);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> t = hn::Mul(hn::Sub(xi, mean[r]), inverse_std[r]);
      const Vec<A> u = hn::Mul(hn::Set(d, dl[r * kTokenStride<A> + i]), t);
      first[r] = hn::Add(first[r], u);
      second[r] = hn::MulAdd(u, t, second[r]);
      sum = hn::NegMulAdd(u, inverse_std[r], sum);
    }
    hn::Store(sum, d, dxi);
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    A* to_first = moments.first + (k + r) * mixture.stride + e;
    A* to_second = moments.second + (k + r) * mixture.stride + e;
    hn::Store(hn::Add(hn::Load(d, to_first), first[r]), d, to_first);
    hn::Store(hn::Add(hn::Load(d, to_second), second[r]), d, to_second);
  }
}

inline constexpr int kMomentRows = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

/// From dl of `count` tokens: sets dx = sum_k dl_k (mu_k - x) / sigma2_k and adds to the moments.
template <class A>
void density_backward(const HeadMixture<A>& mixture, std::int64_t count, const A* grad_t,
                      Rows<const A> x, const Moments<A>& moments, Rows<A> dx) {
  const Tag<A> d;
  for (std::int64_t e = 0; e < mixture.dim; e += kLanes<A>) {
    for (std::int64_t i = 0; i < count; ++i) hn::Store(hn::Zero(d), d, dx.data + i * dx.stride + e);
    std::int64_t k = 0;
    for (; k + kMomentRows <= mixture.num_components; k += kMomentRows) {
      moments_block<kMomentRows>(mixture, k, e, count, grad_t, x, moments, dx);
    }
    for (; k < mixture.num_components; ++k) {
      moments_block<1>(mixture, k, e, count, grad_t, x, moments, dx);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
