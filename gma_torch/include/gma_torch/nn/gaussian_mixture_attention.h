// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "gma_torch/nn/attention_mixer.h"

namespace gma_torch::nn {

/// Is told what a layer routes: query (B, Tq, H, D) and key (B, Tk, Hk, D) vectors as the operator
/// gets them, and which keys are kept.
using RoutingObserver = std::function<void(const torch::Tensor& query, const torch::Tensor& key,
                                           const std::optional<torch::Tensor>& key_padding_mask)>;

/// Gaussian mixture attention between learned projections.
///
/// Every key head has a mixture of `num_components` Gaussians over its routing vectors:
///   means         (H, K, D)  drawn from N(0, 1)
///   raw_variances (H, K, D)  omega, with sigma^2 = softplus(omega) + variance_floor; (H, 1, D)
///   with
///                            covariance_type "tied", (H, K, 1) with "spherical"
///   prior_logits  (H, K)     zero: equal priors
/// They are float32 whatever the module is converted to (float64 in a float64 module), and are not
/// to be decayed. sigma^2 starts at 4 sqrt(D), so that every token first takes part in many
/// components: routing that starts sharp learns worse.
class GaussianMixtureAttentionImpl : public AttentionMixer {
 public:
  explicit GaussianMixtureAttentionImpl(const MixerConfig& config);

  /// Replaces the means by routing vectors of the tokens x (B, T, hidden_size), spread by k-means++
  /// seeding with torch's generator. Throws gma::InvalidArgument for fewer vectors than components,
  /// or vectors that are not finite.
  void initialize_means(const torch::Tensor& x,
                        const std::optional<torch::Tensor>& key_padding_mask = std::nullopt);

  /// sigma^2, of the shape of raw_variances.
  torch::Tensor variances() const;

  /// Responsibilities (B, T, H, K) of the tokens x as queries and as keys, for inspection.
  std::pair<torch::Tensor, torch::Tensor> responsibilities(
      const torch::Tensor& x, const std::optional<torch::Tensor>& key_padding_mask = std::nullopt);
  /// The same of the routing vectors that an observer is told of.
  std::pair<torch::Tensor, torch::Tensor> responsibilities_of(const torch::Tensor& query,
                                                              const torch::Tensor& key) const;

  /// Has every forward pass tell `observer`, before it attends; an empty one ends that. The model
  /// computes the same bits. A clone has no observer.
  void set_observer(RoutingObserver observer) { observer_ = std::move(observer); }

  const torch::Tensor& means() const { return means_; }
  const torch::Tensor& prior_logits() const { return prior_logits_; }

  std::vector<torch::Tensor> no_decay_parameters() const override;

  using Mixer::to;
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;
  torch::Tensor attend(const Heads& heads, const std::optional<torch::Tensor>& key_padding_mask,
                       MixerState* state) override;
  void extend_initial_state(MixerState& state, std::int64_t batch_size,
                            const torch::TensorOptions& options) const override;

  torch::Tensor means_, raw_variances_, prior_logits_;
  RoutingObserver observer_;
};
TORCH_MODULE(GaussianMixtureAttention);

}  // namespace gma_torch::nn
