// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Backward pass of Gaussian mixture attention.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/backward.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "cpu/backward-inl.h"
#include "cpu/cpu.h"
#include "cpu/routed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

void backward_float(const AttentionArgs<float>& args, const AttentionUpstream<float>& upstream,
                    const AttentionGradients<float>& gradients) {
  run_backward(args, upstream, gradients);
}
void backward_double(const AttentionArgs<double>& args, const AttentionUpstream<double>& upstream,
                     const AttentionGradients<double>& gradients) {
  run_backward(args, upstream, gradients);
}
void backward_bfloat16(const AttentionArgs<bfloat16>& args,
                       const AttentionUpstream<bfloat16>& upstream,
                       const AttentionGradients<bfloat16>& gradients) {
  run_backward(args, upstream, gradients);
}
void backward_float16(const AttentionArgs<float16>& args,
                      const AttentionUpstream<float16>& upstream,
                      const AttentionGradients<float16>& gradients) {
  run_backward(args, upstream, gradients);
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::cpu {

HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);
HWY_EXPORT(backward_bfloat16);
HWY_EXPORT(backward_float16);

template <>
void backward(const AttentionArgs<float>& args, const AttentionUpstream<float>& upstream,
              const AttentionGradients<float>& gradients) {
  HWY_DYNAMIC_DISPATCH(backward_float)(args, upstream, gradients);
}
template <>
void backward(const AttentionArgs<double>& args, const AttentionUpstream<double>& upstream,
              const AttentionGradients<double>& gradients) {
  HWY_DYNAMIC_DISPATCH(backward_double)(args, upstream, gradients);
}
template <>
void backward(const AttentionArgs<bfloat16>& args, const AttentionUpstream<bfloat16>& upstream,
              const AttentionGradients<bfloat16>& gradients) {
  HWY_DYNAMIC_DISPATCH(backward_bfloat16)(args, upstream, gradients);
}
template <>
void backward(const AttentionArgs<float16>& args, const AttentionUpstream<float16>& upstream,
              const AttentionGradients<float16>& gradients) {
  HWY_DYNAMIC_DISPATCH(backward_float16)(args, upstream, gradients);
}

}  // namespace gma::cpu
#endif  // HWY_ONCE
