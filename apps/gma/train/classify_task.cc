// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "data/epoch_order.h"
#include "data/listops.h"
#include "gma/error.h"
#include "train/task.h"

namespace gma::app {
namespace {

/// Files and the texts in them, which are views into the files.
struct ParsedFiles {
  std::vector<TextFile> files;
  std::vector<LabelledText> texts;
};

ParsedFiles parse_files(const std::vector<std::string>& paths, std::int64_t num_classes) {
  ParsedFiles parsed{.files = read_text_files(paths).files, .texts = {}};
  for (const TextFile& file : parsed.files) {
    const std::vector<LabelledText> texts = parse_labelled(file, num_classes);
    parsed.texts.insert(parsed.texts.end(), texts.begin(), texts.end());
  }
  return parsed;
}

std::int64_t classes_of(const std::vector<LabelledText>& texts) {
  std::int64_t count = 0;
  for (const LabelledText& item : texts) count = std::max(count, item.label + 1);
  return count;
}

/// Labels that are inferred number the classes, so a stray one like 10^9 would cost memory.
constexpr std::int64_t kMaxInferredClasses = 10000;

class ClassifyTask final : public TrainTask {
 public:
  ClassifyTask(const TrainConfig& config, const LabelledCorpus& corpus)
      : corpus_(corpus),
        batch_size_(config.batch_size),
        sampler_(lengths(corpus.train), config.batch_size, static_cast<std::uint64_t>(config.seed)),
        model_(model_config(config, corpus.tokenizer->vocab_size(), corpus.num_classes)) {}

  torch::nn::Module& model() override { return *model_; }

  void initialize_means() override {
    const LabelledBatch first = batch(0);
    model_->transformer()->initialize_means(first.tokens, first.mask);
  }

  BatchLoss loss(std::int64_t index) override {
    const LabelledBatch batch = this->batch(index);
    const torch::Tensor logits = model_->forward(batch.tokens, batch.mask);
    return {torch::nn::functional::cross_entropy(logits, batch.labels), batch.tokens.numel()};
  }

  std::optional<Metrics> validate(std::int64_t max_tokens, const StopRequest& stop) override {
    return metrics(corpus_.held_out, max_tokens, stop);
  }

  bool has_test() const override { return corpus_.test.has_value(); }

  std::optional<Metrics> test(const StopRequest& stop) override {
    return metrics(corpus_.test.value(), /*max_tokens=*/0, stop);
  }

  SavedModel saved() override {
    return {.task = Task::classify,
            .config = model_->config(),
            .tokenizer = corpus_.tokenizer,
            .training_config = {},
            .progress = {},
            .weights = gma_torch::nn::state_dict(*model_)};
  }

 private:
  LabelledBatch batch(std::int64_t index) {
    return labelled_batch(corpus_.train, sampler_.batch(index));
  }

  std::optional<Metrics> metrics(const LabelledTokens& data, std::int64_t max_tokens,
                                 const StopRequest& stop) {
    std::int64_t count = max_tokens > 0 ? 1 : data.size();
    for (std::int64_t tokens = data.length(0); count < data.size(); ++count) {
      if ((tokens += data.length(count)) > max_tokens) break;
    }
    const auto score = score_classifier(model_, data, count, batch_size_, stop);
    if (!score) return std::nullopt;
    return Metrics{score->loss(), std::nullopt, score->accuracy()};
  }

  static std::vector<std::int64_t> lengths(const LabelledTokens& data) {
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < data.size(); ++i) result.push_back(data.length(i));
    return result;
  }

  const LabelledCorpus& corpus_;
  std::int64_t batch_size_;
  BucketSampler sampler_;
  gma_torch::nn::SequenceClassifier model_;
};

}  // namespace

LabelledTokens read_listops_files(const std::vector<std::string>& paths, std::int64_t max_length) {
  LabelledTokens all;
  for (const std::string& path : paths) {
    const LabelledTokens part = read_listops(path);
    for (std::int64_t i = 0; i < part.size(); ++i) {
      const std::span<const Token> tokens = part.tokens(i);
      all.add(tokens.first(std::min(tokens.size(), static_cast<std::size_t>(max_length))),
              part.label(i));
    }
  }
  return all;
}

namespace {

LabelledCorpus load_listops_corpus(const TrainConfig& config) {
  LabelledCorpus corpus{.tokenizer = make_listops_tokenizer(),
                        .train = read_listops_files(config.data, config.context),
                        .held_out = read_listops_files(config.valid_data, config.context),
                        .test = std::nullopt,
                        .num_classes = kListOpsClasses};
  if (!config.test_data.empty()) corpus.test = read_listops_files(config.test_data, config.context);
  for (const LabelledTokens* part : {&corpus.train, &corpus.held_out}) {
    for (std::int64_t i = 0; i < part->size(); ++i) {
      const std::span<const Token> tokens = part->tokens(i);
      corpus.checksum = checksum(
          {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()}, corpus.checksum);
    }
  }
  return corpus;
}

}  // namespace

LabelledCorpus load_labelled_corpus(const TrainConfig& config,
                                    std::shared_ptr<const Tokenizer> tokenizer) {
  if (config.tokenizer == "listops") return load_listops_corpus(config);
  ParsedFiles data = parse_files(config.data, config.num_classes);
  const std::int64_t num_classes =
      config.num_classes > 0 ? config.num_classes : classes_of(data.texts);
  if (num_classes < 2 || (config.num_classes == 0 && num_classes > kMaxInferredClasses)) {
    throw InvalidArgument(fmt::format("--data {}: expected labels of 2 to {} classes, got {}",
                                      fmt::join(config.data, " "), kMaxInferredClasses,
                                      num_classes));
  }
  ParsedFiles valid;
  if (config.valid_data.empty()) {
    valid.texts =
        hold_out(data.texts, config.valid_fraction, static_cast<std::uint64_t>(config.seed));
  } else {
    valid = parse_files(config.valid_data, num_classes);
    // In random order, because a validation may stop before the end of a file sorted by label.
    valid.texts = hold_out(valid.texts, 1.0, static_cast<std::uint64_t>(config.seed));
  }
  std::uint32_t sum = 0;
  for (const auto* files : {&data.files, &valid.files}) {
    for (const TextFile& file : *files) sum = checksum(file.text, sum);
  }
  if (data.texts.empty() || valid.texts.empty()) {
    throw InvalidArgument("--data: too few texts to train on some and hold some out");
  }

  if (!tokenizer) {
    std::vector<std::string_view> texts;
    for (const LabelledText& item : data.texts) texts.push_back(item.text);
    tokenizer =
        make_tokenizer({config.tokenizer, config.vocab_size, config.tokenizer_model}, texts);
  }
  LabelledCorpus corpus{.tokenizer = tokenizer,
                        .train = LabelledTokens(data.texts, *tokenizer, config.context),
                        .held_out = LabelledTokens(valid.texts, *tokenizer, config.context),
                        .test = std::nullopt,
                        .num_classes = num_classes,
                        .checksum = sum};
  if (!config.test_data.empty()) {
    const ParsedFiles test = parse_files(config.test_data, num_classes);
    if (test.texts.empty()) throw InvalidArgument("--test-data: expected at least one text");
    corpus.test = LabelledTokens(test.texts, *tokenizer, config.context);
  }
  return corpus;
}

std::unique_ptr<TrainTask> make_classify_task(const TrainConfig& config,
                                              const LabelledCorpus& corpus) {
  return std::make_unique<ClassifyTask>(config, corpus);
}

}  // namespace gma::app
