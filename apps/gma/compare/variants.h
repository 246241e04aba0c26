// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What a comparison sets against each other: mixers, or any options of `gma train`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gma::app {

/// One row of a comparison.
struct Variant {
  std::string name;                  ///< of its row, and of its runs' folders
  std::vector<std::string> options;  ///< of `gma train`, as on a command line: "--name=value"
};

/// Whether the comparison itself gives the option `name` of `gma train` to its runs.
bool is_own_option(std::string_view name);

/// One variant for each mixer, called like it; throws InvalidArgument if one is given twice.
std::vector<Variant> variants_of_mixers(const std::vector<std::string>& mixers);

/// Reads a file with a section for each variant:
///
///     [gma-k128]
///     mixer = "gma"
///     components = 128
///
/// Names are letters, digits and any of "-_+=". Every option is checked against `gma train TASK` as
/// if it were on its command line. Throws InvalidArgument naming file, section and option.
std::vector<Variant> read_variants(const std::string& path, const std::string& task);

}  // namespace gma::app
