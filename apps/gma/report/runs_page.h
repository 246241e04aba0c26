// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// One page, whole in itself, with the curves of training runs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gma::app {

/// What the log of a run holds so far.
struct RunRecords {
  std::string name;
  nlohmann::ordered_json options;     ///< of `gma train`, by name
  std::int64_t parameters = 0;        ///< of the model
  nlohmann::ordered_json train;       ///< array of records
  nlohmann::ordered_json valid;       ///< array of records
  nlohmann::ordered_json conclusion;  ///< the record that ended the run; null if it has not ended
};

/// Reads `folder`/log.jsonl, which a run may still be writing: a last line that is cut short is
/// left out. Throws InvalidArgument if there is no log or no config in it.
RunRecords read_run(const std::filesystem::path& folder, std::string name);

/// HTML that opens offline, with charts and a table of the runs.
std::string runs_page(const std::string& title, const std::vector<RunRecords>& runs);

/// The names of runs by their folders: the parts by which the paths differ.
std::vector<std::string> run_names(const std::vector<std::filesystem::path>& folders);

}  // namespace gma::app
