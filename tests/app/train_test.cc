// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The parts of a trainer: config, schedule, optimiser, log, console.
#include <gma_torch/nn/mixer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "gma/error.h"
#include "scratch_folder.h"
#include "tiny.h"
#include "train/console.h"
#include "train/optimizer.h"
#include "train/routing_monitor.h"
#include "train/run_log.h"
#include "train/task.h"

namespace gma::app {
namespace {

TEST(TrainConfig, JsonHoldsEveryOption) {
  for (const Task task : {Task::lm, Task::classify}) {
    TrainConfig config = tiny_config(task);
    config.data = {"a", "b"};
    config.rotary = false;
    config.dropout = 0.125;
    const nlohmann::json json = to_json(config);
    EXPECT_EQ(to_json(train_config_from_json(task, json)), json);
    EXPECT_EQ(json.at("hidden-size"), 16);
    EXPECT_EQ(json.contains("num-classes"), task == Task::classify);
  }
}

TEST(TrainConfig, RefusesJsonThatLacksAnOption) {
  nlohmann::json json = to_json(tiny_config());
  json["steps"] = "many";
  EXPECT_REFUSED(train_config_from_json(Task::lm, json), InvalidArgument, "'steps'");
  json.erase("steps");
  EXPECT_REFUSED(train_config_from_json(Task::lm, json), InvalidArgument, "'steps'");
}

TEST(TrainConfig, RefusesJsonOutOfRange) {
  nlohmann::json json = to_json(tiny_config());
  json["lr"] = -1.0;
  EXPECT_REFUSED(train_config_from_json(Task::lm, json), InvalidArgument,
                 "'lr': expected more than 0, got -1");
}

TEST(Range, NamesItsBoundsAndRefusesWhatIsNotFinite) {
  EXPECT_EQ(describe(kProbability), "expected at least 0 and less than 1");
  EXPECT_EQ(describe(kCount), "expected at least 1 and at most 1000000000000000");
  EXPECT_FALSE(kAtLeast0.contains(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(kAtLeast0.contains(std::numeric_limits<double>::quiet_NaN()));
}

TEST(Metrics, TiesOfAccuracyAreBrokenByLoss) {
  const auto metrics = [](double accuracy, double loss) {
    return Metrics{loss, std::nullopt, accuracy};
  };
  EXPECT_TRUE(metrics(0.6, 2.0).is_better_than(metrics(0.5, 1.0)));
  EXPECT_TRUE(metrics(0.5, 1.0).is_better_than(metrics(0.5, 2.0)));
  EXPECT_FALSE(metrics(0.5, 1.0).is_better_than(metrics(0.5, 1.0)));
  EXPECT_TRUE((Metrics{1.0, {}, {}}.is_better_than(Metrics{2.0, {}, {}})));
}

TEST(LearningRate, WarmsUpAndFallsToItsFloor) {
  TrainConfig config;
  config.lr = 1.0;
  config.min_lr = 0.1;
  config.warmup = 10;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0, 0.0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 4, 0.0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 9, 0.0), 1.0);
  EXPECT_NEAR(learning_rate(config, 100, 0.5), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(config, 200, 1.0), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(config, 200, 1.5), 0.1, 1e-12) << "past the end";
  config.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0, 0.0), 1.0);
}

std::set<const void*> mixture_parameters(const gma_torch::nn::CausalLm& model) {
  std::set<const void*> found;
  for (const auto& module : model->modules()) {
    const auto mixer = std::dynamic_pointer_cast<gma_torch::nn::Mixer>(module);
    if (!mixer) continue;
    for (const torch::Tensor& p : mixer->no_decay_parameters())
      found.insert(p.unsafeGetTensorImpl());
  }
  return found;
}

