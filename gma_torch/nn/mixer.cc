// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/mixer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gma/error.h"
#include "nn/checks.h"

namespace gma_torch::nn {
namespace {

template <class Value>
void require(bool good, const char* field, const std::string& expected, Value value) {
  if (!good)
    throw gma::InvalidArgument(fmt::format("{} must be {}, got {}", field, expected, value));
}

}  // namespace

void MixerConfig::validate() const {
  require(hidden_size > 0, "hidden_size", "positive", hidden_size);
  require(num_heads > 0, "num_heads", "positive", num_heads);
  require(hidden_size % num_heads == 0, "num_heads",
          fmt::format("a divisor of hidden_size ({})", hidden_size), num_heads);
  require(num_key_value_heads >= 0, "num_key_value_heads", "at least 0", num_key_value_heads);
  require(num_heads % key_value_heads() == 0, "num_key_value_heads",
          fmt::format("a divisor of num_heads ({})", num_heads), num_key_value_heads);
  if (use_rotary) {
    require(head_size() % 2 == 0, "hidden_size / num_heads", "even with use_rotary", head_size());
    require(std::isfinite(rotary_base) && rotary_base > 1.0, "rotary_base", "above 1", rotary_base);
  }
  require(short_conv_width >= 1, "short_conv_width", "positive", short_conv_width);
  require(attention_dropout >= 0.0 && attention_dropout < 1.0, "attention_dropout", "in [0, 1)",
          attention_dropout);
  require(num_components > 0, "num_components", "positive", num_components);
  require(covariance_type == "diag" || covariance_type == "tied" || covariance_type == "spherical",
          "covariance_type", "diag, tied or spherical", fmt::format("'{}'", covariance_type));
  require(std::isfinite(variance_floor) && variance_floor > 0.0, "variance_floor", "positive",
          variance_floor);
  require(initial_variance == 0.0 ||
              (std::isfinite(initial_variance) && initial_variance > variance_floor),
          "initial_variance", fmt::format("0 or above variance_floor ({})", variance_floor),
          initial_variance);
  require(num_features >= 0, "num_features", "at least 0", num_features);
  require(feature_redraw_interval >= 0, "feature_redraw_interval", "at least 0",
          feature_redraw_interval);
  require(projection_rank > 0, "projection_rank", "positive", projection_rank);
  require(max_length >= 0, "max_length", "at least 0", max_length);
  require(std::isfinite(eps) && eps >= 0.0, "eps", "at least 0", eps);
  require(state_size > 0, "state_size", "positive", state_size);
  require(inner_size >= 0, "inner_size", "at least 0", inner_size);
  require(dt_rank >= 0, "dt_rank", "at least 0", dt_rank);
}

const torch::Tensor* MixerState::find(std::string_view name) const {
  const auto found =
      std::ranges::find(tensors, name, [](const auto& entry) { return entry.first; });
  return found == tensors.end() ? nullptr : &found->second;
}

const torch::Tensor& MixerState::at(std::string_view name) const {
  if (const torch::Tensor* tensor = find(name)) return *tensor;
  throw gma::InvalidArgument(
      fmt::format("state must come from initial_state() of the same mixer: it has no '{}'", name));
}

void MixerState::set(std::string_view name, torch::Tensor tensor) {
  const auto found =
      std::ranges::find(tensors, name, [](const auto& entry) { return entry.first; });
  if (found == tensors.end()) {
    tensors.emplace_back(name, std::move(tensor));
  } else {
    found->second = std::move(tensor);
  }
}

MixerState MixerState::reorder(const torch::Tensor& index) const {
  MixerState selected{{}, position};
  for (const auto& [name, tensor] : tensors) {
    check_indices("index", index, tensor.size(0));
    selected.tensors.emplace_back(name, tensor.index_select(0, index));
  }
  return selected;
}

MixerState MixerState::clone() const {
  MixerState copy{{}, position};
  for (const auto& [name, tensor] : tensors) copy.tensors.emplace_back(name, tensor.clone());
  return copy;
}

}  // namespace gma_torch::nn
