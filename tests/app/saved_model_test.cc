// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "infer/saved_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gma/error.h"
#include "gma/safetensors.h"
#include "scratch_folder.h"
#include "tiny.h"

namespace gma::app {
namespace {

using gma_torch::nn::Checkpoint;

SavedModel tiny_saved(std::shared_ptr<const Tokenizer> tokenizer = make_byte_tokenizer()) {
  const TrainConfig config = tiny_config();
  gma_torch::nn::CausalLm model(model_config(config, tokenizer->vocab_size(), 0));
  return {.task = Task::lm,
          .config = model->config(),
          .tokenizer = std::move(tokenizer),
          .training_config = to_json(config),
          .progress = {{"step", 3}},
          .weights = gma_torch::nn::state_dict(*model)};
}

TEST(SavedModel, ComesBackWithTheSameBits) {
  const ScratchFolder folder;
  const SavedModel saved = tiny_saved(train_sentencepiece({tiny_text()}, 300));
  gma_torch::nn::save_checkpoint(folder / kBestCheckpoint, to_checkpoint(saved));
  const SavedModel loaded = load_model(folder.string());
  EXPECT_EQ(loaded.config.to_json(), saved.config.to_json());
  EXPECT_EQ(loaded.training_config, saved.training_config);
  EXPECT_EQ(loaded.progress, saved.progress);
  EXPECT_EQ(loaded.tokenizer->encode(tiny_text()), saved.tokenizer->encode(tiny_text()));
  const gma_torch::nn::CausalLm model = make_lm(loaded);
  EXPECT_FALSE(model->is_training());
  for (const auto& [name, tensor] : gma_torch::nn::state_dict(*model)) {
    EXPECT_TRUE(torch::equal(tensor, saved.weights.at(name))) << name;
  }
  EXPECT_REFUSED(make_classifier(loaded), InvalidArgument, "holds a model for 'lm'");
}

TEST(SavedModel, FindsTheFileInAFolder) {
  const ScratchFolder folder;
  EXPECT_REFUSED(find_checkpoint(folder / "none", {kBestCheckpoint}), InvalidArgument,
                 "no such file");
  EXPECT_REFUSED(find_checkpoint(folder.string(), {kBestCheckpoint, kLastCheckpoint}),
                 InvalidArgument, "holds no best.safetensors or last.safetensors");
  folder.write(kLastCheckpoint, "x");
  EXPECT_EQ(find_checkpoint(folder.string(), {kBestCheckpoint, kLastCheckpoint}),
            folder / kLastCheckpoint);
  folder.write(kBestCheckpoint, "x");
  EXPECT_EQ(find_checkpoint(folder.string(), {kBestCheckpoint, kLastCheckpoint}),
            folder / kBestCheckpoint);
}

TEST(SavedModel, RefusesForeignFiles) {
  const ScratchFolder folder;
  EXPECT_THROW(load_model(folder.write("rubbish", "\x01rubbish that is no checkpoint")),
               InvalidArgument);
  EXPECT_THROW(load_model(folder.write("empty", "")), InvalidArgument);
  write_safetensors(folder / "foreign", {}, {{"format", "pt"}});
  EXPECT_REFUSED(load_model(folder / "foreign"), InvalidArgument, "not a checkpoint of gma");
  write_safetensors(folder / "newer", {}, {{"format", "gma-checkpoint"}, {"format_version", "2"}});
  EXPECT_REFUSED(load_model(folder / "newer"), InvalidArgument, "format version 1, got 2");
}

TEST(SavedModel, RefusesContradictions) {
  const Checkpoint sound = to_checkpoint(tiny_saved());
  const auto refuse = [&](auto change, const std::string& reason) {
    Checkpoint checkpoint = sound;
    change(checkpoint);
    EXPECT_REFUSED(make_lm(from_checkpoint(checkpoint)), InvalidArgument, reason);
  };
  refuse([](Checkpoint& c) { c.metadata.erase("task"); }, "lacks 'task'");
  refuse([](Checkpoint& c) { c.metadata["task"] = "paint"; }, "'paint'");
  refuse([](Checkpoint& c) { c.metadata["progress"] = "{"; }, "'progress' is not JSON");
  refuse([](Checkpoint& c) { c.metadata["model_config"] = "[]"; }, "config");
  refuse([](Checkpoint& c) { c.metadata["tokenizer"] = "sentencepiece"; }, "SentencePiece");
  refuse([](Checkpoint& c) { c.tensors.erase("model.transformer.embedding.weight"); },
         "embedding.weight");
  refuse([](Checkpoint& c) { c.tensors["model.extra"] = torch::zeros({1}); }, "extra");
  refuse(
      [](Checkpoint& c) {
        auto config = nlohmann::json::parse(c.metadata["model_config"]);
        config["vocab_size"] = 257;
        c.metadata["model_config"] = config.dump();
      },
      "vocabulary");
}

TEST(SavedModel, RefusesAModelLargerThanItsFileBeforeMakingIt) {
  for (const char* field : {"hidden_size", "num_layers", "mlp_size", "num_components"}) {
    Checkpoint checkpoint = to_checkpoint(tiny_saved());
    auto config = nlohmann::json::parse(checkpoint.metadata["model_config"]);
    config[field] = 1'000'000'000;
    checkpoint.metadata["model_config"] = config.dump();
    EXPECT_REFUSED(from_checkpoint(checkpoint), InvalidArgument,
                   "larger model than the file holds");
  }
}

}  // namespace
}  // namespace gma::app