TEST(Optimizer, DecaysMatricesAlone) {
  gma_torch::nn::CausalLm model = tiny_lm();
  TrainConfig config = tiny_config();
  config.weight_decay = 0.5;
  Optimizer optimizer(*model, config);
  const std::set<const void*> mixtures = mixture_parameters(model);
  ASSERT_FALSE(mixtures.empty());
  std::map<std::string, torch::Tensor> before;
  for (const auto& item : model->named_parameters()) {
    before[item.key()] = item.value().detach().clone();
    item.value().mutable_grad() = torch::zeros_like(item.value());
  }
  optimizer.step(0.1);
  int decayed = 0;
  for (const auto& item : model->named_parameters()) {
    const torch::Tensor& old = before.at(item.key());
    const bool is_plain =
        item.value().dim() < 2 || mixtures.contains(item.value().unsafeGetTensorImpl());
    const torch::Tensor expected = is_plain ? old : old * 0.95;
    EXPECT_TRUE(torch::allclose(item.value(), expected)) << item.key();
    decayed += !is_plain;
  }
  EXPECT_GT(decayed, 0);
}

TEST(Optimizer, MixtureParametersHaveAFactorOfTheirOwn) {
  gma_torch::nn::CausalLm model = tiny_lm();
  TrainConfig config = tiny_config();
  config.weight_decay = 0.0;
  config.clip = 0.0;
  config.mixture_lr_scale = 0.25;
  Optimizer optimizer(*model, config);
  const std::set<const void*> mixtures = mixture_parameters(model);
  std::map<std::string, torch::Tensor> before;
  for (const auto& item : model->named_parameters()) {
    before[item.key()] = item.value().detach().clone();
    item.value().mutable_grad() = torch::ones_like(item.value());
  }
  optimizer.step(0.1);
  for (const auto& item : model->named_parameters()) {
    // The first step of Adam has the size of the learning rate.
    const double rate = mixtures.contains(item.value().unsafeGetTensorImpl()) ? 0.025 : 0.1;
    const torch::Tensor moved = before.at(item.key()) - item.value().detach();
    EXPECT_TRUE(torch::allclose(moved, torch::full_like(moved, rate), 1e-3, 1e-6)) << item.key();
  }
}

TEST(Optimizer, ClipsAndReportsTheNorm) {
  gma_torch::nn::CausalLm model = tiny_lm();
  TrainConfig config = tiny_config();
  config.clip = 0.5;
  Optimizer optimizer(*model, config);
  double squares = 0.0;
  for (torch::Tensor& p : model->parameters()) {
    p.mutable_grad() = torch::full_like(p, 0.01);
    squares += 1e-4 * static_cast<double>(p.numel());
  }
  EXPECT_NEAR(optimizer.step(0.1), std::sqrt(squares), 1e-4 * std::sqrt(squares));
  double norm = 0.0;  // exp_avg is (1 - beta1) times the clipped gradient
  for (const auto& [name, tensor] : optimizer.state()) {
    if (name.starts_with("exp_avg.")) norm += tensor.square().sum().item<double>();
  }
  EXPECT_NEAR(std::sqrt(norm) / (1.0 - config.beta1), 0.5, 1e-3);
}

