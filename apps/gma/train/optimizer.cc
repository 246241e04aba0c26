// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/optimizer.h"

#include <fmt/format.h>
#include <gma_torch/nn/mixer.h>
#include <gma_torch/nn/models.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "gma/error.h"

namespace gma::app {
namespace {

enum Group { kDecayed, kPlain, kMixture, kGroups };

constexpr double kEps = 1e-8;

using TensorSet = std::set<const void*>;

TensorSet mixture_parameters(torch::nn::Module& model) {
  TensorSet found;
  for (const auto& module : model.modules()) {
    if (const auto* mixer = dynamic_cast<const gma_torch::nn::Mixer*>(module.get())) {
      for (const torch::Tensor& p : mixer->no_decay_parameters())
        found.insert(p.unsafeGetTensorImpl());
    }
  }
  return found;
}

torch::optim::AdamWParamState& adamw_state(torch::optim::OptimizerParamState& state) {
  return static_cast<torch::optim::AdamWParamState&>(state);
}

}  // namespace

double learning_rate(const TrainConfig& config, std::int64_t step, double fraction) {
  const double warm =
      config.warmup > 0
          ? std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(config.warmup))
          : 1.0;
  const double floor = std::min(config.min_lr, config.lr);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * std::clamp(fraction, 0.0, 1.0)));
  return warm * (floor + (config.lr - floor) * cosine);
}

Optimizer::Optimizer(torch::nn::Module& model, const TrainConfig& config)
    : clip_(config.clip > 0 ? config.clip : std::numeric_limits<double>::infinity()),
      mixture_lr_scale_(config.mixture_lr_scale) {
  TensorSet known;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad() || !known.insert(item.value().unsafeGetTensorImpl()).second)
      continue;
    parameters_.emplace(item.key(), item.value());
    ordered_.push_back(item.value());
  }

  const TensorSet mixtures = mixture_parameters(model);
  auto [decayed, others] = gma_torch::nn::parameter_groups(model);
  const auto mixture_begin = std::stable_partition(
      others.begin(), others.end(),
      [&](const torch::Tensor& p) { return !mixtures.contains(p.unsafeGetTensorImpl()); });
  std::vector<std::vector<torch::Tensor>> groups(kGroups);
  groups[kDecayed] = decayed;
  groups[kPlain].assign(others.begin(), mixture_begin);
  groups[kMixture].assign(mixture_begin, others.end());

  std::vector<torch::optim::OptimizerParamGroup> param_groups;
  for (int group = 0; group < kGroups; ++group) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(config.lr);
    options->betas({config.beta1, config.beta2}).eps(kEps);
    options->weight_decay(group == kDecayed ? config.weight_decay : 0.0);
    param_groups.emplace_back(groups[static_cast<std::size_t>(group)], std::move(options));
  }
  adamw_ = std::make_unique<torch::optim::AdamW>(param_groups);
}

double Optimizer::step(double learning_rate) {
  const double norm = torch::nn::utils::clip_grad_norm_(ordered_, clip_);
  if (!std::isfinite(norm)) {
    drop_gradients();
    return norm;
  }
  auto& groups = adamw_->param_groups();
  for (int group = 0; group < kGroups; ++group) {
    groups[static_cast<std::size_t>(group)].options().set_lr(
        group == kMixture ? learning_rate * mixture_lr_scale_ : learning_rate);
  }
  adamw_->step();
  adamw_->zero_grad();
  return norm;
}

void Optimizer::drop_gradients() { adamw_->zero_grad(); }

std::map<std::string, torch::Tensor> Optimizer::state() const {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, parameter] : parameters_) {
    const auto found = adamw_->state().find(parameter.unsafeGetTensorImpl());
    if (found == adamw_->state().end()) continue;
    const auto& state = adamw_state(*found->second);
    tensors.emplace("exp_avg." + name, state.exp_avg());
    tensors.emplace("exp_avg_sq." + name, state.exp_avg_sq());
  }
  return tensors;
}

void Optimizer::load_state(const std::map<std::string, torch::Tensor>& state, std::int64_t steps) {
  if (steps == 0) return;
  const auto moment = [&](const std::string& name, const torch::Tensor& parameter) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.sizes() != parameter.sizes() ||
        found->second.scalar_type() != parameter.scalar_type()) {
      throw InvalidArgument(fmt::format("the optimizer has no usable '{}'", name));
    }
    return found->second.clone();
  };
  for (const auto& [name, parameter] : parameters_) {
    auto entry = std::make_unique<torch::optim::AdamWParamState>();
    entry->step(steps);
    entry->exp_avg(moment("exp_avg." + name, parameter));
    entry->exp_avg_sq(moment("exp_avg_sq." + name, parameter));
    adamw_->state()[parameter.unsafeGetTensorImpl()] = std::move(entry);
  }
}

}  // namespace gma::app
