// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "ops/arguments.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "ops/dtype.h"

namespace gma_torch::ops {
namespace {

using SymShape = std::vector<c10::SymInt>;

bool holds(const c10::SymBool& condition) { return condition.expect_true(__FILE__, __LINE__); }

void check_rank(const char* name, const at::Tensor& tensor, std::int64_t rank, const char* layout) {
  TORCH_CHECK_VALUE(tensor.dim() == rank, name, ": expected shape ", layout, ", got ",
                    tensor.sym_sizes());
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, name, ": expected a strided tensor, got ",
                    tensor.layout());
}

void check_shape(const char* name, const at::Tensor& tensor, const char* layout,
                 const SymShape& expected) {
  check_rank(name, tensor, static_cast<std::int64_t>(expected.size()), layout);
  for (std::size_t axis = 0; axis < expected.size(); ++axis) {
    TORCH_CHECK_VALUE(
        holds(tensor.sym_size(static_cast<std::int64_t>(axis)).sym_eq(expected[axis])), name,
        ": expected shape ", layout, " = ", c10::SymIntArrayRef(expected), ", got ",
        tensor.sym_sizes());
  }
}

void check_like(const char* name, const at::Tensor& tensor, at::ScalarType dtype,
                const at::Tensor& query) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == dtype, name, ": expected dtype ", dtype,
                   " for query of ", query.scalar_type(), ", got ", tensor.scalar_type());
  TORCH_CHECK_VALUE(tensor.device() == query.device(), name, ": expected device ", query.device(),
                    " as of query, got ", tensor.device());
}

/// (Hk, K, D), or one row for all components, or one column for all channels.
void check_variances(const at::Tensor& variances, const c10::SymInt& heads,
                     const c10::SymInt& components, const c10::SymInt& dim) {
  constexpr const char* kLayout = "(Hk, K, D), (Hk, 1, D) or (Hk, K, 1)";
  const auto is_one = [](const c10::SymInt& size) {
    return size.sym_eq(1).guard_bool(__FILE__, __LINE__);
  };
  check_rank("variances", variances, 3, kLayout);
  const bool tied = is_one(variances.sym_size(1)) && !is_one(components);
  const bool spherical = !tied && is_one(variances.sym_size(2));
  check_shape("variances", variances, kLayout,
              {heads, tied ? c10::SymInt(1) : components, spherical ? c10::SymInt(1) : dim});
}

void check_eps(double eps) {
  TORCH_CHECK_VALUE(std::isfinite(eps) && eps >= 0, "eps: expected a finite number >= 0, got ",
                    eps);
}

/// dtypes and devices, the mixture's shapes, and that heads go together; `axis` is that of the
/// heads.
template <class Args>
void check_inputs(const Args& args, std::int64_t axis) {
  const at::Tensor& query = args.query;
  const at::ScalarType dtype = query.scalar_type();
  const at::ScalarType accumulate = accumulate_type(dtype);
  TORCH_CHECK_TYPE(is_supported(dtype),
                   "query: expected dtype Float, Double, BFloat16 or Half, got ", dtype);
  check_like("key", args.key, dtype, query);
  check_like("value", args.value, dtype, query);
  check_like("means", args.means, accumulate, query);
  check_like("variances", args.variances, accumulate, query);
  check_like("prior_logits", args.prior_logits, accumulate, query);

  const c10::SymInt heads = args.key.sym_size(axis);
  const c10::SymInt dim = query.sym_size(axis + 1);
  check_rank("means", args.means, 3, "(Hk, K, D)");
  const c10::SymInt components = args.means.sym_size(1);
  TORCH_CHECK_VALUE(holds(components.sym_ge(1)),
                    "means: expected at least one component, got K = ", components);
  TORCH_CHECK_VALUE(holds(dim.sym_ge(1)), "query: expected a routing size D of at least 1, got ",
                    dim);
  check_shape("means", args.means, "(Hk, K, D)", {heads, components, dim});
  check_variances(args.variances, heads, components, dim);
  check_shape("prior_logits", args.prior_logits, "(Hk, K)", {heads, components});

  const c10::SymInt query_heads = query.sym_size(axis);
  const bool fits = holds(heads.sym_eq(0)) ? holds(query_heads.sym_eq(0))
                                           : holds((query_heads % heads).sym_eq(0));
  TORCH_CHECK_VALUE(fits, "query: expected its number of heads to be a multiple of key's ", heads,
                    ", got ", query_heads);
}

void check_boundaries(const char* name, const at::Tensor& cu_seqlens) {
  TORCH_CHECK_TYPE(cu_seqlens.scalar_type() == at::kInt || cu_seqlens.scalar_type() == at::kLong,
                   name, ": expected dtype Int or Long, got ", cu_seqlens.scalar_type());
  check_rank(name, cu_seqlens, 1, "(sequences + 1)");
  TORCH_CHECK_VALUE(holds(cu_seqlens.sym_size(0).sym_ge(1)), name,
                    ": expected boundaries from 0 to T, got none");
}

void check_packing(const Arguments& args) {
  TORCH_CHECK_VALUE(is_given(args.cu_seqlens_q) == is_given(args.cu_seqlens_k),
                    is_given(args.cu_seqlens_q) ? "cu_seqlens_k" : "cu_seqlens_q",
                    ": expected together with ",
                    is_given(args.cu_seqlens_q) ? "cu_seqlens_q" : "cu_seqlens_k", ", got None");
  if (!args.is_packed()) return;
  check_boundaries("cu_seqlens_q", *args.cu_seqlens_q);
  check_boundaries("cu_seqlens_k", *args.cu_seqlens_k);
  TORCH_CHECK_VALUE(holds(args.cu_seqlens_q->sym_size(0).sym_eq(args.cu_seqlens_k->sym_size(0))),
                    "cu_seqlens_k: expected as many boundaries as cu_seqlens_q has, ",
                    args.cu_seqlens_q->sym_size(0), ", got ", args.cu_seqlens_k->sym_size(0));
  TORCH_CHECK_VALUE(
      holds(args.query.sym_size(0).sym_eq(1)),
      "cu_seqlens_q: expected B = 1 for packed sequences, got B = ", args.query.sym_size(0));
}

