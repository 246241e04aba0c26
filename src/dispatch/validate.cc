// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "dispatch/validate.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "common/checks.h"
#include "common/plan.h"

namespace gma {
namespace {

template <class A>
void validate_mixture(const View<const A, 3>& means, const View<const A, 3>& variances,
                      const View<const A, 2>& prior_logits, std::int64_t num_heads,
                      std::int64_t dim) {
  const std::int64_t num_components = means.size(1);
  check(num_components > 0, "means: expected at least one component, got K = 0");
  check(dim > 0, "query: expected a routing size D of at least 1, got 0");
  check_shape("means", means, "(Hk, K, D)", {num_heads, num_components, dim});
  const std::int64_t rows = variances.size(1) == 1 && num_components > 1 ? 1 : num_components;
  const std::int64_t columns = rows == num_components && variances.size(2) == 1 ? 1 : dim;
  check_shape("variances", variances, "(Hk, K, D), (Hk, 1, D) or (Hk, K, 1)",
              {num_heads, rows, columns});
  check_shape("prior_logits", prior_logits, "(Hk, K)", {num_heads, num_components});
  for (std::int64_t h = 0; h < num_heads; ++h) {
    bool any = false;
    for (std::int64_t k = 0; k < num_components && !any; ++k) {
      any = prior_logits(h, k) != -std::numeric_limits<A>::infinity();
    }
    check(any, "prior_logits: expected a component that is not -inf in head {}, got none", h);
  }
}

void validate_heads(std::int64_t query_heads, std::int64_t key_heads) {
  check(key_heads > 0 ? query_heads % key_heads == 0 : query_heads == 0,
        "query: expected its number of heads to be a multiple of key's {}, got {}", key_heads,
        query_heads);
}

void validate_eps(double eps) {
  check(std::isfinite(eps) && eps >= 0, "eps: expected a finite number >= 0, got {}", eps);
}

void validate_boundaries(std::string_view name, std::span<const std::int64_t> boundaries,
                         std::int64_t tokens) {
  check(boundaries.front() == 0, "{}: expected to start at 0, got {}", name, boundaries.front());
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    check(boundaries[i - 1] <= boundaries[i],
          "{}: expected non-decreasing boundaries, got {} after {} at index {}", name,
          boundaries[i], boundaries[i - 1], i);
  }
  check(boundaries.back() == tokens, "{}: expected to end at T = {}, got {}", name, tokens,
        boundaries.back());
}

template <class T>
void validate_packing(const AttentionArgs<T>& args) {
  const auto q = args.cu_seqlens_q;
  const auto k = args.cu_seqlens_k;
  check(q.empty() == k.empty(), "cu_seqlens_{}: expected together with cu_seqlens_{}, got it alone",
        q.empty() ? "k" : "q", q.empty() ? "q" : "k");
  if (q.empty()) return;
  check(args.query.size(0) == 1, "cu_seqlens_q: expected B = 1 for packed sequences, got B = {}",
        args.query.size(0));
  check(q.size() == k.size(), "cu_seqlens_k: expected {} boundaries as in cu_seqlens_q, got {}",
        q.size(), k.size());
  validate_boundaries("cu_seqlens_q", q, args.query.size(1));
  validate_boundaries("cu_seqlens_k", k, args.key.size(1));
  for (std::size_t i = 0; args.is_causal && i < q.size(); ++i) {
    check(q[i] == k[i],
          "cu_seqlens_k: expected the boundaries of cu_seqlens_q as is_causal is set, got {} "
          "against {} at index {}",
          k[i], q[i], i);
  }
}

template <class T>
std::int64_t num_sequences(const AttentionArgs<T>& args) {
  return args.cu_seqlens_q.empty() ? args.query.size(0)
                                   : static_cast<std::int64_t>(args.cu_seqlens_q.size()) - 1;
}

/// A state has one row a sequence.
template <class T, class A>
void validate_state(std::string_view name, const AttentionArgs<T>& args, const State<A>& state) {
  const std::int64_t rows = num_sequences(args);
  const std::int64_t heads = args.key.size(2);
  const std::int64_t num_components = args.means.size(1);
  check(static_cast<bool>(state.s) || !state || state.s.numel() == 0,
        "{}: expected both S and Z, got Z alone", name);
  check(static_cast<bool>(state.z) || !state.s, "{}: expected both S and Z, got S alone", name);
  if (!state) return;
  check(
      state.s.shape == typename View<A, 4>::Shape{rows, heads, num_components, args.value.size(3)},
      "{}: expected S of shape (sequences, Hk, K, Dv) = ({}, {}, {}, {}), got ({})", name, rows,
      heads, num_components, args.value.size(3), fmt::join(state.s.shape, ", "));
  check(state.z.shape == typename View<A, 3>::Shape{rows, heads, num_components},
        "{}: expected Z of shape (sequences, Hk, K) = ({}, {}, {}), got ({})", name, rows, heads,
        num_components, fmt::join(state.z.shape, ", "));
}

template <class T, std::size_t Rank>
void check_contiguous(std::string_view name, const View<T, Rank>& view) {
  const auto expected = View<T, Rank>::contiguous(view.data, view.shape).strides;
  for (std::size_t axis = 0; axis < Rank && view.numel() > 0; ++axis) {
    check(view.shape[axis] == 1 || view.strides[axis] == expected[axis],
          "{}: expected contiguous strides ({}), got ({})", name, fmt::join(expected, ", "),
          fmt::join(view.strides, ", "));
  }
}

template <class T, class A>
void validate_saved(const AttentionArgs<T>& args, const Saved<A>& saved) {
  if (!saved) return;
  const std::int64_t segments = num_saved(args);
  const std::int64_t heads = args.key.size(2);
  const std::int64_t num_components = args.means.size(1);
  check_shape("saved.normalizer", saved.normalizer, "(B, Tq, Hq)",
              {args.query.size(0), args.query.size(1), args.query.size(2)});
  check_shape("saved.segment_s", saved.segment_s, "(segments, Hk, K, Dv)",
              {segments, heads, num_components, args.value.size(3)});
  check_shape("saved.segment_z", saved.segment_z, "(segments, Hk, K)",
              {segments, heads, num_components});
  check_contiguous("saved.segment_s", saved.segment_s);
  check_contiguous("saved.segment_z", saved.segment_z);
}

/// A view that may be absent.
template <class T, std::size_t Rank>
void check_optional(std::string_view name, const View<T, Rank>& view, std::string_view layout,
                    const std::array<std::int64_t, Rank>& expected) {
  if (view) check_shape(name, view, layout, expected);
}

}  // namespace

