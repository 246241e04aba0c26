// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/run_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "gma/error.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

/// Records of steps up to `last_step`; lines that a kill cut short go as well.
std::string kept_records(const fs::path& path, std::int64_t last_step) {
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

RunLog::RunLog(const fs::path& path, const std::optional<Earlier>& earlier) : path_(path) {
  if (!earlier) {
    file_.open(path, std::ios::trunc);
    check();
    return;
  }
  // Under a temporary name, so that a kill while it is copied loses no record.
  const std::string kept = kept_records(earlier->path, earlier->step);
  const fs::path temporary = path.parent_path() / fmt::format(".{}.tmp", path.filename().string());
  file_.open(temporary, std::ios::trunc);
  file_ << kept << std::flush;
  check();
  fs::rename(temporary, path);
}

void RunLog::write(std::string_view kind, nlohmann::ordered_json record) {
  nlohmann::ordered_json line = {{"kind", kind}};
  line.update(record);
  file_ << line.dump() << '\n' << std::flush;
  check();
}

std::optional<nlohmann::ordered_json> RunLog::final_record(const fs::path& path) {
  std::ifstream file(path);
  std::optional<nlohmann::ordered_json> found;
  for (std::string line; std::getline(file, line);) {
    auto record = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_object() && record.value("kind", "") == "final") found = std::move(record);
  }
  return found;
}

void RunLog::check() const {
  if (!file_) throw IoError(fmt::format("{}: {}", path_.string(), std::strerror(errno)));
}

}  // namespace gma::app
