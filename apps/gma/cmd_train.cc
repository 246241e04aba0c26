// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma train lm, gma train classify, and the benchmarks made of them.

#include "cmd_train.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli.h"
#include "data/listops.h"
#include "gma/error.h"
#include "option_binder.h"
#include "option_checks.h"
#include "summary.h"
#include "train/baselines.h"
#include "train/benchmark.h"
#include "train/interrupt.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

struct TrainCommand {
  CLI::App* app = nullptr;
  const Benchmark* benchmark = nullptr;
  std::string preset = kDefaultPreset;
  TrainConfig config;
  OptionBinder options;
  std::string resume;
  bool overwrite = false;
};

/// A run to go on with.
struct EarlierRun {
  fs::path file;
  fs::path folder;
  gma_torch::nn::Checkpoint checkpoint;
  SavedModel saved;
  Progress progress;
};

/// Opens the run to go on with, and completes the config from it.
EarlierRun open_run(TrainCommand& command) {
  const fs::path file = find_checkpoint(command.resume, {kLastCheckpoint});
  EarlierRun run{file, fs::absolute(file).parent_path(), open_checkpoint(file), {}, {}};
  try {
    run.saved = from_checkpoint(run.checkpoint);
    run.progress = progress_from_json(run.saved.progress);
    if (!is_resumable(run.checkpoint)) {
      throw InvalidArgument("it holds a model but no optimizer: resume from last.safetensors");
    }
    if (run.saved.task != command.config.task) {
      throw InvalidArgument(fmt::format("the run trains '{}', not '{}'", name_of(run.saved.task),
                                        name_of(command.config.task)));
    }
    command.options.complete(
        command.config, train_config_from_json(command.config.task, run.saved.training_config));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", file.string(), error.what()));
  }
  // The folder may have been moved since.
  if (command.options.is_absent("out")) command.config.out = run.folder.string();
  return run;
}

fs::path log_in(const fs::path& folder) { return folder / kLogFile; }

