// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Linear attention: both passes, with features for weights.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_attention.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "cpu/backward-inl.h"
#include "cpu/cpu.h"
#include "cpu/features-inl.h"
#include "cpu/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

void linear_forward_float(const LinearAttentionArgs<float>& args,
                          const AttentionOutputs<float>& outputs) {
  run_forward(args, outputs);
}
void linear_forward_double(const LinearAttentionArgs<double>& args,
                           const AttentionOutputs<double>& outputs) {
  run_forward(args, outputs);
}
void linear_backward_float(const LinearAttentionArgs<float>& args,
                           const AttentionUpstream<float>& upstream,
                           const LinearAttentionGradients<float>& gradients) {
  run_backward(args, upstream, gradients);
}
void linear_backward_double(const LinearAttentionArgs<double>& args,
                            const AttentionUpstream<double>& upstream,
                            const LinearAttentionGradients<double>& gradients) {
  run_backward(args, upstream, gradients);
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::cpu {

HWY_EXPORT(linear_forward_float);
HWY_EXPORT(linear_forward_double);
HWY_EXPORT(linear_backward_float);
HWY_EXPORT(linear_backward_double);

template <>
void linear_attention_forward(const LinearAttentionArgs<float>& args,
                              const AttentionOutputs<float>& outputs) {
  HWY_DYNAMIC_DISPATCH(linear_forward_float)(args, outputs);
}
template <>
void linear_attention_forward(const LinearAttentionArgs<double>& args,
                              const AttentionOutputs<double>& outputs) {
  HWY_DYNAMIC_DISPATCH(linear_forward_double)(args, outputs);
}
template <>
void linear_attention_backward(const LinearAttentionArgs<float>& args,
                               const AttentionUpstream<float>& upstream,
                               const LinearAttentionGradients<float>& gradients) {
  HWY_DYNAMIC_DISPATCH(linear_backward_float)(args, upstream, gradients);
}
template <>
void linear_attention_backward(const LinearAttentionArgs<double>& args,
                               const AttentionUpstream<double>& upstream,
                               const LinearAttentionGradients<double>& gradients) {
  HWY_DYNAMIC_DISPATCH(linear_backward_double)(args, upstream, gradients);
}

}  // namespace gma::cpu
#endif  // HWY_ONCE
