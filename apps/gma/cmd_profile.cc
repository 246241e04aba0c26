// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma profile.

#include <fmt/format.h>
#include <gma_torch/nn/mixer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "child_process.h"
#include "cli.h"
#include "data/output_file.h"
#include "gma/error.h"
#include "profile/profile.h"
#include "train/console.h"
#include "train/interrupt.h"

namespace gma::app {
namespace {

struct ProfileCommand {
  CLI::App* app = nullptr;
  ProfileCase one;
  std::vector<std::string> mixers;
  std::vector<std::string> passes = {"forward", "backward", "step"};
  std::vector<std::int64_t> tokens = {512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
  std::vector<std::int64_t> components = {128};
  double max_seconds = 10.0;
  double max_memory = 12.0;  ///< GB
  double seconds = 0.5;
  std::int64_t threads = 0;
  std::string out;
  bool measure_one = false;
};

constexpr double kGigabyte = 1e9;
/// A child has this many times the budget before it is ended: a pass runs at least twice, and the
/// tokens before a step take as long as a forward pass.
constexpr double kPatience = 4.0;

std::vector<std::string> arguments_of(const ProfileCommand& command, const ProfileCase& one) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {"profile",
          "--measure-one",
          "--mixers",
          one.mixer,
          "--passes",
          one.pass,
          "--tokens",
          number(one.tokens),
          "--components",
          number(one.components),
          "--batch-size",
          number(one.batch_size),
          "--hidden-size",
          number(one.hidden_size),
          "--heads",
          number(one.heads),
          "--layers",
          number(one.layers),
          "--vocab-size",
          number(one.vocab_size),
          "--max-seconds",
          number(command.max_seconds),
          "--max-memory",
          number(command.max_memory),
          "--seconds",
          number(command.seconds),
          "--threads",
          number(command.threads),
          one.is_causal ? "--causal" : "--no-causal",
          one.use_short_conv ? "--use-short-conv" : "--no-use-short-conv"};
}

/// In a process of its own: what an earlier case left behind has no say in time and memory.
ProfileOutcome measure_in_child(const ProfileCommand& command, const ProfileCase& one) {
  const ChildOutput child = read_self(arguments_of(command, one));
  if (child.code == kInterruptedCode || child.code == 128 + SIGINT) throw Interrupted();
  if (child.code == 128 + SIGALRM) {
    return {std::nullopt, fmt::format("takes more than {} s", kPatience * command.max_seconds)};
  }
  const auto json = nlohmann::ordered_json::parse(child.text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {std::nullopt, fmt::format("exit code {}", child.code)};
  if (json.contains("error")) return {std::nullopt, json.at("error").get<std::string>()};
  return {json.get<Measurement>(), {}};
}

void measure_one(const ProfileCommand& command) {
  ProfileCase one = command.one;
  one.mixer = command.mixers.at(0);
  one.pass = command.passes.at(0);
  one.tokens = command.tokens.at(0);
  one.components = command.components.at(0);
  set_threads(command.threads);
  const auto bytes = static_cast<rlim_t>(command.max_memory * kGigabyte);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_DATA, &limit);
  ::alarm(static_cast<unsigned>(kPatience * std::max(1.0, command.max_seconds)));
  nlohmann::ordered_json result;
  try {
    result = measure(one, command.seconds);
  } catch (const InvalidArgument& error) {
    result = {{"error", error.what()}};
  } catch (const std::exception& error) {
    // torch says that memory ran out in an error of its own.
    const std::string_view reason = error.what();
    const bool is_memory = reason.find("llocat") != reason.npos || reason == "std::bad_alloc";
    result = {{"error", is_memory ? fmt::format("more than {} GB", command.max_memory)
                                  : std::string(error.what()).substr(0, 200)}};
  }
  fmt::print("{}\n", result.dump());
}

std::vector<ProfileSeries> series_of(const ProfileCommand& command) {
  std::vector<ProfileSeries> all;
  for (const std::string& pass : command.passes) {
    for (const std::string& mixer : command.mixers) {
      for (const std::int64_t components : command.components) {
        if (mixer != "gma" && components != command.components.front()) continue;
        ProfileSeries series{.first = command.one};
        series.first.mixer = mixer;
        series.first.pass = pass;
        series.first.components = components;
        all.push_back(std::move(series));
      }
    }
  }
  return all;
}

std::string slope_text(const std::optional<double>& slope) {
  return slope ? fmt::format("{:.2f}", *slope) : "unknown";
}

void run(ProfileCommand& command) {
  apply_config_file(*command.app);
  if (command.measure_one) return measure_one(command);
  if (command.mixers.empty()) command.mixers = gma_torch::nn::mixer_names();
  std::ranges::sort(command.tokens);
  const auto repeated = std::ranges::unique(command.tokens);
  command.tokens.erase(repeated.begin(), repeated.end());
  std::vector<ProfileSeries> all = series_of(command);
  std::optional<OutputFolder> folder;
  if (!command.out.empty()) folder.emplace(command.out);
  Console console;
  if (!command.app->get_option("--components")->empty() &&
      std::ranges::find(command.mixers, "gma") == command.mixers.end()) {
    console.line("note: --components has no effect without gma in --mixers");
  }
  for (ProfileSeries& series : all) {
    const std::string label = fmt::format("{}, {}", series.name(), series.first.pass);
    run_series(series, command.tokens, {.seconds = command.max_seconds},
               [&](const ProfileCase& one) {
                 console.status(fmt::format("{}, N={}", label, one.tokens));
                 return measure_in_child(command, one);
               });
    console.line(fmt::format("{}: slope of time {}, of memory {}{}", label,
                             slope_text(series.time_slope()), slope_text(series.memory_slope()),
                             series.stopped.empty() ? "" : "; stopped: " + series.stopped));
  }
  if (std::ranges::all_of(all, [](const ProfileSeries& series) { return series.points.empty(); })) {
    throw InvalidArgument(fmt::format("nothing could be measured: {}", all.front().stopped));
  }
  const std::string table = profile_markdown(all, command.tokens);
  console.line("");
  console.line(table);
  if (!folder) return;
  write_whole_file(folder->path() / "profile.md", table);
  write_whole_file(folder->path() / "profile.json", profile_json(all).dump(1) + "\n");
  write_whole_file(folder->path() / "profile.html", profile_page("Mixers over the length", all));
  console.line(fmt::format("All in {}: profile.md, profile.json, profile.html", command.out));
}

}  // namespace

void add_profile_command(CLI::App& root) {
  auto command = std::make_shared<ProfileCommand>();
  CLI::App* app = command->app = root.add_subcommand(
      "profile", "Measure time and memory of every mixer over the length of the sequence");
  app->add_option("--mixers", command->mixers, "Mixers, with commas between them [all]")
      ->delimiter(',')
      ->check(CLI::IsMember(gma_torch::nn::mixer_names()))
      ->type_name("NAMES");
  app->add_option(
         "--passes", command->passes,
         "forward, backward (forward and backward), step (of decoding), model (forward and "
         "backward of a language model)")
      ->delimiter(',')
      ->check(CLI::IsMember(kProfilePasses))
      ->type_name("NAMES")
      ->capture_default_str();
  app->add_option("--tokens", command->tokens, "Lengths, with commas between them")
      ->delimiter(',')
      ->check(in_range(kCount, /*whole=*/true))
      ->type_name("INTS")
      ->capture_default_str();
  app->add_option("--components", command->components, "Numbers of components of gma (K)")
      ->delimiter(',')
      ->check(in_range(kSize, /*whole=*/true))
      ->type_name("INTS")
      ->capture_default_str();
  ProfileCase& one = command->one;
  add_number(*app, "--batch-size", one.batch_size, kSize, "Sequences at a time");
  add_number(*app, "--hidden-size", one.hidden_size, kSize, "Width of the layer");
  add_number(*app, "--heads", one.heads, kSize, "Heads; they must divide the width");
  add_number(*app, "--layers", one.layers, kSize, "Layers of the model");
  add_number(*app, "--vocab-size", one.vocab_size, kSize, "Vocabulary of the model");
  app->add_flag("--causal,!--no-causal", one.is_causal, "Causal mixers [on]");
  app->add_flag("--use-short-conv,!--no-use-short-conv", one.use_short_conv,
                "Short convolution on query, key and value [off]");
  add_number(
      *app, "--max-seconds", command->max_seconds, kAbove0,
      "Time budget of one pass: lengths that would take longer are left out, and said to be");
  add_number(*app, "--max-memory", command->max_memory, kAbove0,
             "Memory of a measuring process, in GB: a length that needs more is left out");
  add_number(*app, "--seconds", command->seconds, kAbove0, "Time to repeat each pass for");
  add_number(*app, "--threads", command->threads, kThreads, "Threads; 0: one a core");
  app->add_option("--out", command->out, "Folder for profile.md, profile.json and profile.html")
      ->type_name("DIR");
  app->add_flag("--measure-one", command->measure_one)->group("");
  add_config_option(*app);
  app->footer(
      "Example: gma profile --mixers gma,softmax --tokens 512,2048,8192 --out runs/profile");
  app->callback([command] { run(*command); });
}

}  // namespace gma::app
