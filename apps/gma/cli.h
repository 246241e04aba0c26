// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/range.h"

namespace gma::app {

/// Each adds its verb to `root`; the verb runs in its CLI11 callback and reports failure by
/// throwing.
void add_train_command(CLI::App& root);
void add_eval_command(CLI::App& root);
void add_generate_command(CLI::App& root);
void add_info_command(CLI::App& root);
void add_inspect_command(CLI::App& root);
void add_compare_command(CLI::App& root);
void add_report_command(CLI::App& root);
void add_profile_command(CLI::App& root);
void add_data_command(CLI::App& root);

/// The formatter of --help, and rules that hold for every option of every verb.
void set_conventions(CLI::App& root);

/// Adds --config to a verb.
void add_config_option(CLI::App& command);
/// Gives the options of `command` that were not on the command line the values that the file named
/// by --config has for them: `name = value` lines, TOML or INI. Throws InvalidArgument naming the
/// line.
void apply_config_file(CLI::App& command);
/// The same with the content of such a file, which errors call `name`.
void apply_config_text(CLI::App& command, const std::string& name, const std::string& content);
/// The same with one `name = value`; throws InvalidArgument or an error of CLI11.
void apply_config_item(CLI::App& command, const CLI::ConfigItem& item);

/// Refuses numbers outside `range`, NaN among them, and fractions where it is to be `whole`.
CLI::Validator in_range(const Range& range, bool whole = false);
/// Adds a number of that range to a verb.
template <class T>
CLI::Option* add_number(CLI::App& command, const std::string& name, T& value, const Range& range,
                        const std::string& help) {
  return command.add_option(name, value, help)
      ->check(in_range(range, std::is_integral_v<T>))
      ->type_name(std::is_integral_v<T> ? "INT" : "NUMBER")
      ->capture_default_str();
}

/// Throws InvalidArgument naming `option` if it was left out.
void require_option(const CLI::App& command, const std::string& option);

/// 0 keeps torch's choice, one thread a core.
void set_threads(std::int64_t threads);

/// Tells command_line() how the program was called.
void set_program(std::string_view name);
/// A call of this program with these arguments, quoted where a shell needs it.
std::string command_line(const std::vector<std::string>& arguments);

/// Thrown where an interrupt ended the work and all has been said.
struct Interrupted {};
/// The exit code then: 128 and the number of SIGINT, as shells have it.
inline constexpr int kInterruptedCode = 130;

/// Greatest memory that the process has had, in bytes.
double peak_memory();

}  // namespace gma::app
