// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "gma_torch/nn/checkpoint.h"
#include "gma_torch/nn/gaussian_mixture_attention.h"
#include "gma_torch/nn/models.h"
#include "nn_support.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

ModelConfig small_config(const std::string& mixer = "gma") {
  ModelConfig config;
  config.mixer = mixer;
  config.vocab_size = 11;
  config.num_layers = 2;
  config.mixer_config.hidden_size = 16;
  config.mixer_config.num_heads = 2;
  config.mixer_config.num_components = 6;
  config.mixer_config.is_causal = true;
  return config;
}

Tensor random_tokens(std::int64_t batch, std::int64_t length) {
  return torch::randint(11, {batch, length}, torch::kInt64);
}

TEST(CausalLm, C09_StreamsLikeTheWholePass) {
  for (const char* mixer : {"gma", "linear", "mamba", "performer", "softmax"}) {
    for (const bool learned_positions : {false, true}) {
      ModelConfig config = small_config(mixer);
      config.mixer_config.use_short_conv = learned_positions;
      config.learned_positions = learned_positions;
      config.sinusoidal_positions = !learned_positions;
      config.max_length = 30;
      CausalLm model(config);
      model->eval();
      const torch::NoGradGuard no_grad;
      const Tensor tokens = random_tokens(2, 30);
      const Tensor whole = model->forward(tokens);
      ASSERT_EQ(whole.sizes(), (std::vector<std::int64_t>{2, 30, 11}));

      ModelState state = model->initial_state(2);
      std::vector<Tensor> parts{model->forward(tokens.narrow(1, 0, 9), &state)};
      for (std::int64_t t = 9; t < 30; ++t) {
        parts.push_back(model->forward(tokens.narrow(1, t, 1), &state));
      }
      EXPECT_TRUE(near(torch::cat(parts, 1), whole, kFloatTolerance)) << mixer;
    }
  }
}

TEST(CausalLm, C13_PaddedPromptsContinueAsEachAlone) {
  for (const char* mixer : {"gma", "linear", "mamba", "performer", "softmax"}) {
    ModelConfig config = small_config(mixer);
    config.learned_positions = true;
    config.max_length = 16;
    CausalLm model(config);
    model->eval();
    const torch::NoGradGuard no_grad;
    const Tensor tokens = random_tokens(2, 8), next = random_tokens(2, 1);
    const Tensor mask = torch::ones({2, 8}, torch::kBool);
    mask[1].narrow(0, 0, 5).fill_(false);
    ModelState state = model->initial_state(2);
    model->forward(tokens, &state, mask);

    ModelState alone = model->initial_state(1);
    model->forward(tokens.narrow(0, 1, 1).narrow(1, 5, 3), &alone);
    const ModelState second = state.reorder(torch::tensor({1}, torch::kInt64));
    ModelState copy = second.clone();
    const Tensor expected = model->forward(next.narrow(0, 1, 1), &alone);
    EXPECT_TRUE(near(model->forward(next, &state)[1], expected[0], kFloatTolerance)) << mixer;
    EXPECT_TRUE(near(model->forward(next.narrow(0, 1, 1), &copy), expected, kFloatTolerance))
        << mixer;
  }
}

TEST(CausalLm, TakesMeansOfEachLayerFromWhatReachesIt) {
  const ModelConfig config = small_config();
  CausalLm model(config);
  const Tensor tokens = random_tokens(2, 20);
  model->transformer()->initialize_means(tokens);
  // What a mean was taken from has it as its nearest, at no distance.
  const torch::NoGradGuard no_grad;
  for (Block block : model->transformer()->blocks()) {
    auto& attention = dynamic_cast<GaussianMixtureAttentionImpl&>(block->mixer());
    Tensor vectors;
    attention.set_observer([&](const Tensor& query, const Tensor& key, const auto&) {
      vectors = torch::cat({query, key}, 1).transpose(1, 2).transpose(0, 1).flatten(1, 2);
    });
    model->forward(tokens);
    attention.set_observer({});
    const Tensor distance = torch::cdist(attention.means(), vectors).amin(-1);
    EXPECT_LE(distance.max().item<double>(), 1e-3);
  }
  EXPECT_TRUE(refuses([&] { model->transformer()->initialize_means(random_tokens(1, 2)); },
                      "num_components (6)"));
  CausalLm other(small_config("softmax"));
  const Tensor before = other->forward(tokens);
  other->transformer()->initialize_means(tokens);
  EXPECT_TRUE(torch::equal(other->forward(tokens), before));
}

