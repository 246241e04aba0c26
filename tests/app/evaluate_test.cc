// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "infer/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tiny.h"

namespace gma::app {
namespace {

/// Nats of token `at` of the stream, given those from `begin` on.
double nats_of(gma_torch::nn::CausalLm& model, std::span<const Token> tokens, std::int64_t begin,
               std::int64_t at) {
  const c10::InferenceMode inference;
  const std::vector<std::int64_t> starts = {begin};
  const torch::Tensor logits = model->forward(window_batch(tokens, starts, at - begin));
  const torch::Tensor log_p = torch::log_softmax(logits.select(1, -1).to(torch::kFloat64), -1);
  return -log_p[0][tokens[static_cast<std::size_t>(at)]].item<double>();
}

std::vector<Token> some_tokens(std::size_t count) {
  const std::string text = tiny_text();
  return make_byte_tokenizer()->encode(std::string_view(text).substr(0, count));
}

TEST(ScoreLm, OneWindowIsTheModelsOwnLoss) {
  gma_torch::nn::CausalLm model = tiny_lm();
  const std::vector<Token> tokens = some_tokens(50);
  const auto score = score_lm(model, tokens, *make_byte_tokenizer(), {.context = 1000});
  double nats = 0.0;
  for (std::int64_t at = 1; at < 50; ++at) nats += nats_of(model, tokens, 0, at);
  EXPECT_EQ(score->tokens, 49);
  EXPECT_EQ(score->bytes, 49);
  EXPECT_NEAR(score->nats, nats, 1e-4 * nats);
  EXPECT_DOUBLE_EQ(score->bits_per_byte(), score->loss() / std::log(2.0));
  EXPECT_DOUBLE_EQ(score->perplexity(), std::exp(score->loss()));
}

TEST(ScoreLm, AStrideGivesEachTokenItsContextOnce) {
  gma_torch::nn::CausalLm model = tiny_lm();
  constexpr std::int64_t kContext = 12, kStride = 5;
  for (const std::size_t size : {2U, 12U, 13U, 14U, 18U, 19U, 60U, 63U}) {
    const std::vector<Token> tokens = some_tokens(size);
    double nats = 0.0;
    std::int64_t start = 0;
    for (std::int64_t at = 1; at < static_cast<std::int64_t>(size); ++at) {
      while (at > start + kContext) start += kStride;
      nats += nats_of(model, tokens, start, at);
    }
    const auto score = score_lm(model, tokens, *make_byte_tokenizer(),
                                {.context = kContext, .stride = kStride, .batch_size = 3});
    EXPECT_EQ(score->tokens, static_cast<std::int64_t>(size) - 1);
    EXPECT_NEAR(score->nats, nats, 1e-4 * nats) << size << " tokens";
  }
}

TEST(ScoreLm, BatchSizeHasNoSay) {
  gma_torch::nn::CausalLm model = tiny_lm();
  const std::vector<Token> tokens = some_tokens(2000);
  const auto tokenizer = make_byte_tokenizer();
  const double one = score_lm(model, tokens, *tokenizer, {.context = 32, .batch_size = 1})->nats;
  for (const std::int64_t batch_size : {2, 7, 16, 1000}) {
    const double nats =
        score_lm(model, tokens, *tokenizer, {.context = 32, .batch_size = batch_size})->nats;
    EXPECT_NEAR(nats, one, 1e-6 * one);
  }
}

TEST(ScoreLm, StopsWhenAsked) {
  gma_torch::nn::CausalLm model = tiny_lm();
  model->train();
  EXPECT_EQ(score_lm(model, some_tokens(500), *make_byte_tokenizer(), {.context = 8},
                     [] { return true; }),
            std::nullopt);
  EXPECT_TRUE(model->is_training()) << "the mode comes back";
}

TEST(ScoreClassifier, PaddingAndBatchesHaveNoSay) {
  TrainConfig config = tiny_config(Task::classify);
  torch::manual_seed(2);
  gma_torch::nn::SequenceClassifier model(model_config(config, 256, 3));
  model->eval();
  std::vector<LabelledText> texts;
  const std::string text = tiny_text();
  for (std::size_t i = 0; i < 20; ++i) {
    texts.push_back(
        {static_cast<std::int64_t>(i % 3), std::string_view(text).substr(i * 7, 1 + i * 5 % 23)});
  }
  const LabelledTokens data(texts, *make_byte_tokenizer(), 1000);
  const auto one = score_classifier(model, data, data.size(), 1);
  const auto many = score_classifier(model, data, data.size(), 16);
  EXPECT_EQ(one->texts, 20);
  EXPECT_EQ(many->correct, one->correct);
  EXPECT_NEAR(many->nats, one->nats, 1e-5 * one->nats);
  EXPECT_EQ(score_classifier(model, data, 7, 4)->texts, 7);
}

}  // namespace
}  // namespace gma::app
