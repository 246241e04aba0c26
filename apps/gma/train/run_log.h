// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

namespace gma::app {

/// DIR/log.jsonl: a JSON object a line, each with its "kind": config, train, valid or final.
class RunLog {
 public:
  /// Begins a new log, or, given the step at which a run goes on, keeps what was logged up to it.
  /// Throws IoError.
  explicit RunLog(const std::filesystem::path& path, std::int64_t resumed_step = -1);

  /// Writes at once, so that a killed run loses no record. Throws IoError, for example on a full
  /// disk.
  void write(std::string_view kind, nlohmann::ordered_json record);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace gma::app
