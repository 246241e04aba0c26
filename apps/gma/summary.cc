// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "cli.h"

namespace gma::app {
namespace {

using nlohmann::ordered_json;

/// 0 if the record has no such number.
double number(const ordered_json& record, const char* name) {
  const auto found = record.find(name);
  return found != record.end() && found->is_number() ? found->get<double>() : 0.0;
}

std::string figures_of(const ordered_json& record) {
  std::string figures = fmt::format("loss {:.4f}", number(record, "loss"));
  // Of a model of bytes it is a number without meaning to most readers.
  if (number(record, "word_perplexity") > 0 && number(record, "word_perplexity") < 1e5) {
    figures =
        fmt::format("perplexity {:.2f} a word, {}", number(record, "word_perplexity"), figures);
  }
  if (record.contains("accuracy")) {
    figures = fmt::format("accuracy {:.2f}%, {}", 100.0 * number(record, "accuracy"), figures);
  }
  if (record.contains("unigram_bits_per_byte")) {
    figures = fmt::format("{:.3f} bits per byte (unigram model {:.3f}, bigram model {:.3f}), {}",
                          number(record, "bits_per_byte"), number(record, "unigram_bits_per_byte"),
                          number(record, "bigram_bits_per_byte"), figures);
  } else if (record.contains("bits_per_byte")) {
    figures = fmt::format("{:.3f} bits per byte, {}", number(record, "bits_per_byte"), figures);
  }
  return figures;
}

/// "majority 50.00%, ..."
std::string baseline_figures(const ordered_json& baselines) {
  std::string figures;
  for (const auto& [name, accuracy] : baselines.items()) {
    figures += fmt::format("{}{} {:.2f}%", figures.empty() ? "" : ", ", name,
                           100.0 * accuracy.get<double>());
  }
  std::ranges::replace(figures, '_', ' ');
  return figures;
}

bool has_no_steps(const TrainConfig& config, const Progress& progress) {
  return progress.step >= config.steps;
}

bool has_no_minutes(const TrainConfig& config, const Progress& progress) {
  return config.max_minutes > 0 && progress.seconds >= 60.0 * config.max_minutes;
}

bool has_no_patience(const TrainConfig& config, const Progress& progress) {
  return config.patience > 0 && progress.stale_validations >= config.patience;
}

}  // namespace

std::vector<std::string> summary(const TrainConfig& config, const Progress& progress,
                                 const ordered_json& record) {
  const std::string best = (std::filesystem::path(config.out) / kBestCheckpoint).string();
  std::vector<std::string> lines = {fmt::format("Held out:   {}", figures_of(record))};
  if (record.contains("test")) {
    lines.push_back(fmt::format("Test:       {}", figures_of(record.at("test"))));
  }
  if (record.contains("baselines")) {
    lines.push_back(fmt::format("No model:   {}", baseline_figures(record.at("baselines"))));
  }
  lines.push_back(fmt::format("Best model: step {} of {}, in {}", record.value("best_step", 0),
                              record.value("step", 0), best));
  lines.push_back(fmt::format(
      "Speed:      {} tokens/s; {} tokens in {}; peak memory {}",
      human_count(number(record, "tokens_per_second")), human_count(number(record, "tokens")),
      human_duration(number(record, "seconds")), human_bytes(number(record, "peak_memory_bytes"))));
  lines.emplace_back("Try next:");
  if (config.task == Task::lm) {
    lines.push_back("  " + command_line({"generate", config.out, "--prompt", "The "}));
  }
  lines.push_back("  " + command_line({"eval", config.out, "--data"}) + " FILE");
  lines.push_back("  " + resume_command(config, progress));
  return lines;
}

std::string resume_command(const TrainConfig& config, const Progress& progress) {
  std::vector<std::string> words = {"train", name_of(config.task), "--resume", config.out};
  const auto add = [&](const char* option, auto value) {
    words.insert(words.end(), {option, fmt::format("{}", value)});
  };
  if (has_no_steps(config, progress)) add("--steps", 2 * config.steps);
  // The schedule follows whichever of the two is used up more, so new steps need new minutes.
  if (has_no_minutes(config, progress) ||
      (config.max_minutes > 0 && has_no_steps(config, progress))) {
    add("--max-minutes", 2 * config.max_minutes);
  }
  if (has_no_patience(config, progress)) add("--patience", 2 * config.patience);
  return command_line(words);
}

bool is_complete(const TrainConfig& config, const Progress& progress) {
  return has_no_steps(config, progress) || has_no_minutes(config, progress) ||
         has_no_patience(config, progress);
}

}  // namespace gma::app
