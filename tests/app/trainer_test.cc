// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "gma/error.h"
#include "scratch_folder.h"
#include "tiny.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

/// One sitting of a run in `config.out`, the way `gma train lm` does it; a resumed one goes on from
/// the run in `earlier`.
class Sitting {
 public:
  Sitting(const TrainConfig& config, const TextCorpus& corpus, const fs::path& earlier = {})
      : config_(config),
        task_((torch::manual_seed(static_cast<std::uint64_t>(config.seed)),
               make_lm_task(config_, corpus))),
        log_(fs::path(config.out) / "log.jsonl"),
        trainer_(config_, *task_, console_, log_, corpus.checksum) {
    if (!earlier.empty()) trainer_.resume(open_checkpoint(earlier / kLastCheckpoint), earlier);
  }

  Trainer& trainer() { return trainer_; }
  TrainTask& task() { return *task_; }

  /// Asks to stop after so many questions, which come before each step and during validations.
  Outcome run_until(int questions) {
    return trainer_.run([this, questions] { return ++asked_ >= questions; });
  }
  Outcome run() { return trainer_.run({}); }

 private:
  TrainConfig config_;
  int asked_ = 0;
  std::unique_ptr<TrainTask> task_;
  Console console_;
  RunLog log_;
  Trainer trainer_;
};

/// Everything in a checkpoint but the time that it took.
void expect_same(const fs::path& a, const fs::path& b) {
  const gma_torch::nn::Checkpoint x = open_checkpoint(a), y = open_checkpoint(b);
  ASSERT_EQ(x.tensors.size(), y.tensors.size());
  for (const auto& [name, tensor] : x.tensors) {
    EXPECT_TRUE(torch::equal(tensor, y.tensors.at(name))) << name;
  }
  nlohmann::json left = from_checkpoint(x).progress, right = from_checkpoint(y).progress;
  left.erase("seconds");
  right.erase("seconds");
  EXPECT_EQ(left, right);
}

TrainConfig resumable_config() {
  TrainConfig config = tiny_config();
  config.dropout = 0.1;
  config.attention_dropout = 0.1;
  config.grad_accum = 2;
  return config;
}

TEST(Trainer, AResumedRunHasTheSameBits) {
  const TextCorpus corpus = tiny_corpus();
  TrainConfig config = resumable_config();
  const ScratchFolder straight;
  config.out = straight.string();
  ASSERT_EQ(Sitting(config, corpus).run(), Outcome::finished);

  // Questions are asked before a step and after each batch of a validation, so these stop before
  // the first step, between steps, and within validations.
  for (const int questions : {1, 4, 6, 8, 12, 20}) {
    const ScratchFolder stopped;
    config.out = stopped.string();
    ASSERT_EQ(Sitting(config, corpus).run_until(questions), Outcome::interrupted) << questions;
    torch::rand({7});  // whatever happens to the generator in between must not matter
    Sitting resumed(config, corpus, config.out);
    EXPECT_LT(resumed.trainer().progress().step, config.steps);
    ASSERT_EQ(resumed.run(), Outcome::finished);
    expect_same(stopped / kLastCheckpoint, straight / kLastCheckpoint);
    expect_same(stopped / kBestCheckpoint, straight / kBestCheckpoint);
  }
}

TEST(Trainer, TheSeedDecides) {
  const TextCorpus corpus = tiny_corpus();
  const auto weights = [&](std::int64_t seed) {
    const ScratchFolder folder;
    TrainConfig config = resumable_config();
    config.out = folder.string();
    config.seed = seed;
    Sitting(config, corpus).run();
    return open_checkpoint(folder / kLastCheckpoint)
        .tensors.at("model.transformer.embedding.weight");
  };
  const torch::Tensor one = weights(1);
  EXPECT_TRUE(torch::equal(weights(1), one));
  EXPECT_FALSE(torch::equal(weights(2), one));
}

TEST(Trainer, Learns) {
  const TextCorpus corpus = tiny_corpus();
  const ScratchFolder folder;
  TrainConfig config = tiny_config();
  config.out = folder.string();
  config.steps = 150;
  config.valid_every = 50;
  Sitting sitting(config, corpus);
  sitting.run();
  const double bigram = bigram_bits_per_byte(corpus.train.ngrams, corpus.held_out.ngrams);
  EXPECT_LT(*sitting.trainer().progress().best->bits_per_byte, bigram);
}

