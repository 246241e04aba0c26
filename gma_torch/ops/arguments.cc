// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "ops/arguments.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <string>

#include "ops/attention_checks.h"
#include "ops/checks.h"
#include "ops/dtype.h"

namespace gma_torch::ops {
namespace {

/// What passes and steps have in common.
template <class Args, class Visit>
void visit_inputs(const Args& args, const Visit& visit) {
  visit("query", args.query);
  visit("key", args.key);
  visit("value", args.value);
  visit("means", args.means);
  visit("variances", args.variances);
  visit("prior_logits", args.prior_logits);
}

/// Calls visit(name, tensor) for every tensor of a call that is given, under its public name.
template <class Visit>
void for_each_tensor(const Arguments& args, const Visit& visit) {
  visit_inputs(args, visit);
  visit_given("key_padding_mask", args.key_padding_mask, visit);
  visit_given("cu_seqlens_q", args.cu_seqlens_q, visit);
  visit_given("cu_seqlens_k", args.cu_seqlens_k, visit);
  visit_given("initial_state.s", args.initial_s, visit);
  visit_given("initial_state.z", args.initial_z, visit);
}

template <class Visit>
void for_each_tensor(const StepArguments& args, const Visit& visit) {
  visit_inputs(args, visit);
  visit("state.s", args.s);
  visit("state.z", args.z);
}

template <class Visit>
void for_each_tensor(const Upstream& upstream, const Visit& visit) {
  visit("normalizer", upstream.normalizer);
  visit("segment_s", upstream.segment_s);
  visit("segment_z", upstream.segment_z);
  visit_given("grad_output", upstream.grad_output, visit);
  visit_given("grad_final_s", upstream.grad_final_s, visit);
  visit_given("grad_final_z", upstream.grad_final_z, visit);
}

template <class Args>
bool any_requires_grad(const Args& args) {
  if (!at::GradMode::is_enabled()) return false;
  bool any = false;
  for_each_tensor(args, [&](const char*, const at::Tensor& t) { any = any || t.requires_grad(); });
  return any;
}

void check_supported(const char* x_name, const at::Tensor& x) {
  TORCH_CHECK_TYPE(is_supported(x.scalar_type()), x_name,
                   ": expected dtype Float, Double, BFloat16 or Half, got ", x.scalar_type());
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

/// The mixture that x is routed by: its dtypes and shapes.
template <class Args>
void check_mixture(const Args& args, const char* x_name, const at::Tensor& x,
                   const c10::SymInt& heads, const c10::SymInt& dim) {
  const at::ScalarType accumulate = accumulate_type(x.scalar_type());
  check_dtype("means", args.means, accumulate, x_name, x);
  check_dtype("variances", args.variances, accumulate, x_name, x);
  check_dtype("prior_logits", args.prior_logits, accumulate, x_name, x);

  check_rank("means", args.means, 3, "(Hk, K, D)");
  const c10::SymInt components = args.means.sym_size(1);
  TORCH_CHECK_VALUE(holds(components.sym_ge(1)),
                    "means: expected at least one component, got K = ", components);
  TORCH_CHECK_VALUE(holds(dim.sym_ge(1)), x_name, ": expected a routing size D of at least 1, got ",
                    dim);
  check_shape("means", args.means, "(Hk, K, D)", {heads, components, dim});
  check_variances(args.variances, heads, components, dim);
  check_shape("prior_logits", args.prior_logits, "(Hk, K)", {heads, components});
}

/// dtypes, the mixture, and that heads go together; `axis` is that of the heads.
template <class Args>
void check_inputs(const Args& args, std::int64_t axis) {
  const at::Tensor& query = args.query;
  const c10::SymInt heads = args.key.sym_size(axis);
  check_supported("query", query);
  check_dtype("key", args.key, query.scalar_type(), "query", query);
  check_dtype("value", args.value, query.scalar_type(), "query", query);
  check_mixture(args, "query", query, heads, query.sym_size(axis + 1));

  check_heads(query.sym_size(axis), heads);
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

}  // namespace

bool Arguments::requires_grad() const { return any_requires_grad(*this); }

bool StepArguments::requires_grad() const { return any_requires_grad(*this); }

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

void check_tensors(const Arguments& args) {
  for_each_tensor(args, [&](const char* name, const at::Tensor& tensor) {
    check_tensor("gaussian_mixture_attention", "query", args.query, name, tensor);
  });
}

void check_tensors(const StepArguments& args) {
  for_each_tensor(args, [&](const char* name, const at::Tensor& tensor) {
    check_tensor("gaussian_mixture_attention_step", "query", args.query, name, tensor);
  });
}

void check_tensors(const Arguments& args, const Upstream& upstream) {
  check_tensors(args);
  for_each_tensor(upstream, [&](const char* name, const at::Tensor& tensor) {
    check_tensor("gaussian_mixture_attention", "query", args.query, name, tensor);
  });
}

void check(const Arguments& args) {
  check_tensors(args);
  check_rank("query", args.query, 4, "(B, Tq, Hq, D)");
  check_rank("key", args.key, 4, "(B, Tk, Hk, D)");
  check_rank("value", args.value, 4, "(B, Tk, Hk, Dv)");
  const c10::SymInt batch = args.query.sym_size(0);
  const c10::SymInt keys = args.key.sym_size(1);
  const c10::SymInt heads = args.key.sym_size(2);
  check_shape("key", args.key, "(B, Tk, Hk, D)", {batch, keys, heads, args.query.sym_size(3)});
  check_shape("value", args.value, "(B, Tk, Hk, Dv)", {batch, keys, heads, args.value.sym_size(3)});
  check_inputs(args, 2);
  check_causal(args.is_causal, args.query.sym_size(1), keys);
  check_key_padding_mask(args.key_padding_mask, batch, keys);
  check_packing(args);
  check_initial_state(
      args.initial_s, args.initial_z, args.query, "(sequences, Hk, K, Dv)",
      {args.num_sequences(), heads, args.means.sym_size(1), args.value.sym_size(3)});
  check_eps(args.eps);
  TORCH_CHECK_VALUE(args.dropout_p >= 0 && args.dropout_p < 1,
                    "dropout_p: expected a probability in [0, 1), got ", args.dropout_p);
}

void check(const StepArguments& args) {
  check_tensors(args);
  check_rank("query", args.query, 3, "(B, Hq, D)");
  check_rank("key", args.key, 3, "(B, Hk, D)");
  check_rank("value", args.value, 3, "(B, Hk, Dv)");
  const c10::SymInt batch = args.query.sym_size(0);
  const c10::SymInt heads = args.key.sym_size(1);
  check_shape("key", args.key, "(B, Hk, D)", {batch, heads, args.query.sym_size(2)});
  check_shape("value", args.value, "(B, Hk, Dv)", {batch, heads, args.value.sym_size(2)});
  check_inputs(args, 1);
  check_state("state.s", args.s, "state.z", args.z, args.query, "(sequences, Hk, K, Dv)",
              {batch, heads, args.means.sym_size(1), args.value.sym_size(2)});
  check_eps(args.eps);
}

void check(const Arguments& args, const Upstream& upstream) {
  check_tensors(args, upstream);
  check(args);
  const at::Tensor& query = args.query;
  const at::ScalarType dtype = query.scalar_type();
  const at::ScalarType accumulate = accumulate_type(dtype);
  const auto check_one = [&](const char* name, const at::Tensor& tensor, at::ScalarType expected,
                             const char* layout, const SymShape& shape) {
    check_dtype(name, tensor, expected, "query", query);
    check_shape(name, tensor, layout, shape);
  };
  const c10::SymInt key_heads = args.means.sym_size(0);
  const c10::SymInt components = args.means.sym_size(1);
  const c10::SymInt value_size = args.value.sym_size(3);
  const SymShape tokens{query.sym_size(0), query.sym_size(1), query.sym_size(2)};
  const SymShape output{tokens[0], tokens[1], tokens[2], value_size};
  check_one("normalizer", upstream.normalizer, accumulate, "(B, Tq, Hq)", tokens);
  // How many segments there are is the backend's own affair.
  check_rank("segment_s", upstream.segment_s, 4, "(segments, Hk, K, Dv)");
  check_one("segment_s", upstream.segment_s, accumulate, "(segments, Hk, K, Dv)",
            {upstream.segment_s.sym_size(0), key_heads, components, value_size});
  check_one("segment_z", upstream.segment_z, accumulate, "(segments, Hk, K)",
            {upstream.segment_s.sym_size(0), key_heads, components});
  if (is_given(upstream.grad_output)) {
    check_one("grad_output", *upstream.grad_output, dtype, "(B, Tq, Hq, Dv)", output);
  }
  const c10::SymInt rows = args.num_sequences();
  if (is_given(upstream.grad_final_s)) {
    check_one("grad_final_s", *upstream.grad_final_s, accumulate, "(sequences, Hk, K, Dv)",
              {rows, key_heads, components, value_size});
  }
  if (is_given(upstream.grad_final_z)) {
    check_one("grad_final_z", *upstream.grad_final_z, accumulate, "(sequences, Hk, K)",
              {rows, key_heads, components});
  }
}

void check_responsibilities(const at::Tensor& x, const at::Tensor& means,
                            const at::Tensor& variances, const at::Tensor& prior_logits) {
  struct {
    const at::Tensor &means, &variances, &prior_logits;
  } const mixture{means, variances, prior_logits};
  const auto check_one = [&](const char* name, const at::Tensor& tensor) {
    check_tensor("responsibilities", "x", x, name, tensor);
  };
  check_one("x", x);
  check_one("means", means);
  check_one("variances", variances);
  check_one("prior_logits", prior_logits);
  check_rank("x", x, 4, "(B, T, H, D)");
  check_supported("x", x);
  check_mixture(mixture, "x", x, x.sym_size(2), x.sym_size(3));
}

void check_priors(const at::Tensor& prior_logits) {
  // Tensors that stand for others: of a compiler, or inside vmap.
  constexpr c10::DispatchKeySet kStandIns(
      {c10::DispatchKey::Python, c10::DispatchKey::Functionalize,
       c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper});
  if (prior_logits.is_meta() || prior_logits.key_set().has_any(kStandIns)) return;
  const at::Tensor off = (prior_logits.detach() == -std::numeric_limits<double>::infinity()).all(1);
  if (!off.any().item<bool>()) return;
  TORCH_CHECK_VALUE(false, "prior_logits: expected a component that is not -inf in head ",
                    off.to(at::kInt).argmax().item<std::int64_t>(), ", got none");
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
