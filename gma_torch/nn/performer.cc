// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/performer.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace gma_torch::nn {
namespace {

using torch::Tensor;

std::int64_t feature_count(const MixerConfig& config) {
  if (config.num_features > 0) return config.num_features;
  const auto size = static_cast<double>(config.head_size());
  return std::max<std::int64_t>(1, std::llround(size * std::log(size)));
}

// The seed of a redraw: neighbours in either argument share nothing (the finaliser of SplitMix64).
std::uint64_t mix(std::uint64_t seed, std::uint64_t draw) {
  std::uint64_t x = seed + draw * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

Tensor orthogonal_gaussian(std::int64_t num_features, std::int64_t size, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto normal = [&](std::int64_t rows) {
    return at::randn({rows, size}, generator, torch::kFloat64);
  };
  std::vector<Tensor> blocks;
  for (std::int64_t begin = 0; begin < num_features; begin += size) {
    const auto [q, r] = torch::linalg_qr(normal(size));
    // Signs that make the factorisation unique make the directions uniform.
    blocks.push_back((q * r.diagonal().sign()).t());
  }
  return torch::cat(blocks).narrow(0, 0, num_features) *
         normal(num_features).norm(2, {1}, /*keepdim=*/true);
}

PerformerImpl::PerformerImpl(const MixerConfig& config) : FeatureAttention(config) {
  feature_seed_ = register_buffer(
      "feature_seed", torch::randint(std::numeric_limits<std::int64_t>::max(), {1}, torch::kInt64));
  num_passes_ = register_buffer("num_passes", torch::zeros({1}, torch::kInt64));
  features_ =
      register_buffer("features", torch::empty({feature_count(config), config.head_size()}));
  redraw_features(static_cast<std::uint64_t>(feature_seed_.item<std::int64_t>()));
}

std::shared_ptr<torch::nn::Module> PerformerImpl::make_alike() const {
  return std::make_shared<PerformerImpl>(config());
}

void PerformerImpl::redraw_features(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  features_.copy_(orthogonal_gaussian(features_.size(0), features_.size(1), seed));
}

void PerformerImpl::begin_pass() {
  const std::int64_t interval = config().feature_redraw_interval;
  if (interval == 0 || !is_training() || !at::GradMode::is_enabled()) return;
  const std::int64_t pass = num_passes_.item<std::int64_t>();
  if (pass > 0 && pass % interval == 0) {
    redraw_features(mix(static_cast<std::uint64_t>(feature_seed_.item<std::int64_t>()),
                        static_cast<std::uint64_t>(pass / interval)));
  }
  num_passes_.add_(1);
}

Tensor PerformerImpl::exponents(const Tensor& vectors) const {
  // Under autocast the product would be rounded to 16 bits before it is exponentiated.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const double scale = std::pow(static_cast<double>(vectors.size(-1)), -0.25);
  const Tensor x = vectors * scale;
  return torch::matmul(x, features_.t()) - 0.5 * x.square().sum(-1, /*keepdim=*/true);
}

Tensor PerformerImpl::query_features(const Tensor& query) {
  const Tensor exponent = exponents(query);
  return (exponent - exponent.detach().amax(-1, /*keepdim=*/true)).exp();
}

Tensor PerformerImpl::key_features(const Tensor& key) {
  constexpr double kLargestExponent = 60.0;
  return exponents(key).clamp_max(kLargestExponent).exp();
}

void PerformerImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  to(dtype, non_blocking);
  Mixer::to(device, non_blocking);
}

void PerformerImpl::to(torch::Dtype dtype, bool non_blocking) {
  const Tensor features = features_.clone(), seed = feature_seed_.clone(),
               passes = num_passes_.clone();
  Mixer::to(dtype, non_blocking);
  features_.set_data(features.to(feature_dtype(dtype)));
  feature_seed_.set_data(seed);
  num_passes_.set_data(passes);
}

}  // namespace gma_torch::nn
