// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// One decoding step: a token is added to the state and the state is read, for each sequence and
// head. The mixture and the state are read once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/decode.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cstdint>

#include "cpu/cpu.h"
#include "cpu/layout.h"
#include "cpu/tile-inl.h"
#include "cpu/token-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Workspace for the heads of a range.
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
        value_dim_(args.value.size(2)),
        router_(1 + group_, num_components_, args.query.size(2)),
        value_(value_dim_),
        numerator_(value_dim_),
        z_(round_up(num_components_, kLanes<A>)) {
    z_.fill(0);
  }

  void run(std::int64_t b, std::int64_t h) {
    router_.load(0, args_.key.at(b, h), args_.key.strides[2]);
    for (std::int64_t g = 0; g < group_; ++g) {
      router_.load(1 + g, args_.query.at(b, h * group_ + g), args_.query.strides[2]);
    }
    router_.route(args_.means, variances_, args_.prior_logits, h);
    for (std::int64_t e = 0; e < value_dim_; ++e) {
      value_.data()[e] = static_cast<A>(args_.value(b, h, e));
    }
    for (std::int64_t k = 0; k < num_components_; ++k) {
      A& z = args_.state.z(b, h, k);
      z += router_.gamma(0)[k];
      z_.data()[k] = z;
    }
    for (std::int64_t g = 0; g < group_; ++g) {
      if (g == 0) {
        pass_state<true>(b, h, router_.gamma(1));
      } else {
        pass_state<false>(b, h, router_.gamma(1 + g));
      }
      finish(b, h * group_ + g, router_.gamma(1 + g));
    }
  }

 private:
  /// n = sum_k w_k S_k, once through S; before that S_k += gamma_k v if kWrite.
  template <bool kWrite>
  void pass_state(std::int64_t b, std::int64_t h, const A* weights) {
    std::int64_t e = 0;
    if (args_.state.s.strides[3] == 1) {
      for (; e + 8 * kLanes<A> <= value_dim_; e += 8 * kLanes<A>) {
        pass_columns<kWrite, 8>(b, h, weights, e);
      }
      for (; e + kLanes<A> <= value_dim_; e += kLanes<A>) {
        pass_columns<kWrite, 1>(b, h, weights, e);
      }
    }
    for (; e < value_dim_; ++e) {
      A numerator = 0;
      for (std::int64_t k = 0; k < num_components_; ++k) {
        A& s = args_.state.s(b, h, k, e);
        if (kWrite) s += router_.gamma(0)[k] * value_.data()[e];
        numerator += weights[k] * s;
      }
      numerator_.data()[e] = numerator;
    }
  }

  template <bool kWrite, int kVecs>
  HWY_INLINE void pass_columns(std::int64_t b, std::int64_t h, const A* weights, std::int64_t e) {
    const Tag<A> d;
    const A* gamma = router_.gamma(0);
    A* s = args_.state.s.at(b, h) + e;
    Vec<A> numerator[kVecs];
    HWY_UNROLL(8)
    for (int v = 0; v < kVecs; ++v) numerator[v] = hn::Zero(d);
    for (std::int64_t k = 0; k < num_components_; ++k, s += args_.state.s.strides[2]) {
      const Vec<A> g = hn::Set(d, gamma[k]);
      const Vec<A> w = hn::Set(d, weights[k]);
      HWY_UNROLL(8)
      for (int v = 0; v < kVecs; ++v) {
        Vec<A> row = hn::LoadU(d, s + v * kLanes<A>);
        if constexpr (kWrite) {
          row = hn::MulAdd(g, hn::Load(d, value_.data() + e + v * kLanes<A>), row);
          hn::StoreU(row, d, s + v * kLanes<A>);
        }
        numerator[v] = hn::MulAdd(w, row, numerator[v]);
      }
    }
    HWY_UNROLL(8)
    for (int v = 0; v < kVecs; ++v) {
      hn::Store(numerator[v], d, numerator_.data() + e + v * kLanes<A>);
    }
  }

  /// o = n / (sum_k w_k Z_k + eps).
  void finish(std::int64_t b, std::int64_t hq, const A* weights) {
    const A inverse = inverse_normalizer(dot(weights, z_.data(), num_components_), args_.eps);
    for (std::int64_t e = 0; e < value_dim_; ++e) {
      output_(b, hq, e) = static_cast<T>(numerator_.data()[e] * inverse);
    }
  }

  const StepArgs<T>& args_;
  View<const A, 3> variances_;
  const View<T, 3>& output_;
  std::int64_t group_;
  std::int64_t num_components_;
  std::int64_t value_dim_;
  TokenRouter<A> router_;  ///< of the key, then of the group's queries
  AlignedArray<A> value_;
  AlignedArray<A> numerator_;
  AlignedArray<A> z_;  ///< the padding stays 0
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
