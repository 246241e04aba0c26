// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Everything that a training run may be told. Each option is listed once, in visit_options():
// flags, config files, --help and the record inside a checkpoint are all made from that list.
#pragma once

#include <gma_torch/nn/models.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "infer/saved_model.h"
#include "train/range.h"

namespace gma::app {

struct TrainConfig {
  Task task = Task::lm;

  std::vector<std::string> data, valid_data, test_data;
  bool test = true;
  double valid_fraction = 0.05;
  std::string tokenizer = "bytes";
  std::int64_t vocab_size = 2048;
  std::string tokenizer_model;

  std::string mixer = "gma";
  std::int64_t layers = 4;
  std::int64_t hidden_size = 128;
  std::int64_t heads = 4;
  std::int64_t key_value_heads = 0;
  std::int64_t components = 64;
  std::int64_t mlp_size = 0;
  std::int64_t parameters = 0;
  std::int64_t context = 256;
  bool use_short_conv = true;
  std::int64_t short_conv_width = 4;
  bool rotary = true;
  double rotary_base = 10000.0;
  bool learned_positions = false;
  bool sinusoidal_positions = false;
  std::string pooling = "mean";
  bool tie_embeddings = true;
  std::string covariance_type = "diag";
  std::string initial_means = "normal";
  double initial_variance = 0.0;
  double variance_floor = 1e-4;
  std::int64_t num_features = 0;
  std::int64_t feature_redraw_interval = 0;
  std::int64_t projection_rank = 16;
  std::int64_t state_size = 16;
  std::int64_t inner_size = 0;
  std::int64_t dt_rank = 0;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  std::int64_t num_classes = 0;

  std::int64_t steps = 1000;
  double max_minutes = 0.0;
  std::int64_t batch_size = 16;
  std::int64_t grad_accum = 1;
  double lr = 2e-3;
  double min_lr = 1e-4;
  std::int64_t warmup = 50;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.98;
  double clip = 1.0;
  double mixture_lr_scale = 1.0;
  std::int64_t seed = 1;

  std::int64_t valid_every = 250;
  std::int64_t valid_tokens = 65536;
  std::int64_t save_every = 250;
  std::int64_t log_every = 10;
  std::int64_t patience = 0;
  std::int64_t threads = 0;
  std::string out;
};

/// What a visitor is told about an option beside its name and its field.
struct OptionInfo {
  const char* group;
  const char* help;
  Range range = {};
  /// Whether a resumed run may change it: the shape of the model and what it reads are fixed.
  bool may_change = true;
};

/// Calls visitor(name, field, info) for every option of config.task, in the order of --help.
template <class Config, class Visitor>
void visit_options(Config& config, Visitor&& visitor);

/// One key an option, under the option's name.
nlohmann::json to_json(const TrainConfig& config);
/// Throws InvalidArgument for a missing key, or a value of another type or out of its range.
TrainConfig train_config_from_json(Task task, const nlohmann::json& json);

/// What the flags call the fields of ModelConfig; vocab_size and num_classes come with the data.
/// With config.parameters, mlp_size is what comes nearest to that count. Throws InvalidArgument if
/// the rest of the model alone has more.
gma_torch::nn::ModelConfig model_config(const TrainConfig& config, std::int64_t vocab_size,
                                        std::int64_t num_classes);

}  // namespace gma::app

#include "train/config_options.h"  // IWYU pragma: export