/// A run may go on in its own folder; into another it comes like a new one.
void check_folder(const TrainCommand& command, const RunFolder& folder, bool is_own) {
  const std::string& out = command.config.out;
  if (is_own && command.overwrite) {
    throw InvalidArgument("--overwrite: --resume goes on with the run that the folder holds");
  }
  if (is_own || command.overwrite || !folder.holds_run()) return;
  throw InvalidArgument(
      fmt::format("--out {}: the folder holds a run already; `{}` continues it, --overwrite "
                  "replaces it",
                  out, command_line({"train", name_of(command.config.task), "--resume", out})));
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

std::string describe(const Tokenizer& tokenizer) {
  return fmt::format("tokenizer {}, vocabulary {}", tokenizer.kind(), tokenizer.vocab_size());
}

LoadedTask load_task(const TrainConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
                     Console& console) {
  LoadedTask loaded;
  const auto count = [](auto n) { return human_count(static_cast<double>(n)); };
  if (config.task == Task::lm) {
    loaded.text = std::make_unique<TextCorpus>(load_text_corpus(
        {.data = config.data,
         .valid_data = config.valid_data,
         .valid_fraction = config.valid_fraction,
         .test_data = config.test_data,
         .tokenizer = {config.tokenizer, config.vocab_size, config.tokenizer_model}},
        std::move(tokenizer)));
    const TextCorpus& corpus = *loaded.text;
    loaded.checksum = corpus.checksum;
    console.line(fmt::format(
        "Data: {} files ({} skipped, and {} folders), {} tokens to train on, "
        "{} held out, {}",
        corpus.files, corpus.skipped, corpus.skipped_folders, count(corpus.train.tokens.size()),
        count(corpus.held_out.tokens.size()), describe(*corpus.tokenizer)));
    if (std::ssize(corpus.train.tokens) <= config.context) {
      console.line(
          fmt::format("note: the text to train on is shorter than --context {}: its {} "
                      "tokens are one sequence",
                      config.context, corpus.train.tokens.size()));
    }
    torch::manual_seed(static_cast<std::uint64_t>(config.seed));
    loaded.task = make_lm_task(config, corpus);
  } else {
    loaded.labelled =
        std::make_unique<LabelledCorpus>(load_labelled_corpus(config, std::move(tokenizer)));
    const LabelledCorpus& corpus = *loaded.labelled;
    loaded.checksum = corpus.checksum;
    console.line(fmt::format("Data: {} texts to train on, {} held out, {} classes, {}",
                             corpus.train.size(), corpus.held_out.size(), corpus.num_classes,
                             describe(*corpus.tokenizer)));
    torch::manual_seed(static_cast<std::uint64_t>(config.seed));
    loaded.task = make_classify_task(config, corpus);
  }
  return loaded;
}

void describe_model(const TrainConfig& config, TrainTask& task, Console& console) {
  const std::int64_t mlp_size = task.saved().config.mlp_size;
  console.line(fmt::format(
      "Model: {} parameters ({} layers of width {}, {} inside the MLP, {} heads, mixer {}{})",
      human_count(static_cast<double>(gma_torch::nn::count_parameters(task.model()))),
      config.layers, config.hidden_size, mlp_size > 0 ? mlp_size : 4 * config.hidden_size,
      config.heads, config.mixer,
      config.mixer == "gma" ? fmt::format(" with {} components", config.components) : ""));
}

/// Puts the best model in place of the last; says which step it is of.
std::int64_t load_best(const TrainConfig& config, TrainTask& task, const Progress& progress,
                       Console& console) {
  try {
    const SavedModel best = load_model(fs::path(config.out) / kBestCheckpoint);
    gma_torch::nn::load_state_dict(task.model(), best.weights);
    return progress_from_json(best.progress).step;
  } catch (const InvalidArgument& error) {
    console.line(fmt::format("note: {}: the last model is evaluated instead", error.what()));
    return progress.step;
  }
}

/// Figures of the best model on all held-out data, on the console and in the log.
void conclude(const TrainConfig& config, const LoadedTask& loaded, const Trainer& trainer,
              Console& console, RunLog& log) {
  const Progress& progress = trainer.progress();
  const std::int64_t best_step = load_best(config, *loaded.task, progress, console);
  console.status("evaluating the best model on all held-out data");
  const auto metrics = loaded.task->validate(0, InterruptGuard::requested);
  std::optional<Metrics> test_metrics;
  const bool tests = config.test && loaded.task->has_test();
  if (metrics && tests) {
    console.status("evaluating the best model on the test data");
    test_metrics = loaded.task->test(InterruptGuard::requested);
  }
  if (!metrics || (tests && !test_metrics)) {
    console.line(
        "Stopped during the closing evaluation; the training is done and saved. To have "
        "the evaluation:");
    console.line("  " + command_line({"train", name_of(config.task), "--resume", config.out}));
    throw Interrupted();
  }

  nlohmann::ordered_json record = {{"step", progress.step}, {"best_step", best_step}};
  record.update(nlohmann::ordered_json(nlohmann::json(*metrics)));
  if (test_metrics) record["test"] = nlohmann::json(*test_metrics);
  if (loaded.labelled) record["baselines"] = shortcut_baselines(*loaded.labelled);
  if (loaded.text) {
    const TextCorpus& corpus = *loaded.text;
    record["unigram_bits_per_byte"] =
        unigram_bits_per_byte(corpus.train.ngrams, corpus.held_out.ngrams);
    record["bigram_bits_per_byte"] =
        bigram_bits_per_byte(corpus.train.ngrams, corpus.held_out.ngrams);
  }
  record["tokens"] = progress.tokens;
  record["tokens_per_second"] = trainer.tokens_per_second();
  record["peak_memory_bytes"] = peak_memory();
  record["seconds"] = progress.seconds;
  log.write("final", record);
  console.line("");
  for (const std::string& line : summary(config, progress, record)) console.line(line);
}

/// Says what a run reached that has ended; false if it has not ended, or its end was not recorded.
bool recall_end(const TrainConfig& config, const Progress& progress, Console& console) {
  if (!is_complete(config, progress) || !fs::exists(fs::path(config.out) / kBestCheckpoint)) {
    return false;
  }
  const auto record = RunLog::final_record(log_in(config.out));
  if (!record || record->value("step", std::int64_t{-1}) != progress.step) return false;
  console.line(fmt::format("The run is complete, at step {} of {}: nothing is left to do",
                           progress.step, config.steps));
  for (const std::string& line : summary(config, progress, *record)) console.line(line);
  return true;
}

void train(const TrainConfig& config, std::optional<EarlierRun> earlier, Console& console) {
  const LoadedTask loaded =
      load_task(config, earlier ? earlier->saved.tokenizer : nullptr, console);
  describe_model(config, *loaded.task, console);
  RunLog log(log_in(config.out), earlier ? std::optional(RunLog::Earlier{log_in(earlier->folder),
                                                                         earlier->progress.step})
                                         : std::nullopt);
  Trainer trainer(config, *loaded.task, console, log, loaded.checksum);
  if (earlier) {
    try {
      trainer.resume(earlier->checkpoint, earlier->folder);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}: {}", earlier->file.string(), error.what()));
    }
    console.line(fmt::format("Resuming at step {} of {}", earlier->progress.step, config.steps));
    earlier.reset();
  } else {
    if (config.initial_means == "data") loaded.task->initialize_means();
  }
  // A log that was lost begins anew as well.
  if (!log.has_config()) {
    log.write("config", {{"options", to_json(config)},
                         {"parameters", gma_torch::nn::count_parameters(loaded.task->model())}});
  }

  const InterruptGuard guard;
  const Outcome outcome = trainer.run(InterruptGuard::requested);
  if (outcome == Outcome::interrupted) {
    console.line(
        fmt::format("Stopped after step {}; all is saved. To go on:", trainer.progress().step));
    console.line("  " + resume_command(config, trainer.progress()));
    throw Interrupted();
  }
  if (outcome == Outcome::no_improvement) {
    console.line(fmt::format("No better validation in {} of them: stopped early", config.patience));
  }
  conclude(config, loaded, trainer, console, log);
}

