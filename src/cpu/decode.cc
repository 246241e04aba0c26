// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// One decoding step: a token is added to the state and the state is read, for each sequence and
// head. Bound by reading the mixture and the state once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>

#include "cpu/cpu.h"
#include "cpu/layout.h"
#include "cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Workspace for the heads of a range.
template <class T>
class StepWorker {
 public:
  using A = accumulate_t<T>;

  StepWorker(const StepArgs<T>& args, const PackedMixtures<A>& mixtures, const View<T, 3>& output)
      : args_(args),
        mixtures_(mixtures),
        output_(output),
        num_components_(args.means.size(1)),
        value_dim_(args.value.size(2)),
        x_(row_stride<A>(args.query.size(2))),
        gamma_(row_stride<A>(num_components_)),
        value_(value_dim_),
        numerator_(value_dim_) {
    x_.fill(0);
  }

  void run(std::int64_t b, std::int64_t h) {
    route(args_.key.at(b, h), args_.key.strides[2], h);
    for (std::int64_t e = 0; e < value_dim_; ++e) {
      value_.data()[e] = static_cast<A>(args_.value(b, h, e));
    }
    const State<A>& state = args_.state;
    for (std::int64_t k = 0; k < num_components_; ++k) {
      const A weight = gamma_.data()[k];
      state.z(b, h, k) += weight;
      add_scaled(weight, value_.data(), 1, state.s.at(b, h, k), state.s.strides[3]);
    }
    const std::int64_t group = args_.query.size(1) / args_.key.size(1);
    for (std::int64_t hq = h * group; hq < (h + 1) * group; ++hq) read(b, h, hq);
  }

 private:
  void read(std::int64_t b, std::int64_t h, std::int64_t hq) {
    route(args_.query.at(b, hq), args_.query.strides[2], h);
    const State<A>& state = args_.state;
    numerator_.fill(0);
    A normalizer = 0;
    for (std::int64_t k = 0; k < num_components_; ++k) {
      const A weight = gamma_.data()[k];
      normalizer += weight * state.z(b, h, k);
      add_scaled(weight, state.s.at(b, h, k), state.s.strides[3], numerator_.data(), 1);
    }
    const A inverse = inverse_normalizer(normalizer, args_.eps);
    for (std::int64_t e = 0; e < value_dim_; ++e) {
      output_(b, hq, e) = static_cast<T>(numerator_.data()[e] * inverse);
    }
  }

  /// Gamma(x) into gamma_.
  void route(const T* x, std::int64_t stride, std::int64_t h) {
    const Tag<A> d;
    const HeadMixture<A> mixture = mixtures_.head(h);
    for (std::int64_t e = 0; e < mixture.dim; ++e) x_.data()[e] = static_cast<A>(x[e * stride]);
    for (std::int64_t k = 0; k < num_components_; ++k) {
      Vec<A> distance = hn::Zero(d);
      for (std::int64_t e = 0; e < mixture.dim; e += kLanes<A>) {
        const std::int64_t at = k * mixture.stride + e;
        const Vec<A> t =
            hn::Mul(hn::Sub(hn::Load(d, x_.data() + e), hn::Load(d, mixture.means + at)),
                    hn::Load(d, mixture.inverse_std + at));
        distance = hn::MulAdd(t, t, distance);
      }
      gamma_.data()[k] = mixture.log_weights[k] - A(0.5) * hn::GetLane(hn::SumOfLanes(d, distance));
    }
    softmax_row();
  }

  /// Softmax over gamma_; the padding is filled so that it takes no part.
  void softmax_row() {
    const Tag<A> d;
    A* gamma = gamma_.data();
    const std::int64_t padded = round_up(num_components_, kLanes<A>);
    std::fill(gamma + num_components_, gamma + padded, -std::numeric_limits<A>::infinity());
    Vec<A> largest = hn::Load(d, gamma);
    for (std::int64_t k = kLanes<A>; k < padded; k += kLanes<A>) {
      largest = hn::Max(largest, hn::Load(d, gamma + k));
    }
    largest = hn::MaxOfLanes(d, largest);
    Vec<A> sum = hn::Zero(d);
    for (std::int64_t k = 0; k < padded; k += kLanes<A>) {
      const Vec<A> weight = exp_nonpositive<A>(hn::Sub(hn::Load(d, gamma + k), largest));
      sum = hn::Add(sum, weight);
      hn::Store(weight, d, gamma + k);
    }
    const Vec<A> scale = hn::Div(hn::Set(d, A{1}), hn::SumOfLanes(d, sum));
    for (std::int64_t k = 0; k < padded; k += kLanes<A>) {
      hn::Store(hn::Mul(hn::Load(d, gamma + k), scale), d, gamma + k);
    }
  }

  /// to += weight * from.
  void add_scaled(A weight, const A* from, std::int64_t from_stride, A* to,
                  std::int64_t to_stride) const {
    if (from_stride == 1 && to_stride == 1) {
      for (std::int64_t e = 0; e < value_dim_; ++e) to[e] += weight * from[e];
    } else {
      for (std::int64_t e = 0; e < value_dim_; ++e) {
        to[e * to_stride] += weight * from[e * from_stride];
      }
    }
  }

  const StepArgs<T>& args_;
  const PackedMixtures<A>& mixtures_;
  const View<T, 3>& output_;
  std::int64_t num_components_;
  std::int64_t value_dim_;
  AlignedArray<A> x_;
  AlignedArray<A> gamma_;
  AlignedArray<A> value_;
  AlignedArray<A> numerator_;
};

template <class T>
void run_step(const StepArgs<T>& args, const View<T, 3>& output) {
  const PackedMixtures<accumulate_t<T>> mixtures(args.means, args.variances, args.prior_logits,
                                                 args.executor);
  const std::int64_t heads = args.key.size(1);
  args.executor.run(args.key.size(0) * heads, [&](std::int64_t begin, std::int64_t end) {
    StepWorker<T> worker(args, mixtures, output);
    for (std::int64_t i = begin; i < end; ++i) worker.run(i / heads, i % heads);
  });
}

void step_float(const StepArgs<float>& args, const View<float, 3>& output) {
  run_step(args, output);
}
void step_double(const StepArgs<double>& args, const View<double, 3>& output) {
  run_step(args, output);
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::cpu {

HWY_EXPORT(step_float);
HWY_EXPORT(step_double);
HWY_EXPORT(target_name);

template <>
void step(const StepArgs<float>& args, const View<float, 3>& output) {
  HWY_DYNAMIC_DISPATCH(step_float)(args, output);
}
template <>
void step(const StepArgs<double>& args, const View<double, 3>& output) {
  HWY_DYNAMIC_DISPATCH(step_double)(args, output);
}

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace gma::cpu
#endif  // HWY_ONCE
