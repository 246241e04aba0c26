// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/cloneable_module.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace gma_torch::nn {
namespace {

using torch::Tensor;

// Puts torch's generator back where it was: a new module draws its weights, a copy must not.
class KeepGenerator {
 public:
  KeepGenerator() {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  KeepGenerator(const KeepGenerator&) = delete;
  KeepGenerator& operator=(const KeepGenerator&) = delete;
  ~KeepGenerator() {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  Tensor state_;
};

// Both modules have the same structure.
void copy_module(const torch::nn::Module& from, torch::nn::Module& to,
                 const std::optional<torch::Device>& device) {
  const torch::NoGradGuard no_grad;
  const auto copy_tensor = [&](const Tensor& source, Tensor target) {
    target.set_data(source.to(device.value_or(source.device()), source.scalar_type(),
                              /*non_blocking=*/false, /*copy=*/true));
    target.set_requires_grad(source.requires_grad());
  };
  const auto parameters = to.named_parameters(), buffers = to.named_buffers();
  for (const auto& item : from.named_parameters()) copy_tensor(*item, parameters[item.key()]);
  for (const auto& item : from.named_buffers()) copy_tensor(*item, buffers[item.key()]);

  to.train(from.is_training());
  const auto modules = to.named_modules("", /*include_self=*/false);
  for (const auto& item : from.named_modules("", /*include_self=*/false)) {
    modules[item.key()]->train(item.value()->is_training());
  }
}

}  // namespace

std::shared_ptr<torch::nn::Module> CloneableModule::clone(
    const std::optional<torch::Device>& device) const {
  const KeepGenerator keep;
  std::shared_ptr<torch::nn::Module> copy = make_alike();
  copy_module(*this, *copy, device);
  return copy;
}

void CloneableModule::clone_(torch::nn::Module& other, const std::optional<torch::Device>& device) {
  copy_module(other, *this, device);
}

}  // namespace gma_torch::nn