TEST(Optimizer, LeavesTheModelAloneWhereTheGradientIsNotFinite) {
  gma_torch::nn::CausalLm model = tiny_lm();
  Optimizer optimizer(*model, tiny_config());
  std::map<std::string, torch::Tensor> before;
  for (const auto& item : model->named_parameters()) {
    before[item.key()] = item.value().detach().clone();
    item.value().mutable_grad() = torch::ones_like(item.value());
  }
  model->parameters()[0].mutable_grad().fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(optimizer.step(0.1)));
  for (const auto& item : model->named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), before.at(item.key()))) << item.key();
  }
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(Optimizer, GoesOnFromItsState) {
  const TrainConfig config = tiny_config();
  gma_torch::nn::CausalLm straight = tiny_lm(), resumed = tiny_lm();
  Optimizer first(*straight, config), before(*resumed, config);
  EXPECT_TRUE(first.state().empty());
  const auto step = [](gma_torch::nn::CausalLm& model, Optimizer& optimizer, double scale) {
    for (torch::Tensor& p : model->parameters()) p.mutable_grad() = scale * p.detach().sin();
    optimizer.step(0.01);
  };
  for (const double scale : {1.0, 2.0, 3.0}) step(straight, first, scale);
  for (const double scale : {1.0, 2.0}) step(resumed, before, scale);
  Optimizer after(*resumed, config);
  after.load_state(before.state(), 2);
  step(resumed, after, 3.0);
  const auto expected = gma_torch::nn::state_dict(*straight);
  for (const auto& [name, tensor] : gma_torch::nn::state_dict(*resumed)) {
    EXPECT_TRUE(torch::equal(tensor, expected.at(name))) << name;
  }

  auto state = before.state();
  state.begin()->second = torch::zeros({1});
  EXPECT_REFUSED(after.load_state(state, 2), InvalidArgument, state.begin()->first);
  EXPECT_THROW(after.load_state({}, 2), InvalidArgument);
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(RunLog, WritesALineARecord) {
  const ScratchFolder folder;
  RunLog log(folder / "log.jsonl");
  log.write("train", {{"step", 1}, {"loss", 0.5}});
  EXPECT_THAT(lines_of(folder / "log.jsonl"),
              ::testing::ElementsAre(R"({"kind":"train","step":1,"loss":0.5})"));
}

TEST(RunLog, AResumedRunDropsWhatItWillDoAgain) {
  const ScratchFolder folder;
  folder.write(
      "log.jsonl",
      "{\"kind\":\"config\"}\n{\"kind\":\"train\",\"step\":4}\n{\"kind\":\"train\",\"step\":5}\n"
      "{\"kind\":\"final\",\"step\":4}\n{\"kind\":\"tra");
  RunLog log(folder / "log.jsonl", RunLog::Earlier{folder / "log.jsonl", 4});
  log.write("train", {{"step", 5}});
  EXPECT_THAT(lines_of(folder / "log.jsonl"),
              ::testing::ElementsAre("{\"kind\":\"config\"}", "{\"kind\":\"train\",\"step\":4}",
                                     "{\"kind\":\"train\",\"step\":5}"));
}

TEST(RunLog, GoesOnFromALogElsewhere) {
  const ScratchFolder folder;
  const std::string earlier = folder.write("a/log.jsonl", "{\"kind\":\"config\"}\n");
  folder.write("b/log.jsonl", "{\"kind\":\"config\",\"of\":\"another run\"}\n");
  RunLog log(folder / "b/log.jsonl", RunLog::Earlier{earlier, 4});
  log.write("train", {{"step", 5}});
  EXPECT_THAT(lines_of(folder / "b/log.jsonl"),
              ::testing::ElementsAre("{\"kind\":\"config\"}", "{\"kind\":\"train\",\"step\":5}"));
  EXPECT_THAT(lines_of(earlier), ::testing::SizeIs(1));
}

TEST(RunLog, RecallsTheEnd) {
  const ScratchFolder folder;
  RunLog log(folder / "log.jsonl");
  EXPECT_EQ(RunLog::final_record(folder / "log.jsonl"), std::nullopt);
  EXPECT_EQ(RunLog::final_record(folder / "none"), std::nullopt);
  log.write("final", {{"step", 7}});
  EXPECT_EQ(RunLog::final_record(folder / "log.jsonl")->at("step"), 7);
}

TEST(RunLog, SaysWhenItCannotWrite) {
  EXPECT_THROW(RunLog("/nowhere/log.jsonl"), IoError);
  EXPECT_THROW(
      {
        RunLog log("/dev/full");
        log.write("train", {{"step", 1}});
      },
      IoError);
}

TEST(Console, FormatsFigures) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1234), "1.2k");
  EXPECT_EQ(human_count(999999), "1.0M");
  EXPECT_EQ(human_count(123456), "123k");
  EXPECT_EQ(human_bytes(2.5e9), "2.5 GB");
  EXPECT_EQ(human_duration(0), "0:00");
  EXPECT_EQ(human_duration(83.4), "1:23");
  EXPECT_EQ(human_duration(3725), "1:02:05");
  EXPECT_EQ(progress_bar({.step = 42,
                          .steps = 100,
                          .fraction = 0.42,
                          .loss = 1.5,
                          .tokens_per_second = 12300,
                          .seconds_left = 83}),
            " 42% [########------------] step 42/100  loss 1.500  12.3k tokens/s  1:23 left");
}

