// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/gaussian_mixture_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gma/error.h"
#include "gma_torch/attention.h"
#include "nn/checks.h"
#include "nn/precision.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

// The inverse of softplus, log(exp(y) - 1), without overflow for large y or cancellation for small.
double inverse_softplus(double y) { return y + std::log(-std::expm1(-y)); }

double initial_variance(const MixerConfig& config) {
  if (config.initial_variance > 0.0) return config.initial_variance;
  return 4.0 * std::sqrt(static_cast<double>(config.head_size()));
}

// points (H, N, D) to `count` of them a head, (H, count, D): each is drawn with a probability
// proportional to its squared distance from the nearest one chosen before.
Tensor spread_points(const Tensor& points, std::int64_t count) {
  const std::int64_t heads = points.size(0), size = points.size(2);
  Tensor weights = torch::ones({heads, points.size(1)}, points.options());
  std::vector<Tensor> chosen;
  for (std::int64_t i = 0; i < count; ++i) {
    // Nothing is left to tell apart once every point coincides with a chosen one.
    const Tensor usable = torch::where(weights.sum(1, true) > 0, weights, 1.0);
    const Tensor index = torch::multinomial(usable, 1).unsqueeze(-1).expand({heads, 1, size});
    chosen.push_back(points.gather(1, index));
    const Tensor distance = (points - chosen.back()).square().sum(-1);
    weights = i == 0 ? distance : torch::minimum(weights, distance);
  }
  return torch::cat(chosen, 1);
}

}  // namespace

GaussianMixtureAttentionImpl::GaussianMixtureAttentionImpl(const MixerConfig& config)
    : AttentionMixer(config) {
  const std::int64_t heads = config.key_value_heads(), components = config.num_components;
  const double omega = inverse_softplus(initial_variance(config) - config.variance_floor);
  const std::int64_t rows = config.covariance_type == "tied" ? 1 : components;
  const std::int64_t columns = config.covariance_type == "spherical" ? 1 : config.head_size();
  means_ = register_parameter("means", torch::randn({heads, components, config.head_size()}));
  raw_variances_ = register_parameter("raw_variances", torch::full({heads, rows, columns}, omega));
  prior_logits_ = register_parameter("prior_logits", torch::zeros({heads, components}));
}

Tensor GaussianMixtureAttentionImpl::variances() const {
  // Above the threshold softplus is the identity; the default of 20 would show in float64.
  constexpr double kBeta = 1.0, kThreshold = 40.0;
  return torch::softplus(raw_variances_, kBeta, kThreshold) + config().variance_floor;
}

std::shared_ptr<torch::nn::Module> GaussianMixtureAttentionImpl::make_alike() const {
  return std::make_shared<GaussianMixtureAttentionImpl>(config());
}

Tensor GaussianMixtureAttentionImpl::attend(const Heads& heads,
                                            const std::optional<Tensor>& key_padding_mask,
                                            MixerState* state) {
  if (observer_) observer_(heads.query, heads.key, key_padding_mask);
  if (state != nullptr) {
    const std::int64_t batch = heads.key.size(0), key_heads = config().key_value_heads();
    const std::int64_t components = config().num_components, size = config().head_size();
    check_state_shape("s", state->at("s"), {batch, key_heads, components, size});
    check_state_shape("z", state->at("z"), {batch, key_heads, components});
  }
  const bool drops = is_training() && config().attention_dropout > 0.0;
  if (state != nullptr && heads.query.size(1) == 1 && !key_padding_mask && !drops &&
      !at::GradMode::is_enabled()) {
    auto [output, next] = gaussian_mixture_attention_step(
        heads.query, heads.key, heads.value, means_, variances(), prior_logits_,
        {state->at("s"), state->at("z")}, config().eps);
    state->set("s", next.s);
    state->set("z", next.z);
    return output;
  }

  AttentionOptions options;
  options.is_causal = config().is_causal;
  options.key_padding_mask = key_padding_mask;
  options.return_state = state != nullptr;
  options.eps = config().eps;
  if (drops) options.dropout_p = config().attention_dropout;
  if (state != nullptr) options.initial_state = State{state->at("s"), state->at("z")};
  auto [output, next] = gaussian_mixture_attention(heads.query, heads.key, heads.value, means_,
                                                   variances(), prior_logits_, options);
  if (state != nullptr) {
    state->set("s", next->s);
    state->set("z", next->z);
  }
  return output;
}

