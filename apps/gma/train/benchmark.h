// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Published tasks that sequence mixers are compared on: what data they read and with which options
// they are trained. `gma train NAME` is `gma train lm` or `gma train classify` with these.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/config.h"

namespace gma::app {

/// Options as `name = value` lines, for a size of the task.
struct Preset {
  const char* name;
  const char* help;
  const char* options;
};

struct Benchmark {
  const char* name;
  Task task;
  const char* description;
  const char* example;
  /// Files of the data folder, plain or .gz, the first that is there: to train on, to validate on
  /// (none: a part of the former), to test on.
  std::array<std::vector<std::string>, 3> files;
  const char* make_data;  ///< the command that makes the folder
  std::vector<Preset> presets;

  /// Throws InvalidArgument listing the presets there are.
  const Preset& preset(std::string_view name) const;
};

inline constexpr const char* kDefaultPreset = "small";

std::span<const Benchmark> benchmarks();
/// Throws InvalidArgument listing the benchmarks there are.
const Benchmark& benchmark(std::string_view name);

/// Where config.data is one folder, puts its files in place of it, as far as config names no others
/// for validation and test. Throws InvalidArgument, with the command that makes the folder, if they
/// are not there.
void locate_data(const Benchmark& benchmark, TrainConfig& config);

}  // namespace gma::app
