// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma train lm, gma train classify.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli.h"
#include "gma/error.h"
#include "option_binder.h"
#include "train/interrupt.h"
#include "train/trainer.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

struct TrainCommand {
  CLI::App* app = nullptr;
  TrainConfig config;
  OptionBinder options;
  std::string resume;
  bool overwrite = false;
};

/// Opens the run to go on with, and completes the config from it.
gma_torch::nn::Checkpoint open_run(TrainCommand& command, SavedModel& saved, Progress& progress) {
  const fs::path file = find_checkpoint(command.resume, {kLastCheckpoint});
  gma_torch::nn::Checkpoint checkpoint = open_checkpoint(file);
  try {
    saved = from_checkpoint(checkpoint);
    progress = progress_from_json(saved.progress);
    if (!is_resumable(checkpoint)) {
      throw InvalidArgument("it holds a model but no optimizer: resume from last.safetensors");
    }
    if (saved.task != command.config.task) {
      throw InvalidArgument(fmt::format("the run trains '{}', not '{}'", name_of(saved.task),
                                        name_of(command.config.task)));
    }
    command.options.complete(command.config,
                             train_config_from_json(command.config.task, saved.training_config));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", file.string(), error.what()));
  }
  // The folder may have been moved since.
  if (command.options.is_absent("out"))
    command.config.out = fs::absolute(file).parent_path().string();
  return checkpoint;
}

