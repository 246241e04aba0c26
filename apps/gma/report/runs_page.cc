// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "report/runs_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "gma/error.h"
#include "report/page.h"
#include "train/run_log.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Records beyond this many of a kind are thinned out: a screen shows no more.
constexpr std::size_t kMaxPoints = 2000;

ordered_json thinned(ordered_json records) {
  if (records.size() <= kMaxPoints) return records;
  ordered_json kept = ordered_json::array();
  for (std::size_t i = 0; i < kMaxPoints; ++i) {
    kept.push_back(records[(i + 1) * records.size() / kMaxPoints - 1]);
  }
  return kept;
}

}  // namespace

RunRecords read_run(const fs::path& folder, std::string name) {
  const fs::path path = folder / kLogFile;
  if (!std::ifstream(path)) {
    throw InvalidArgument(fmt::format("{}: expected the folder of a training run, with a log.jsonl",
                                      folder.string()));
  }
  RunRecords run{.name = std::move(name),
                 .options = nullptr,
                 .parameters = 0,
                 .train = ordered_json::array(),
                 .valid = ordered_json::array(),
                 .conclusion = nullptr};
  for (ordered_json& record : RunLog::records(path)) {
    const std::string kind = record.at("kind");
    record.erase("kind");
    if (kind == "config") {
      run.options = record.value("options", ordered_json::object());
      run.parameters = record.value("parameters", std::int64_t{0});
    } else if (kind == "train" || kind == "valid") {
      (kind == "train" ? run.train : run.valid).push_back(std::move(record));
    } else if (kind == "final") {
      run.conclusion = std::move(record);
    }
  }
  if (!run.options.is_object()) {
    throw InvalidArgument(fmt::format("{}: holds no record of a run", path.string()));
  }
  return run;
}

std::string runs_page(const std::string& title, const std::vector<RunRecords>& runs) {
  ordered_json data = {{"title", title}, {"runs", ordered_json::array()}};
  for (const RunRecords& run : runs) {
    data["runs"].push_back({{"name", run.name},
                            {"options", run.options},
                            {"parameters", run.parameters},
                            {"train", thinned(run.train)},
                            {"valid", thinned(run.valid)},
                            {"final", run.conclusion}});
  }
  return make_page(runs_template(), std::move(data));
}

std::vector<std::string> run_names(const std::vector<fs::path>& folders) {
  std::vector<fs::path> paths;
  for (const fs::path& folder : folders) {
    fs::path path = fs::absolute(folder).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    paths.push_back(std::move(path));
  }
  // The last parts of the paths, one more until all names differ.
  std::vector<std::string> names(paths.size());
  std::vector<fs::path> rest = paths;
  for (bool differ = false; !differ;) {
    bool grew = false;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (!rest[i].has_relative_path()) continue;
      names[i] = names[i].empty() ? rest[i].filename().string()
                                  : fmt::format("{}/{}", rest[i].filename().string(), names[i]);
      rest[i] = rest[i].parent_path();
      grew = true;
    }
    std::vector<std::string> sorted = names;
    std::ranges::sort(sorted);
    differ = std::ranges::adjacent_find(sorted) == sorted.end() || !grew;
  }
  return names;
}

}  // namespace gma::app
