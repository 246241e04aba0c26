// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Linear Transformer, Performer and Linformer: what is particular to each, against plain ATen. What
// they share with every mixer is tested in nn_mixer_test.cc.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gma_torch/nn/checkpoint.h"
#include "gma_torch/nn/linear_transformer.h"
#include "gma_torch/nn/linformer.h"
#include "gma_torch/nn/performer.h"
#include "gma_torch/nn/softmax_attention.h"
#include "nn_support.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

MixerConfig baseline_config() {
  MixerConfig config;
  config.hidden_size = 32;
  config.num_heads = 4;
  config.num_key_value_heads = 2;
  config.use_rotary = false;
  return config;
}

template <class Mixer>
Mixer make_double(const MixerConfig& config, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  Mixer mixer(config);
  mixer->to(torch::kFloat64);
  return mixer;
}

Tensor tokens(std::int64_t batch, std::int64_t length) {
  return torch::randn({batch, length, 32}, torch::kFloat64);
}

/// The mixer's output from an explicit matrix of affinities, given by features of query and key
/// (B, H, T, D): normalised, masked, multiplied.
template <class Feature>
Tensor explicit_output(const torch::nn::Module& mixer, const MixerConfig& config, const Tensor& x,
                       const std::optional<Tensor>& mask, double eps, const Feature& feature) {
  const auto parameters = mixer.named_parameters();
  const auto heads = [&](const char* name, std::int64_t count) {
    return torch::linear(x, parameters[name])
        .unflatten(2, {count, config.head_size()})
        .transpose(1, 2)
        .repeat_interleave(config.num_heads / count, 1);
  };
  const std::int64_t key_heads = config.key_value_heads();
  const Tensor query = feature(heads("q_proj.weight", config.num_heads));
  const Tensor key = feature(heads("k_proj.weight", key_heads));
  Tensor affinity = torch::matmul(query, key.transpose(-2, -1));
  if (config.is_causal) affinity = affinity.tril();
  if (mask) affinity = affinity * mask->unsqueeze(1).unsqueeze(1);
  const Tensor output =
      torch::matmul(affinity, heads("v_proj.weight", key_heads)) / (affinity.sum(-1, true) + eps);
  return torch::linear(output.transpose(1, 2).flatten(2), parameters["o_proj.weight"]);
}

Tensor padding_mask() {
  const Tensor mask = torch::ones({2, 90}, torch::kBool);
  mask[0].narrow(0, 70, 20).fill_(false);
  mask[1].narrow(0, 0, 13).fill_(false);
  return mask;
}

// Outputs and the gradient of x, over kept tokens.
testing::AssertionResult agree(AttentionMixer& mixer, const Tensor& mask,
                               const std::function<Tensor(const Tensor&)>& plain) {
  Tensor x = tokens(2, 90).requires_grad_();
  const Tensor kept = mask.unsqueeze(-1);
  const auto gradient = [&](const Tensor& output) {
    return torch::autograd::grad({output.square().masked_fill(~kept, 0.0).sum()}, {x})[0];
  };
  const Tensor actual = mixer.forward(x, mask), expected = plain(x);
  if (auto same = near(actual.masked_fill(~kept, 0.0), expected.masked_fill(~kept, 0.0), 1e-11);
      !same) {
    return same << " (output)";
  }
  return near(gradient(actual), gradient(expected).masked_fill(~kept, 0.0), 1e-10);
}

TEST(LinearTransformer, EqualsTheExplicitAffinity) {
  for (const bool is_causal : {false, true}) {
    MixerConfig config = baseline_config();
    config.is_causal = is_causal;
    auto mixer = make_double<LinearTransformer>(config);
    const Tensor mask = padding_mask();
    EXPECT_TRUE(agree(*mixer, mask, [&](const Tensor& x) {
      return explicit_output(*mixer, config, x, mask, config.eps,
                             [](const Tensor& heads) { return torch::elu(heads) + 1; });
    })) << is_causal;
  }
}

TEST(LinearTransformer, KeepsSmallFeaturesApart) {
  MixerConfig config = baseline_config();
  config.num_key_value_heads = 0;
  config.eps = 0.0;
  LinearTransformer mixer(config);
  const torch::NoGradGuard no_grad;
  for (const auto& item : mixer->named_parameters()) item.value().copy_(torch::eye(32));
  // Every feature is exp(-30): one is lost beside 1 in float32.
  const Tensor x = torch::full({1, 5, 32}, -30.0);
  EXPECT_TRUE(near(mixer->forward(x), x, kFloatTolerance));
}

