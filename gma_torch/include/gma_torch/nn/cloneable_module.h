// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>

namespace gma_torch::nn {

/// A module that clone() copies: values, dtypes, modes (training, requires_grad), on `device` if
/// one is named. torch::nn::Cloneable does the same for classes without a base class of their own.
class CloneableModule : public torch::nn::Module {
 public:
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;

 private:
  /// A new module of the same structure.
  virtual std::shared_ptr<torch::nn::Module> make_alike() const = 0;

  // What torch's own modules call to clone a child.
  void clone_(torch::nn::Module& other, const std::optional<torch::Device>& device) final;
};

}  // namespace gma_torch::nn
