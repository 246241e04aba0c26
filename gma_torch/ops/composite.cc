// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "ops/composite.h"

#include <ATen/ATen.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "ops/composite_pass.h"
#include "ops/dtype.h"

namespace gma_torch::ops {
namespace {

/// sum_d (x_d - mu_kd)^2 / sigma2_kd, taken directly rather than by expanding the square, which
/// cancels where |x| is large beside sigma. A function of its own so that autograd keeps x and the
/// mixture, not the (B, T, H, K, D) differences.
class SquaredDistance : public torch::autograd::Function<SquaredDistance> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& means, const at::Tensor& precision) {
    ctx->save_for_backward({x, means, precision});
    return ((x.unsqueeze(3) - means).square() * precision).sum(-1);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor difference = saved[0].unsqueeze(3) - saved[1];
    const at::Tensor weighted = gradients[0].unsqueeze(-1) * difference;
    const at::Tensor slope = 2 * weighted * saved[2];
    return {slope.sum(3), -slope.sum({0, 1}), (weighted * difference).sum({0, 1})};
  }
};

/// The mixture of each head in the form the chunks use it.
struct Mixture {
  at::Tensor means;      // (H, K, D)
  at::Tensor precision;  // 1 / sigma2, (H, K, D)
  at::Tensor bias;       // log pi - 1/2 sum_d log sigma2, (H, K)

  Mixture(const at::Tensor& mu, const at::Tensor& sigma2, const at::Tensor& prior_logits)
      : means(mu),
        precision(sigma2.reciprocal().expand_as(mu)),
        bias(prior_logits - 0.5 * sigma2.log().expand_as(mu).sum(-1)) {}

  /// Each head `count` times in a row: the mixtures of the query heads of a group.
  Mixture repeated(std::int64_t count) const {
    Mixture copy = *this;
    for (at::Tensor* tensor : {&copy.means, &copy.precision, &copy.bias}) {
      *tensor = tensor->repeat_interleave(count, 0);
    }
    return copy;
  }

  /// x (B, T, H, D) in the type of the sums -> (B, T, H, K).
  at::Tensor responsibilities(const at::Tensor& x) const {
    return at::softmax(bias - 0.5 * SquaredDistance::apply(x, means, precision), -1);
  }
};

/// A component whose prior is -inf has no effect, whatever its mean and variance hold: they are not
/// read, for NaN times a responsibility of zero is NaN, in the gradient too.
Mixture without_inert(const at::Tensor& means, const at::Tensor& variances,
                      const at::Tensor& prior_logits) {
  const at::Tensor inert = (prior_logits == -std::numeric_limits<double>::infinity()).unsqueeze(-1);
  return {at::where(inert, 0.0, means), at::where(inert, 1.0, variances), prior_logits};
}

/// Responsibilities for weights, after dropout.
class MixtureWeights {
 public:
  MixtureWeights(const Arguments& args, std::int64_t first_sequence)
      : args_(args),
        first_sequence_(first_sequence),
        key_mixture_(without_inert(args.means, args.variances, args.prior_logits)),
        query_mixture_(key_mixture_.repeated(extent(args.query, 2) /
                                             std::max<std::int64_t>(extent(args.key, 2), 1))) {}

  at::Tensor of_keys(const at::Tensor& key, std::int64_t begin) const {
    return dropped(key_mixture_.responsibilities(key), 1, begin);
  }
  at::Tensor of_queries(const at::Tensor& query, std::int64_t begin) const {
    return dropped(query_mixture_.responsibilities(query), 0, begin);
  }

 private:
  at::Tensor dropped(const at::Tensor& gamma, std::int64_t side, std::int64_t begin) const {
    if (args_.dropout_p == 0) return gamma;
    return gamma * dropout_factors(gamma, args_.dropout_p, args_.dropout_seed, side,
                                   first_sequence_, begin);
  }

  const Arguments& args_;
  std::int64_t first_sequence_;
  Mixture key_mixture_;
  Mixture query_mixture_;
};