/// Makes the folder, and clears away what a killed run left half-written.
void prepare_folder(const TrainCommand& command) {
  const fs::path out = command.config.out;
  if (command.resume.empty() && !command.overwrite && fs::exists(out / kLastCheckpoint)) {
    throw InvalidArgument(
        fmt::format("--out {0}: the folder holds a run already; --resume {0} continues it, "
                    "--overwrite replaces it",
                    out.string()));
  }
  try {
    fs::create_directories(out);
    if (command.resume.empty()) {
      for (const std::string_view name : {kBestCheckpoint, kLastCheckpoint}) fs::remove(out / name);
    }
    for (const auto& entry : fs::directory_iterator(out)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with('.') && name.ends_with(".safetensors.tmp")) fs::remove(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw InvalidArgument(fmt::format("--out {}: {}", out.string(), error.code().message()));
  }
}

void make_absolute(std::vector<std::string>& paths) {
  for (std::string& path : paths) path = fs::absolute(path).lexically_normal().string();
}

/// The data of either task, and the task on it.
struct LoadedTask {
  std::unique_ptr<TextCorpus> text;
  std::unique_ptr<LabelledCorpus> labelled;
  std::unique_ptr<TrainTask> task;
  std::uint32_t checksum = 0;
};

LoadedTask load_task(const TrainConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
                     Console& console) {
  LoadedTask loaded;
  const auto count = [](auto n) { return human_count(static_cast<double>(n)); };
  if (config.task == Task::lm) {
    loaded.text = std::make_unique<TextCorpus>(load_text_corpus(
        {.data = config.data,
         .valid_data = config.valid_data,
         .valid_fraction = config.valid_fraction,
         .tokenizer = {config.tokenizer, config.vocab_size, config.tokenizer_model}},
        std::move(tokenizer)));
    const TextCorpus& corpus = *loaded.text;
    loaded.checksum = corpus.checksum;
    console.line(
        fmt::format("Data: {} files ({} skipped), {} tokens to train on, {} held out, tokenizer {}",
                    corpus.files, corpus.skipped, count(corpus.train.tokens.size()),
                    count(corpus.held_out.tokens.size()), corpus.tokenizer->kind()));
    torch::manual_seed(static_cast<std::uint64_t>(config.seed));
    loaded.task = make_lm_task(config, corpus);
  } else {
    loaded.labelled =
        std::make_unique<LabelledCorpus>(load_labelled_corpus(config, std::move(tokenizer)));
    const LabelledCorpus& corpus = *loaded.labelled;
    loaded.checksum = corpus.checksum;
    console.line(fmt::format("Data: {} texts to train on, {} held out, {} classes, tokenizer {}",
                             corpus.train.size(), corpus.held_out.size(), corpus.num_classes,
                             corpus.tokenizer->kind()));
    torch::manual_seed(static_cast<std::uint64_t>(config.seed));
    loaded.task = make_classify_task(config, corpus);
  }
  return loaded;
}

void describe_model(const TrainConfig& config, TrainTask& task, Console& console) {
  console.line(fmt::format(
      "Model: {} parameters ({} layers of width {}, {} heads, mixer {}{})",
      human_count(static_cast<double>(gma_torch::nn::count_parameters(task.model()))),
      config.layers, config.hidden_size, config.heads, config.mixer,
      config.mixer == "gma" ? fmt::format(" with {} components", config.components) : ""));
}

/// Figures of the best model on all held-out data, on the console and in the log.
void conclude(const TrainConfig& config, const LoadedTask& loaded, const Trainer& trainer,
              Console& console, RunLog& log) {
  const fs::path best = fs::path(config.out) / kBestCheckpoint;
  gma_torch::nn::load_state_dict(loaded.task->model(), load_model(best).weights);
  console.status("evaluating the best model on all held-out data");
  const auto metrics = loaded.task->validate(0, InterruptGuard::requested);
  if (!metrics) return;

  const Progress& progress = trainer.progress();
  nlohmann::ordered_json record = {{"step", progress.step}, {"best_step", progress.best_step}};
  record.update(nlohmann::ordered_json(nlohmann::json(*metrics)));
  std::string figures = fmt::format("loss {:.4f}", metrics->loss);
  if (metrics->accuracy)
    figures = fmt::format("accuracy {:.2f}%, {}", 100.0 * *metrics->accuracy, figures);
  if (metrics->bits_per_byte) {
    const TextCorpus& corpus = *loaded.text;
    const double unigram = unigram_bits_per_byte(corpus.train.ngrams, corpus.held_out.ngrams);
    const double bigram = bigram_bits_per_byte(corpus.train.ngrams, corpus.held_out.ngrams);
    figures = fmt::format("{:.3f} bits per byte (unigram model {:.3f}, bigram model {:.3f}), {}",
                          *metrics->bits_per_byte, unigram, bigram, figures);
    record["unigram_bits_per_byte"] = unigram;
    record["bigram_bits_per_byte"] = bigram;
  }
  record["tokens"] = progress.tokens;
  record["tokens_per_second"] = trainer.tokens_per_second();
  record["peak_memory_bytes"] = peak_memory();
  record["seconds"] = progress.seconds;
  log.write("final", record);

  const bool is_lm = config.task == Task::lm;
  console.line("");
  console.line(fmt::format("Held out:   {}", figures));
  console.line(fmt::format("Best model: step {} of {}, in {}", progress.best_step, progress.step,
                           best.string()));
  console.line(fmt::format("Speed:      {} tokens/s; {} tokens in {}; peak memory {}",
                           human_count(trainer.tokens_per_second()),
                           human_count(static_cast<double>(progress.tokens)),
                           human_duration(progress.seconds), human_bytes(peak_memory())));
  console.line("Try next:");
  if (is_lm) console.line(fmt::format("  gma generate {} --prompt 'The '", config.out));
  console.line(fmt::format("  gma eval {} --data FILE", config.out));
  console.line(fmt::format("  gma train {} --resume {} --steps {}", name_of(config.task),
                           config.out, 2 * config.steps));
}

void check_config(const TrainCommand& command) {
  if (command.config.data.empty()) throw InvalidArgument("--data is required");
  // Before any data is read: what the data adds, vocabulary and classes, is known to be usable.
  model_config(command.config, /*vocab_size=*/256, command.config.task == Task::lm ? 0 : 2)
      .validate();
}

void run(TrainCommand& command) {
  apply_config_file(*command.app);
  SavedModel saved;
  Progress progress;
  gma_torch::nn::Checkpoint checkpoint;
  if (!command.resume.empty()) checkpoint = open_run(command, saved, progress);
  TrainConfig& config = command.config;
  make_absolute(config.data);
  make_absolute(config.valid_data);
  check_config(command);
  set_threads(config.threads);

  Console console;
  const LoadedTask loaded = load_task(config, saved.tokenizer, console);
  describe_model(config, *loaded.task, console);
  prepare_folder(command);
  RunLog log(fs::path(config.out) / "log.jsonl", command.resume.empty() ? -1 : progress.step);
  Trainer trainer(config, *loaded.task, console, log, loaded.checksum);
  if (!command.resume.empty()) {
    trainer.resume(checkpoint);
    checkpoint = {};
    console.line(fmt::format("Resuming at step {} of {}", progress.step, config.steps));
  } else {
    log.write("config", {{"options", to_json(config)},
                         {"parameters", gma_torch::nn::count_parameters(loaded.task->model())}});
  }

  const InterruptGuard guard;
  const Outcome outcome = trainer.run(InterruptGuard::requested);
  if (outcome == Outcome::interrupted) {
    console.line(
        fmt::format("Stopped after step {}; all is saved. To go on:", trainer.progress().step));
    console.line(fmt::format("  gma train {} --resume {}", name_of(config.task), config.out));
    return;
  }
  if (outcome == Outcome::no_improvement) {
    console.line(fmt::format("No better validation in {} of them: stopped early", config.patience));
  }
  conclude(config, loaded, trainer, console, log);
}

void add_task(CLI::App& train, Task task, const std::string& description,
              const std::string& example) {
  auto command = std::make_shared<TrainCommand>();
  command->config.task = task;
  command->config.out = std::string("runs/") + name_of(task);
  command->app = train.add_subcommand(name_of(task), description);
  command->options.bind(*command->app, command->config);
  command->options.at("tokenizer").check(CLI::IsMember({"bytes", "sentencepiece"}));
  command->options.at("covariance-type").check(CLI::IsMember({"diag", "tied", "spherical"}));
  command->options.at("mixer").check(CLI::IsMember(gma_torch::nn::mixer_names()));
  command->app
      ->add_option("--resume", command->resume,
                   "Go on with the run in this folder; its options hold unless given anew")
      ->type_name("PATH")
      ->group("Run");
  command->app->add_flag("--overwrite", command->overwrite, "Replace a run that --out holds")
      ->group("Run");
  add_config_option(*command->app);
  command->app->footer(
      "Ctrl-C ends the step, saves and says how to go on; a second one ends at once.\nExample: " +
      example);
  command->app->callback([command] { run(*command); });
}

}  // namespace

void add_train_command(CLI::App& root) {
  CLI::App* train = root.add_subcommand("train", "Train a model");
  train->callback([train] {
    if (train->get_subcommands().empty()) throw InvalidArgument("train: expected lm or classify");
  });
  add_task(*train, Task::lm, "Train a causal language model on text",
           "gma train lm --data README.md docs src --out runs/demo --steps 500");
  add_task(*train, Task::classify, "Train a classifier on lines of label<TAB>text",
           "gma train classify --data train.tsv.gz --valid-data test.tsv.gz --out runs/classify");
}

}  // namespace gma::app
