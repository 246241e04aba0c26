// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace gma::app {

/// Each adds its verb to `root`; the verb runs in its CLI11 callback and reports failure by
/// throwing.
void add_train_command(CLI::App& root);
void add_eval_command(CLI::App& root);
void add_generate_command(CLI::App& root);
void add_info_command(CLI::App& root);

/// The formatter of --help, and rules that hold for every option of every verb.
void set_conventions(CLI::App& root);

/// Adds --config to a verb.
void add_config_option(CLI::App& command);
/// Gives the options of `command` that were not on the command line the values that the file named
/// by
/// --config has for them: `name = value` lines, TOML or INI. Throws CLI::ParseError.
void apply_config_file(CLI::App& command);

/// Throws InvalidArgument naming `option` if it was left out.
void require_option(const CLI::App& command, const std::string& option);

/// 0 keeps torch's choice, one thread a core.
void set_threads(std::int64_t threads);

/// Greatest memory that the process has had, in bytes.
double peak_memory();

}  // namespace gma::app
