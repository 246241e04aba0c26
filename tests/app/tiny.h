// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Models and configs that are small enough to train in a blink.
#pragma once

#include <string>

#include "data/text_corpus.h"
#include "infer/saved_model.h"
#include "train/config.h"

namespace gma::app {

inline TrainConfig tiny_config(Task task = Task::lm) {
  TrainConfig config;
  config.task = task;
  config.layers = 2;
  config.hidden_size = 16;
  config.heads = 2;
  config.components = 4;
  config.context = 24;
  config.batch_size = 4;
  config.steps = 12;
  config.warmup = 2;
  config.valid_every = 4;
  config.save_every = 5;
  config.log_every = 1;
  config.lr = 1e-2;
  return config;
}

inline std::string tiny_text() {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "line " + std::to_string(i * i % 97) + " of a small text\n";
  return text;
}

/// Bytes of tiny_text(), all but the end to train on.
inline TextCorpus tiny_corpus() {
  const std::vector<TextFile> files = {{"tiny", tiny_text()}};
  const TextSplit split = split_texts(files, 0.1);
  TextCorpus corpus;
  corpus.tokenizer = make_byte_tokenizer();
  corpus.train = tokenize(*corpus.tokenizer, split.train);
  corpus.held_out = tokenize(*corpus.tokenizer, split.held_out);
  corpus.checksum = checksum(files[0].text);
  return corpus;
}

inline gma_torch::nn::CausalLm tiny_lm(std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  gma_torch::nn::CausalLm model(model_config(tiny_config(), /*vocab_size=*/256, /*num_classes=*/0));
  model->eval();
  return model;
}

}  // namespace gma::app
