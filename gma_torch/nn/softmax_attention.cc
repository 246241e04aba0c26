// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/softmax_attention.h"

#include "nn/checks.h"

namespace gma_torch::nn {

using torch::Tensor;

std::shared_ptr<torch::nn::Module> SoftmaxAttentionImpl::make_alike() const {
  return std::make_shared<SoftmaxAttentionImpl>(config());
}

Tensor SoftmaxAttentionImpl::attend(const Heads& heads,
                                    const std::optional<Tensor>& key_padding_mask,
                                    MixerState* state) {
  Tensor key = heads.key, value = heads.value;
  std::optional<Tensor> keys_kept = key_padding_mask;
  if (state != nullptr) {
    for (const char* name : {"key", "value"}) {
      check_state_shape(name, state->at(name),
                        {key.size(0), state->position, key.size(2), key.size(3)});
    }
    if (state->position > 0) {
      key = torch::cat({state->at("key"), key}, 1);
      value = torch::cat({state->at("value"), value}, 1);
      if (const Tensor* padding = state->find(kPadding)) {
        keys_kept = torch::arange(key.size(1), padding->options()) >= padding->unsqueeze(1);
      }
    }
    state->set("key", key);
    state->set("value", value);
  }

  // A single query at the end of the cache reads all of it, so it needs no causal mask.
  const std::int64_t queries = heads.query.size(1), keys = key.size(1);
  const bool needs_causal = config().is_causal && queries > 1;
  const bool plain_causal = needs_causal && queries == keys && !keys_kept;
  std::optional<Tensor> mask;
  if (keys_kept) mask = keys_kept->view({-1, 1, 1, keys});
  if (needs_causal && !plain_causal) {
    const Tensor causal =
        torch::ones({queries, keys}, key.options().dtype(torch::kBool)).tril(keys - queries);
    mask = mask ? *mask & causal : causal;
  }

  const double dropout = is_training() ? config().attention_dropout : 0.0;
  const bool grouped = config().key_value_heads() != config().num_heads;
  return torch::scaled_dot_product_attention(heads.query.transpose(1, 2), key.transpose(1, 2),
                                             value.transpose(1, 2), mask, dropout, plain_causal,
                                             /*scale=*/std::nullopt, grouped)
      .transpose(1, 2);
}

void SoftmaxAttentionImpl::extend_initial_state(MixerState& state, std::int64_t batch_size,
                                                const torch::TensorOptions& options) const {
  const Tensor none =
      torch::empty({batch_size, 0, config().key_value_heads(), config().head_size()}, options);
  state.set("key", none);
  state.set("value", none);
}

}  // namespace gma_torch::nn