TEST(CausalLm, LearnsATinyTextByHeart) {
  torch::manual_seed(3);
  for (const char* mixer : {"gma", "linear", "mamba", "performer", "softmax"}) {
    ModelConfig config = small_config(mixer);
    config.mixer_config.use_short_conv = true;
    CausalLm model(config);
    torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
    const Tensor text = random_tokens(2, 17);
    const Tensor inputs = text.narrow(1, 0, 16), targets = text.narrow(1, 1, 16).flatten();
    double loss = 0.0;
    for (int step = 0; step < 100; ++step) {
      optimizer.zero_grad();
      const Tensor error = torch::cross_entropy_loss(model->forward(inputs).flatten(0, 1), targets);
      error.backward();
      optimizer.step();
      loss = error.item<double>();
    }
    EXPECT_LT(loss, 0.1) << mixer;  // log 11 = 2.4 before training
  }
}

TEST(CausalLm, TiesItsHeadWhereAsked) {
  ModelConfig config = small_config();
  const std::int64_t tied = count_parameters(*CausalLm(config));
  config.tie_embeddings = false;
  EXPECT_EQ(count_parameters(*CausalLm(config)), tied + 11 * 16);
}

TEST(CausalLm, StartsFromSmallWeights) {
  ModelConfig config = small_config();
  config.mixer_config.hidden_size = 128;
  CausalLm model(config);
  const auto parameters = model->named_parameters();
  const auto deviation = [&](const char* name) { return parameters[name].std().item<double>(); };
  EXPECT_NEAR(deviation("transformer.blocks.1.up.weight"), 0.02, 0.001);
  EXPECT_NEAR(deviation("transformer.blocks.1.down.weight"), 0.01, 0.0005);
  EXPECT_NEAR(deviation("transformer.blocks.1.mixer.o_proj.weight"), 0.01, 0.0005);
  EXPECT_NEAR(deviation("transformer.blocks.1.mixer.means"), 1.0, 0.1);
  EXPECT_EQ(parameters["transformer.blocks.1.up.bias"].abs().max().item<double>(), 0.0);
}

TEST(CausalLm, RefusesByName) {
  ModelConfig config = small_config();
  config.learned_positions = true;
  EXPECT_TRUE(refuses([&] { CausalLm{config}; }, "max_length"));
  config.max_length = 4;
  CausalLm model(config);
  EXPECT_TRUE(refuses([&] { model->forward(random_tokens(1, 5)); }, "max_length (4)"));
  EXPECT_TRUE(refuses([&] { model->forward(torch::zeros({1, 5})); }, "tokens must be int64"));
  for (const std::int64_t id : {-1, 11}) {
    EXPECT_TRUE(refuses([&] { model->forward(torch::full({1, 2}, id, torch::kInt64)); },
                        "tokens must be in [0, 11), got " + std::to_string(id)));
  }
  EXPECT_TRUE(refuses(
      [&] { model->forward(random_tokens(1, 2), nullptr, torch::ones({1, 3}, torch::kBool)); },
      "padding_mask must be bool of shape (1, 2)"));
  ModelState state;
  EXPECT_TRUE(refuses([&] { model->forward(random_tokens(1, 2), &state); }, "2 layers, got 0"));
  config.mixer_config.is_causal = false;
  EXPECT_TRUE(refuses([&] { CausalLm{config}; }, "is_causal must be true"));
}

TEST(CausalLm, LeavesTheStateOfEveryLayerAloneWhenItThrows) {
  CausalLm model(small_config());
  ModelState state = model->initial_state(2);
  model->forward(random_tokens(2, 3), &state);
  state.layers[1].set("z", torch::zeros({2, 2, 5}));
  const Tensor first = state.layers[0].at("z");
  EXPECT_TRUE(refuses([&] { model->forward(random_tokens(2, 1), &state); }, "'z'"));
  EXPECT_TRUE(state.layers[0].at("z").is_same(first));
  EXPECT_EQ(state.layers[0].position, 3);
  EXPECT_EQ(state.layers[1].position, 3);
}

TEST(CausalLm, ClonesAreEqualAndIndependent) {
  ModelConfig config = small_config();
  config.learned_positions = true;
  config.max_length = 8;
  CausalLm model(config);
  const auto copy = std::dynamic_pointer_cast<CausalLmImpl>(model->clone());
  ASSERT_NE(copy, nullptr);
  const Tensor tokens = random_tokens(2, 8), expected = model->forward(tokens);
  EXPECT_TRUE(torch::equal(copy->forward(tokens), expected));
  {
    const torch::NoGradGuard no_grad;
    for (Tensor& parameter : copy->parameters()) parameter.zero_();
  }
  EXPECT_TRUE(torch::equal(model->forward(tokens), expected));

  config.num_classes = 3;
  SequenceClassifier classifier(config);
  const auto other = std::dynamic_pointer_cast<SequenceClassifierImpl>(classifier->clone());
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(torch::equal(other->forward(tokens), classifier->forward(tokens)));
}

