// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma report.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli.h"
#include "data/output_file.h"
#include "gma/error.h"
#include "report/runs_page.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

struct ReportCommand {
  CLI::App* app = nullptr;
  std::vector<std::string> runs;
  std::string out = "report.html";
  std::string title = "Training runs";
};

/// Throws InvalidArgument where the page would replace something that is no page.
void check_target(const fs::path& path) {
  if (!fs::exists(path)) return;
  std::ifstream file(path);
  std::string start(15, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (start == "<!doctype html>" || fs::is_empty(path)) return;
  throw InvalidArgument(fmt::format(
      "--out {}: expected a new file or an earlier page, got one that holds something else",
      path.string()));
}

void run(const ReportCommand& command) {
  apply_config_file(*command.app);
  check_target(command.out);
  const std::vector<fs::path> folders(command.runs.begin(), command.runs.end());
  const std::vector<std::string> names = run_names(folders);
  std::vector<RunRecords> runs;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    runs.push_back(read_run(folders[i], names[i]));
  }
  write_whole_file(command.out, runs_page(command.title, runs));
  fmt::print("{} runs in {}\n", runs.size(), command.out);
}

}  // namespace

void add_report_command(CLI::App& root) {
  auto command = std::make_shared<ReportCommand>();
  CLI::App* app = command->app = root.add_subcommand(
      "report", "Draw the curves of training runs, also of such as still go on");
  app->add_option("runs", command->runs, "Folders of runs")->required()->type_name("PATH");
  app->add_option("--out", command->out, "Page to write: HTML that opens offline")
      ->type_name("FILE")
      ->capture_default_str();
  app->add_option("--title", command->title, "Its heading")->capture_default_str();
  add_config_option(*app);
  app->footer("Example: gma report runs/gma runs/softmax --out curves.html");
  app->callback([command] { run(*command); });
}

}  // namespace gma::app
