// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/feature_attention.h"

#include "gma_torch/linear_attention.h"
#include "nn/checks.h"

namespace gma_torch::nn {

using torch::Tensor;

torch::Dtype feature_dtype(torch::Dtype dtype) {
  return dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

Tensor FeatureAttention::attend(const Heads& heads, const std::optional<Tensor>& key_padding_mask,
                                MixerState* state) {
  LinearAttentionOptions options;
  options.is_causal = config().is_causal;
  options.key_padding_mask = key_padding_mask;
  options.return_state = state != nullptr;
  options.eps = config().eps;
  if (state != nullptr) {
    const std::int64_t batch = heads.key.size(0), key_heads = config().key_value_heads();
    check_state_shape("s", state->at("s"),
                      {batch, key_heads, num_features(), config().head_size()});
    check_state_shape("z", state->at("z"), {batch, key_heads, num_features()});
    options.initial_state = State{state->at("s"), state->at("z")};
  }

  begin_pass();
  const torch::Dtype dtype = feature_dtype(heads.query.scalar_type());
  const auto dropped = [&](const Tensor& features) {
    const double p = config().attention_dropout;
    return is_training() && p > 0.0 ? torch::dropout(features, p, /*train=*/true) : features;
  };
  const auto [output, next] =
      linear_attention(dropped(query_features(heads.query.to(dtype))),
                       dropped(key_features(heads.key.to(dtype))), heads.value.to(dtype), options);
  if (state != nullptr) {
    state->set("s", next->s);
    state->set("z", next->z);
  }
  return output.to(heads.query.scalar_type());
}

void FeatureAttention::extend_initial_state(MixerState& state, std::int64_t batch_size,
                                            const torch::TensorOptions& options) const {
  const std::int64_t heads = config().key_value_heads();
  const auto sums = options.dtype(feature_dtype(c10::typeMetaToScalarType(options.dtype())));
  state.set("s", torch::zeros({batch_size, heads, num_features(), config().head_size()}, sums));
  state.set("z", torch::zeros({batch_size, heads, num_features()}, sums));
}

}  // namespace gma_torch::nn
