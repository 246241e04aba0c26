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

/// What a record says is read without looking at its type again.
void check_types(const nlohmann::ordered_json& record, const fs::path& path, int line) {
  const auto check = [&](const char* name, bool is_good, const char* expected) {
    if (is_good) return;
    throw InvalidArgument(fmt::format("{}:{}: '{}' must be {}, got {}", path.string(), line, name,
                                      expected, record.at(name).dump()));
  };
  check("kind", record.at("kind").is_string(), "text");
  for (const auto& [name, value] : record.items()) {
    if (name == "options" || name == "baselines" || name == "test") {
      check(name.c_str(), value.is_object(), "an object");
    } else if (name == "step" || name == "parameters" || name == "tokens") {
      check(name.c_str(), value.is_number_integer(), "a whole number");
    } else if (name == "loss" || name == "seconds" || name == "tokens_per_second") {
      check(name.c_str(), value.is_number() || value.is_null(), "a number");  // null: NaN or Inf
    }
  }
}

}  // namespace

std::vector<nlohmann::ordered_json> RunLog::records(const fs::path& path) {
  std::ifstream file(path);
  std::vector<nlohmann::ordered_json> records;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    auto record = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("kind")) continue;
    check_types(record, path, number);
    records.push_back(std::move(record));
  }
  return records;
}

RunLog::RunLog(const fs::path& path, const std::optional<Earlier>& earlier) : path_(path) {
  if (!earlier) {
    file_.open(path, std::ios::trunc);
    check();
    return;
  }
  // Under a temporary name, so that a kill while it is copied loses no record.
  std::string kept;
  for (const nlohmann::ordered_json& record : records(earlier->path)) {
    if (record.at("kind") == "final" || record.value("step", std::int64_t{0}) > earlier->step) {
      continue;
    }
    has_config_ = has_config_ || record.at("kind") == "config";
    kept += record.dump() + '\n';
  }
  const fs::path temporary = path.parent_path() / fmt::format(".{}.tmp", path.filename().string());
  file_.open(temporary, std::ios::trunc);
  file_ << kept << std::flush;
  check();
  fs::rename(temporary, path);
}

void RunLog::write(std::string_view kind, nlohmann::ordered_json record) {
  has_config_ = has_config_ || kind == "config";
  nlohmann::ordered_json line = {{"kind", kind}};
  line.update(record);
  file_ << line.dump() << '\n' << std::flush;
  check();
}

std::optional<nlohmann::ordered_json> RunLog::final_record(const fs::path& path) {
  std::optional<nlohmann::ordered_json> found;
  for (nlohmann::ordered_json& record : records(path)) {
    if (record.at("kind") == "final") found = std::move(record);
  }
  return found;
}

void RunLog::check() const {
  if (!file_) throw IoError(fmt::format("{}: {}", path_.string(), std::strerror(errno)));
}

}  // namespace gma::app
