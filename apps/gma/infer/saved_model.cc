// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "infer/saved_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "gma/error.h"
#include "gma/version.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;
using gma_torch::nn::Checkpoint;
using gma_torch::nn::ModelConfig;

constexpr const char* kFormat = "gma-checkpoint";
constexpr const char* kFormatVersion = "1";
constexpr const char* kTokenizerModel = "tokenizer.model";

const std::string& field(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.metadata.find(name);
  if (found == checkpoint.metadata.end()) {
    throw InvalidArgument(fmt::format("the metadata lacks '{}'", name));
  }
  return found->second;
}

nlohmann::json json_field(const Checkpoint& checkpoint, const std::string& name) {
  auto json = nlohmann::json::parse(field(checkpoint, name), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw InvalidArgument(fmt::format("metadata '{}' is not JSON", name));
  return json;
}

Task task_field(const Checkpoint& checkpoint) {
  const std::string& name = field(checkpoint, "task");
  for (const Task task : {Task::lm, Task::classify}) {
    if (name == name_of(task)) return task;
  }
  throw InvalidArgument(fmt::format("unknown task '{}'", name));
}

std::shared_ptr<const Tokenizer> tokenizer_of(const Checkpoint& checkpoint) {
  std::string model;
  if (const auto found = checkpoint.tensors.find(kTokenizerModel);
      found != checkpoint.tensors.end()) {
    const torch::Tensor bytes = found->second.contiguous();
    if (bytes.scalar_type() != torch::kUInt8) {
      throw InvalidArgument(fmt::format("tensor '{}' is not uint8", kTokenizerModel));
    }
    model.assign(static_cast<const char*>(bytes.const_data_ptr()),
                 static_cast<std::size_t>(bytes.numel()));
  }
  return load_tokenizer(field(checkpoint, "tokenizer"), model);
}

/// A config may not ask for more memory than the file has weights to fill.
void check_plausible(const ModelConfig& config,
                     const std::map<std::string, torch::Tensor>& weights) {
  std::int64_t numel = 0;
  for (const auto& [name, tensor] : weights) numel += tensor.numel();
  const auto exceeds = [&](std::int64_t rows, std::int64_t columns) {
    return rows > numel || columns > numel || rows > numel / std::max<std::int64_t>(columns, 1);
  };
  const std::int64_t hidden = config.mixer_config.hidden_size;
  const std::int64_t head_size = hidden / std::max<std::int64_t>(config.mixer_config.num_heads, 1);
  // Weights of every position.
  const std::int64_t length_size =
      std::max(config.learned_positions ? hidden : 1,
               config.mixer == "linformer" ? config.mixer_config.projection_rank : 1);
  if (exceeds(config.vocab_size, hidden) || exceeds(config.num_layers, hidden) ||
      exceeds(config.mlp_size, hidden) || exceeds(config.max_length, length_size) ||
      exceeds(config.num_classes, hidden) || exceeds(config.mixer_config.num_components, 1) ||
      exceeds(config.mixer_config.short_conv_width, 1) ||
      (config.mixer == "performer" && exceeds(config.mixer_config.num_features, head_size))) {
    throw InvalidArgument("the model config describes a larger model than the file holds");
  }
}

template <class Model>
Model build(const SavedModel& saved, Task task) {
  if (saved.task != task) {
    throw InvalidArgument(fmt::format("{}: holds a model for '{}', expected one for '{}'",
                                      saved.file, name_of(saved.task), name_of(task)));
  }
  try {
    Model model(saved.config);
    gma_torch::nn::load_state_dict(*model, saved.weights);
    model->eval();
    return model;
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", saved.file, error.what()));
  }
}

}  // namespace

const char* name_of(Task task) { return task == Task::lm ? "lm" : "classify"; }

std::map<std::string, torch::Tensor> with_prefix(const Checkpoint& checkpoint,
                                                 std::string_view prefix) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with(prefix)) tensors.emplace(name.substr(prefix.size()), tensor);
  }
  return tensors;
}

