// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The arguments of one call, and their checks. Everything here works on meta tensors and on
// symbolic sizes as well.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace gma_torch::ops {

/// An optional tensor that is given and defined.
inline bool is_given(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() && tensor->defined();
}

/// What the attention operators are given; names and shapes as in gma::AttentionArgs.
struct Arguments {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor means;
  at::Tensor variances;
  at::Tensor prior_logits;
  bool is_causal = false;
  std::optional<at::Tensor> key_padding_mask{};
  std::optional<at::Tensor> cu_seqlens_q{};
  std::optional<at::Tensor> cu_seqlens_k{};
  std::optional<at::Tensor> initial_s{};
  std::optional<at::Tensor> initial_z{};
  double eps = 1e-6;
  double dropout_p = 0.0;
  c10::SymInt dropout_seed = 0;

  bool is_packed() const { return is_given(cu_seqlens_q); }
  /// Rows of the state: batch entries, or packed sequences.
  c10::SymInt num_sequences() const {
    return is_packed() ? cu_seqlens_q->sym_size(0) - 1 : query.sym_size(0);
  }
  /// Whether autograd has to record this call.
  bool requires_grad() const;
};

/// What backward is given beside the arguments: gma::AttentionUpstream. A gradient that is absent
/// is zero. `needs` says which gradients to compute: query, key, value, means, variances,
/// prior_logits, and the initial state's two together.
struct Upstream {
  at::Tensor normalizer;
  at::Tensor segment_s;
  at::Tensor segment_z;
  std::optional<at::Tensor> grad_output{};
  std::optional<at::Tensor> grad_final_s{};
  std::optional<at::Tensor> grad_final_z{};
  std::array<bool, 7> needs{};
};

/// What the step operator is given; names and shapes as in gma::StepArgs.
struct StepArguments {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor means;
  at::Tensor variances;
  at::Tensor prior_logits;
  at::Tensor s;
  at::Tensor z;
  double eps = 1e-6;

  bool requires_grad() const;
  /// The causal pass over one token that the step is equal to.
  Arguments as_attention() const;
};

/// Throws a ValueError naming the first tensor that is undefined, nested, sparse or not on query's
/// device, and a NotImplementedError where one carries a forward-mode tangent: neither kernels nor
/// composite would pass it on. What every entry asks before it looks at a tensor.
void check_tensors(const Arguments& arguments);
void check_tensors(const StepArguments& arguments);
void check_tensors(const Arguments& arguments, const Upstream& upstream);

/// check_tensors(), then throws a ValueError or TypeError naming the first argument whose dtype or
/// shape is not usable. What depends on values (boundaries, priors that are all -inf) is left to
/// the backend.
void check(const Arguments& arguments);
void check(const StepArguments& arguments);
void check(const Arguments& arguments, const Upstream& upstream);
/// For responsibilities of x (B, T, H, D).
void check_responsibilities(const at::Tensor& x, const at::Tensor& means,
                            const at::Tensor& variances, const at::Tensor& prior_logits);

/// Throws a ValueError if all priors of a head are -inf, unless the values are not there to be
/// read, as while compiling.
void check_priors(const at::Tensor& prior_logits);

/// Whether libgma computes on this device; the composite path takes the others.
bool has_kernel(const at::Tensor& query);

/// The values of cu_seqlens, on the CPU: from 0 to `tokens`, non-decreasing. `name` is for the
/// error.
std::vector<std::int64_t> read_boundaries(const char* name, const at::Tensor& cu_seqlens,
                                          std::int64_t tokens);

}  // namespace gma_torch::ops