void GaussianMixtureAttentionImpl::extend_initial_state(MixerState& state, std::int64_t batch_size,
                                                        const torch::TensorOptions& options) const {
  const std::int64_t heads = config().key_value_heads(), components = config().num_components;
  const auto sums = options.dtype(accumulate_dtype(c10::typeMetaToScalarType(options.dtype())));
  state.set("s", torch::zeros({batch_size, heads, components, config().head_size()}, sums));
  state.set("z", torch::zeros({batch_size, heads, components}, sums));
}

void GaussianMixtureAttentionImpl::initialize_means(const Tensor& x,
                                                    const std::optional<Tensor>& key_padding_mask) {
  const torch::NoGradGuard no_grad;
  const Source source{x, key_padding_mask};
  check_source("x", "key_padding_mask", source);
  const Heads heads = project(source, source, nullptr);

  // (tokens, Hk, vectors, D): a mixture routes the queries of its whole group, and its keys.
  const std::int64_t key_heads = config().key_value_heads();
  Tensor vectors = torch::cat(
      {heads.query.flatten(0, 1).unflatten(1, {key_heads, config().num_heads / key_heads}),
       heads.key.flatten(0, 1).unsqueeze(2)},
      2);
  if (key_padding_mask) vectors = vectors.index({key_padding_mask->flatten()});
  Tensor points = vectors.transpose(0, 1).flatten(1, 2).to(means_.scalar_type());
  if (points.size(1) < config().num_components) {
    throw gma::InvalidArgument(
        fmt::format("x must give at least num_components ({}) routing vectors a head to "
                    "initialize_means, got {}",
                    config().num_components, points.size(1)));
  }
  if (!points.isfinite().all().item<bool>()) {
    throw gma::InvalidArgument(
        "x must give finite routing vectors to initialize_means, got NaN or Inf");
  }
  constexpr std::int64_t kPointsPerComponent = 64;
  if (const std::int64_t most = kPointsPerComponent * config().num_components;
      points.size(1) > most) {
    points = points.index_select(
        1, torch::randperm(points.size(1)).narrow(0, 0, most).to(points.device()));
  }
  means_.copy_(spread_points(points, config().num_components));
}

std::pair<Tensor, Tensor> GaussianMixtureAttentionImpl::responsibilities(
    const Tensor& x, const std::optional<Tensor>& key_padding_mask) {
  const Source source{x, key_padding_mask};
  check_source("x", "key_padding_mask", source);
  const Heads heads = project(source, source, nullptr);
  return responsibilities_of(heads.query, heads.key);
}

std::pair<Tensor, Tensor> GaussianMixtureAttentionImpl::responsibilities_of(
    const Tensor& query, const Tensor& key) const {
  const std::int64_t group = config().num_heads / config().key_value_heads();
  const auto grouped = [&](const Tensor& parameter) {
    return parameter.repeat_interleave(group, 0);
  };
  const Tensor sigma2 = variances();
  return {
      gma_torch::responsibilities(query, grouped(means_), grouped(sigma2), grouped(prior_logits_)),
      gma_torch::responsibilities(key, means_, sigma2, prior_logits_)};
}

std::vector<Tensor> GaussianMixtureAttentionImpl::no_decay_parameters() const {
  return {means_, raw_variances_, prior_logits_};
}

void GaussianMixtureAttentionImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  to(dtype, non_blocking);
  Mixer::to(device, non_blocking);
}

void GaussianMixtureAttentionImpl::to(torch::Dtype dtype, bool non_blocking) {
  convert_except(no_decay_parameters(), dtype, [&] { Mixer::to(dtype, non_blocking); });
}

}  // namespace gma_torch::nn
