// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "train/config.h"

namespace gma::app {

/// Learning rate of a step: linear warm-up over config.warmup steps, times a half cosine from lr
/// to min_lr over the run, of which `fraction` is done.
double learning_rate(const TrainConfig& config, std::int64_t step, double fraction);

/// AdamW in three groups: matrices, which alone are decayed; biases and norms; and mixture
/// parameters, whose learning rate has a factor of its own.
class Optimizer {
 public:
  Optimizer(torch::nn::Module& model, const TrainConfig& config);

  /// Clips the gradients, takes a step and clears them; returns the gradient's norm before
  /// clipping. Where that is not finite, the parameters stay as they are.
  double step(double learning_rate);
  /// Clears the gradients of a step that is not taken.
  void drop_gradients();

  /// Moments under "exp_avg.<parameter>" and "exp_avg_sq.<parameter>"; empty before the first step.
  std::map<std::string, torch::Tensor> state() const;
  /// Goes on after `steps` steps with the moments of state(). Throws InvalidArgument if they do not
  /// fit the model.
  void load_state(const std::map<std::string, torch::Tensor>& state, std::int64_t steps);

 private:
  std::map<std::string, torch::Tensor> parameters_;  ///< by name, shared ones once
  std::vector<torch::Tensor> ordered_;               ///< the same, as in the model
  double clip_;
  double mixture_lr_scale_;
  std::unique_ptr<torch::optim::AdamW> adamw_;
};

}  // namespace gma::app
