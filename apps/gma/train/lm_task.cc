// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "data/epoch_order.h"
#include "train/task.h"

namespace gma::app {
namespace {

class LmTask final : public TrainTask {
 public:
  LmTask(const TrainConfig& config, const TextCorpus& corpus)
      : corpus_(corpus),
        batch_size_(config.batch_size),
        context_(config.context),
        sampler_(static_cast<std::int64_t>(corpus.train.tokens.size()), config.context + 1,
                 static_cast<std::uint64_t>(config.seed)),
        model_(model_config(config, corpus.tokenizer->vocab_size(), /*num_classes=*/0)) {}

  torch::nn::Module& model() override { return *model_; }

  void initialize_means() override {
    const torch::Tensor windows = batch(0);
    model_->transformer()->initialize_means(windows.narrow(1, 0, windows.size(1) - 1));
  }

  BatchLoss loss(std::int64_t index) override {
    const torch::Tensor windows = batch(index);
    const std::int64_t length = windows.size(1) - 1;
    const torch::Tensor logits = model_->forward(windows.narrow(1, 0, length));
    const torch::Tensor targets = windows.narrow(1, 1, length);
    return {torch::nn::functional::cross_entropy(logits.flatten(0, 1), targets.flatten()),
            batch_size_ * length};
  }

  std::optional<Metrics> validate(std::int64_t max_tokens, const StopRequest& stop) override {
    return metrics(corpus_.held_out, max_tokens, stop);
  }

  bool has_test() const override { return corpus_.test.has_value(); }

  std::optional<Metrics> test(const StopRequest& stop) override {
    return metrics(corpus_.test.value(), /*max_tokens=*/0, stop);
  }

  SavedModel saved() override {
    return {.task = Task::lm,
            .config = model_->config(),
            .tokenizer = corpus_.tokenizer,
            .training_config = {},
            .progress = {},
            .weights = gma_torch::nn::state_dict(*model_)};
  }

 private:
  /// Windows of one token more than a sequence: what follows each is there too.
  torch::Tensor batch(std::int64_t index) {
    std::vector<std::int64_t> starts(static_cast<std::size_t>(batch_size_));
    for (std::int64_t row = 0; row < batch_size_; ++row) {
      starts[static_cast<std::size_t>(row)] = sampler_.start(index * batch_size_ + row);
    }
    return window_batch(corpus_.train.tokens, starts, sampler_.length());
  }

  std::optional<Metrics> metrics(const TokenStream& stream, std::int64_t max_tokens,
                                 const StopRequest& stop) {
    std::span<const Token> tokens = stream.tokens;
    if (max_tokens > 0)
      tokens = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(max_tokens) + 1));
    const auto score =
        score_lm(model_, tokens, *corpus_.tokenizer,
                 {.context = context_, .stride = context_, .batch_size = batch_size_}, stop);
    if (!score) return std::nullopt;
    Metrics metrics{score->loss(), score->bits_per_byte(), std::nullopt};
    if (stream.words && tokens.size() == stream.tokens.size()) {
      metrics.word_perplexity = std::exp(score->nats / static_cast<double>(*stream.words));
    }
    return metrics;
  }

  const TextCorpus& corpus_;
  std::int64_t batch_size_;
  std::int64_t context_;
  WindowSampler sampler_;
  gma_torch::nn::CausalLm model_;
};

}  // namespace

std::unique_ptr<TrainTask> make_lm_task(const TrainConfig& config, const TextCorpus& corpus) {
  return std::make_unique<LmTask>(config, corpus);
}

}  // namespace gma::app
