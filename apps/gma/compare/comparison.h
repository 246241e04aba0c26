// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What the runs of a comparison reached, variant by variant.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "infer/saved_model.h"
#include "report/runs_page.h"

namespace gma::app {

/// Mean and sample standard deviation over seeds.
struct Spread {
  double mean = 0.0;
  double deviation = 0.0;  ///< 0 with one seed
  std::int64_t count = 0;

  static Spread of(const std::vector<double>& values);
  /// "12.34 +- 0.56 (3)", "12.34" of one value, "-" of none.
  std::string text(int digits) const;
};

/// A run, and the variant it belongs to.
struct ComparedRun {
  std::string variant;
  RunRecords records;
};

/// One row: all seeds of a variant whose runs have ended.
struct ComparisonRow {
  std::string variant;
  std::int64_t parameters = 0;
  Spread accuracy;         ///< 0 to 1, on the test data
  Spread word_perplexity;  ///< on the test data
  Spread bits_per_byte;    ///< on the test data
  Spread valid_loss;
  Spread tokens_per_second;
  double peak_memory = 0.0;  ///< bytes, the greatest; 0 if none has ended
  Spread seconds;            ///< of a run
  std::int64_t failed = 0;   ///< runs that did not end
};

/// Rows in the order in which their variants appear; runs without a conclusion count as failed.
std::vector<ComparisonRow> compare(const std::vector<ComparedRun>& runs);

/// Accuracies that need no model, by name; empty if the runs have none.
nlohmann::ordered_json baselines_of(const std::vector<ComparedRun>& runs);

/// A table with a line a row, and one a baseline, in the figures of the task.
std::string comparison_markdown(Task task, const std::vector<ComparisonRow>& rows,
                                const nlohmann::ordered_json& baselines);
nlohmann::ordered_json comparison_json(const std::vector<ComparisonRow>& rows,
                                       const nlohmann::ordered_json& baselines);

}  // namespace gma::app
