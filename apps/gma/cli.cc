// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include "data/text_files.h"
#include "gma/error.h"

namespace gma::app {
namespace {

/// Shows a flag as "--rotary,--no-rotary", without the value that its second name stands for.
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
};

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
  std::istringstream text(read_text_file(path).text);
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
    CLI::Option* option = command.get_option_no_throw("--" + item.name);
    if (!item.parents.empty() || option == nullptr || !option->get_configurable()) {
      throw InvalidArgument(fmt::format("{}: unknown option '{}'", path, item.fullname()));
    }
    if (!option->empty()) continue;
    if (option->get_expected_min() == 0) {  // a flag: the file gives its value
      option->add_result(CLI::ConfigTOML().to_flag(item));
    } else {
      option->add_result(item.inputs);
    }
    option->run_callback();
  }
}

void require_option(const CLI::App& command, const std::string& option) {
  if (command.get_option(option)->empty()) throw InvalidArgument(option + " is required");
}

void set_threads(std::int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

}  // namespace gma::app
