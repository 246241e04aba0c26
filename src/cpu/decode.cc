// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// One decoding step: a token is added to the state and the state is read, for each sequence and
// head. Bound by reading the mixture and the state once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/cpu.h"
#include "cpu/layout.h"
#include "cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// log(a_1 ... a_n) for positive factors, a vector of chains at a time: exponents are added and
/// significands multiplied, which spares a logarithm for every factor.
template <class A>
class LogProduct {
 public:
  // Defined here, and not by member initialisers, to be compiled for this instruction set.
  LogProduct() {
    const Tag<A> d;
    sum_ = hn::Zero(d);
    product_ = hn::Set(d, A{1});
    exponents_ = hn::Zero(hn::RebindToSigned<Tag<A>>());
  }

  void multiply(Vec<A> factor) {
    const Tag<A> d;
    if constexpr (std::is_same_v<A, double>) {
      sum_ = hn::Add(sum_, hn::Log(d, factor));
    } else {
      const hn::RebindToSigned<Tag<A>> di;
      const auto bits = hn::BitCast(di, factor);
      exponents_ = hn::Add(exponents_, hn::Sub(hn::ShiftRight<23>(bits), hn::Set(di, 127)));
      const auto significand = hn::Or(hn::And(bits, hn::Set(di, 0x7fffff)), hn::Set(di, 127 << 23));
      product_ = hn::Mul(product_, hn::BitCast(d, significand));
      // Each factor is below 2: the product is renewed long before it could overflow.
      if (++count_ == 64) renew();
    }
  }

  A value() {
    const Tag<A> d;
    if constexpr (!std::is_same_v<A, double>) {
      renew();
      const Vec<A> log2 = hn::Set(d, 0.693147180559945309F);
      sum_ = hn::MulAdd(hn::ConvertTo(d, exponents_), log2, sum_);
    }
    return hn::GetLane(hn::SumOfLanes(d, sum_));
  }

 private:
  void renew() {
    const Tag<A> d;
    sum_ = hn::Add(sum_, hn::Log(d, product_));
    product_ = hn::Set(d, A{1});
    count_ = 0;
  }

  Vec<A> sum_;
  Vec<A> product_;
  hn::Vec<hn::RebindToSigned<Tag<A>>> exponents_;
  int count_ = 0;
};

/// Workspace for the heads of a range. The mixture is read as it lies, once: packing it would cost
/// more than the step.
template <class T>
class StepWorker {
 public:
  using A = accumulate_t<T>;

  StepWorker(const StepArgs<T>& args, const View<T, 3>& output)
      : args_(args),
        variances_(broadcast_variances(args.variances, args.means.size(1), args.query.size(2))),
        output_(output),
        group_(args.query.size(1) / args.key.size(1)),
        num_components_(args.means.size(1)),
        dim_(args.query.size(2)),
        dim_stride_(round_up(dim_, kLanes<A>)),
        gamma_stride_(round_up(num_components_, kLanes<A>)),
        mean_(dim_stride_),
        precision_(dim_stride_),
        x_((1 + group_) * dim_stride_),
        gamma_((1 + group_) * gamma_stride_),
        value_(args.value.size(2)),
        numerator_(args.value.size(2)) {
    mean_.fill(0);
    precision_.fill(1);
    x_.fill(0);
  }

  void run(std::int64_t b, std::int64_t h) {
    load(args_.key.at(b, h), args_.key.strides[2], x_.data());
    for (std::int64_t g = 0; g < group_; ++g) {
      load(args_.query.at(b, h * group_ + g), args_.query.strides[2],
           x_.data() + (1 + g) * dim_stride_);
    }
    route(h);
    write(b, h);
    for (std::int64_t g = 0; g < group_; ++g) read(b, h, h * group_ + g, gamma(1 + g));
  }

 private:
  A* gamma(std::int64_t row) const { return gamma_.data() + row * gamma_stride_; }

  template <class S>
  void load(const S* from, std::int64_t stride, A* to) const {
    if (stride == 1) {
      for (std::int64_t e = 0; e < dim_; ++e) to[e] = static_cast<A>(from[e]);
    } else {
      for (std::int64_t e = 0; e < dim_; ++e) to[e] = static_cast<A>(from[e * stride]);
    }
  }

  /// Responsibilities of the key and of the group's queries.
  void route(std::int64_t h) {
    const Tag<A> d;
    for (std::int64_t k = 0; k < num_components_; ++k) {
      const A prior_logit = args_.prior_logits(h, k);
      if (prior_logit == -std::numeric_limits<A>::infinity()) {
        for (std::int64_t row = 0; row <= group_; ++row) gamma(row)[k] = prior_logit;
        continue;
      }
      load(args_.means.at(h, k), args_.means.strides[2], mean_.data());
      load(variances_.at(h, k), variances_.strides[2], precision_.data());
      LogProduct<A> determinant;
      for (std::int64_t e = 0; e < dim_; e += kLanes<A>) {
        const Vec<A> variance = hn::Load(d, precision_.data() + e);
        determinant.multiply(variance);
        hn::Store(hn::Div(hn::Set(d, A{1}), variance), d, precision_.data() + e);
      }
      const A log_weight = prior_logit - A(0.5) * determinant.value();
      for (std::int64_t row = 0; row <= group_; ++row) {
        gamma(row)[k] = log_weight - A(0.5) * distance(x_.data() + row * dim_stride_);
      }
    }
    for (std::int64_t row = 0; row <= group_; ++row) softmax_row(gamma(row));
  }

