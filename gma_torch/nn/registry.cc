// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>

#include "gma/error.h"
#include "gma_torch/nn/gaussian_mixture_attention.h"
#include "gma_torch/nn/linear_transformer.h"
#include "gma_torch/nn/linformer.h"
#include "gma_torch/nn/mamba.h"
#include "gma_torch/nn/mixer.h"
#include "gma_torch/nn/performer.h"
#include "gma_torch/nn/softmax_attention.h"

namespace gma_torch::nn {
namespace {

using Factory = std::function<std::shared_ptr<Mixer>(const MixerConfig&)>;

template <class Impl>
Factory factory() {
  return [](const MixerConfig& config) { return std::make_shared<Impl>(config); };
}

const std::map<std::string, Factory>& registry() {
  static const std::map<std::string, Factory> mixers{
      {"gma", factory<GaussianMixtureAttentionImpl>()},
      {"linear", factory<LinearTransformerImpl>()},
      {"linformer", factory<LinformerImpl>()},
      {"performer", factory<PerformerImpl>()},
      {"mamba", factory<MambaImpl>()},
      {"softmax", factory<SoftmaxAttentionImpl>()},
  };
  return mixers;
}

}  // namespace

std::shared_ptr<Mixer> make_mixer(const std::string& name, const MixerConfig& config) {
  const auto found = registry().find(name);
  if (found == registry().end()) {
    throw gma::InvalidArgument(
        fmt::format("mixer must be one of {}, got '{}'", fmt::join(mixer_names(), ", "), name));
  }
  return found->second(config);
}

std::vector<std::string> mixer_names() {
  std::vector<std::string> names;
  for (const auto& entry : registry()) names.push_back(entry.first);
  return names;
}

}  // namespace gma_torch::nn
