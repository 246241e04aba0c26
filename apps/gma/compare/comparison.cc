// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "train/console.h"

namespace gma::app {
namespace {

using nlohmann::ordered_json;

/// A number of a record, if it has it.
void collect(const ordered_json& record, const char* name, std::vector<double>& values) {
  if (!record.is_object()) return;
  const auto value = record.find(name);
  if (value != record.end() && value->is_number()) values.push_back(value->get<double>());
}

/// The values of one variant's runs.
struct Collected {
  std::int64_t parameters = 0;
  std::vector<double> accuracy, word_perplexity, bits_per_byte, valid_loss, tokens_per_second,
      peak_memory, seconds;
  std::int64_t failed = 0;

  void add(const RunRecords& run) {
    parameters = run.parameters;
    if (!run.conclusion.is_object()) {
      ++failed;
      return;
    }
    const ordered_json test = run.conclusion.value("test", ordered_json());
    collect(test, "accuracy", accuracy);
    collect(test, "word_perplexity", word_perplexity);
    collect(test, "bits_per_byte", bits_per_byte);
    collect(run.conclusion, "loss", valid_loss);
    collect(run.conclusion, "tokens_per_second", tokens_per_second);
    collect(run.conclusion, "peak_memory_bytes", peak_memory);
    collect(run.conclusion, "seconds", seconds);
  }
};

double greatest(const std::vector<double>& values) {
  return values.empty() ? 0.0 : *std::ranges::max_element(values);
}

ordered_json to_json(const Spread& spread) {
  if (spread.count == 0) return nullptr;
  return {{"mean", spread.mean}, {"deviation", spread.deviation}, {"count", spread.count}};
}

Spread in_percent(Spread spread) {
  spread.mean *= 100.0;
  spread.deviation *= 100.0;
  return spread;
}

}  // namespace

Spread Spread::of(const std::vector<double>& values) {
  Spread spread{.count = static_cast<std::int64_t>(values.size())};
  if (values.empty()) return spread;
  const auto count = static_cast<double>(values.size());
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0.0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  if (values.size() > 1) spread.deviation = std::sqrt(squares / (count - 1.0));
  return spread;
}

std::string Spread::text(int digits) const {
  if (count == 0) return "-";
  if (count == 1) return fmt::format("{:.{}f}", mean, digits);
  return fmt::format("{:.{}f} +- {:.{}f} ({})", mean, digits, deviation, digits, count);
}

std::vector<ComparisonRow> compare(const std::vector<ComparedRun>& runs) {
  std::vector<std::string> order;
  std::map<std::string, Collected> by_variant;
  for (const auto& [variant, records] : runs) {
    if (!by_variant.contains(variant)) order.push_back(variant);
    by_variant[variant].add(records);
  }
  std::vector<ComparisonRow> rows;
  for (const std::string& variant : order) {
    const Collected& all = by_variant[variant];
    rows.push_back({.variant = variant,
                    .parameters = all.parameters,
                    .accuracy = Spread::of(all.accuracy),
                    .word_perplexity = Spread::of(all.word_perplexity),
                    .bits_per_byte = Spread::of(all.bits_per_byte),
                    .valid_loss = Spread::of(all.valid_loss),
                    .tokens_per_second = Spread::of(all.tokens_per_second),
                    .peak_memory = greatest(all.peak_memory),
                    .seconds = Spread::of(all.seconds),
                    .failed = all.failed});
  }
  return rows;
}

ordered_json baselines_of(const std::vector<ComparedRun>& runs) {
  for (const auto& [variant, records] : runs) {
    if (records.conclusion.is_object() && records.conclusion.contains("baselines")) {
      return records.conclusion.at("baselines");
    }
  }
  return ordered_json::object();
}

std::string comparison_markdown(Task task, const std::vector<ComparisonRow>& rows,
                                const ordered_json& baselines) {
  const bool classifies = task == Task::classify;
  const char* measure = classifies ? "test accuracy, %" : "test perplexity a word | bits per byte";
  std::string text = fmt::format(
      "| variant | {} | validation loss | parameters | tokens/s | peak memory | time a run |\n"
      "|---|{}---|---|---|---|---|\n",
      measure, classifies ? "---|" : "---|---|");
  for (const ComparisonRow& row : rows) {
    const std::string figure =
        classifies ? in_percent(row.accuracy).text(2)
                   : fmt::format("{} | {}", row.word_perplexity.text(2), row.bits_per_byte.text(4));
    text += fmt::format("| {}{} | {} | {} | {} | {} | {} | {} |\n", row.variant,
                        row.failed > 0 ? fmt::format(" ({} not ended)", row.failed) : "", figure,
                        row.valid_loss.text(4), row.parameters, row.tokens_per_second.text(0),
                        row.peak_memory > 0 ? human_bytes(row.peak_memory) : "-",
                        row.seconds.count > 0 ? human_duration(row.seconds.mean) : "-");
  }
  for (const auto& [name, accuracy] : baselines.items()) {
    if (!accuracy.is_number()) continue;
    std::string words = name;
    std::ranges::replace(words, '_', ' ');
    text +=
        fmt::format("| no model: {} | {:.2f} | | | | | |\n", words, 100.0 * accuracy.get<double>());
  }
  return text;
}

ordered_json comparison_json(const std::vector<ComparisonRow>& rows,
                             const ordered_json& baselines) {
  ordered_json json = {{"rows", ordered_json::array()}, {"baselines", baselines}};
  for (const ComparisonRow& row : rows) {
    json["rows"].push_back({{"variant", row.variant},
                            {"parameters", row.parameters},
                            {"test_accuracy", to_json(row.accuracy)},
                            {"test_word_perplexity", to_json(row.word_perplexity)},
                            {"test_bits_per_byte", to_json(row.bits_per_byte)},
                            {"valid_loss", to_json(row.valid_loss)},
                            {"tokens_per_second", to_json(row.tokens_per_second)},
                            {"peak_memory_bytes", row.peak_memory},
                            {"seconds", to_json(row.seconds)},
                            {"not_ended", row.failed}});
  }
  return json;
}

}  // namespace gma::app
