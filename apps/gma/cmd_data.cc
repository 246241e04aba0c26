// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma data: makes or fetches data sets.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli.h"
#include "data/datasets.h"
#include "data/download.h"
#include "data/listops_files.h"
#include "data/output_file.h"
#include "gma/error.h"
#include "train/console.h"
#include "train/interrupt.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

constexpr Range kRows{.min = 1, .max = 1e9};
constexpr Range kRetries{.min = 0, .max = 100};

/// Ctrl-C ends the work, and all it says goes to the console.
Watch watch_on(Console& console) {
  Watch watch;
  watch.status = [&](std::string_view text) { console.status(text); };
  watch.line = [&](std::string_view text) { console.line(text); };
  watch.stop = InterruptGuard::requested;
  return watch;
}

void add_out(CLI::App& app, std::string& out, bool& overwrite) {
  app.add_option("--out", out, "Folder for the files")->type_name("DIR")->capture_default_str();
  app.add_flag("--overwrite", overwrite, "Replace files that are there");
}

struct ListOpsCommand {
  ListOpsFilesOptions options;
  std::string out = "data/listops";
  bool overwrite = false;
};

void run_listops(const ListOpsCommand& command) {
  const ListOpsFilesOptions& options = command.options;
  const ListOpsGenerator checked(options.generator, options.seed);
  const OutputFolder folder(command.out);
  folder.check_absent(kListOpsFiles, command.overwrite);
  Console console;
  const InterruptGuard guard;
  ListOpsFilesReport report;
  try {
    report = write_listops(folder.path(), options, watch_on(console));
  } catch (const Stopped&) {
    console.line("Stopped; nothing is written.");
    throw Interrupted();
  }
  for (std::size_t i = 0; i < kListOpsFiles.size(); ++i) {
    console.line(fmt::format("{}: {} expressions", (folder.path() / kListOpsFiles[i]).string(),
                             options.rows.at(i)));
  }
  const auto total = static_cast<double>(options.rows[0] + options.rows[1] + options.rows[2]);
  console.line(fmt::format("{} in {} ({:.0f} expressions/s)",
                           human_bytes(static_cast<double>(report.bytes)),
                           human_duration(report.seconds), total / report.seconds));
  const ListOpsBaselines& baselines = report.baselines;
  console.line(fmt::format(
      "Shortcuts, right on basic_test.tsv: {:.1f} % the most frequent label, {:.1f} % by the root "
      "operator, {:.1f} % by the root operator and the digits directly under it",
      100 * baselines.majority, 100 * baselines.root_operator, 100 * baselines.root_digits));
}

void add_listops(CLI::App& data) {
  auto command = std::make_shared<ListOpsCommand>();
  CLI::App* app = data.add_subcommand(
      "listops", "Generate ListOps as Long Range Arena does (Tay et al., 2020)");
  ListOpsFilesOptions& options = command->options;
  add_out(*app, command->out, command->overwrite);
  app->add_flag("--parentheses,!--no-parentheses", options.parentheses,
                "Write the redundant round parentheses, two thirds of the bytes [on]");
  constexpr const char* kSize = "Size";
  add_number(*app, "--train", options.rows[0], kRows, "Expressions to train on")->group(kSize);
  add_number(*app, "--val", options.rows[1], kRows, "Expressions to validate on")->group(kSize);
  add_number(*app, "--test", options.rows[2], kRows, "Expressions to test on")->group(kSize);
  add_number(*app, "--seed", options.seed, kCountOr0, "Seed; the same files come of the same one")
      ->group(kSize);
  constexpr const char* kShape = "Shape";
  ListOpsOptions& shape = options.generator;
  const auto add = [&](const char* name, std::int64_t& value, double min, std::int64_t max,
                       const char* help) {
    add_number(*app, name, value, {.min = min, .max = static_cast<double>(max)}, help)
        ->group(kShape);
  };
  add("--max-depth", shape.max_depth, 1, kListOpsMaxDepth,
      "Depth of the deepest digits; operators nest one less deep");
  add("--max-args", shape.max_args, 2, kListOpsMaxArgs, "Most arguments of an operator");
  add("--min-length", shape.min_length, 0, kListOpsMaxLength,
      "Expressions have more tokens than this");
  add("--max-length", shape.max_length, 2, kListOpsMaxLength, "and fewer than this");
  app->footer(
      "Makes basic_train.tsv, basic_val.tsv and basic_test.tsv, with lines expression<TAB>value.\n"
      "Example: gma data listops --out data/listops --train 20000");
  app->callback([command] { run_listops(*command); });
}

struct DatasetCommand {
  CLI::App* app = nullptr;
  const DatasetInfo* info = nullptr;
  ConvertOptions convert;
  DownloadOptions download;
  std::string out;
  std::string from;
  bool overwrite = false;
  bool keep_archive = false;
};

/// The splits that were asked for, in their own order.
std::vector<std::string> chosen_splits(const DatasetInfo& info,
                                       const std::vector<std::string>& asked) {
  if (asked.empty()) return info.splits;
  std::vector<std::string> chosen;
  for (const std::string& split : info.splits) {
    if (std::ranges::find(asked, split) != asked.end()) chosen.push_back(split);
  }
  return chosen;
}

