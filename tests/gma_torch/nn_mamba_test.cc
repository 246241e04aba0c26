// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gma_torch/nn/mamba.h"
#include "gma_torch/nn/models.h"
#include "nn_support.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

MixerConfig mamba_config(std::int64_t hidden_size, bool is_causal) {
  MixerConfig config;
  config.hidden_size = hidden_size;
  config.is_causal = is_causal;
  return config;
}

/// One direction of the layer from its equations, a token at a time. x (B, T, E).
Tensor scan_of(const Tensor& x, const torch::OrderedDict<std::string, Tensor>& parameters,
               const std::string& prefix) {
  const auto parameter = [&](const std::string& name) { return parameters[prefix + "." + name]; };
  const Tensor weight = parameter("conv.weight"), a = -parameter("a_log").exp();
  const std::int64_t width = weight.size(1), states = a.size(1),
                     rank = parameter("dt_proj").size(1);
  const Tensor padded = torch::constant_pad_nd(x, {0, 0, width - 1, 0});
  Tensor h = torch::zeros({x.size(0), x.size(2), states}, x.options());
  std::vector<Tensor> rows;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const Tensor convolved = (padded.narrow(1, t, width) * weight.t()).sum(1);
    const Tensor u = torch::silu(convolved + parameter("conv.bias"));
    const Tensor selection = torch::matmul(u, parameter("x_proj").t());
    const Tensor dt = torch::matmul(selection.narrow(1, 0, rank), parameter("dt_proj").t());
    const Tensor delta = torch::log1p(torch::exp(dt + parameter("dt_bias"))).unsqueeze(-1);
    const Tensor b = selection.narrow(1, rank, states).unsqueeze(1);
    const Tensor c = selection.narrow(1, rank + states, states).unsqueeze(1);
    h = torch::exp(delta * a) * h + delta * b * u.unsqueeze(-1);
    rows.push_back((h * c).sum(-1) + parameter("d") * u);
  }
  return torch::stack(rows, 1);
}

TEST(Mamba, ComputesItsEquations) {
  for (const bool is_causal : {true, false}) {
    torch::manual_seed(7);
    Mamba mamba(mamba_config(24, is_causal));
    mamba->to(torch::kFloat64);
    const auto parameters = mamba->named_parameters();
    const Tensor tokens = torch::randn({2, 19, 24}, torch::kFloat64);
    const auto xz = torch::matmul(tokens, parameters["in_proj"].t()).chunk(2, -1);
    Tensor mixed = scan_of(xz[0], parameters, "scan");
    if (!is_causal) mixed = mixed + scan_of(xz[0].flip(1), parameters, "reverse_scan").flip(1);
    const Tensor gated = mixed * xz[1] * torch::sigmoid(xz[1]);
    const Tensor expected = torch::matmul(gated, parameters["o_proj.weight"].t());
    EXPECT_TRUE(near(mamba->forward(tokens), expected, kDoubleTolerance)) << is_causal;
  }
}

TEST(Mamba, HasTheParametersOfAnAttentionLayer) {
  for (const bool is_causal : {true, false}) {
    for (const std::int64_t hidden : {24, 32, 64, 104, 128, 256, 384, 512}) {
      const auto attention = static_cast<double>(4 * hidden * hidden);
      const auto count =
          static_cast<double>(count_parameters(*Mamba(mamba_config(hidden, is_causal))));
      EXPECT_NEAR(count / attention, 1.0, 0.05) << hidden << (is_causal ? " causal" : "");
    }
  }
  EXPECT_EQ(MambaSizes(mamba_config(128, true)).inner, 144);
  MixerConfig config = mamba_config(64, true);
  config.inner_size = 128;
  config.state_size = 5;
  config.dt_rank = 3;
  const auto parameters = Mamba(config)->named_parameters();
  EXPECT_EQ(parameters["in_proj"].sizes(), torch::IntArrayRef({256, 64}));
  EXPECT_EQ(parameters["scan.x_proj"].sizes(), torch::IntArrayRef({13, 128}));
  EXPECT_EQ(parameters["scan.dt_proj"].sizes(), torch::IntArrayRef({128, 3}));
  EXPECT_EQ(parameters["scan.a_log"].sizes(), torch::IntArrayRef({128, 5}));
}

