// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "ops/outputs.h"

#include <ATen/ATen.h>

#include "gma/attention.h"
#include "ops/dtype.h"

namespace gma_torch::ops {
namespace {

at::Tensor empty(std::vector<c10::SymInt> shape, const at::Tensor& like, at::ScalarType dtype) {
  return at::empty_symint(shape, like.options().dtype(dtype));
}

at::Tensor empty_if(bool needed, const at::Tensor& like) {
  return needed ? at::empty_symint(like.sym_sizes(), like.options()) : at::Tensor();
}

/// At least gma::saved_segments(), from shapes alone, so that it is known while compiling. Memory
/// past the segments in use is never touched.
c10::SymInt max_saved_segments(const Arguments& args) {
  const c10::SymInt sequences = args.num_sequences();
  if (!args.is_causal) return sequences;
  const c10::SymInt tokens = args.key.sym_size(1);
  const c10::SymInt step = gma::kMinSegmentTokens;
  if (args.is_packed()) return sequences + tokens / step;
  return sequences * ((tokens + step - 1) / step);
}

}  // namespace

ForwardResult empty_forward(const Arguments& args, bool return_state, bool save) {
  const at::Tensor& query = args.query;
  const at::ScalarType accumulate = accumulate_type(query.scalar_type());
  const c10::SymInt batch = query.sym_size(0);
  const c10::SymInt tokens = query.sym_size(1);
  const c10::SymInt heads = query.sym_size(2);
  const c10::SymInt key_heads = args.means.sym_size(0);
  const c10::SymInt components = args.means.sym_size(1);
  const c10::SymInt value_size = args.value.sym_size(3);

  ForwardResult result;
  auto& [output, final_s, final_z, normalizer, segment_s, segment_z] = result;
  output = empty({batch, tokens, heads, value_size}, query, query.scalar_type());
  if (return_state) {
    const c10::SymInt rows = args.num_sequences();
    final_s = empty({rows, key_heads, components, value_size}, query, accumulate);
    final_z = empty({rows, key_heads, components}, query, accumulate);
  }
  if (save) {
    const c10::SymInt segments = max_saved_segments(args);
    normalizer = empty({batch, tokens, heads}, query, accumulate);
    segment_s = empty({segments, key_heads, components, value_size}, query, accumulate);
    segment_z = empty({segments, key_heads, components}, query, accumulate);
  }
  return result;
}

BackwardResult empty_backward(const Arguments& args, const std::array<bool, 7>& needs) {
  const bool state = needs[6] && is_given(args.initial_s);
  return {empty_if(needs[0], args.query),
          empty_if(needs[1], args.key),
          empty_if(needs[2], args.value),
          empty_if(needs[3], args.means),
          empty_if(needs[4], args.variances),
          empty_if(needs[5], args.prior_logits),
          state ? empty_if(true, *args.initial_s) : at::Tensor(),
          state ? empty_if(true, *args.initial_z) : at::Tensor()};
}

StepResult empty_step(const StepArguments& args) {
  return {empty({args.query.sym_size(0), args.query.sym_size(1), args.value.sym_size(2)},
                args.query, args.query.scalar_type()),
          empty_if(true, args.s), empty_if(true, args.z)};
}

}  // namespace gma_torch::ops