TEST(Performer, EqualsTheExplicitAffinityOfItsFeatures) {
  for (const bool is_causal : {false, true}) {
    MixerConfig config = baseline_config();
    config.is_causal = is_causal;
    config.num_features = 21;
    config.eps = 1e-30;  // it is measured against stabilised features: small enough not to show
    auto mixer = make_double<Performer>(config);
    const Tensor features = mixer->named_buffers()["features"];
    const Tensor mask = padding_mask();
    EXPECT_TRUE(agree(*mixer, mask, [&](const Tensor& x) {
      return explicit_output(*mixer, config, x, mask, config.eps, [&](const Tensor& heads) {
        const Tensor scaled = heads / std::pow(8.0, 0.25);
        return (torch::matmul(scaled, features.t()) - 0.5 * scaled.square().sum(-1, true)).exp();
      });
    })) << is_causal;
  }
}

TEST(Performer, ApproachesSoftmaxAsFeaturesGrow) {
  for (const bool is_causal : {false, true}) {
    MixerConfig config = baseline_config();
    config.is_causal = is_causal;
    auto softmax = make_double<SoftmaxAttention>(config);
    const Tensor x = tokens(2, 60);
    const torch::NoGradGuard no_grad;
    const Tensor expected = softmax->forward(x);
    // Root mean square over draws.
    const auto error = [&](std::int64_t num_features) {
      config.num_features = num_features;
      auto performer = make_double<Performer>(config);
      for (const auto& item : softmax->named_parameters()) {
        performer->named_parameters()[item.key()].copy_(item.value());
      }
      double sum = 0.0;
      constexpr int kDraws = 8;
      for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
        performer->redraw_features(seed);
        sum += (performer->forward(x) - expected).square().mean().item<double>();
      }
      return std::sqrt(sum / kDraws / expected.square().mean().item<double>());
    };
    const double few = error(16), some = error(256), many = error(4096);
    EXPECT_LT(some, few / 2) << few;
    EXPECT_LT(many, some / 2) << some;
    EXPECT_LT(many, 0.1);
  }
}

TEST(Performer, DrawsOrthogonalGaussianBlocks) {
  const Tensor features = orthogonal_gaussian(5 * 16 + 3, 16, 7);
  ASSERT_EQ(features.sizes(), torch::IntArrayRef({83, 16}));
  for (std::int64_t begin = 0; begin < 83; begin += 16) {
    const Tensor block = features.narrow(0, begin, std::min<std::int64_t>(16, 83 - begin));
    const Tensor products = torch::matmul(block, block.t());
    EXPECT_TRUE(near(products, torch::diag(products.diagonal()), 1e-12)) << begin;
  }
  EXPECT_TRUE(torch::equal(orthogonal_gaussian(83, 16, 7), features));
  EXPECT_FALSE(torch::equal(orthogonal_gaussian(83, 16, 8), features));

  // Mean squared norm and covariance of a Gaussian: D and the identity, to the error of 1,600 rows.
  const Tensor many = orthogonal_gaussian(1600, 16, 9);
  const Tensor norms = many.square().sum(-1);
  EXPECT_NEAR(norms.mean().item<double>(), 16.0, 0.6);
  EXPECT_NEAR(norms.var().item<double>(), 32.0, 6.0);
  EXPECT_TRUE(near(torch::matmul(many.t(), many) / 1600, torch::eye(16, torch::kFloat64), 0.15));
}

TEST(Performer, ChoosesItsNumberOfFeatures) {
  EXPECT_EQ(Performer(baseline_config())->named_buffers()["features"].sizes(),
            torch::IntArrayRef({17, 8}));  // 8 log(8) = 16.6
  MixerConfig config = baseline_config();
  config.num_heads = 32;
  EXPECT_EQ(Performer(config)->named_buffers()["features"].sizes(), torch::IntArrayRef({1, 1}));
  config.num_features = 5;
  EXPECT_EQ(Performer(config)->named_buffers()["features"].sizes(), torch::IntArrayRef({5, 1}));
}

// Training passes of a performer, and the features of each.
std::vector<Tensor> features_of_passes(Performer& performer, int count) {
  const Tensor x = torch::randn({1, 4, 32});
  std::vector<Tensor> features;
  for (int i = 0; i < count; ++i) {
    performer->forward(x);
    features.push_back(performer->named_buffers()["features"].clone());
  }
  return features;
}

