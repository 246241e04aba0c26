// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma compare.

#include <fmt/format.h>
#include <gma_torch/nn/mixer.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "child_process.h"
#include "cli.h"
#include "cmd_train.h"
#include "compare/comparison.h"
#include "compare/variants.h"
#include "data/output_file.h"
#include "gma/error.h"
#include "infer/saved_model.h"
#include "train/benchmark.h"
#include "train/range.h"
#include "train/run_log.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

struct CompareCommand {
  CLI::App* app = nullptr;
  std::string task;
  std::string data;
  std::vector<std::string> mixers;
  std::string variants_file;
  std::string preset = kDefaultPreset;
  std::int64_t seeds = 1;
  std::string out;
  std::vector<std::string> train_options;
};

/// One run of the comparison.
struct Entry {
  Variant variant;
  std::int64_t seed = 0;
  fs::path folder;
  TrainConfig config;  ///< what the run is asked for
};

/// The options of a new run.
std::vector<std::string> options_of(const CompareCommand& command, const Entry& entry) {
  std::vector<std::string> words = {"--data",   command.data,
                                    "--preset", command.preset,
                                    "--seed",   std::to_string(entry.seed),
                                    "--out",    entry.folder.string()};
  // The last one of an option holds: what tells variants apart wins over what they share.
  for (const auto& options : {command.train_options, entry.variant.options}) {
    words.insert(words.end(), options.begin(), options.end());
  }
  return words;
}

