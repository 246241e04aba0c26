// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "option_checks.h"

#include <fmt/format.h>

#include "data/utf8.h"
#include "gma/error.h"

namespace gma::app {
namespace {

template <class... Args>
void check(bool is_good, fmt::format_string<Args...> message, Args&&... args) {
  if (!is_good) throw InvalidArgument(fmt::format(message, std::forward<Args>(args)...));
}

/// What a run writes down about itself is JSON, so the names of its files must be UTF-8.
void check_text(const char* what, std::string_view text) {
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(utf8_length(rest))) {
    check(utf8_length(rest) > 0, "{}: expected UTF-8, got byte 0x{:02x} at its place {}", what,
          static_cast<unsigned char>(rest.front()), text.size() - rest.size());
  }
}

}  // namespace

void check_options(const OptionBinder& options, const TrainConfig& config) {
  check(!config.data.empty(), "--data is required");
  for (const auto* paths : {&config.data, &config.valid_data, &config.test_data}) {
    for (const std::string& path : *paths) check_text("a path of data", path);
  }
  check_text("--out", config.out);
  check_text("--tokenizer-model", config.tokenizer_model);
  check(config.hidden_size % config.heads == 0,
        "--heads {}: expected a divisor of --hidden-size, {}", config.heads, config.hidden_size);
  check(config.key_value_heads == 0 || config.heads % config.key_value_heads == 0,
        "--key-value-heads {}: expected 0 or a divisor of --heads, {}", config.key_value_heads,
        config.heads);
  check(!config.rotary || config.hidden_size / config.heads % 2 == 0,
        "--heads {}: --rotary expects heads of an even size, got {} (--hidden-size {})",
        config.heads, config.hidden_size / config.heads, config.hidden_size);
  check(config.initial_variance == 0.0 || config.initial_variance > config.variance_floor,
        "--initial-variance {}: expected 0 or more than --variance-floor, {}",
        config.initial_variance, config.variance_floor);
  check(config.tokenizer_model.empty() || config.tokenizer == "sentencepiece" ||
            !options.is_given("tokenizer"),
        "--tokenizer {}: expected sentencepiece with --tokenizer-model", config.tokenizer);
  check(config.parameters == 0 || config.mlp_size == 0,
        "--parameters {}: expected no --mlp-size beside it, got {}", config.parameters,
        config.mlp_size);
  check(config.tokenizer != "listops" || !config.valid_data.empty(),
        "--tokenizer listops: expected --valid-data with it");
  check(!options.is_given("min-lr") || config.min_lr <= config.lr,
        "--min-lr {}: expected at most --lr, {}", config.min_lr, config.lr);
  check(config.mixer != "linformer" || config.task != Task::lm,
        "--mixer linformer: expected a causal mixer for a language model: its projections sum keys "
        "of all positions, later ones too");
  if (config.mixer == "mamba") {
    check(
        config.attention_dropout == 0.0,
        "--attention-dropout {}: expected 0 with --mixer mamba, which has no affinity to drop from",
        config.attention_dropout);
    check(config.key_value_heads == 0 || config.key_value_heads == config.heads,
          "--key-value-heads {}: expected 0 with --mixer mamba, which has no heads",
          config.key_value_heads);
  }
  // Before any data is read: what the data adds, vocabulary and classes, is known to be usable.
  TrainConfig of_any_size = config;
  of_any_size.parameters = 0;
  model_config(of_any_size, /*vocab_size=*/256, config.task == Task::lm ? 0 : 2).validate();
}

std::vector<std::string> notes_on_options(const OptionBinder& options, const TrainConfig& config) {
  std::vector<std::string> notes;
  const auto note_if = [&](bool has_no_effect, const char* option, const std::string& beside) {
    if (has_no_effect && options.is_given(option)) {
      notes.push_back(fmt::format("note: --{} has no effect with {}", option, beside));
    }
  };
  const bool is_gma = config.mixer == "gma", is_mamba = config.mixer == "mamba";
  const std::string mixer = "--mixer " + config.mixer;
  for (const char* option :
       {"components", "covariance-type", "initial-means", "initial-variance", "variance-floor"}) {
    note_if(!is_gma, option, mixer);
  }
  for (const char* option : {"num-features", "feature-redraw-interval"}) {
    note_if(config.mixer != "performer", option, mixer);
  }
  note_if(config.mixer != "linformer", "projection-rank", mixer);
  note_if(!is_gma && !is_mamba, "mixture-lr-scale", mixer);
  for (const char* option : {"state-size", "inner-size", "dt-rank"}) {
    note_if(!is_mamba, option, mixer);
  }
  for (const char* option : {"heads", "use-short-conv", "rotary", "rotary-base"}) {
    note_if(is_mamba, option, mixer);
  }
  note_if(!config.use_short_conv && !is_mamba, "short-conv-width", "--no-use-short-conv");
  note_if(!config.rotary && !is_mamba, "rotary-base", "--no-rotary");
  if (config.task == Task::classify) {
    note_if(true, "tie-embeddings", "a classifier, whose outputs are classes");
    note_if(config.tokenizer == "listops", "num-classes", "--tokenizer listops, which has ten");
  }
  note_if(!config.valid_data.empty(), "valid-fraction", "--valid-data");
  if (!config.tokenizer_model.empty()) {
    note_if(true, "vocab-size", "--tokenizer-model");
  } else {
    note_if(config.tokenizer != "sentencepiece", "vocab-size", "--tokenizer " + config.tokenizer);
  }
  return notes;
}

}  // namespace gma::app
