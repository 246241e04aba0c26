// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/listops_baselines.h"
#include "data/listops_generator.h"
#include "data/watch.h"

namespace gma::app {

/// The defaults are those of Long Range Arena.
struct ListOpsFilesOptions {
  ListOpsOptions generator;
  std::array<std::int64_t, 3> rows = {96000, 2000, 2000};  ///< of train, val and test
  std::uint64_t seed = 0;
  bool parentheses = true;  ///< redundant, and two thirds of the bytes
};

inline const std::vector<std::string> kListOpsFiles = {"basic_train.tsv", "basic_val.tsv",
                                                       "basic_test.tsv"};

/// What was written, and how far its test set can be solved by shortcuts fitted on its training
/// set.
struct ListOpsFilesReport {
  ListOpsBaselines baselines;
  std::int64_t bytes = 0;
  double seconds = 0.0;
};

/// Writes the three files to a folder that is there, all or none: the header "Source<TAB>Target",
/// then rows expression<TAB>value, with CRLF at the ends. No expression comes twice in them.
/// Throws InvalidArgument for options as ListOpsGenerator does, IoError where writing fails, and
/// Stopped when `watch` says so.
ListOpsFilesReport write_listops(const std::filesystem::path& folder,
                                 const ListOpsFilesOptions& options, const Watch& watch);

}  // namespace gma::app
