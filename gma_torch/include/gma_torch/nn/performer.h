// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gma_torch/nn/feature_attention.h"

namespace gma_torch::nn {

/// Performer: FAVOR+, positive orthogonal random features of the softmax kernel (Choromanski et
/// al., "Rethinking Attention with Performers", 2021, lemma 1 and section 2.4). With x the query or
/// key divided by D^(1/4) and rows w_r of `features`,
///   phi_r(x) = exp(w_r . x - |x|^2 / 2),  E_w[phi(q) . phi(k)] = exp(q . k).
/// The common factor 1/sqrt(R) is left out, for it cancels.
///
/// Stabilisers. A query's features are divided by their largest, which cancels in its output (eps
/// is thus measured against features of at most 1). Keys are not: their common factor would have to
/// be one for the whole sequence, so it could depend neither on later keys (causality) nor on those
/// of one call (streaming). They need none in ordinary use, for the mean of a key's features over
/// draws is 1 and no exponent exceeds |w_r|^2 / 2, about D / 2; it is cut off at 60, which keeps
/// sums of a million features finite in float32 and is reached only where D is large and a key
/// lies close to a random vector.
///
/// `features` (R, D), float32 (float64 in a float64 module), is a buffer shared by the heads:
/// blocks of D orthogonal rows whose norms are those of Gaussian vectors. R is num_features, or D
/// log(D) rounded, at least 1, where that is 0. Every `feature_redraw_interval` passes in training
/// mode with gradients enabled they are drawn anew, from the buffers `feature_seed` and
/// `num_passes`: a run that resumes draws the same. A state from before a redraw does not fit the
/// features after it.
class PerformerImpl : public FeatureAttention {
 public:
  explicit PerformerImpl(const MixerConfig& config);

  /// Draws the features that belong to a seed.
  void redraw_features(std::uint64_t seed);

  using Mixer::to;
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;

 private:
  std::shared_ptr<torch::nn::Module> make_alike() const override;
  torch::Tensor query_features(const torch::Tensor& query) override;
  torch::Tensor key_features(const torch::Tensor& key) override;
  std::int64_t num_features() const override { return features_.size(0); }
  void begin_pass() override;

  // w_r . x - |x|^2 / 2 for vectors (B, T, H, D) that are still to be scaled.
  torch::Tensor exponents(const torch::Tensor& vectors) const;

  torch::Tensor features_, feature_seed_, num_passes_;
};
TORCH_MODULE(Performer);

/// (num_features, size) rows in float64: blocks of `size` orthogonal directions, uniformly
/// distributed, each row with the norm of a Gaussian vector of its own. The same for the same seed.
torch::Tensor orthogonal_gaussian(std::int64_t num_features, std::int64_t size, std::uint64_t seed);

}  // namespace gma_torch::nn
