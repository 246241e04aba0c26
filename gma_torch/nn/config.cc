// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>

#include "gma/error.h"
#include "gma_torch/nn/models.h"

namespace gma_torch::nn {
namespace {

using nlohmann::ordered_json;

// Calls visit(key, field) for every field: the one list behind to_json and from_json.
template <class Config, class Visit>
void for_each_field(Config& config, const Visit& visit) {
  auto& mixer = config.mixer_config;
  visit("mixer", config.mixer);
  visit("vocab_size", config.vocab_size);
  visit("num_layers", config.num_layers);
  visit("mlp_size", config.mlp_size);
  visit("dropout", config.dropout);
  visit("learned_positions", config.learned_positions);
  visit("sinusoidal_positions", config.sinusoidal_positions);
  visit("max_length", config.max_length);
  visit("tie_embeddings", config.tie_embeddings);
  visit("num_classes", config.num_classes);
  visit("pooling", config.pooling);
  visit("hidden_size", mixer.hidden_size);
  visit("num_heads", mixer.num_heads);
  visit("num_key_value_heads", mixer.num_key_value_heads);
  visit("is_causal", mixer.is_causal);
  visit("use_rotary", mixer.use_rotary);
  visit("rotary_base", mixer.rotary_base);
  visit("use_short_conv", mixer.use_short_conv);
  visit("short_conv_width", mixer.short_conv_width);
  visit("attention_dropout", mixer.attention_dropout);
  visit("num_components", mixer.num_components);
  visit("covariance_type", mixer.covariance_type);
  visit("initial_variance", mixer.initial_variance);
  visit("variance_floor", mixer.variance_floor);
  visit("eps", mixer.eps);
  visit("num_features", mixer.num_features);
  visit("feature_redraw_interval", mixer.feature_redraw_interval);
  visit("projection_rank", mixer.projection_rank);
  visit("state_size", mixer.state_size);
  visit("inner_size", mixer.inner_size);
  visit("dt_rank", mixer.dt_rank);
}

[[noreturn]] void refuse(const std::string& key, const char* expected, const ordered_json& value) {
  throw gma::InvalidArgument(
      fmt::format("config: '{}' must be {}, got {}", key, expected, value.dump()));
}

void read(const std::string& key, const ordered_json& value, std::string& field) {
  if (!value.is_string()) refuse(key, "a string", value);
  field = value.get<std::string>();
}

void read(const std::string& key, const ordered_json& value, bool& field) {
  if (!value.is_boolean()) refuse(key, "true or false", value);
  field = value.get<bool>();
}

void read(const std::string& key, const ordered_json& value, std::int64_t& field) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool fits =
      value.is_number_unsigned() ? value.get<std::uint64_t>() <= kMost : value.is_number_integer();
  if (!fits) refuse(key, "an integer of 64 bits", value);
  field = value.get<std::int64_t>();
}

void read(const std::string& key, const ordered_json& value, double& field) {
  if (!value.is_number()) refuse(key, "a number", value);
  field = value.get<double>();
}

template <class Value>
void require(bool good, const char* field, const char* expected, const Value& value) {
  if (!good)
    throw gma::InvalidArgument(fmt::format("{} must be {}, got {}", field, expected, value));
}

}  // namespace

void ModelConfig::validate() const {
  const auto names = mixer_names();
  if (std::ranges::find(names, mixer) == names.end()) {
    throw gma::InvalidArgument(
        fmt::format("mixer must be one of {}, got '{}'", fmt::join(names, ", "), mixer));
  }
  require(vocab_size > 0, "vocab_size", "positive", vocab_size);
  require(num_layers > 0, "num_layers", "positive", num_layers);
  require(mlp_size >= 0, "mlp_size", "at least 0", mlp_size);
  require(dropout >= 0.0 && dropout < 1.0, "dropout", "in [0, 1)", dropout);
  require(max_length >= 0, "max_length", "at least 0", max_length);
  require(!learned_positions || max_length > 0, "max_length", "positive with learned_positions",
          max_length);
  require(!sinusoidal_positions || mixer_config.hidden_size % 2 == 0, "hidden_size",
          "even with sinusoidal_positions", mixer_config.hidden_size);
  require(num_classes >= 0, "num_classes", "at least 0", num_classes);
  require(pooling == "mean" || pooling == "first", "pooling", "mean or first", pooling);
  mixer_config.validate();
}

std::string ModelConfig::to_json() const {
  ordered_json json;
  for_each_field(*this, [&](const char* key, const auto& field) { json[key] = field; });
  return json.dump(2);
}

ModelConfig ModelConfig::from_json(const std::string& text) {
  ordered_json json;
  std::unordered_set<std::string> keys;
  const auto refuse_repeated = [&](int depth, ordered_json::parse_event_t event,
                                   const ordered_json& parsed) {
    if (depth == 1 && event == ordered_json::parse_event_t::key &&
        !keys.insert(parsed.get<std::string>()).second) {
      throw gma::InvalidArgument(fmt::format("config: key {} comes twice", parsed.dump()));
    }
    return true;
  };
  try {
    json = ordered_json::parse(text, refuse_repeated);
  } catch (const nlohmann::json::exception& error) {
    throw gma::InvalidArgument(fmt::format("config: not JSON: {}", error.what()));
  }
  if (!json.is_object()) throw gma::InvalidArgument("config: must be a JSON object");

  ModelConfig config;
  for_each_field(config, [&](const std::string& key, auto& field) {
    if (const auto found = json.find(key); found != json.end()) {
      read(key, *found, field);
      json.erase(found);
    }
  });
  if (!json.empty()) {
    throw gma::InvalidArgument(fmt::format("config: unknown key '{}'", json.begin().key()));
  }
  return config;
}

}  // namespace gma_torch::nn
