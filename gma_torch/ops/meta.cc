// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Shapes, dtypes and strides of the results without any computation: meta tensors, torch.compile.
#include <torch/library.h>

#include "ops/operators.h"
#include "ops/outputs.h"

namespace gma_torch::ops {
namespace {

AttentionResult meta_attention(const Arguments& args, bool return_state) {
  check(args);
  const ForwardResult result = empty_forward(args, return_state, false);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

ForwardResult meta_forward(const Arguments& args, bool return_state) {
  check(args);
  return empty_forward(args, return_state, true);
}

BackwardResult meta_backward(const Arguments& args, const Upstream& upstream) {
  check(args, upstream);
  return empty_backward(args, upstream.needs);
}

StepResult meta_step(const StepArguments& args) {
  check(args);
  return empty_step(args);
}

}  // namespace

TORCH_LIBRARY_IMPL(gma, Meta, m) {
  m.impl("gaussian_mixture_attention", &attention_adapter<AttentionResult, meta_attention>);
  m.impl("gaussian_mixture_attention_step", &step_adapter<meta_step>);
  m.impl("_attention_forward", &attention_adapter<ForwardResult, meta_forward>);
  m.impl("_attention_backward", &backward_adapter<meta_backward>);
}

}  // namespace gma_torch::ops
