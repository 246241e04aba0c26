// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "train/task.h"

namespace gma::app {
namespace {

void put(nlohmann::json& json, const char* name, const std::optional<double>& value) {
  if (value) json[name] = *value;
}

std::optional<double> get(const nlohmann::json& json, const char* name) {
  return json.contains(name) ? std::optional(json.at(name).get<double>()) : std::nullopt;
}

}  // namespace

bool Metrics::is_better_than(const Metrics& other) const {
  if (accuracy != other.accuracy) return accuracy > other.accuracy;
  return loss < other.loss;
}

bool Metrics::is_finite() const { return std::isfinite(loss); }

void to_json(nlohmann::json& json, const Metrics& metrics) {
  json = {{"loss", metrics.loss}};
  put(json, "bits_per_byte", metrics.bits_per_byte);
  put(json, "accuracy", metrics.accuracy);
  put(json, "word_perplexity", metrics.word_perplexity);
}

void from_json(const nlohmann::json& json, Metrics& metrics) {
  metrics = {json.at("loss").get<double>(), get(json, "bits_per_byte"), get(json, "accuracy"),
             get(json, "word_perplexity")};
}

}  // namespace gma::app