/// Completes the config from config file, preset or earlier run, and checks it.
std::optional<EarlierRun> complete_config(TrainCommand& command) {
  apply_config_file(*command.app);
  command.options.note_given();
  TrainConfig& config = command.config;
  std::optional<EarlierRun> earlier;
  if (!command.app->get_option("--resume")->empty()) {
    if (command.resume.empty()) throw InvalidArgument("--resume: got an empty name of a run");
    if (command.benchmark != nullptr && !command.app->get_option("--preset")->empty()) {
      throw InvalidArgument("--preset: --resume goes on with the options of the run");
    }
    earlier = open_run(command);
  } else if (command.benchmark != nullptr) {
    const Preset& preset = command.benchmark->preset(command.preset);
    apply_config_text(*command.app, fmt::format("preset {}", preset.name), preset.options);
  }
  if (command.benchmark != nullptr) locate_data(*command.benchmark, config);
  for (auto* paths : {&config.data, &config.valid_data, &config.test_data}) make_absolute(*paths);
  check_options(command.options, config);
  if (!config.tokenizer_model.empty()) config.tokenizer = "sentencepiece";
  return earlier;
}

void run(TrainCommand& command) {
  const TrainConfig& config = command.config;
  std::optional<EarlierRun> earlier = complete_config(command);
  set_threads(config.threads);

  const RunFolder folder(config.out);
  const bool is_own = earlier && fs::equivalent(earlier->folder, config.out);
  check_folder(command, folder, is_own);
  Console console;
  for (const std::string& note : notes_on_options(command.options, config)) console.line(note);
  if (is_own && recall_end(config, earlier->progress, console)) return;
  train(config, std::move(earlier), console);
}