TEST(SequenceClassifier, C13_PaddingChangesNothing) {
  ModelConfig config = small_config();
  config.mixer_config.is_causal = false;
  EXPECT_TRUE(refuses([&] { SequenceClassifier{config}; }, "num_classes"));
  config.num_classes = 3;
  config.max_length = 12;
  config.mixer_config.use_short_conv = true;
  const Tensor tokens = random_tokens(1, 8), padding = random_tokens(1, 4);
  const Tensor both =
      torch::cat({torch::cat({padding, tokens}, 1), torch::cat({tokens, padding}, 1)});
  const Tensor mask = torch::ones({2, 12}, torch::kBool);
  mask[0].narrow(0, 0, 4).fill_(false);
  mask[1].narrow(0, 8, 4).fill_(false);
  for (const char* pooling : {"mean", "first"}) {
    config.pooling = pooling;
    config.learned_positions = config.pooling == "mean";
    config.sinusoidal_positions = !config.learned_positions;
    SequenceClassifier model(config);
    EXPECT_TRUE(refuses([&] { model->forward(random_tokens(2, 0)); }, "at least one token"));
    const Tensor alone = model->forward(tokens);
    ASSERT_EQ(alone.sizes(), (std::vector<std::int64_t>{1, 3}));
    EXPECT_TRUE(near(model->forward(both, mask), alone.expand({2, 3}), kFloatTolerance)) << pooling;
  }
}

TEST(SequenceClassifier, TellsWhereATokenIsBySinesAndCosines) {
  ModelConfig config = small_config();
  config.mixer_config.is_causal = false;
  config.mixer_config.use_rotary = false;
  config.num_classes = 3;
  for (const bool positions : {false, true}) {
    config.sinusoidal_positions = positions;
    SequenceClassifier model(config);
    const Tensor tokens = random_tokens(1, 8);
    const Tensor logits = model->forward(tokens), swapped = model->forward(tokens.flip(1));
    EXPECT_EQ(near(swapped, logits, kFloatTolerance), !positions);
  }
}

TEST(ParameterGroups, DecayMatricesButNotMixtures) {
  ModelConfig config = small_config();
  config.tie_embeddings = false;
  config.mixer_config.use_short_conv = true;
  CausalLm model(config);
  const auto [decayed, not_decayed] = parameter_groups(*model);
  std::set<const c10::TensorImpl*> matrices;
  for (const Tensor& parameter : decayed) matrices.insert(parameter.unsafeGetTensorImpl());
  for (const auto& parameter : model->named_parameters()) {
    const std::string& name = parameter.key();
    const bool is_mixture = name.ends_with("means") || name.ends_with("raw_variances") ||
                            name.ends_with("prior_logits");
    const bool is_matrix = name.ends_with("weight") && name.find("norm") == std::string::npos;
    EXPECT_EQ(matrices.contains(parameter.value().unsafeGetTensorImpl()), is_matrix && !is_mixture)
        << name;
  }
  EXPECT_EQ(decayed.size() + not_decayed.size(), model->parameters().size());
}

TEST(ModelConfig, SurvivesJson) {
  ModelConfig config = small_config("softmax");
  config.dropout = 0.125;
  config.pooling = "first";
  config.tie_embeddings = false;
  config.mixer_config.eps = 1e-7;
  config.mixer_config.use_short_conv = true;
  const std::string json = config.to_json();
  const ModelConfig read = ModelConfig::from_json(json);
  EXPECT_EQ(read.to_json(), json);
  EXPECT_EQ(read.mixer, "softmax");
  EXPECT_EQ(read.dropout, 0.125);
  EXPECT_EQ(read.pooling, "first");
  EXPECT_FALSE(read.tie_embeddings);
  EXPECT_EQ(read.mixer_config.hidden_size, 16);
  EXPECT_EQ(read.mixer_config.eps, 1e-7);
  EXPECT_TRUE(read.mixer_config.use_short_conv);
  EXPECT_EQ(ModelConfig::from_json("{}").to_json(), ModelConfig().to_json());
}

TEST(ModelConfig, RefusesJsonByName) {
  const auto reading = [](const std::string& text) {
    return [text] { ModelConfig::from_json(text); };
  };
  EXPECT_TRUE(refuses(reading(R"({"hiden_size": 4})"), "unknown key 'hiden_size'"));
  EXPECT_TRUE(refuses(reading(R"({"num_heads": 2.5})"), "'num_heads' must be an integer"));
  EXPECT_TRUE(refuses(reading(R"({"num_heads": 18446744073709551615})"), "'num_heads'"));
  EXPECT_TRUE(refuses(reading(R"({"num_heads": true})"), "'num_heads'"));
  EXPECT_TRUE(refuses(reading(R"({"is_causal": 1})"), "'is_causal' must be true or false"));
  EXPECT_TRUE(refuses(reading(R"({"mixer": 3})"), "'mixer' must be a string"));
  EXPECT_TRUE(refuses(reading(R"({"eps": "small"})"), "'eps' must be a number, got \"small\""));
  EXPECT_TRUE(refuses(reading(R"({"eps": 1e-6, "eps": 1e-7})"), "key \"eps\" comes twice"));
  EXPECT_TRUE(refuses(reading("[1]"), "JSON object"));
  EXPECT_TRUE(refuses(reading("{"), "not JSON"));
}

