// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <string>

namespace gma_torch::nn {

/// Named tensors and free-form strings: what a safetensors file holds.
struct Checkpoint {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads a whole file; throws gma::IoError with the reason if it is not a sound safetensors file.
Checkpoint load_checkpoint(const std::filesystem::path& path);

/// Writes to a temporary name and renames (gma::write_safetensors).
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

/// Every parameter and buffer by name, shared ones once, detached.
std::map<std::string, torch::Tensor> state_dict(const torch::nn::Module& module);

/// Copies `tensors` into the parameters and buffers of `module`. Nothing is written unless all
/// names, shapes and dtypes agree; throws gma::InvalidArgument naming the first that does not.
void load_state_dict(torch::nn::Module& module,
                     const std::map<std::string, torch::Tensor>& tensors);

}  // namespace gma_torch::nn
