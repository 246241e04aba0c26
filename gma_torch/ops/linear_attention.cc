// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Linear attention: schemas, checks and the C++ interface.
#include "ops/linear_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "gma_torch/linear_attention.h"
#include "ops/attention_checks.h"
#include "ops/composite_pass.h"

namespace gma_torch::ops::linear {
namespace {

template <class Visit>
void for_each_tensor(const Arguments& args, const Visit& visit) {
  visit("query", args.query);
  visit("key", args.key);
  visit("value", args.value);
  visit_given("key_padding_mask", args.key_padding_mask, visit);
  visit_given("initial_state.s", args.initial_s, visit);
  visit_given("initial_state.z", args.initial_z, visit);
}

/// Features are weights as they are.
struct FeatureWeights {
  at::Tensor of_keys(const at::Tensor& key, std::int64_t /*begin*/) const { return key; }
  at::Tensor of_queries(const at::Tensor& query, std::int64_t /*begin*/) const { return query; }
};

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

void check_tensors(const Arguments& args) {
  for_each_tensor(args, [&](const char* name, const at::Tensor& tensor) {
    check_tensor("linear_attention", "query", args.query, name, tensor);
  });
}

void check(const Arguments& args) {
  check_tensors(args);
  const at::Tensor& query = args.query;
  check_rank("query", query, 4, "(B, Tq, Hq, R)");
  check_rank("key", args.key, 4, "(B, Tk, Hk, R)");
  check_rank("value", args.value, 4, "(B, Tk, Hk, Dv)");
  const c10::SymInt batch = query.sym_size(0);
  const c10::SymInt keys = args.key.sym_size(1);
  const c10::SymInt heads = args.key.sym_size(2);
  const c10::SymInt features = query.sym_size(3);
  TORCH_CHECK_TYPE(is_supported(query.scalar_type()),
                   "query: expected dtype Float, Double, BFloat16 or Half, got ",
                   query.scalar_type());
  check_dtype("key", args.key, query.scalar_type(), "query", query);
  check_dtype("value", args.value, query.scalar_type(), "query", query);
  TORCH_CHECK_VALUE(holds(features.sym_ge(1)),
                    "query: expected at least one feature, got R = ", features);
  check_shape("key", args.key, "(B, Tk, Hk, R)", {batch, keys, heads, features});
  check_shape("value", args.value, "(B, Tk, Hk, Dv)", {batch, keys, heads, args.value.sym_size(3)});
  check_heads(query.sym_size(2), heads);
  check_causal(args.is_causal, query.sym_size(1), keys);
  check_key_padding_mask(args.key_padding_mask, batch, keys);
  check_initial_state(args.initial_s, args.initial_z, query, "(B, Hk, R, Dv)",
                      {batch, heads, features, args.value.sym_size(3)});
  check_eps(args.eps);
}

void check(const Arguments& args, const Upstream& upstream) {
  check(args);
  const at::Tensor& query = args.query;
  const at::ScalarType accumulate = accumulate_type(query.scalar_type());
  const auto check_one = [&](const char* name, const OptionalTensor& tensor, at::ScalarType dtype,
                             const char* layout, const SymShape& shape) {
    if (!is_given(tensor)) return;
    check_tensor("linear_attention", "query", query, name, *tensor);
    check_dtype(name, *tensor, dtype, "query", query);
    check_shape(name, *tensor, layout, shape);
  };
  const SymShape tokens{query.sym_size(0), query.sym_size(1), query.sym_size(2)};
  const SymShape state{tokens[0], args.key.sym_size(2), query.sym_size(3), args.value.sym_size(3)};
  check_one("normalizer", upstream.normalizer, accumulate, "(B, Tq, Hq)", tokens);
  check_rank("segment_s", upstream.segment_s, 4, "(segments, Hk, R, Dv)");
  const c10::SymInt segments = upstream.segment_s.sym_size(0);
  check_one("segment_s", upstream.segment_s, accumulate, "(segments, Hk, R, Dv)",
            {segments, state[1], state[2], state[3]});
  check_one("segment_z", upstream.segment_z, accumulate, "(segments, Hk, R)",
            {segments, state[1], state[2]});
  check_one("grad_output", upstream.grad_output, query.scalar_type(), "(B, Tq, Hq, Dv)",
            {tokens[0], tokens[1], tokens[2], state[3]});
  check_one("grad_final_s", upstream.grad_final_s, accumulate, "(B, Hk, R, Dv)", state);
  check_one("grad_final_z", upstream.grad_final_z, accumulate, "(B, Hk, R)",
            {state[0], state[1], state[2]});
}

bool has_kernel(const at::Tensor& query) {
  const at::ScalarType dtype = query.scalar_type();
  return ops::has_kernel(query) && (dtype == at::kFloat || dtype == at::kDouble);
}

AttentionResult composite(const Arguments& args, bool return_state) {
  check(args);
  // Sums are in float32, also where autocast would have products of 16 bits.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  at::Tensor s;
  at::Tensor z;
  if (is_given(args.initial_s)) {
    s = *args.initial_s;
    z = *args.initial_z;
  } else {
    const at::TensorOptions sums =
        args.query.options().dtype(accumulate_type(args.query.scalar_type()));
    const std::int64_t batch = extent(args.query, 0);
    const std::int64_t heads = extent(args.key, 2);
    const std::int64_t features = extent(args.query, 3);
    s = at::zeros({batch, heads, features, extent(args.value, 3)}, sums);
    z = at::zeros({batch, heads, features}, sums);
  }
  AttentionResult result = CompositePass(args, FeatureWeights(), s, z).run();
  if (!return_state) return {std::get<0>(result), at::Tensor(), at::Tensor()};
  return result;
}

AttentionResult call_attention(const Arguments& args, bool return_state) {
  static const auto op =
      find<decltype(attention_adapter<AttentionResult, nullptr>)>("gma::linear_attention");
  return op.call(args.query, args.key, args.value, args.is_causal, args.key_padding_mask,
                 args.initial_s, args.initial_z, return_state, args.eps);
}

ForwardResult call_forward(const Arguments& args, bool return_state) {
  static const auto op =
      find<decltype(attention_adapter<ForwardResult, nullptr>)>("gma::_linear_attention_forward");
  return op.call(args.query, args.key, args.value, args.is_causal, args.key_padding_mask,
                 args.initial_s, args.initial_z, return_state, args.eps);
}

BackwardResult call_backward(const Arguments& args, const Upstream& upstream) {
  static const auto op =
      find<decltype(backward_adapter<nullptr>)>("gma::_linear_attention_backward");
  return op.call(args.query, args.key, args.value, args.is_causal, args.key_padding_mask,
                 args.initial_s, args.initial_z, args.eps, upstream.normalizer, upstream.segment_s,
                 upstream.segment_z, upstream.grad_output, upstream.grad_final_s,
                 upstream.grad_final_z, upstream.needs);
}

TORCH_LIBRARY_FRAGMENT(gma, m) {
  const std::string attention =
      "(Tensor query, Tensor key, Tensor value, *, bool is_causal=False, "
      "Tensor? key_padding_mask=None, Tensor? initial_s=None, Tensor? initial_z=None, "
      "bool return_state=False, float eps=1e-6) "
      "-> (Tensor output, Tensor final_s, Tensor final_z)";
  m.def(("linear_attention" + attention).c_str());
  m.def(("_linear_attention_composite" + attention).c_str());
  m.def(
      "_linear_attention_forward(Tensor query, Tensor key, Tensor value, bool is_causal, "
      "Tensor? key_padding_mask, Tensor? initial_s, Tensor? initial_z, bool return_state, "
      "float eps) -> (Tensor output, Tensor final_s, Tensor final_z, Tensor normalizer, "
      "Tensor segment_s, Tensor segment_z)");
  m.def(
      "_linear_attention_backward(Tensor query, Tensor key, Tensor value, bool is_causal, "
      "Tensor? key_padding_mask, Tensor? initial_s, Tensor? initial_z, float eps, "
      "Tensor normalizer, Tensor segment_s, Tensor segment_z, Tensor? grad_output, "
      "Tensor? grad_final_s, Tensor? grad_final_z, bool[4] needs) -> (Tensor grad_query, "
      "Tensor grad_key, Tensor grad_value, Tensor grad_initial_s, Tensor grad_initial_z)");
}

TORCH_LIBRARY_IMPL(gma, CompositeExplicitAutograd, m) {
  m.impl("linear_attention", &attention_adapter<AttentionResult, composite>);
}

TORCH_LIBRARY_IMPL(gma, CompositeImplicitAutograd, m) {
  m.impl("_linear_attention_composite", &attention_adapter<AttentionResult, composite>);
}

}  // namespace gma_torch::ops::linear

namespace gma_torch {

std::pair<at::Tensor, std::optional<State>> linear_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const LinearAttentionOptions& options) {
  ops::linear::Arguments args{.query = query,
                              .key = key,
                              .value = value,
                              .is_causal = options.is_causal,
                              .key_padding_mask = options.key_padding_mask,
                              .eps = options.eps};
  if (options.initial_state) {
    args.initial_s = options.initial_state->s;
    args.initial_z = options.initial_state->z;
  }
  const auto [output, s, z] = ops::linear::call_attention(args, options.return_state);
  if (!options.return_state) return {output, std::nullopt};
  return {output, State{s, z}};
}

}  // namespace gma_torch