TEST(Mamba, StartsAsItsAuthorsLetItAlsoInsideAModel) {
  ModelConfig config;
  config.mixer = "mamba";
  config.mixer_config = mamba_config(128, true);
  CausalLm model(config);
  const auto parameters = model->named_parameters();
  const std::string scan = "transformer.blocks.1.mixer.scan.";
  const Tensor dt = torch::softplus(parameters[scan + "dt_bias"]);
  EXPECT_GE(dt.min().item<double>(), 0.99e-3);
  EXPECT_LE(dt.max().item<double>(), 1.01e-1);
  EXPECT_NEAR(dt.log().mean().item<double>(), std::log(1e-2), 0.5);
  EXPECT_TRUE(near(parameters[scan + "a_log"].exp()[3], torch::arange(1, 17, torch::kFloat32),
                   kFloatTolerance));
  EXPECT_TRUE(torch::equal(parameters[scan + "d"], torch::ones({144})));
  const auto largest = [&](const std::string& name) {
    return parameters[name].abs().max().item<double>();
  };
  EXPECT_NEAR(largest(scan + "dt_proj"), 1 / std::sqrt(8.0), 0.01);
  EXPECT_NEAR(largest("transformer.blocks.1.mixer.in_proj"), 1 / std::sqrt(128.0), 0.001);
}

TEST(Mamba, ItsStateDoesNotGrow) {
  Mamba mamba(mamba_config(24, true));
  const torch::NoGradGuard no_grad;
  MixerState state = mamba->initial_state(2);
  const MixerState before = state;
  mamba->forward(torch::randn({2, 90, 24}), std::nullopt, &state);
  ASSERT_EQ(state.tensors.size(), before.tensors.size());
  for (const auto& [name, tensor] : before.tensors) {
    EXPECT_EQ(state.at(name).sizes(), tensor.sizes()) << name;
  }
}

TEST(Mamba, ParametersOfTheScanStayInFloatAndAreNotDecayed) {
  Mamba mamba(mamba_config(24, false));
  EXPECT_EQ(mamba->no_decay_parameters().size(), 6U);
  const auto parameters = mamba->named_parameters();
  const Tensor a_log = parameters["scan.a_log"].detach().clone();
  const Tensor tokens = torch::randn({1, 30, 24});
  const Tensor expected = mamba->forward(tokens);
  mamba->to(torch::kBFloat16);
  EXPECT_EQ(parameters["in_proj"].scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(parameters["reverse_scan.a_log"], a_log));
  const Tensor narrow = mamba->forward(tokens.to(torch::kBFloat16));
  EXPECT_EQ(narrow.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(near(narrow.to(torch::kFloat32), expected, 3e-2));
  mamba->to(torch::kFloat64);
  EXPECT_EQ(parameters["scan.a_log"].scalar_type(), torch::kFloat64);

  const auto [decayed, plain] = parameter_groups(*mamba);
  for (const Tensor& parameter : decayed) EXPECT_FALSE(parameter.is_same(parameters["scan.a_log"]));
}

TEST(Mamba, RefusesWhatItCannotHonour) {
  const auto with = [](auto change) {
    return [change] {
      MixerConfig config = mamba_config(24, true);
      change(config);
      make_mixer("mamba", config);
    };
  };
  EXPECT_TRUE(refuses(with([](auto& c) { c.state_size = 0; }), "state_size must be positive"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.inner_size = -1; }), "inner_size must be at least 0"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.dt_rank = -1; }), "dt_rank must be at least 0"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.attention_dropout = 0.1; }),
                      "attention_dropout must be 0 for mamba"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.num_key_value_heads = 2; }),
                      "num_key_value_heads must be 0 for mamba"));
}

}  // namespace
}  // namespace gma_torch::nn