/// The state before the first token of `rows` sequences from `first` on.
std::pair<at::Tensor, at::Tensor> initial_state(const Arguments& args, std::int64_t first,
                                                std::int64_t rows) {
  if (is_given(args.initial_s)) {
    return {args.initial_s->narrow(0, first, rows), args.initial_z->narrow(0, first, rows)};
  }
  const std::int64_t heads = extent(args.means, 0);
  const std::int64_t components = extent(args.means, 1);
  return {at::zeros({rows, heads, components, extent(args.value, 3)}, args.means.options()),
          at::zeros({rows, heads, components}, args.means.options())};
}

/// Packed sequences one after the other: each is a batch of one.
AttentionResult packed_attention(const Arguments& args) {
  const auto q = read_boundaries("cu_seqlens_q", *args.cu_seqlens_q, extent(args.query, 1));
  const auto k = read_boundaries("cu_seqlens_k", *args.cu_seqlens_k, extent(args.key, 1));
  TORCH_CHECK_VALUE(!args.is_causal || q == k,
                    "cu_seqlens_k: expected the boundaries of cu_seqlens_q as is_causal is set");
  std::vector<at::Tensor> outputs{
      at::zeros({1, 0, extent(args.query, 2), extent(args.value, 3)}, args.query.options())};
  std::vector<at::Tensor> s;
  std::vector<at::Tensor> z;
  for (std::size_t i = 0; i + 1 < q.size(); ++i) {
    Arguments sequence = args;
    sequence.query = args.query.narrow(1, q[i], q[i + 1] - q[i]);
    sequence.key = args.key.narrow(1, k[i], k[i + 1] - k[i]);
    sequence.value = args.value.narrow(1, k[i], k[i + 1] - k[i]);
    sequence.key_padding_mask.reset();
    const auto index = static_cast<std::int64_t>(i);
    const auto [s0, z0] = initial_state(args, index, 1);
    auto [output, final_s, final_z] =
        CompositePass(sequence, MixtureWeights(sequence, index), s0, z0).run();
    outputs.push_back(std::move(output));
    s.push_back(std::move(final_s));
    z.push_back(std::move(final_z));
  }
  if (s.empty()) {
    std::tie(s.emplace_back(), z.emplace_back()) = initial_state(args, 0, 0);
  }
  return {at::cat(outputs, 1), at::cat(s, 0), at::cat(z, 0)};
}

}  // namespace

AttentionResult composite_attention(const Arguments& args, bool return_state) {
  check(args);
  check_priors(args.prior_logits);
  // Sums are in float32, also where autocast would have products of 16 bits.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  AttentionResult result;
  if (args.is_packed()) {
    result = packed_attention(args);
  } else {
    auto [s, z] = initial_state(args, 0, extent(args.query, 0));
    result = CompositePass(args, MixtureWeights(args, 0), std::move(s), std::move(z)).run();
  }
  if (!return_state) return {std::get<0>(result), at::Tensor(), at::Tensor()};
  return result;
}

at::Tensor composite_responsibilities(const at::Tensor& x, const at::Tensor& means,
                                      const at::Tensor& variances, const at::Tensor& prior_logits) {
  check_responsibilities(x, means, variances, prior_logits);
  check_priors(prior_logits);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const Mixture mixture = without_inert(means, variances, prior_logits);
  const std::int64_t tokens = extent(x, 1);
  std::vector<at::Tensor> chunks;
  std::int64_t begin = 0;
  do {
    const std::int64_t count = std::min(kCompositeChunk, tokens - begin);
    chunks.push_back(mixture.responsibilities(x.narrow(1, begin, count).to(means.scalar_type())));
    begin += count;
  } while (begin < tokens);
  return at::cat(chunks, 1);
}

namespace {

StepResult composite_step(const StepArguments& args) {
  check(args);
  const auto [output, s, z] = composite_attention(args.as_attention(), true);
  return {output.squeeze(1), s, z};
}

}  // namespace

TORCH_LIBRARY_IMPL(gma, CompositeExplicitAutograd, m) {
  m.impl("gaussian_mixture_attention", &attention_adapter<AttentionResult, composite_attention>);
  m.impl("gaussian_mixture_attention_step", &step_adapter<composite_step>);
}

TORCH_LIBRARY_IMPL(gma, CompositeImplicitAutograd, m) {
  m.impl("_attention_composite", &attention_adapter<AttentionResult, composite_attention>);
  m.impl("responsibilities", &composite_responsibilities);
}

}  // namespace gma_torch::ops