template <class T>
void validate(const AttentionArgs<T>& args) {
  const auto& [batch, tokens_q, heads_q, dim] = args.query.shape;
  const std::int64_t tokens_k = args.key.size(1);
  const std::int64_t heads_k = args.key.size(2);
  check_extents("query", args.query);
  check_extents("key", args.key);
  check_extents("value", args.value);
  check_present("query", args.query);
  check_shape("key", args.key, "(B, Tk, Hk, D)", {batch, tokens_k, heads_k, dim});
  check_shape("value", args.value, "(B, Tk, Hk, Dv)",
              {batch, tokens_k, heads_k, args.value.size(3)});
  validate_heads(heads_q, heads_k);
  validate_mixture(args.means, args.variances, args.prior_logits, heads_k, dim);
  check(!args.is_causal || tokens_q == tokens_k,
        "is_causal: expected as many queries as keys, got Tq = {} and Tk = {}: which keys a query "
        "may read is not defined otherwise",
        tokens_q, tokens_k);
  check_optional("key_padding_mask", args.key_padding_mask, "(B, Tk)", {batch, tokens_k});
  validate_packing(args);
  validate_state("initial_state", args, args.initial_state);
  validate_eps(args.eps);
  check(args.dropout_p >= 0 && args.dropout_p < 1,
        "dropout_p: expected a probability in [0, 1), got {}", args.dropout_p);
}

template <class T>
void validate(const AttentionArgs<T>& args, const AttentionOutputs<T>& outputs) {
  validate(args);
  check_shape("output", outputs.output, "(B, Tq, Hq, Dv)",
              {args.query.size(0), args.query.size(1), args.query.size(2), args.value.size(3)});
  validate_state("final_state", args, outputs.final_state);
  validate_saved(args, outputs.saved);
}

template <class T>
void validate(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
              const AttentionGradients<T>& gradients) {
  validate(args);
  const std::array<std::int64_t, 4> output_shape{args.query.size(0), args.query.size(1),
                                                 args.query.size(2), args.value.size(3)};
  check_shape("grad_output", upstream.grad_output, "(B, Tq, Hq, Dv)", output_shape);
  validate_saved(args, upstream.saved);
  validate_state("grad_final_state", args, upstream.grad_final_state);
  check_optional("gradients.query", gradients.query, "(B, Tq, Hq, D)", args.query.shape);
  check_optional("gradients.key", gradients.key, "(B, Tk, Hk, D)", args.key.shape);
  check_optional("gradients.value", gradients.value, "(B, Tk, Hk, Dv)", args.value.shape);
  check_optional("gradients.means", gradients.means, "(Hk, K, D)", args.means.shape);
  check_optional("gradients.variances", gradients.variances, "of variances", args.variances.shape);
  check_optional("gradients.prior_logits", gradients.prior_logits, "(Hk, K)",
                 args.prior_logits.shape);
  validate_state("gradients.initial_state", args, gradients.initial_state);
}

template <class T>
void validate(const StepArgs<T>& args, const View<T, 3>& output) {
  const auto& [batch, heads_q, dim] = args.query.shape;
  const std::int64_t heads_k = args.key.size(1);
  const std::int64_t value_dim = args.value.size(2);
  check_extents("query", args.query);
  check_extents("key", args.key);
  check_extents("value", args.value);
  check_present("query", args.query);
  check_shape("key", args.key, "(B, Hk, D)", {batch, heads_k, dim});
  check_shape("value", args.value, "(B, Hk, Dv)", {batch, heads_k, value_dim});
  validate_heads(heads_q, heads_k);
  validate_mixture(args.means, args.variances, args.prior_logits, heads_k, dim);
  check_shape("state.s", args.state.s, "(B, Hk, K, Dv)",
              {batch, heads_k, args.means.size(1), value_dim});
  check_shape("state.z", args.state.z, "(B, Hk, K)", {batch, heads_k, args.means.size(1)});
  check_shape("output", output, "(B, Hq, Dv)", {batch, heads_q, value_dim});
  validate_eps(args.eps);
}

#define GMA_INSTANTIATE(T)                                                     \
  template void validate(const AttentionArgs<T>&);                             \
  template void validate(const AttentionArgs<T>&, const AttentionOutputs<T>&); \
  template void validate(const AttentionArgs<T>&, const AttentionUpstream<T>&, \
                         const AttentionGradients<T>&);                        \
  template void validate(const StepArgs<T>&, const View<T, 3>&)

GMA_INSTANTIATE(float);
GMA_INSTANTIATE(double);
GMA_INSTANTIATE(bfloat16);
GMA_INSTANTIATE(float16);

#undef GMA_INSTANTIATE

}  // namespace gma