TEST(Trainer, BestIsTheBestAndHoldsNoOptimizer) {
  const TextCorpus corpus = tiny_corpus();
  const ScratchFolder folder;
  TrainConfig config = tiny_config();
  config.out = folder.string();
  Sitting sitting(config, corpus);
  sitting.run();
  const gma_torch::nn::Checkpoint best = open_checkpoint(folder / kBestCheckpoint);
  for (const auto& [name, tensor] : best.tensors) EXPECT_TRUE(name.starts_with("model.")) << name;
  gma_torch::nn::load_state_dict(sitting.task().model(), from_checkpoint(best).weights);
  EXPECT_EQ(sitting.task().validate(config.valid_tokens, {})->loss,
            sitting.trainer().progress().best->loss);
  EXPECT_REFUSED(sitting.trainer().resume(best, folder.string()), InvalidArgument, "no optimizer");
}

TEST(Trainer, StopsEarlyWhenAsked) {
  const TextCorpus corpus = tiny_corpus();
  const ScratchFolder folder;
  TrainConfig config = tiny_config();
  config.out = folder.string();
  config.steps = 1000;
  config.valid_every = 1;
  config.patience = 2;
  config.lr = 1e-12;  // nothing can get better
  config.min_lr = 1e-12;
  Sitting sitting(config, corpus);
  EXPECT_EQ(sitting.run(), Outcome::no_improvement);
  EXPECT_LT(sitting.trainer().progress().step, 50);
}