std::vector<std::string> train_arguments(const CompareCommand& command, const Entry& entry) {
  std::vector<std::string> words = {"train", command.task};
  const std::vector<std::string> options =
      fs::exists(entry.folder / kLastCheckpoint)
          ? std::vector<std::string>{"--resume", entry.folder.string()}
          : options_of(command, entry);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

/// Seeds outside, variants inside: a comparison that is broken off has seen every one as often.
/// Refuses now, with the reason, what would fail after hours.
std::vector<Entry> entries_of(const CompareCommand& command, const std::vector<Variant>& variants) {
  std::vector<Entry> entries;
  for (std::int64_t seed = 1; seed <= command.seeds; ++seed) {
    for (const Variant& variant : variants) {
      Entry entry{.variant = variant,
                  .seed = seed,
                  .folder = fs::path(command.out) / fmt::format("{}-{}", variant.name, seed),
                  .config = {}};
      try {
        entry.config = train_config(command.task, options_of(command, entry));
      } catch (const InvalidArgument& error) {
        throw InvalidArgument(fmt::format("{}: {}", variant.name, error.what()));
      }
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

/// A run that has begun or ended stands in the table for what is asked for now, so it must have
/// been told the same; how fast it ran and where it lies may differ.
void check_begun_run(const Entry& entry) {
  constexpr std::string_view kFree[] = {"out", "threads", "log-every", "save-every"};
  if (!fs::exists(entry.folder / kLogFile)) return;
  const nlohmann::json wanted = to_json(entry.config);
  const RunRecords run = read_run(entry.folder, entry.folder.filename().string());
  for (const auto& [name, value] : run.options.items()) {
    if (std::ranges::find(kFree, name) != std::end(kFree) || !wanted.contains(name)) continue;
    if (const nlohmann::json begun = value; begun != wanted.at(name)) {
      throw InvalidArgument(fmt::format(
          "--out {}: its run {} has --{} {}, and this comparison asks for {}: another --out keeps "
          "both",
          entry.folder.parent_path().string(), run.name, name, begun.dump(),
          wanted.at(name).dump()));
    }
  }
}

/// Says which runs have ended on data that has been written again since: their figures may be of
/// other data than those of the runs to come.
void note_newer_data(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    const fs::path log = entry.folder / kLogFile;
    if (!RunLog::final_record(log)) continue;
    for (const auto* paths :
         {&entry.config.data, &entry.config.valid_data, &entry.config.test_data}) {
      for (const std::string& path : *paths) {
        if (fs::last_write_time(path) <= fs::last_write_time(log)) continue;
        fmt::print("note: {} is newer than the run {}, which is not repeated\n", path,
                   entry.folder.string());
      }
    }
  }
}

/// All runs that have begun.
std::vector<ComparedRun> read_runs(const std::vector<Entry>& entries) {
  std::vector<ComparedRun> runs;
  for (const Entry& entry : entries) {
    if (fs::exists(entry.folder / kLogFile)) {
      runs.push_back(
          {entry.variant.name, read_run(entry.folder, entry.folder.filename().string())});
    }
  }
  return runs;
}

/// Writes table, numbers and page of what there is so far.
std::string write_results(const CompareCommand& command, const std::vector<Entry>& entries) {
  const std::vector<ComparedRun> runs = read_runs(entries);
  std::vector<RunRecords> records;
  for (const ComparedRun& run : runs) records.push_back(run.records);
  const std::vector<ComparisonRow> rows = compare(runs);
  const nlohmann::ordered_json baselines = baselines_of(runs);
  const std::string table = comparison_markdown(benchmark(command.task).task, rows, baselines);
  const std::string title = fmt::format("{}, preset {}", command.task, command.preset);
  const fs::path out = command.out;
  write_whole_file(out / "compare.md", fmt::format("# {}\n\n{}", title, table));
  write_whole_file(out / "compare.json", comparison_json(rows, baselines).dump(1) + "\n");
  write_whole_file(out / "compare.html", runs_page(title, records));
  return table;
}

/// The variants that the options ask for; throws InvalidArgument if an option is missing or wrong.
std::vector<Variant> checked_variants(const CompareCommand& command) {
  require_option(*command.app, "--task");
  require_option(*command.app, "--data");
  benchmark(command.task).preset(command.preset);
  for (const std::string& word : command.train_options) {
    const std::string option = word.substr(0, word.find('='));
    if (!option.starts_with("--") || !is_own_option(option.substr(2))) continue;
    throw InvalidArgument(fmt::format("{} after --: gma compare gives this option itself", option));
  }
  return command.variants_file.empty() ? variants_of_mixers(command.mixers)
                                       : read_variants(command.variants_file, command.task);
}

void run(CompareCommand& command) {
  apply_config_file(*command.app);
  const std::vector<Variant> variants = checked_variants(command);
  if (command.app->get_option("--out")->empty()) {
    command.out = fmt::format("runs/compare-{}-{}", command.task, command.preset);
  }
  const std::vector<Entry> entries = entries_of(command, variants);
  for (const Entry& entry : entries) check_begun_run(entry);
  const OutputFolder folder(command.out);
  note_newer_data(entries);
  std::vector<std::string> failed;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (RunLog::final_record(entry.folder / kLogFile)) continue;
    fmt::print("\n== Run {} of {}: {}, seed {}\n", i + 1, entries.size(), entry.variant.name,
               entry.seed);
    const int code = run_self(train_arguments(command, entry));
    if (code == kInterruptedCode) {
      write_results(command, entries);
      fmt::print("The same command goes on from here.\n");
      throw Interrupted();
    }
    if (code != 0) failed.push_back(fmt::format("{} ({})", entry.folder.string(), code));
    write_results(command, entries);
  }
  fmt::print("\n{}\nAll in {}: compare.md, compare.json, compare.html\n",
             write_results(command, entries), command.out);
  if (!failed.empty()) {
    throw std::runtime_error(fmt::format("{} of {} runs failed (exit code): {}", failed.size(),
                                         entries.size(), fmt::join(failed, ", ")));
  }
}

}  // namespace

void add_compare_command(CLI::App& root) {
  auto command = std::make_shared<CompareCommand>();
  CLI::App* app = command->app = root.add_subcommand(
      "compare", "Train mixers or variants on a benchmark, one after the other, and make a table");
  std::vector<std::string> tasks, presets;
  for (const Benchmark& task : benchmarks()) tasks.emplace_back(task.name);
  app->add_option("--task", command->task, "Benchmark")
      ->check(CLI::IsMember(tasks))
      ->type_name("NAME");
  app->add_option("--data", command->data, "Folder of its data; see gma data")->type_name("DIR");
  command->mixers = {"gma", "softmax"};
  // One word: a list that went on would take the -- behind it as its end.
  app->add_option("--mixers", command->mixers, "Mixers, with commas between them")
      ->delimiter(',')
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)
      ->check(CLI::IsMember(gma_torch::nn::mixer_names()))
      ->type_name("NAMES")
      ->capture_default_str();
  app->add_option("--variants", command->variants_file,
                  "File of [sections] with options of gma train, each a row of the table")
      ->excludes("--mixers")
      ->type_name("FILE");
  app->add_option("--preset", command->preset, "Size of the task; see gma train TASK --help")
      ->type_name("NAME")
      ->capture_default_str();
  add_number(*app, "--seeds", command->seeds, {.min = 1, .max = 1000},
             "Runs of each mixer or variant, with seeds from 1");
  app->add_option("--out", command->out, "Folder for runs and results [runs/compare-TASK-PRESET]")
      ->type_name("DIR");
  app->add_option("options", command->train_options,
                  "After --: options of gma train for every run");
  add_config_option(*app);
  app->footer(
      "Runs that have ended are not repeated, and one that was broken off goes on: the same "
      "command again completes a comparison.\nExample: gma compare --task wikitext --data "
      "data/wikitext-2 --mixers gma,softmax,linear -- --use-short-conv");
  app->callback([command] { run(*command); });
}

}  // namespace gma::app
