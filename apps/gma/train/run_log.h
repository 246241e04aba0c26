// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace gma::app {

inline constexpr std::string_view kLogFile = "log.jsonl";

/// DIR/log.jsonl: a JSON object a line, each with its "kind": config, train, valid or final.
class RunLog {
 public:
  /// The log of the run that goes on, often the same file, and the step at which it does.
  struct Earlier {
    std::filesystem::path path;
    std::int64_t step = 0;
  };

  /// Begins a new log, or one that starts with what an earlier one has up to its step. Throws
  /// IoError.
  explicit RunLog(const std::filesystem::path& path, const std::optional<Earlier>& earlier = {});

  /// Whether it says with which options the run began.
  bool has_config() const { return has_config_; }

  /// Writes at once, so that a killed run loses no record. Throws IoError, for example on a full
  /// disk.
  void write(std::string_view kind, nlohmann::ordered_json record);

  /// The records of the log at `path`, none if there is no such file; a line that a kill cut short
  /// is left out. Throws InvalidArgument with file and line if a kind is no text, or a number that
  /// this program reads is none.
  static std::vector<nlohmann::ordered_json> records(const std::filesystem::path& path);

  /// The record with which a run ended in the log at `path`, if one did. Throws like records().
  static std::optional<nlohmann::ordered_json> final_record(const std::filesystem::path& path);

 private:
  void check() const;

  std::filesystem::path path_;
  std::ofstream file_;
  bool has_config_ = false;
};

}  // namespace gma::app