/// What the monitor sees of a layer whose 8 queries and keys, in the order of `x`, it looks at.
RoutingHealth health_of(const torch::Tensor& means, const torch::Tensor& x,
                        const std::optional<torch::Tensor>& mask = {}) {
  gma_torch::nn::GaussianMixtureAttention layer(gma_torch::nn::MixerConfig{
      .hidden_size = 2, .num_heads = 1, .use_rotary = false, .num_components = 2});
  RoutingMonitor monitor(*layer);
  const torch::NoGradGuard no_grad;
  const auto parameters = layer->named_parameters();
  parameters["means"].copy_(means);
  for (const char* const name : {"q_proj.weight", "k_proj.weight"}) {
    parameters[name].copy_(torch::eye(2));
  }
  monitor.watch();
  layer->forward(x, mask);
  return monitor.health().value();
}

TEST(RoutingMonitor, TellsDiverseRoutingFromRoutingAlike) {
  const torch::Tensor means = torch::tensor({{{30.0F, 0.0F}, {-30.0F, 0.0F}}});
  torch::Tensor x = torch::zeros({1, 8, 2});
  x.select(2, 0).copy_(torch::tensor({30, -30, 30, -30, 30, -30, 30, -30}));
  const RoutingHealth diverse = health_of(means, x);
  EXPECT_NEAR(diverse.usage_entropy, 1.0, 1e-4);
  EXPECT_NEAR(diverse.routing_information, 1.0, 1e-4);
  EXPECT_EQ(diverse.dead_components, 0);
  const RoutingHealth alike = health_of(torch::zeros_like(means), x);
  EXPECT_NEAR(alike.usage_entropy, 1.0, 1e-4);
  EXPECT_NEAR(alike.routing_information, 0.0, 1e-4);
  // Half of the tokens, all of one kind, are all that counts.
  const RoutingHealth masked = health_of(means, x, x.select(2, 0) > 0);
  EXPECT_NEAR(masked.usage_entropy, 0.0, 1e-4);
  EXPECT_NEAR(masked.routing_information, 0.0, 1e-4);
  EXPECT_EQ(masked.dead_components, 1);
}

TEST(Console, ShowsHowMixturesAreUsed) {
  StepReport report{.step = 42,
                    .steps = 100,
                    .fraction = 0.5,
                    .loss = 1.5,
                    .learning_rate = 1e-3,
                    .tokens_per_second = 12300,
                    .seconds_left = 83,
                    .routing = RoutingHealth{.usage_entropy = 0.934,
                                             .routing_information = 0.121,
                                             .variance_min = 4.51,
                                             .variance_max = 22.63}};
  EXPECT_EQ(progress_bar(report),
            " 50% [###---] step 42/100  loss 1.500  12.3k tokens/s  1:23 left  routing 0.12"
            "  usage 0.93  variances 4.5 to 23");
  report.routing->dead_components = 3;
  EXPECT_EQ(progress_line(report),
            "step 42/100  loss 1.5000  routing 0.12, 3 dead  usage 0.93  variances 4.5 to 23  lr "
            "1.0e-03  12.3k tokens/s  1:23 left");
}

}  // namespace
}  // namespace gma::app
