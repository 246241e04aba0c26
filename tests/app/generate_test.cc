// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "infer/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "gma/error.h"
#include "infer/evaluate.h"
#include "scratch_folder.h"
#include "tiny.h"

namespace gma::app {
namespace {

/// Draws `count` tokens from the same logits.
std::map<Token, int> draws(const SamplingOptions& options, const std::vector<float>& logits,
                           int count) {
  TokenSampler sampler(options, static_cast<std::int64_t>(logits.size()));
  std::map<Token, int> counts;
  for (int i = 0; i < count; ++i) ++counts[sampler.next(logits)];
  return counts;
}

TEST(Generate, StreamingEqualsAFullPassGreedilyForAThousandTokens) {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    gma_torch::nn::CausalLm model = tiny_lm(5);
    {
      // A model that has learned nothing soon repeats one token: sharpen what it says.
      const torch::NoGradGuard no_grad;
      for (torch::Tensor& p : model->parameters()) p.mul_(1.5);
    }
    model->to(dtype);
    const std::vector<Token> prompt = make_byte_tokenizer()->encode("A prompt.");
    std::vector<Token> tokens = prompt;
    generate(model, prompt, {.greedy = true}, 1000, [&](Token token) {
      tokens.push_back(token);
      return true;
    });
    ASSERT_EQ(tokens.size(), prompt.size() + 1000);

    const c10::InferenceMode inference;
    const std::vector<std::int64_t> starts = {0};
    const auto length = static_cast<std::int64_t>(tokens.size()) - 1;
    const torch::Tensor logits =
        model->forward(window_batch(tokens, starts, length))[0].to(torch::kFloat64);
    // Two logits closer than rounding may change places.
    const double tolerance = dtype == torch::kFloat64 ? 1e-6 : 1e-4;
    for (std::int64_t at = static_cast<std::int64_t>(prompt.size()) - 1; at < length; ++at) {
      const double greatest = logits[at].max().item<double>();
      const double chosen = logits[at][tokens[static_cast<std::size_t>(at) + 1]].item<double>();
      ASSERT_TRUE(greatest - chosen <= tolerance)
          << "token " << at << ": " << chosen << " of " << greatest;
    }
  }
}

TEST(Generate, EndsWhenTold) {
  gma_torch::nn::CausalLm model = tiny_lm();
  const std::vector<Token> prompt = {65};
  int count = 0;
  generate(model, prompt, {.seed = 1}, 10, [&](Token) { return ++count < 4; });
  EXPECT_EQ(count, 4);
  count = 0;
  generate(model, prompt, {.seed = 1}, 10, [&](Token) { return ++count > 0; });
  EXPECT_EQ(count, 10);
  EXPECT_THROW(generate(model, {}, {}, 10, [](Token) { return true; }), InvalidArgument);
}

TEST(Generate, TheSeedDecides) {
  gma_torch::nn::CausalLm model = tiny_lm();
  const std::vector<Token> prompt = {65};
  const auto text = [&](std::uint64_t seed) {
    std::vector<Token> tokens;
    generate(model, prompt, {.seed = seed}, 50, [&](Token token) {
      tokens.push_back(token);
      return true;
    });
    return tokens;
  };
  EXPECT_EQ(text(3), text(3));
  EXPECT_NE(text(3), text(4));
}

TEST(TokenSampler, DrawsByProbability) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  constexpr int kDraws = 20000;
  const auto frequency = [&](const SamplingOptions& options, Token token) {
    return static_cast<double>(draws(options, logits, kDraws)[token]) / kDraws;
  };
  EXPECT_NEAR(frequency({}, 0), 0.5, 0.02);
  EXPECT_NEAR(frequency({}, 2), 0.2, 0.02);
  EXPECT_NEAR(frequency({.temperature = 0.5}, 0), 0.25 / 0.38, 0.02);
  EXPECT_NEAR(frequency({.top_k = 2}, 0), 0.5 / 0.8, 0.02);
  EXPECT_NEAR(frequency({.top_p = 0.7}, 1), 0.3 / 0.8, 0.02);
  EXPECT_EQ(frequency({.top_p = 0.7}, 2), 0.0);
  EXPECT_EQ(frequency({.top_k = 2}, 2), 0.0);
  EXPECT_EQ(frequency({.top_k = 1}, 0), 1.0);
  EXPECT_EQ(frequency({.top_p = 0.1}, 0), 1.0);
  EXPECT_EQ(frequency({.greedy = true}, 0), 1.0);
}

TEST(TokenSampler, PenalisesRepetition) {
  const std::vector<float> logits = {2.0F, 1.5F, -0.1F, -0.12F};
  TokenSampler sampler({.greedy = true, .repetition_penalty = 2.0}, 4);
  EXPECT_EQ(sampler.next(logits), 0);
  sampler.saw(0);
  EXPECT_EQ(sampler.next(logits), 1);
  TokenSampler negative({.greedy = true, .repetition_penalty = 2.0}, 4);
  negative.saw(0);
  negative.saw(1);
  negative.saw(2);
  EXPECT_EQ(negative.next(std::vector<float>{-9.0F, -9.0F, -0.1F, -0.12F}), 3);
}

TEST(StopFilter, CutsBeforeTheStopText) {
  StopFilter filter({"END", "\n\n"});
  EXPECT_EQ(filter.push("some E"), "some ");
  EXPECT_EQ(filter.push("N"), "");
  EXPECT_EQ(filter.push("x\n"), "ENx");
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(filter.push("y EN"), "\ny ");
  EXPECT_EQ(filter.push("D and more"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopFilter, GivesBackWhatItHeld) {
  StopFilter filter({"aab", ""});
  EXPECT_EQ(filter.push("aaa"), "a");
  EXPECT_EQ(filter.finish(), "aa");
  EXPECT_FALSE(filter.stopped());
}

}  // namespace
}  // namespace gma::app
