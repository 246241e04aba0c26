// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What the trainer needs to know of the thing that it trains.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/labelled_texts.h"
#include "data/text_corpus.h"
#include "infer/evaluate.h"
#include "infer/saved_model.h"
#include "train/config.h"

namespace gma::app {

/// Figures on data that the model was not trained on.
struct Metrics {
  double loss = 0.0;
  std::optional<double> bits_per_byte;  ///< language models
  std::optional<double> accuracy;       ///< classifiers
  /// Language models, of all data, where its text consists of words.
  std::optional<double> word_perplexity = std::nullopt;

  /// By accuracy where there is one, otherwise and between equals by loss.
  bool is_better_than(const Metrics& other) const;
  bool is_finite() const;
};

void to_json(nlohmann::json& json, const Metrics& metrics);
void from_json(const nlohmann::json& json, Metrics& metrics);

class TrainTask {
 public:
  struct BatchLoss {
    torch::Tensor loss;  ///< mean over the batch
    std::int64_t tokens = 0;
  };

  virtual ~TrainTask() = default;
  virtual torch::nn::Module& model() = 0;
  /// Spreads the means of all mixtures over what the first batch is routed by.
  virtual void initialize_means() = 0;
  /// Loss of batch number `index`, counted from the start of the run.
  virtual BatchLoss loss(std::int64_t index) = 0;
  /// Figures on held-out data, of at most max_tokens tokens if that is not 0; nothing if `stop`
  /// ended it.
  virtual std::optional<Metrics> validate(std::int64_t max_tokens, const StopRequest& stop) = 0;
  virtual bool has_test() const = 0;
  /// Figures on the test data, which has_test() says to be there.
  virtual std::optional<Metrics> test(const StopRequest& stop) = 0;
  /// The model as it is, without training_config and progress.
  virtual SavedModel saved() = 0;
};

/// Language model: next token at each place of windows of config.context + 1 tokens.
std::unique_ptr<TrainTask> make_lm_task(const TrainConfig& config, const TextCorpus& corpus);

/// Texts of a classifier.
struct LabelledCorpus {
  std::shared_ptr<const Tokenizer> tokenizer;
  LabelledTokens train, held_out;
  std::optional<LabelledTokens> test;
  std::int64_t num_classes = 0;
  std::uint32_t checksum = 0;  ///< of all text
};

/// ListOps expressions of the files one after the other, of each at most `max_length` tokens.
/// Throws as read_listops() does.
LabelledTokens read_listops_files(const std::vector<std::string>& paths, std::int64_t max_length);

/// Reads config.data and, where given, config.valid_data and config.test_data. `tokenizer`, if
/// given, wins over the config.
LabelledCorpus load_labelled_corpus(const TrainConfig& config,
                                    std::shared_ptr<const Tokenizer> tokenizer = nullptr);

/// Classifier of whole texts. The corpus must outlive the task, here and above.
std::unique_ptr<TrainTask> make_classify_task(const TrainConfig& config,
                                              const LabelledCorpus& corpus);

}  // namespace gma::app