/// Downloads the archive to the folder, if it is not there; says whether it did.
bool fetch(const DatasetCommand& command, const fs::path& archive, Console& console,
           const Watch& watch) {
  if (fs::exists(archive)) {
    console.line(fmt::format("Using {}, which is there", archive.string()));
    if (!command.download.sha256.empty()) check_sha256(archive, command.download.sha256, watch);
    return false;
  }
  console.line("Downloading " + command.download.url);
  download(command.download, archive, watch);
  return true;
}

/// Converts an archive that was downloaded. It goes when it is used up, or of no use.
std::vector<ConvertedFile> convert_download(const DatasetCommand& command, const fs::path& folder,
                                            const ConvertOptions& options, Console& console,
                                            const Watch& watch) {
  const bool is_ours = fetch(command, options.source, console, watch);
  const bool is_used_up = is_ours && !command.keep_archive;
  try {
    std::vector<ConvertedFile> made = convert_dataset(command.info->dataset, options, watch);
    if (is_used_up) fs::remove(folder / options.source.filename());
    return made;
  } catch (const InvalidArgument&) {
    if (is_used_up) fs::remove(folder / options.source.filename());
    throw;
  }
}

void run_dataset(const DatasetCommand& command) {
  const DatasetInfo& info = *command.info;
  DatasetCommand checked = command;
  DownloadOptions& download = checked.download;
  ConvertOptions options = command.convert;
  options.out = command.out;
  options.splits = chosen_splits(info, command.convert.splits);
  const std::vector<std::string> names = file_names(info.dataset, options);
  if (download.url.empty()) download.url = options.raw ? info.raw_url : info.url;
  const std::string archive = file_name_of_url(download.url);
  if (std::ranges::find(names, archive) != names.end()) {
    throw InvalidArgument(fmt::format("--url {}: expected an archive", download.url));
  }
  if (!download.sha256.empty()) check_sha256_option(download.sha256);

  const OutputFolder folder(command.out);
  folder.check_absent(names, command.overwrite);
  Console console;
  const InterruptGuard guard;
  const Watch watch = watch_on(console);
  std::vector<ConvertedFile> made;
  try {
    if (command.from.empty()) {
      options.source = folder.path() / archive;
      made = convert_download(checked, folder.path(), options, console, watch);
    } else {
      options.source = command.from;
      if (!download.sha256.empty()) {
        if (fs::is_directory(command.from)) {
          throw InvalidArgument(
              fmt::format("--sha256: expected a file, and --from {} is a folder", command.from));
        }
        check_sha256(command.from, download.sha256, watch);
      }
      made = convert_dataset(info.dataset, options, watch);
    }
  } catch (const Stopped&) {
    console.line(command.from.empty()
                     ? "Stopped; what is downloaded is kept, and the same command goes on from it."
                     : "Stopped; nothing is written.");
    throw Interrupted();
  }
  for (const ConvertedFile& file : made) {
    console.line(fmt::format("{}: {} {}, {}", (folder.path() / file.name).string(), file.rows,
                             info.rows, human_bytes(static_cast<double>(file.bytes))));
  }
}

void add_dataset(CLI::App& data, const DatasetInfo& info) {
  auto command = std::make_shared<DatasetCommand>();
  command->info = &info;
  command->out = std::string("data/") + info.name;
  CLI::App* app = command->app = data.add_subcommand(info.name, info.what);
  add_out(*app, command->out, command->overwrite);
  app->add_option("--splits", command->convert.splits,
                  fmt::format("Some of {}; all by default", fmt::join(info.splits, ", ")))
      ->check(CLI::IsMember(info.splits))
      ->type_name("SPLIT")
      ->expected(1, static_cast<int>(info.splits.size()));
  if (info.raw_url[0] != '\0') {
    app->add_flag("--raw", command->convert.raw,
                  "The text as it was (wiki.SPLIT.raw), not in words with <unk> (.tokens)");
  }
  constexpr const char* kSource = "Source";
  CLI::Option* from = app->add_option("--from", command->from,
                                      "Archive in its original form, or folder with what was in it")
                          ->type_name("PATH")
                          ->group(kSource);
  app->add_option("--url", command->download.url, fmt::format("Archive to download [{}]", info.url))
      ->excludes(from)
      ->type_name("URL")
      ->group(kSource);
  app->add_option("--sha256", command->download.sha256, "Checksum that the archive must have")
      ->type_name("HEX")
      ->group(kSource);
  add_number(*app, "--retries", command->download.retries, kRetries,
             "Further tries of a download that makes no progress")
      ->group(kSource);
  app->add_flag("--keep-archive", command->keep_archive, "Keep what was downloaded, in --out")
      ->group(kSource);
  app->footer(fmt::format(
      "Makes {}.\nA download that breaks off is gone on with, by the same command too; Ctrl-C ends "
      "it with exit code 130.\nExample: gma data {} --out data/{} --from {}",
      fmt::join(file_names(info.dataset, {.source = {}, .out = {}, .splits = info.splits}), ", "),
      info.name, info.name, file_name_of_url(info.url)));
  app->callback([command] { run_dataset(*command); });
}

}  // namespace

void add_data_command(CLI::App& root) {
  CLI::App* data = root.add_subcommand("data", "Make or fetch data sets");
  data->callback([data] {
    if (!data->get_subcommands().empty()) return;
    throw InvalidArgument("data: expected listops, imdb, wikitext-2, wikitext-103 or lra");
  });
  add_listops(*data);
  for (const DatasetInfo& info : datasets()) add_dataset(*data, info);
  data->footer("Example: gma data listops --out data/listops");
}

}  // namespace gma::app
