// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/gaussian_mixture_attention.h"
#include "gma_torch/nn/readouts.h"
#include "nn_support.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

/// In double, with two key heads for four query heads of six channels.
GaussianMixtureAttention make(bool is_causal, bool use_short_conv = false) {
  MixerConfig config;
  config.hidden_size = 24;
  config.num_heads = 4;
  config.num_key_value_heads = 2;
  config.num_components = 5;
  config.is_causal = is_causal;
  config.use_short_conv = use_short_conv;
  torch::manual_seed(1);
  GaussianMixtureAttention mixer(config);
  mixer->to(torch::kFloat64);
  return mixer;
}

TEST(Readouts, AffinityIsWhatTheLayerReadsWith) {
  for (const bool is_causal : {false, true}) {
    GaussianMixtureAttention mixer = make(is_causal);
    const Tensor x = torch::randn({2, 7, 24}, torch::kFloat64);
    const auto [queries, keys] = mixer->responsibilities(x);
    const Tensor weights = normalized_affinity(affinity(queries, keys), is_causal);
    const auto parameters = mixer->named_parameters();
    const Tensor values = torch::linear(x, parameters["v_proj.weight"]).view({2, 7, 2, 6});
    const Tensor read = torch::matmul(weights, values.repeat_interleave(2, 2).transpose(1, 2));
    EXPECT_TRUE(near(torch::linear(read.transpose(1, 2).flatten(2), parameters["o_proj.weight"]),
                     mixer->forward(x), kDoubleTolerance));
  }
}

TEST(Readouts, AffinityIsOfLowRankAndNotNegative) {
  GaussianMixtureAttention mixer = make(false);
  const auto [queries, keys] = mixer->responsibilities(torch::randn({1, 40, 24}, torch::kFloat64));
  const Tensor product = affinity(queries, keys);
  EXPECT_TRUE(product.ge(0.0).all().item<bool>());
  EXPECT_TRUE(torch::linalg_matrix_rank(product).le(5).all().item<bool>());
  EXPECT_TRUE(refuses([&] { affinity(queries, keys.narrow(3, 0, 4)); }, "key_responsibilities"));
  EXPECT_TRUE(refuses([&] { affinity(queries.squeeze(0), keys); }, "query_responsibilities"));
  EXPECT_TRUE(refuses([&] { normalized_affinity(product.narrow(3, 0, 3), true); }, "square"));
}

TEST(Readouts, UsageIsTheMeanOverKeptTokens) {
  GaussianMixtureAttention mixer = make(false);
  Tensor x = torch::randn({2, 7, 24}, torch::kFloat64);
  const Tensor keys = mixer->responsibilities(x).second;
  EXPECT_TRUE(near(component_usage(keys), keys.flatten(0, 1).mean(0), kDoubleTolerance));
  EXPECT_TRUE(
      near(component_usage(keys).sum(-1), torch::ones({2}, torch::kFloat64), kDoubleTolerance));
  Tensor mask = torch::ones({2, 7}, torch::kBool);
  mask[1].narrow(0, 3, 4).fill_(false);
  Tensor poisoned = keys.clone();
  poisoned[1].narrow(0, 3, 4).fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(near(component_usage(poisoned, mask),
                   torch::cat({keys[0], keys[1].narrow(0, 0, 3)}).mean(0), kDoubleTolerance));
  EXPECT_TRUE(component_usage(keys, torch::zeros({2, 7}, torch::kBool)).eq(0.0).all().item<bool>());
}

TEST(Readouts, ObserversSeeWhatIsRoutedAndChangeNothing) {
  GaussianMixtureAttention mixer = make(/*is_causal=*/true, /*use_short_conv=*/true);
  const Tensor x = torch::randn({1, 9, 24}, torch::kFloat64);
  const Tensor before = mixer->forward(x);
  const auto [queries, keys] = mixer->responsibilities(x);
  std::vector<Tensor> seen_queries, seen_keys;
  mixer->set_observer([&](const Tensor& query, const Tensor& key, const std::optional<Tensor>&) {
    const auto [of_queries, of_keys] = mixer->responsibilities_of(query, key);
    seen_queries.push_back(of_queries);
    seen_keys.push_back(of_keys);
  });
  EXPECT_TRUE(torch::equal(mixer->forward(x), before));
  EXPECT_TRUE(torch::equal(seen_queries.at(0), queries));
  EXPECT_TRUE(torch::equal(seen_keys.at(0), keys));
  // With a state it is told of the tokens that are new.
  MixerState state = mixer->initial_state(1);
  mixer->forward(x.narrow(1, 0, 4), std::nullopt, &state);
  mixer->forward(x.narrow(1, 4, 5), std::nullopt, &state);
  EXPECT_TRUE(near(torch::cat({seen_keys.at(1), seen_keys.at(2)}, 1), keys, kDoubleTolerance));
  mixer->set_observer({});
  mixer->forward(x);
  EXPECT_EQ(seen_keys.size(), 3U);
}

}  // namespace
}  // namespace gma_torch::nn
