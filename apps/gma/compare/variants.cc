// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "compare/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "cli.h"
#include "data/text_files.h"
#include "gma/error.h"

namespace gma::app {
namespace {

/// Options that the comparison itself gives to its runs.
constexpr std::string_view kOwnOptions[] = {"data",      "preset", "seed",   "out",
                                            "test-data", "resume", "config", "overwrite"};

void check_name(const std::string& name) {
  const bool fits = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_+=").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (!fits) throw InvalidArgument("expected a name of letters, digits and any of -_+=");
}

void add_option(Variant& variant, const CLI::ConfigItem& item, CLI::App& train) {
  if (is_own_option(item.name)) throw InvalidArgument("gma compare gives this option itself");
  CLI::ConfigItem option = item;
  option.parents.clear();
  apply_config_item(train, option);
  for (const std::string& input : item.inputs) {
    variant.options.push_back(fmt::format("--{}={}", item.name, input));
  }
}

}  // namespace

bool is_own_option(std::string_view name) {
  return std::ranges::find(kOwnOptions, name) != std::end(kOwnOptions);
}

std::vector<Variant> variants_of_mixers(const std::vector<std::string>& mixers) {
  std::vector<Variant> variants;
  std::set<std::string> seen;
  for (const std::string& mixer : mixers) {
    if (!seen.insert(mixer).second) {
      throw InvalidArgument(fmt::format("--mixers: '{}' is given twice", mixer));
    }
    variants.push_back({mixer, {"--mixer=" + mixer}});
  }
  return variants;
}

std::vector<Variant> read_variants(const std::string& path, const std::string& task) {
  std::istringstream text(read_text_file(path).text);
  std::vector<Variant> variants;
  std::set<std::string> seen;
  std::unique_ptr<CLI::App> train;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
    if (item.name == "--") continue;  // a section's end
    try {
      if (item.parents.empty()) throw InvalidArgument("expected options in [sections]");
      const std::string name = fmt::format("{}", fmt::join(item.parents, "."));
      if (item.name == "++") {  // a section's begin
        check_name(name);
        if (!seen.insert(name).second) throw InvalidArgument("is there twice");
        variants.push_back({.name = name, .options = {}});
        train = std::make_unique<CLI::App>();
        add_train_command(*train);
      } else {
        add_option(variants.back(), item, *train->get_subcommand("train")->get_subcommand(task));
      }
    } catch (const std::exception& error) {
      const std::string what =
          item.name == "++" ? fmt::format("{}", fmt::join(item.parents, ".")) : item.fullname();
      throw InvalidArgument(fmt::format("--variants {}: '{}': {}", path, what, error.what()));
    }
  }
  if (variants.empty()) {
    throw InvalidArgument(fmt::format("--variants {}: expected [sections], got none", path));
  }
  return variants;
}

}  // namespace gma::app