  /// sum_d (x_d - mu_d)^2 / sigma2_d.
  A distance(const A* x) const {
    const Tag<A> d;
    Vec<A> sum = hn::Zero(d);
    for (std::int64_t e = 0; e < dim_; e += kLanes<A>) {
      const Vec<A> difference = hn::Sub(hn::Load(d, x + e), hn::Load(d, mean_.data() + e));
      const Vec<A> scaled = hn::Mul(difference, hn::Load(d, precision_.data() + e));
      sum = hn::MulAdd(difference, scaled, sum);
    }
    return hn::GetLane(hn::SumOfLanes(d, sum));
  }

  /// S_k += gamma_k v, Z_k += gamma_k.
  void write(std::int64_t b, std::int64_t h) {
    for (std::int64_t e = 0; e < value_.size(); ++e) {
      value_.data()[e] = static_cast<A>(args_.value(b, h, e));
    }
    const State<A>& state = args_.state;
    for (std::int64_t k = 0; k < num_components_; ++k) {
      state.z(b, h, k) += gamma(0)[k];
      add_scaled(gamma(0)[k], value_.data(), 1, state.s.at(b, h, k), state.s.strides[3]);
    }
  }

  /// o = sum_k gamma_k S_k / (sum_k gamma_k Z_k + eps).
  void read(std::int64_t b, std::int64_t h, std::int64_t hq, const A* weights) {
    const State<A>& state = args_.state;
    numerator_.fill(0);
    A normalizer = 0;
    for (std::int64_t k = 0; k < num_components_; ++k) {
      normalizer += weights[k] * state.z(b, h, k);
      add_scaled(weights[k], state.s.at(b, h, k), state.s.strides[3], numerator_.data(), 1);
    }
    const A inverse = inverse_normalizer(normalizer, args_.eps);
    for (std::int64_t e = 0; e < numerator_.size(); ++e) {
      output_(b, hq, e) = static_cast<T>(numerator_.data()[e] * inverse);
    }
  }

  /// Softmax in place; the padding is filled so that it takes no part.
  void softmax_row(A* row) {
    const Tag<A> d;
    std::fill(row + num_components_, row + gamma_stride_, -std::numeric_limits<A>::infinity());
    Vec<A> largest = hn::Load(d, row);
    for (std::int64_t k = kLanes<A>; k < gamma_stride_; k += kLanes<A>) {
      largest = hn::Max(largest, hn::Load(d, row + k));
    }
    largest = hn::MaxOfLanes(d, largest);
    Vec<A> sum = hn::Zero(d);
    for (std::int64_t k = 0; k < gamma_stride_; k += kLanes<A>) {
      const Vec<A> weight = exp_nonpositive<A>(hn::Sub(hn::Load(d, row + k), largest));
      sum = hn::Add(sum, weight);
      hn::Store(weight, d, row + k);
    }
    const Vec<A> scale = hn::Div(hn::Set(d, A{1}), hn::SumOfLanes(d, sum));
    for (std::int64_t k = 0; k < gamma_stride_; k += kLanes<A>) {
      hn::Store(hn::Mul(hn::Load(d, row + k), scale), d, row + k);
    }
  }

  /// to += weight * from.
  void add_scaled(A weight, const A* from, std::int64_t from_stride, A* to,
                  std::int64_t to_stride) const {
    if (from_stride == 1 && to_stride == 1) {
      for (std::int64_t e = 0; e < value_.size(); ++e) to[e] += weight * from[e];
    } else {
      for (std::int64_t e = 0; e < value_.size(); ++e) {
        to[e * to_stride] += weight * from[e * from_stride];
      }
    }
  }

  const StepArgs<T>& args_;
  View<const A, 3> variances_;
  const View<T, 3>& output_;
  std::int64_t group_;
  std::int64_t num_components_;
  std::int64_t dim_;
  std::int64_t dim_stride_;
  std::int64_t gamma_stride_;
  AlignedArray<A> mean_;
  AlignedArray<A> precision_;  ///< of one component; 1 in the padding
  AlignedArray<A> x_;          ///< the key, then the group's queries
  AlignedArray<A> gamma_;      ///< the same rows
  AlignedArray<A> value_;
  AlignedArray<A> numerator_;
};

template <class T>
void run_step(const StepArgs<T>& args, const View<T, 3>& output) {
  const std::int64_t heads = args.key.size(1);
  args.executor.run(args.key.size(0) * heads, [&](std::int64_t begin, std::int64_t end) {
    StepWorker<T> worker(args, output);
    for (std::int64_t i = begin; i < end; ++i) worker.run(i / heads, i % heads);
  });
}

void step_float(const StepArgs<float>& args, const View<float, 3>& output) {
  run_step(args, output);
}
void step_double(const StepArgs<double>& args, const View<double, 3>& output) {
  run_step(args, output);
}
void step_bfloat16(const StepArgs<bfloat16>& args, const View<bfloat16, 3>& output) {
  run_step(args, output);
}
void step_float16(const StepArgs<float16>& args, const View<float16, 3>& output) {
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
HWY_EXPORT(step_bfloat16);
HWY_EXPORT(step_float16);
HWY_EXPORT(target_name);

template <>
void step(const StepArgs<float>& args, const View<float, 3>& output) {
  HWY_DYNAMIC_DISPATCH(step_float)(args, output);
}
template <>
void step(const StepArgs<double>& args, const View<double, 3>& output) {
  HWY_DYNAMIC_DISPATCH(step_double)(args, output);
}
template <>
void step(const StepArgs<bfloat16>& args, const View<bfloat16, 3>& output) {
  HWY_DYNAMIC_DISPATCH(step_bfloat16)(args, output);
}
template <>
void step(const StepArgs<float16>& args, const View<float16, 3>& output) {
  HWY_DYNAMIC_DISPATCH(step_float16)(args, output);
}

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace gma::cpu
#endif  // HWY_ONCE
