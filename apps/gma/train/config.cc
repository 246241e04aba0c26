// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/config.h"

#include <fmt/format.h>

#include <type_traits>

#include "gma/error.h"

namespace gma::app {

nlohmann::json to_json(const TrainConfig& config) {
  nlohmann::json json;
  visit_options(
      config, [&](const char* name, const auto& field, const OptionInfo&) { json[name] = field; });
  return json;
}

TrainConfig train_config_from_json(Task task, const nlohmann::json& json) {
  TrainConfig config;
  config.task = task;
  visit_options(config, [&]<class Field>(const char* name, Field& field, const OptionInfo& info) {
    try {
      json.at(name).get_to(field);
    } catch (const nlohmann::json::exception&) {
      throw InvalidArgument(fmt::format("training config: no usable value of '{}'", name));
    }
    if constexpr (std::is_arithmetic_v<Field> && !std::is_same_v<Field, bool>) {
      if (!info.range.contains(static_cast<double>(field))) {
        throw InvalidArgument(
            fmt::format("training config: '{}': {}, got {}", name, describe(info.range), field));
      }
    }
  });
  return config;
}

namespace {

std::int64_t count(const gma_torch::nn::ModelConfig& config) {
  if (config.num_classes > 0) {
    return count_parameters(*gma_torch::nn::SequenceClassifier(config));
  }
  return count_parameters(*gma_torch::nn::CausalLm(config));
}

/// The width inside the MLP with which a model has about `parameters`, whose number grows with it
/// along a line. Of whole cache lines, which matrix products are faster with, where that changes
/// the number by 2 % at most.
std::int64_t fitting_mlp_size(gma_torch::nn::ModelConfig config, std::int64_t parameters) {
  config.mlp_size = 1;
  const std::int64_t least = count(config);
  config.mlp_size = 2;
  const std::int64_t slope = count(config) - least;
  if (parameters < least) {
    throw InvalidArgument(fmt::format(
        "--parameters {}: the model has at least {}, with an MLP of width 1", parameters, least));
  }
  constexpr std::int64_t kLine = 16;
  const std::int64_t exact = 1 + (parameters - least + slope / 2) / slope;
  const bool is_close = exact >= kLine && 50 * kLine / 2 * slope <= parameters;
  return is_close ? (exact + kLine / 2) / kLine * kLine : exact;
}

}  // namespace

gma_torch::nn::ModelConfig model_config(const TrainConfig& config, std::int64_t vocab_size,
                                        std::int64_t num_classes) {
  gma_torch::nn::ModelConfig model;
  model.mixer = config.mixer;
  model.mixer_config.hidden_size = config.hidden_size;
  model.mixer_config.num_heads = config.heads;
  model.mixer_config.num_key_value_heads = config.key_value_heads;
  model.mixer_config.is_causal = config.task == Task::lm;
  model.mixer_config.use_rotary = config.rotary;
  model.mixer_config.rotary_base = config.rotary_base;
  model.mixer_config.use_short_conv = config.use_short_conv;
  model.mixer_config.short_conv_width = config.short_conv_width;
  model.mixer_config.attention_dropout = config.attention_dropout;
  model.mixer_config.num_components = config.components;
  model.mixer_config.covariance_type = config.covariance_type;
  model.mixer_config.initial_variance = config.initial_variance;
  model.mixer_config.variance_floor = config.variance_floor;
  model.mixer_config.num_features = config.num_features;
  model.mixer_config.feature_redraw_interval = config.feature_redraw_interval;
  model.mixer_config.projection_rank = config.projection_rank;
  model.mixer_config.state_size = config.state_size;
  model.mixer_config.inner_size = config.inner_size;
  model.mixer_config.dt_rank = config.dt_rank;
  model.vocab_size = vocab_size;
  model.num_layers = config.layers;
  model.mlp_size = config.mlp_size;
  model.dropout = config.dropout;
  model.learned_positions = config.learned_positions;
  model.sinusoidal_positions = config.sinusoidal_positions;
  const bool has_length = config.learned_positions || config.mixer == "linformer";
  model.max_length = has_length ? config.context : 0;
  model.tie_embeddings = config.tie_embeddings;
  model.num_classes = num_classes;
  model.pooling = config.pooling;
  if (config.parameters > 0) model.mlp_size = fitting_mlp_size(model, config.parameters);
  return model;
}

}  // namespace gma::app