std::shared_ptr<TrainCommand> add_task(CLI::App& train, const std::string& name, Task task,
                                       const std::string& description, const std::string& example) {
  auto command = std::make_shared<TrainCommand>();
  command->config.task = task;
  command->config.out = "runs/" + name;
  if (name == "listops") {
    command->config.tokenizer = "listops";
    command->config.num_classes = kListOpsClasses;
  }
  command->app = train.add_subcommand(name, description);
  command->options.bind(*command->app, command->config);
  command->options.at("tokenizer")
      .check(CLI::IsMember({"bytes", "sentencepiece", task == Task::lm ? "words" : "listops"}));
  command->options.at("covariance-type").check(CLI::IsMember({"diag", "tied", "spherical"}));
  command->options.at("initial-means").check(CLI::IsMember({"normal", "data"}));
  command->options.at("mixer").check(CLI::IsMember(gma_torch::nn::mixer_names()));
  command->app
      ->add_option("--resume", command->resume,
                   "Go on with the run in this folder, there or in --out; its options hold unless "
                   "given anew")
      ->type_name("PATH")
      ->group("Run");
  command->app->add_flag("--overwrite", command->overwrite, "Replace a run that --out holds")
      ->group("Run");
  add_config_option(*command->app);
  command->app->footer(
      "Ctrl-C ends the step, saves and says how to go on, with exit code 130; a second one ends at "
      "once.\nA resumed run has the same bits as if it had not stopped, on the same number of "
      "threads and without --max-minutes.\nExample: " +
      example);
  command->app->callback([command] { run(*command); });
  return command;
}

std::shared_ptr<TrainCommand> add_benchmark(CLI::App& train, const Benchmark& benchmark) {
  auto command =
      add_task(train, benchmark.name, benchmark.task, benchmark.description, benchmark.example);
  command->benchmark = &benchmark;
  std::string help = "Options that hold unless given:";
  std::vector<std::string> names;
  for (const Preset& preset : benchmark.presets) {
    help += fmt::format("{} {} ({})", names.empty() ? "" : ";", preset.name, preset.help);
    names.emplace_back(preset.name);
  }
  command->app->add_option("--preset", command->preset, help)
      ->check(CLI::IsMember(names))
      ->type_name("NAME")
      ->capture_default_str()
      ->group("Run");
  return command;
}

}  // namespace

TrainConfig train_config(const std::string& task, const std::vector<std::string>& arguments) {
  CLI::App root;
  set_conventions(root);
  const auto command = add_benchmark(root, benchmark(task));
  command->app->callback([] {});
  std::vector<std::string> words = {task};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::ranges::reverse(words);
  try {
    root.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument(error.what());
  }
  complete_config(*command);
  return command->config;
}

void add_train_command(CLI::App& root) {
  CLI::App* train = root.add_subcommand("train", "Train a model");
  train->callback([train] {
    if (!train->get_subcommands().empty()) return;
    std::string names = "lm, classify";
    for (const Benchmark& benchmark : benchmarks()) names += fmt::format(", {}", benchmark.name);
    throw InvalidArgument(fmt::format("train: expected one of {}", names));
  });
  add_task(*train, "lm", Task::lm, "Train a causal language model on text",
           "gma train lm --data README.md docs src --out runs/lm --steps 500");
  add_task(*train, "classify", Task::classify, "Train a classifier on lines of label<TAB>text",
           "gma train classify --data train.tsv.gz --valid-data test.tsv.gz --out runs/classify");
  for (const Benchmark& benchmark : benchmarks()) add_benchmark(*train, benchmark);
}

}  // namespace gma::app