void add_with_prefix(const std::map<std::string, torch::Tensor>& tensors, std::string_view prefix,
                     Checkpoint& checkpoint) {
  for (const auto& [name, tensor] : tensors) {
    checkpoint.tensors.insert_or_assign(fmt::format("{}{}", prefix, name), tensor);
  }
}

fs::path find_checkpoint(const fs::path& path, std::initializer_list<std::string_view> names) {
  if (!fs::exists(path)) throw InvalidArgument(fmt::format("{}: no such file", path.string()));
  if (!fs::is_directory(path)) return path;
  for (const std::string_view name : names) {
    if (fs::exists(path / name)) return path / name;
  }
  throw InvalidArgument(
      fmt::format("{}: the folder holds no {}", path.string(), fmt::join(names, " or ")));
}

Checkpoint open_checkpoint(const fs::path& path) {
  Checkpoint checkpoint;
  try {
    checkpoint = gma_torch::nn::load_checkpoint(path);
  } catch (const IoError& error) {
    throw InvalidArgument(error.what());
  }
  if (const auto format = checkpoint.metadata.find("format");
      format == checkpoint.metadata.end() || format->second != kFormat) {
    throw InvalidArgument(
        fmt::format("{}: a safetensors file, but not a checkpoint of gma", path.string()));
  }
  if (const auto version = checkpoint.metadata.find("format_version");
      version == checkpoint.metadata.end() || version->second != kFormatVersion) {
    throw InvalidArgument(fmt::format(
        "{}: expected a checkpoint of format version {}, got {}", path.string(), kFormatVersion,
        version == checkpoint.metadata.end() ? "none" : version->second));
  }
  return checkpoint;
}

Checkpoint to_checkpoint(const SavedModel& model) {
  Checkpoint checkpoint;
  add_with_prefix(model.weights, "model.", checkpoint);
  if (std::string bytes = model.tokenizer->model(); !bytes.empty()) {
    torch::Tensor tensor = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
    std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    checkpoint.tensors.emplace(kTokenizerModel, std::move(tensor));
  }
  checkpoint.metadata = {{"format", kFormat},
                         {"format_version", kFormatVersion},
                         {"gma_version", version()},
                         {"task", name_of(model.task)},
                         {"tokenizer", model.tokenizer->kind()},
                         {"model_config", model.config.to_json()},
                         {"training_config", model.training_config.dump()},
                         {"progress", model.progress.dump()}};
  return checkpoint;
}

SavedModel from_checkpoint(const Checkpoint& checkpoint) {
  SavedModel saved;
  saved.task = task_field(checkpoint);
  saved.config = ModelConfig::from_json(field(checkpoint, "model_config"));
  saved.config.validate();
  saved.tokenizer = tokenizer_of(checkpoint);
  saved.training_config = json_field(checkpoint, "training_config");
  saved.progress = json_field(checkpoint, "progress");
  saved.weights = with_prefix(checkpoint, "model.");
  if (saved.tokenizer->vocab_size() != saved.config.vocab_size) {
    throw InvalidArgument(fmt::format("the model has a vocabulary of {}, its tokenizer one of {}",
                                      saved.config.vocab_size, saved.tokenizer->vocab_size()));
  }
  check_plausible(saved.config, saved.weights);
  return saved;
}

bool is_resumable(const Checkpoint& checkpoint) {
  return checkpoint.tensors.contains(kGeneratorTensor);
}

SavedModel load_model(const fs::path& path) {
  const fs::path file = find_checkpoint(path, {kBestCheckpoint, kLastCheckpoint});
  const Checkpoint checkpoint = open_checkpoint(file);
  try {
    SavedModel saved = from_checkpoint(checkpoint);
    saved.file = file.string();
    return saved;
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", file.string(), error.what()));
  }
}

gma_torch::nn::CausalLm make_lm(const SavedModel& saved) {
  return build<gma_torch::nn::CausalLm>(saved, Task::lm);
}

gma_torch::nn::SequenceClassifier make_classifier(const SavedModel& saved) {
  return build<gma_torch::nn::SequenceClassifier>(saved, Task::classify);
}

}  // namespace gma::app
