// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma info.

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli.h"
#include "gma/version.h"
#include "infer/saved_model.h"

namespace gma::app {
namespace {

using nlohmann::ordered_json;

struct InfoCommand {
  CLI::App* app = nullptr;
  std::string checkpoint;
  bool json = false;
};

ordered_json program_info() {
  return {{"gma", version()},
          {"instruction_set", instruction_set()},
          {"threads", at::get_num_threads()},
          {"torch", TORCH_VERSION},
          {"mixers", gma_torch::nn::mixer_names()}};
}

/// Only a model that can be made of it is one.
void check_weights(const SavedModel& saved) {
  if (saved.task == Task::lm) {
    make_lm(saved);
  } else {
    make_classifier(saved);
  }
}

ordered_json checkpoint_info(const std::string& path) {
  const std::filesystem::path file = find_checkpoint(path, {kBestCheckpoint, kLastCheckpoint});
  const gma_torch::nn::Checkpoint checkpoint = open_checkpoint(file);
  const SavedModel saved = load_model(file);
  check_weights(saved);
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : saved.weights) parameters += tensor.numel();
  ordered_json tensors = ordered_json::object();
  for (const auto& [name, tensor] : checkpoint.tensors) {
    tensors[name] = {{"dtype", c10::toString(tensor.scalar_type())},
                     {"shape", tensor.sizes().vec()}};
  }
  const auto writer = checkpoint.metadata.find("gma_version");
  return {{"path", file.string()},
          {"task", name_of(saved.task)},
          {"written_by", writer == checkpoint.metadata.end() ? "unknown" : writer->second},
          {"tokenizer", saved.tokenizer->kind()},
          {"parameters", parameters},
          {"resumable", is_resumable(checkpoint)},
          {"progress", saved.progress},
          {"model_config", ordered_json::parse(saved.config.to_json())},
          {"training_config", saved.training_config},
          {"tensors", std::move(tensors)}};
}

/// One "name value" line a leaf.
void print_lines(const ordered_json& json, const std::string& prefix = {}) {
  for (const auto& [key, value] : json.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object() && !value.contains("dtype")) {
      print_lines(value, name);
    } else if (value.is_object()) {
      fmt::print("{:<56} {} {}\n", name, value.at("dtype").get<std::string>(),
                 value.at("shape").dump());
    } else {
      fmt::print("{:<48} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

void run(const InfoCommand& command) {
  ordered_json info = program_info();
  if (!command.checkpoint.empty()) info["checkpoint"] = checkpoint_info(command.checkpoint);
  if (command.json) {
    fmt::print("{}\n", info.dump());
  } else {
    print_lines(info);
  }
}

}  // namespace

void add_info_command(CLI::App& root) {
  auto command = std::make_shared<InfoCommand>();
  CLI::App* app = command->app =
      root.add_subcommand("info", "Say what this program runs on, and what a checkpoint holds");
  app->add_option("checkpoint", command->checkpoint,
                  "Checkpoint, or folder of a run (its best model)")
      ->type_name("PATH");
  app->add_flag("--json", command->json, "Print one JSON object");
  app->footer("Example: gma info runs/lm");
  app->callback([command] { run(*command); });
}

}  // namespace gma::app