TEST(ModelConfig, NamesTheFirstUnusableField) {
  const auto with = [](auto change) {
    return [change] {
      ModelConfig config = small_config();
      change(config);
      config.validate();
    };
  };
  EXPECT_NO_THROW(small_config().validate());
  EXPECT_TRUE(refuses(with([](auto& c) { c.mixer = "nope"; }), "mixer must be one of"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.vocab_size = 0; }), "vocab_size"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.num_layers = -1; }), "num_layers"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.dropout = 1.5; }), "dropout"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.pooling = "max"; }), "pooling must be mean or first"));
  EXPECT_TRUE(refuses(with([](auto& c) {
                        c.sinusoidal_positions = true;
                        c.mixer_config.hidden_size = 15;
                        c.mixer_config.num_heads = 1;
                      }),
                      "hidden_size must be even with sinusoidal_positions"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.mixer_config.num_components = 0; }), "num_components"));
}

class CheckpointFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("gma_checkpoint_") +
       testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors");
};

TEST_F(CheckpointFile, C30_KeepsEveryBit) {
  CausalLm model(small_config());
  Checkpoint written{state_dict(*model), {{"config", model->config().to_json()}}};
  written.tensors.emplace("step", torch::tensor(17, torch::kInt64));
  written.tensors.emplace("half", torch::randn({3, 2}, torch::kBFloat16));
  written.tensors.emplace("empty", torch::empty({0, 4}));
  written.tensors.emplace("transposed", torch::randn({4, 5}).t());
  save_checkpoint(path_, written);

  Checkpoint read = load_checkpoint(path_);
  EXPECT_EQ(read.metadata, written.metadata);
  ASSERT_EQ(read.tensors.size(), written.tensors.size());
  for (const auto& [name, tensor] : written.tensors) {
    EXPECT_EQ(read.tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(read.tensors.at(name), tensor)) << name;
  }

  for (const char* name : {"step", "half", "empty", "transposed"}) read.tensors.erase(name);
  CausalLm other(ModelConfig::from_json(read.metadata.at("config")));
  const Tensor tokens = random_tokens(2, 12);
  EXPECT_FALSE(torch::equal(other->forward(tokens), model->forward(tokens)));
  load_state_dict(*other, read.tensors);
  EXPECT_TRUE(torch::equal(other->forward(tokens), model->forward(tokens)));
}

TEST_F(CheckpointFile, RefusesRubbish) {
  EXPECT_THROW(load_checkpoint(path_), gma::IoError);
  std::ofstream(path_) << "not a safetensors file, but long enough to hold a header length";
  EXPECT_THROW(load_checkpoint(path_), gma::IoError);
}

TEST(LoadStateDict, C30_LeavesTheModelUntouchedWhenItRefuses) {
  CausalLm model(small_config());
  std::map<std::string, Tensor> before;
  for (const auto& [name, tensor] : state_dict(*model)) before.emplace(name, tensor.clone());
  std::map<std::string, Tensor> good;
  for (const auto& [name, tensor] : before) good.emplace(name, torch::ones_like(tensor));
  const std::string means = "transformer.blocks.1.mixer.means";

  auto tensors = good;
  tensors.erase(means);
  EXPECT_TRUE(refuses([&] { load_state_dict(*model, tensors); }, means));
  tensors[means] = torch::ones({2, 7, 8});
  EXPECT_TRUE(refuses([&] { load_state_dict(*model, tensors); },
                      means + "' must be Float (2, 6, 8), got Float (2, 7, 8)"));
  tensors[means] = torch::ones({4, 6, 8});
  EXPECT_TRUE(refuses([&] { load_state_dict(*model, tensors); }, "got Float (4, 6, 8)"));
  tensors[means] = good[means].to(torch::kFloat64);
  EXPECT_TRUE(refuses([&] { load_state_dict(*model, tensors); }, "got Double"));
  tensors = good;
  tensors["other.weight"] = torch::ones({1});
  EXPECT_TRUE(refuses([&] { load_state_dict(*model, tensors); }, "'other.weight'"));
  for (const auto& [name, tensor] : state_dict(*model)) {
    EXPECT_TRUE(torch::equal(tensor, before.at(name))) << name;
  }

  load_state_dict(*model, good);
  for (const auto& [name, tensor] : state_dict(*model)) {
    EXPECT_TRUE(torch::equal(tensor, good.at(name))) << name;
  }
}

}  // namespace
}  // namespace gma_torch::nn
