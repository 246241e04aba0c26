// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Forward pass of Gaussian mixture attention. Responsibilities are never stored for the sequence.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/forward.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "cpu/cpu.h"
#include "cpu/forward-inl.h"
#include "cpu/routed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

void forward_float(const AttentionArgs<float>& args, const AttentionOutputs<float>& outputs) {
  run_forward(args, outputs);
}
void forward_double(const AttentionArgs<double>& args, const AttentionOutputs<double>& outputs) {
  run_forward(args, outputs);
}
void forward_bfloat16(const AttentionArgs<bfloat16>& args,
                      const AttentionOutputs<bfloat16>& outputs) {
  run_forward(args, outputs);
}
void forward_float16(const AttentionArgs<float16>& args, const AttentionOutputs<float16>& outputs) {
  run_forward(args, outputs);
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::cpu {

HWY_EXPORT(forward_float);
HWY_EXPORT(forward_double);
HWY_EXPORT(forward_bfloat16);
HWY_EXPORT(forward_float16);

template <>
void forward(const AttentionArgs<float>& args, const AttentionOutputs<float>& outputs) {
  HWY_DYNAMIC_DISPATCH(forward_float)(args, outputs);
}
template <>
void forward(const AttentionArgs<double>& args, const AttentionOutputs<double>& outputs) {
  HWY_DYNAMIC_DISPATCH(forward_double)(args, outputs);
}
template <>
void forward(const AttentionArgs<bfloat16>& args, const AttentionOutputs<bfloat16>& outputs) {
  HWY_DYNAMIC_DISPATCH(forward_bfloat16)(args, outputs);
}
template <>
void forward(const AttentionArgs<float16>& args, const AttentionOutputs<float16>& outputs) {
  HWY_DYNAMIC_DISPATCH(forward_float16)(args, outputs);
}

}  // namespace gma::cpu
#endif  // HWY_ONCE