TEST(Performer, RedrawsInTrainingAndResumesWithTheSameDraws) {
  MixerConfig config = baseline_config();
  config.feature_redraw_interval = 3;
  Performer performer(config);
  const auto first = features_of_passes(performer, 5);
  EXPECT_TRUE(torch::equal(first[0], first[2]));
  EXPECT_FALSE(torch::equal(first[2], first[3]));
  EXPECT_TRUE(torch::equal(first[3], first[4]));

  std::map<std::string, Tensor> saved;
  for (const auto& [name, tensor] : state_dict(*performer)) saved.emplace(name, tensor.clone());
  performer->eval();
  EXPECT_TRUE(torch::equal(features_of_passes(performer, 7).back(), first[4]));
  performer->train();
  {
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(torch::equal(features_of_passes(performer, 7).back(), first[4]));
  }
  const auto rest = features_of_passes(performer, 8);
  Performer resumed(config);
  load_state_dict(*resumed, saved);
  const auto again = features_of_passes(resumed, 8);
  for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_TRUE(torch::equal(again[i], rest[i])) << i;
  EXPECT_FALSE(torch::equal(rest.back(), rest.front()));

  config.feature_redraw_interval = 0;
  Performer constant(config);
  const auto never = features_of_passes(constant, 5);
  EXPECT_TRUE(torch::equal(never.front(), never.back()));
}

TEST(Performer, KeepsItsBuffersInEveryDtype) {
  Performer performer(baseline_config());
  const auto buffers = [&] { return performer->named_buffers(); };
  const Tensor features = buffers()["features"].clone();
  const Tensor seed = buffers()["feature_seed"].clone();
  performer->to(torch::kBFloat16);
  EXPECT_TRUE(torch::equal(buffers()["features"], features));
  EXPECT_TRUE(torch::equal(buffers()["feature_seed"], seed));
  const Tensor x = torch::randn({1, 9, 32});
  const Tensor narrow = performer->forward(x.to(torch::kBFloat16));
  EXPECT_EQ(narrow.scalar_type(), torch::kBFloat16);
  performer->to(torch::kFloat64);
  EXPECT_EQ(buffers()["features"].scalar_type(), torch::kFloat64);
  EXPECT_TRUE(near(narrow.to(torch::kFloat64), performer->forward(x.to(torch::kFloat64)), 0.05));
}

TEST(Performer, IsFiniteForLongQueriesAndKeys) {
  MixerConfig config = baseline_config();
  config.hidden_size = 256;
  config.num_heads = config.num_key_value_heads = 1;
  config.num_features = 8;
  Performer performer(config);
  {
    const torch::NoGradGuard no_grad;
    for (const auto& item : performer->named_parameters()) item.value().copy_(torch::eye(256));
  }
  // Each token is a multiple of a random vector: of its own length, where exponents are largest,
  // and of a thousand times that.
  const Tensor features = performer->named_buffers()["features"];
  Tensor x = torch::cat({4.0 * features, 4000.0 * features}).unsqueeze(0).requires_grad_();
  const Tensor output = performer->forward(x);
  EXPECT_TRUE(output.isfinite().all().item<bool>());
  output.square().sum().backward();
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

TEST(FeatureAttention, DropoutFollowsTheGeneratorAndStopsInEvaluation) {
  for (const char* name : {"linear", "performer"}) {
    MixerConfig config = baseline_config();
    config.attention_dropout = 0.4;
    torch::manual_seed(1);
    const auto mixer = make_mixer(name, config);
    const Tensor x = torch::randn({2, 16, 32});
    const auto run = [&](std::uint64_t seed) {
      torch::manual_seed(seed);
      return mixer->forward(x);
    };
    EXPECT_TRUE(torch::equal(run(5), run(5))) << name;
    EXPECT_FALSE(torch::equal(run(5), run(6))) << name;
    mixer->eval();
    EXPECT_TRUE(torch::equal(run(5), run(6))) << name;
  }
}

MixerConfig linformer_config() {
  MixerConfig config = baseline_config();
  config.max_length = 20;
  config.projection_rank = 5;
  return config;
}

TEST(Linformer, OfFullRankIsSoftmaxAttention) {
  MixerConfig config = linformer_config();
  config.use_rotary = true;
  config.projection_rank = config.max_length = 20;
  auto linformer = make_double<Linformer>(config);
  auto softmax = make_double<SoftmaxAttention>(config);
  {
    const torch::NoGradGuard no_grad;
    for (const auto& item : softmax->named_parameters()) {
      linformer->named_parameters()[item.key()].copy_(item.value());
    }
    linformer->named_parameters()["projection"].copy_(torch::eye(20));
  }
  Tensor x = tokens(2, 20).requires_grad_();
  const auto gradient = [&](const Tensor& output) {
    return torch::autograd::grad({output.square().sum()}, {x})[0];
  };
  const Tensor actual = linformer->forward(x), expected = softmax->forward(x);
  EXPECT_TRUE(near(actual, expected, 1e-12));
  EXPECT_TRUE(near(gradient(actual), gradient(expected), 1e-11));
}

TEST(Linformer, EqualsThePlainProjection) {
  const MixerConfig config = linformer_config();
  auto mixer = make_double<Linformer>(config);
  const Tensor x = tokens(2, 13);
  const auto parameters = mixer->named_parameters();
  const Tensor projection = parameters["projection"].narrow(0, 0, 13);
  const auto heads = [&](const char* name, std::int64_t count) {
    return torch::linear(x, parameters[name]).unflatten(2, {count, 8});
  };
  const auto projected = [&](const char* name) {
    return torch::einsum("bthd,tr->bhrd", {heads(name, 2), projection}).repeat_interleave(2, 1);
  };
  const Tensor query = heads("q_proj.weight", 4).transpose(1, 2);
  const Tensor weights = torch::softmax(
      torch::matmul(query, projected("k_proj.weight").transpose(-2, -1)) / std::sqrt(8.0), -1);
  const Tensor output = torch::matmul(weights, projected("v_proj.weight"));
  EXPECT_TRUE(near(mixer->forward(x),
                   torch::linear(output.transpose(1, 2).flatten(2), parameters["o_proj.weight"]),
                   1e-12));
}

// As for every mixer: NaN in padding on either side changes nothing.
TEST(Linformer, C13_PaddingOnEitherSideChangesNothing) {
  MixerConfig config = linformer_config();
  config.use_rotary = config.use_short_conv = true;
  auto mixer = make_double<Linformer>(config);
  Tensor x = tokens(1, 11).requires_grad_();
  const Tensor padding = torch::full({1, 4, 32}, NAN, torch::kFloat64);
  const Tensor both = torch::cat({torch::cat({padding, x}, 1), torch::cat({x, padding}, 1)});
  const Tensor mask = torch::ones({2, 15}, torch::kBool);
  mask[0].narrow(0, 0, 4).fill_(false);
  mask[1].narrow(0, 11, 4).fill_(false);

  const Tensor alone = mixer->forward(x)[0], padded = mixer->forward(both, mask);
  const Tensor in_front = padded[0].narrow(0, 4, 11), behind = padded[1].narrow(0, 0, 11);
  EXPECT_TRUE(near(in_front, alone, 1e-12));
  EXPECT_TRUE(near(behind, alone, 1e-12));
  const auto gradient = [&](const Tensor& output) {
    return torch::autograd::grad({output.square().sum()}, {x}, {}, /*retain_graph=*/true)[0];
  };
  EXPECT_TRUE(near(gradient(in_front), gradient(alone), 1e-11));
  in_front.square().sum().backward();
  for (const auto& item : mixer->named_parameters()) {
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0.0) << item.key();
  }
}

