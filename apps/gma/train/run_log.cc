// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/run_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "gma/error.h"

namespace gma::app {
namespace {

/// Records of steps up to `last_step`; lines that a kill cut short go as well.
std::string kept_records(const std::filesystem::path& path, std::int64_t last_step) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || record.value("kind", "") == "final") continue;
    if (record.value("step", std::int64_t{0}) <= last_step) kept += line + '\n';
  }
  return kept;
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& path, std::int64_t resumed_step) : path_(path) {
  const std::string kept = resumed_step >= 0 ? kept_records(path, resumed_step) : std::string();
  file_.open(path, std::ios::trunc);
  if (!(file_ << kept << std::flush)) {
    throw IoError(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  }
}

void RunLog::write(std::string_view kind, nlohmann::ordered_json record) {
  nlohmann::ordered_json line = {{"kind", kind}};
  line.update(record);
  if (!(file_ << line.dump() << '\n' << std::flush)) {
    throw IoError(fmt::format("{}: {}", path_.string(), std::strerror(errno)));
  }
}

}  // namespace gma::app