TEST(Trainer, ATimeBudgetEndsTheRun) {
  const TextCorpus corpus = tiny_corpus();
  const ScratchFolder folder;
  TrainConfig config = tiny_config();
  config.out = folder.string();
  config.steps = 1'000'000;
  config.max_minutes = 1.0 / 60.0;
  Sitting sitting(config, corpus);
  EXPECT_EQ(sitting.run(), Outcome::finished);
  EXPECT_GE(sitting.trainer().progress().seconds, 1.0);
  EXPECT_LT(sitting.trainer().progress().step, 100'000);
  EXPECT_TRUE(fs::exists(folder / kBestCheckpoint)) << "the last state is validated";
}

void spoil(TrainTask& task) {
  const torch::NoGradGuard no_grad;
  task.model().parameters()[0].fill_(std::numeric_limits<float>::quiet_NaN());
}

TEST(Trainer, NeverSavesWhatIsNotFinite) {
  const TextCorpus corpus = tiny_corpus();
  const ScratchFolder folder;
  TrainConfig config = tiny_config();
  config.out = folder.string();
  Sitting fresh(config, corpus);
  spoil(fresh.task());
  EXPECT_REFUSED(fresh.run(), std::runtime_error, "became nan at step 0: try a lower --lr");
  EXPECT_FALSE(fs::exists(folder / kLastCheckpoint));

  for (const int questions : {3, 6}) {  // before a step, and between the batches of a validation
    ASSERT_EQ(Sitting(config, corpus).run_until(4), Outcome::interrupted);
    Sitting sitting(config, corpus, config.out);
    int asked = 0;
    EXPECT_REFUSED(sitting.trainer().run([&] {
      if (++asked == questions) spoil(sitting.task());
      return false;
    }),
                   std::runtime_error, "last.safetensors holds step ");
    for (const auto& [name, tensor] : open_checkpoint(folder / kLastCheckpoint).tensors) {
      EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
    }
  }
}

TEST(Trainer, ARunGoesOnInAnotherFolder) {
  const TextCorpus corpus = tiny_corpus();
  const ScratchFolder straight, first, second;
  TrainConfig config = resumable_config();
  config.out = straight.string();
  ASSERT_EQ(Sitting(config, corpus).run(), Outcome::finished);

  config.out = first.string();
  ASSERT_EQ(Sitting(config, corpus).run_until(22), Outcome::interrupted);
  ASSERT_TRUE(fs::exists(first / kBestCheckpoint));
  second.write(kBestCheckpoint, "of another run");
  config.out = second.string();
  Sitting resumed(config, corpus, first.string());
  ASSERT_EQ(resumed.run_until(1), Outcome::interrupted);
  expect_same(second / kLastCheckpoint, first / kLastCheckpoint);
  expect_same(second / kBestCheckpoint, first / kBestCheckpoint);
  ASSERT_EQ(Sitting(config, corpus, second.string()).run(), Outcome::finished);
  expect_same(second / kLastCheckpoint, straight / kLastCheckpoint);
  expect_same(second / kBestCheckpoint, straight / kBestCheckpoint);
}

TEST(Trainer, WithoutItsBestModelTheNextValidationDecides) {
  const TextCorpus corpus = tiny_corpus();
  const ScratchFolder folder, other;
  TrainConfig config = tiny_config();
  config.out = other.string();
  config.seed = 7;
  Sitting(config, corpus).run();
  config.seed = 1;
  config.out = folder.string();
  Sitting(config, corpus).run();
  const gma_torch::nn::Checkpoint foreign = open_checkpoint(other / kBestCheckpoint);

  for (const bool is_foreign : {false, true}) {
    fs::remove(folder / kBestCheckpoint);
    if (is_foreign) gma_torch::nn::save_checkpoint(folder / kBestCheckpoint, foreign);
    Sitting resumed(config, corpus, config.out);
    EXPECT_EQ(resumed.trainer().progress().best_step, -1);
    ASSERT_EQ(resumed.run(), Outcome::finished);
    const SavedModel best = load_model(folder / kBestCheckpoint);
    EXPECT_EQ(progress_from_json(best.progress).step, config.steps);
    EXPECT_EQ(resumed.trainer().progress().best_step, config.steps);
  }
}

TEST(Trainer, AnInterruptedStepIsAsIfItHadNotBegun) {
  const TextCorpus corpus = tiny_corpus();
  const ScratchFolder folder;
  TrainConfig config = resumable_config();
  config.grad_accum = 1000;
  config.out = folder.string();
  Sitting sitting(config, corpus);
  ASSERT_EQ(sitting.run_until(5), Outcome::interrupted);
  EXPECT_EQ(sitting.trainer().progress().step, 0);
  EXPECT_EQ(sitting.trainer().progress().tokens, 0);
}

TEST(Trainer, RefusesAForeignProgress) {
  EXPECT_THROW(progress_from_json({{"step", 1}}), InvalidArgument);
  nlohmann::json json = Progress{};
  json["step"] = "x";
  EXPECT_THROW(progress_from_json(json), InvalidArgument);
  json["step"] = -1;
  EXPECT_THROW(progress_from_json(json), InvalidArgument);
}

TEST(ClassifyTask, LearnsToTellTextsApart) {
  const ScratchFolder folder;
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    lines += i % 2 == 0 ? "0\tdull, dull " : "1\tgreat fun ";
    lines += std::to_string(i) + "\n";
  }
  TrainConfig config = tiny_config(Task::classify);
  config.data = {folder.write("texts.tsv", lines)};
  config.out = folder.string();
  config.steps = 60;
  config.valid_every = 20;
  config.valid_fraction = 0.2;
  const LabelledCorpus corpus = load_labelled_corpus(config);
  EXPECT_EQ(corpus.num_classes, 2);
  EXPECT_EQ(corpus.held_out.size(), 40);
  torch::manual_seed(1);
  const auto task = make_classify_task(config, corpus);
  Console console;
  RunLog log(folder / "log.jsonl");
  Trainer trainer(config, *task, console, log, corpus.checksum);
  trainer.run({});
  EXPECT_GT(*trainer.progress().best->accuracy, 0.95);
  EXPECT_EQ(load_model(folder.string()).task, Task::classify);
}

TEST(ClassifyTask, RefusesDataOfOneClass) {
  const ScratchFolder folder;
  TrainConfig config = tiny_config(Task::classify);
  config.data = {folder.write("texts.tsv", "0\ta\n0\tb\n")};
  EXPECT_REFUSED(load_labelled_corpus(config), InvalidArgument, "classes");
}

}  // namespace
}  // namespace gma::app
