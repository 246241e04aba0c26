// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "cli.h"
#include "gma/error.h"
#include "train/config.h"

namespace gma::app {

/// Makes a command-line option of each field that visit_options() lists.
class OptionBinder {
 public:
  void bind(CLI::App& command, TrainConfig& config) {
    visit_options(config, [&](const std::string& name, auto& field, const OptionInfo& info) {
      options_[name] = add(command, name, field, info)->group(info.group);
    });
  }

  CLI::Option& at(const std::string& name) { return *options_.at(name); }
  /// Whether neither the command line nor a config file gave the option.
  bool is_absent(const std::string& name) const { return options_.at(name)->empty(); }

  /// Whether the user gave the option: it was there when note_given() was called.
  bool is_given(const std::string& name) const { return given_.contains(name); }
  /// Takes the options present by now for the user's own; a preset's come later.
  void note_given() {
    for (const auto& [name, option] : options_) {
      if (!option->empty()) given_.insert(name);
    }
  }

  /// Gives options that are absent the values that a run had `before`. Throws InvalidArgument for
  /// one that is given, differs and may not change.
  void complete(TrainConfig& config, TrainConfig before) const {
    std::map<std::string, nlohmann::json> previous;
    visit_options(before, [&](const std::string& name, const auto& field, const OptionInfo&) {
      previous[name] = field;
    });
    visit_options(config, [&](const std::string& name, auto& field, const OptionInfo& info) {
      const nlohmann::json& old = previous.at(name);
      if (is_absent(name)) {
        old.get_to(field);
      } else if (!info.may_change && nlohmann::json(field) != old) {
        throw InvalidArgument(fmt::format("--{} {} is not that of the run, which has {}", name,
                                          nlohmann::json(field).dump(), old.dump()));
      }
    });
  }

 private:
  template <class T>
  static CLI::Option* add(CLI::App& command, const std::string& name, T& field,
                          const OptionInfo& info) {
    if constexpr (std::is_same_v<T, bool>) {
      return command.add_flag(fmt::format("--{0},!--no-{0}", name), field,
                              fmt::format("{} [{}]", info.help, field ? "on" : "off"));
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      return command.add_option("--" + name, field, info.help)
          ->type_name("PATH")
          ->expected(1, kMaxPaths);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return command.add_option("--" + name, field, info.help)->capture_default_str();
    } else {
      return add_number(command, "--" + name, field, info.range, info.help);
    }
  }

  static constexpr int kMaxPaths = 1 << 20;

  std::map<std::string, CLI::Option*> options_;
  std::set<std::string> given_;
};

}  // namespace gma::app
