// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Under autocast query, key and value take the autocast dtype; the mixture and the state stay in
// float32.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "ops/dtype.h"
#include "ops/operators.h"

namespace gma_torch::ops {
namespace {

template <class Args>
Args cast(Args args) {
  const c10::DeviceType device = args.query.device().type();
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(device);
  for (at::Tensor* tensor : {&args.query, &args.key, &args.value}) {
    *tensor = at::autocast::cached_cast(dtype, *tensor, device);
  }
  const at::ScalarType accumulate = accumulate_type(args.query.scalar_type());
  for (at::Tensor* tensor : {&args.means, &args.variances, &args.prior_logits}) {
    *tensor = at::autocast::cached_cast(accumulate, *tensor, device);
  }
  return args;
}

AttentionResult autocast_attention(const Arguments& args, bool return_state) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return call_attention(cast(args), return_state);
}

StepResult autocast_step(const StepArguments& args) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return call_step(cast(args));
}

void register_kernels(torch::Library& m) {
  m.impl("gaussian_mixture_attention", &attention_adapter<AttentionResult, autocast_attention>);
  m.impl("gaussian_mixture_attention_step", &step_adapter<autocast_step>);
}

}  // namespace

TORCH_LIBRARY_IMPL(gma, AutocastCPU, m) { register_kernels(m); }
TORCH_LIBRARY_IMPL(gma, AutocastCUDA, m) { register_kernels(m); }

}  // namespace gma_torch::ops
