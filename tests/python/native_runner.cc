// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What the Python tests compare with, from C++:
//   native_runner logits CHECKPOINT TOKENS OUT   the logits of a model of gma_torch/nn
//   native_runner package PT2 INPUTS OUT         an AOTInductor package, with the operators loaded
// TOKENS, INPUTS and OUT are files of torch.save and torch::pickle_save: a tensor, or a list of
// them.
#include <gma_torch/nn/checkpoint.h>
#include <gma_torch/nn/models.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

namespace nn = gma_torch::nn;

torch::Tensor read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return torch::pickle_load({std::istreambuf_iterator<char>(file), {}}).toTensor();
}

void write(const std::string& path, const torch::Tensor& tensor) {
  const std::vector<char> bytes = torch::pickle_save(tensor);
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

template <class Model, class Run>
torch::Tensor run_model(const nn::Checkpoint& checkpoint, const Run& run) {
  const std::string prefix = "model.";
  std::map<std::string, torch::Tensor> weights;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with(prefix)) weights.emplace(name.substr(prefix.size()), tensor);
  }
  Model model(nn::ModelConfig::from_json(checkpoint.metadata.at("model_config")));
  nn::load_state_dict(*model, weights);
  model->eval();
  return run(model);
}

torch::Tensor logits(const std::string& path, const torch::Tensor& tokens) {
  const nn::Checkpoint checkpoint = nn::load_checkpoint(path);
  const auto run = [&](auto& model) { return model->forward(tokens); };
  return checkpoint.metadata.at("task") == "lm"
             ? run_model<nn::CausalLm>(checkpoint, run)
             : run_model<nn::SequenceClassifier>(checkpoint, run);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 4) return 2;
  const torch::InferenceMode inference;
  if (arguments[0] == "logits") {
    write(arguments[3], logits(arguments[1], read(arguments[2])));
  } else {
    torch::inductor::AOTIModelPackageLoader loader(arguments[1]);
    write(arguments[3], loader.run({read(arguments[2])}).at(0));
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "native_runner: %s\n", error.what());
  return 1;
}
