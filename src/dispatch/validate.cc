// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "dispatch/validate.h"

#include <array>
#include <cstdint>
#include <limits>

#include "common/checks.h"
#include "dispatch/call_checks.h"

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
  validate_causal(args.is_causal, tokens_q, tokens_k);
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