TEST(Linformer, CrossAttendsToAContext) {
  auto mixer = make_double<Linformer>(linformer_config());
  const Tensor x = tokens(2, 30), context = tokens(2, 13);
  EXPECT_EQ(mixer->forward_cross(x, context).sizes(), x.sizes());
  const Tensor mask = torch::ones({2, 13}, torch::kBool);
  mask.narrow(1, 9, 4).fill_(false);
  EXPECT_TRUE(near(mixer->forward_cross(x, context, mask),
                   mixer->forward_cross(x, context.narrow(1, 0, 9)), 1e-12));
}

TEST(Linformer, ClonesAreEqualAndIndependent) {
  auto mixer = make_double<Linformer>(linformer_config());
  const auto copy = std::dynamic_pointer_cast<Mixer>(mixer->clone());
  const torch::NoGradGuard no_grad;
  const Tensor x = tokens(2, 7), expected = mixer->forward(x);
  EXPECT_TRUE(torch::equal(copy->forward(x), expected));
  for (Tensor& parameter : copy->parameters()) parameter.add_(1.0);
  EXPECT_TRUE(torch::equal(mixer->forward(x), expected));
}

TEST(Linformer, RefusesWhatItCannotDo) {
  MixerConfig config = linformer_config();
  Linformer mixer(config);
  EXPECT_TRUE(refuses([&] { mixer->forward(torch::ones({1, 21, 32})); },
                      "at most max_length (20) for linformer, got 21"));
  EXPECT_TRUE(refuses([&] { mixer->initial_state(1); }, "is_causal"));
  const auto with = [](auto change) {
    return [change] {
      MixerConfig changed = linformer_config();
      change(changed);
      make_mixer("linformer", changed);
    };
  };
  EXPECT_TRUE(refuses(with([](auto& c) { c.is_causal = true; }),
                      "is_causal must be false for linformer, got true: its projections sum"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.max_length = 0; }), "max_length must be positive"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.projection_rank = 0; }), "projection_rank"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.num_features = -1; }), "num_features"));
  EXPECT_TRUE(
      refuses(with([](auto& c) { c.feature_redraw_interval = -1; }), "feature_redraw_interval"));
}

}  // namespace
}  // namespace gma_torch::nn