void check_state(const char* s_name, const at::Tensor& s, const char* z_name, const at::Tensor& z,
                 const c10::SymInt& rows, const at::Tensor& query, const at::Tensor& means,
                 const c10::SymInt& value_size) {
  const at::ScalarType accumulate = accumulate_type(query.scalar_type());
  check_like(s_name, s, accumulate, query);
  check_like(z_name, z, accumulate, query);
  check_shape(s_name, s, "(sequences, Hk, K, Dv)",
              {rows, means.sym_size(0), means.sym_size(1), value_size});
  check_shape(z_name, z, "(sequences, Hk, K)", {rows, means.sym_size(0), means.sym_size(1)});
}

}  // namespace

bool Arguments::requires_grad() const {
  if (!at::GradMode::is_enabled()) return false;
  for (const at::Tensor& tensor : {query, key, value, means, variances, prior_logits}) {
    if (tensor.requires_grad()) return true;
  }
  return (is_given(initial_s) && initial_s->requires_grad()) ||
         (is_given(initial_z) && initial_z->requires_grad());
}

bool StepArguments::requires_grad() const { return as_attention().requires_grad(); }

Arguments StepArguments::as_attention() const {
  return {.query = query.unsqueeze(1),
          .key = key.unsqueeze(1),
          .value = value.unsqueeze(1),
          .means = means,
          .variances = variances,
          .prior_logits = prior_logits,
          .is_causal = true,
          .initial_s = s,
          .initial_z = z,
          .eps = eps};
}

void check(const Arguments& args) {
  check_rank("query", args.query, 4, "(B, Tq, Hq, D)");
  check_rank("key", args.key, 4, "(B, Tk, Hk, D)");
  check_rank("value", args.value, 4, "(B, Tk, Hk, Dv)");
  const c10::SymInt batch = args.query.sym_size(0);
  const c10::SymInt keys = args.key.sym_size(1);
  const c10::SymInt heads = args.key.sym_size(2);
  check_shape("key", args.key, "(B, Tk, Hk, D)", {batch, keys, heads, args.query.sym_size(3)});
  check_shape("value", args.value, "(B, Tk, Hk, Dv)", {batch, keys, heads, args.value.sym_size(3)});
  check_inputs(args, 2);
  TORCH_CHECK_VALUE(
      !args.is_causal || holds(args.query.sym_size(1).sym_eq(keys)),
      "is_causal: expected as many queries as keys, got Tq = ", args.query.sym_size(1),
      " and Tk = ", keys, ": which keys a query may read is not defined otherwise");
  if (is_given(args.key_padding_mask)) {
    check_like("key_padding_mask", *args.key_padding_mask, at::kBool, args.query);
    check_shape("key_padding_mask", *args.key_padding_mask, "(B, Tk)", {batch, keys});
  }
  check_packing(args);
  TORCH_CHECK_VALUE(is_given(args.initial_s) == is_given(args.initial_z),
                    is_given(args.initial_s) ? "initial_z" : "initial_s",
                    ": expected together with ",
                    is_given(args.initial_s) ? "initial_s" : "initial_z", ", got None");
  if (is_given(args.initial_s)) {
    check_state("initial_s", *args.initial_s, "initial_z", *args.initial_z, args.num_sequences(),
                args.query, args.means, args.value.sym_size(3));
  }
  check_eps(args.eps);
  TORCH_CHECK_VALUE(args.dropout_p >= 0 && args.dropout_p < 1,
                    "dropout_p: expected a probability in [0, 1), got ", args.dropout_p);
}

void check(const StepArguments& args) {
  check_rank("query", args.query, 3, "(B, Hq, D)");
  check_rank("key", args.key, 3, "(B, Hk, D)");
  check_rank("value", args.value, 3, "(B, Hk, Dv)");
  const c10::SymInt batch = args.query.sym_size(0);
  const c10::SymInt heads = args.key.sym_size(1);
  check_shape("key", args.key, "(B, Hk, D)", {batch, heads, args.query.sym_size(2)});
  check_shape("value", args.value, "(B, Hk, Dv)", {batch, heads, args.value.sym_size(2)});
  check_inputs(args, 1);
  check_state("s", args.s, "z", args.z, batch, args.query, args.means, args.value.sym_size(2));
  check_eps(args.eps);
}

bool has_kernel(const at::Tensor& query) { return query.is_cpu() || query.is_meta(); }

std::vector<std::int64_t> read_boundaries(const char* name, const at::Tensor& cu_seqlens,
                                          std::int64_t tokens) {
  const at::Tensor values = cu_seqlens.to(at::kCPU, at::kLong).contiguous();
  const std::int64_t* data = values.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> boundaries(data, data + values.numel());
  TORCH_CHECK_VALUE(boundaries.front() == 0, name, ": expected to start at 0, got ",
                    boundaries.front());
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    TORCH_CHECK_VALUE(boundaries[i - 1] <= boundaries[i], name,
                      ": expected non-decreasing boundaries, got ", boundaries[i], " after ",
                      boundaries[i - 1], " at index ", i);
  }
  TORCH_CHECK_VALUE(boundaries.back() == tokens, name, ": expected to end at T = ", tokens,
                    ", got ", boundaries.back());
  return boundaries;
}

}  // namespace gma_torch::ops
