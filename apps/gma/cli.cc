// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "data/text_files.h"
#include "gma/error.h"

namespace gma::app {
namespace {

/// CLI11's, tidied. Shows a flag as "--rotary,--no-rotary", without the value that its second name
/// stands for.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(40); }

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    constexpr std::string_view kValue = "{false}";
    if (const std::size_t at = name.find(kValue); at != std::string::npos)
      name.erase(at, kValue.size());
    return name;
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    text.erase(std::min(text.find(" Excludes:"), text.size()));
    return text;
  }

  /// With one empty line between groups, not two.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    while (text.find("\n\n\n") != std::string::npos) text.erase(text.find("\n\n\n"), 1);
    return text;
  }
};

/// A config file, with the lines of its keys.
class ConfigText {
 public:
  /// `path` names it in errors.
  ConfigText(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {
    std::istringstream lines(text_);
    std::size_t open_list = 0;
    std::size_t number = 1;
    for (std::string line; std::getline(lines, line); ++number) {
      CLI::detail::trim(line);
      if (open_list == 0 && !line.starts_with('#') && line.find('=') != std::string::npos) {
        std::string value = line.substr(line.find('=') + 1);
        std::string key = line.substr(0, line.find('='));
        lines_.emplace(CLI::detail::trim(key), number);
        value.erase(std::min(value.find('#'), value.size()));
        if (CLI::detail::trim(value).starts_with('[') && !value.ends_with(']')) open_list = number;
      } else if (open_list != 0 && line.ends_with(']')) {
        open_list = 0;
      }
    }
    if (open_list != 0) {
      throw InvalidArgument(fmt::format("{}:{}: the list is not closed", path_, open_list));
    }
  }

  const std::string& text() const { return text_; }
  /// FILE:LINE, as far as it is known.
  std::string place_of(const std::string& key) const {
    const auto found = lines_.find(key);
    return found == lines_.end() ? path_ : fmt::format("{}:{}", path_, found->second);
  }

 private:
  std::string path_;
  std::string text_;
  std::map<std::string, std::size_t> lines_;
};

std::string program = "gma";

/// As a shell wants it: in single quotes, unless every character is plain.
std::string shell_word(std::string_view word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

void set_conventions(CLI::App& root) {
  root.formatter(std::make_shared<HelpFormatter>());
  root.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void add_config_option(CLI::App& command) {
  command
      .add_option("--config",
                  "File of `name = value` lines (TOML or INI) with any of these options")
      ->type_name("FILE");
}

void apply_config_file(CLI::App& command) {
  const CLI::Option* config = command.get_option("--config");
  if (config->empty()) return;
  const auto path = config->as<std::string>();
  apply_config_text(command, path, read_text_file(path).text);
}

void apply_config_item(CLI::App& command, const CLI::ConfigItem& item) {
  if (item.name == "++") throw InvalidArgument("expected lines of name = value, got a section");
  CLI::Option* option = command.get_option_no_throw("--" + item.name);
  if (option == nullptr && command.get_option_no_throw(item.name) != nullptr) {
    throw InvalidArgument("belongs on the command line");
  }
  if (!item.parents.empty() || option == nullptr || !option->get_configurable()) {
    throw InvalidArgument("unknown option");
  }
  if (!option->empty()) return;
  if (option->get_expected_min() == 0) {  // a flag: the file gives its value
    option->add_result(CLI::ConfigTOML().to_flag(item));
  } else if (item.inputs.size() > 1 && option->get_items_expected_max() == 1) {
    throw InvalidArgument(fmt::format("expected one value, got {}", item.inputs.size()));
  } else {
    option->add_result(item.inputs);
  }
  option->run_callback();
}

void apply_config_text(CLI::App& command, const std::string& name, const std::string& content) {
  const ConfigText file(name, content);
  std::istringstream text(file.text());
  std::set<std::string> known;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
    try {
      const bool is_first = known.insert(item.fullname()).second;
      if (!is_first) throw InvalidArgument("is given twice");
      apply_config_item(command, item);
    } catch (const std::exception& error) {
      throw InvalidArgument(
          fmt::format("{}: '{}': {}", file.place_of(item.name), item.fullname(), error.what()));
    }
  }
}

CLI::Validator in_range(const Range& range, bool whole) {
  return {[range, whole](std::string& text) -> std::string {
            std::int64_t integer = 0;
            if (whole && !CLI::detail::lexical_cast(text, integer))
              return "expected a whole number, got '" + text + "'";
            double value = 0.0;
            if (!CLI::detail::lexical_cast(text, value))
              return "expected a number, got '" + text + "'";
            if (range.contains(value)) return {};
            return fmt::format("{}, got {}",
                               std::isfinite(value) ? describe(range) : "expected a finite number",
                               text);
          },
          ""};
}

void require_option(const CLI::App& command, const std::string& option) {
  if (command.get_option(option)->empty()) throw InvalidArgument(option + " is required");
}

void set_threads(std::int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

void set_program(std::string_view name) { program = name; }

std::string command_line(const std::vector<std::string>& arguments) {
  std::string line = shell_word(program);
  for (const std::string& argument : arguments) line += ' ' + shell_word(argument);
  return line;
}

double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

}  // namespace gma::app
