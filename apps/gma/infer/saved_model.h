// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint of this program holds, and how a model comes back out of it.
//
// Tensors: model.* (weights), tokenizer.model (uint8, SentencePiece only) and, where a run can go
// on from it, optimizer.* and rng.cpu. Metadata: format, format_version, gma_version, task,
// tokenizer, and as JSON text model_config, training_config and progress.
#pragma once

#include <gma_torch/nn/checkpoint.h>
#include <gma_torch/nn/models.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "data/tokenizer.h"

namespace gma::app {

enum class Task { lm, classify };

const char* name_of(Task task);

inline constexpr std::string_view kBestCheckpoint = "best.safetensors";
inline constexpr std::string_view kLastCheckpoint = "last.safetensors";

struct SavedModel {
  Task task = Task::lm;
  gma_torch::nn::ModelConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  nlohmann::json training_config;  ///< options of `gma train` by name
  nlohmann::json progress;         ///< step, metrics
  std::map<std::string, torch::Tensor> weights;
  std::string file = "the checkpoint";  ///< its name in errors
};

/// The tensors of `checkpoint` whose names start with `prefix`, without it.
std::map<std::string, torch::Tensor> with_prefix(const gma_torch::nn::Checkpoint& checkpoint,
                                                 std::string_view prefix);
/// Adds tensors under `prefix`.
void add_with_prefix(const std::map<std::string, torch::Tensor>& tensors, std::string_view prefix,
                     gma_torch::nn::Checkpoint& checkpoint);

/// The file that `path` means: itself, or in a folder the first of `names` that exists. Throws
/// InvalidArgument if there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& path,
                                      std::initializer_list<std::string_view> names);

/// Reads a file; throws InvalidArgument with the reason if it is not a sound checkpoint of this
/// program.
gma_torch::nn::Checkpoint open_checkpoint(const std::filesystem::path& path);

gma_torch::nn::Checkpoint to_checkpoint(const SavedModel& model);
/// Throws InvalidArgument for anything missing or contradictory.
SavedModel from_checkpoint(const gma_torch::nn::Checkpoint& checkpoint);

/// Whether a run can go on from it: the generator's state tells one with optimizer from one
/// without.
bool is_resumable(const gma_torch::nn::Checkpoint& checkpoint);
inline constexpr const char* kGeneratorTensor = "rng.cpu";
inline constexpr std::string_view kOptimizerPrefix = "optimizer.";

/// find_checkpoint() (the best one), open_checkpoint() and from_checkpoint().
SavedModel load_model(const std::filesystem::path& path);

/// The model with its weights, in evaluation mode. Throws InvalidArgument for the other task, and
/// where the weights do not fit the config.
gma_torch::nn::CausalLm make_lm(const SavedModel& saved);
gma_torch::nn::SequenceClassifier make_classifier(const SavedModel& saved);

}  // namespace gma::app
