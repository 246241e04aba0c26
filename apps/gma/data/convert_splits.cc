// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Data sets that have one file a split, which is copied.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "data/datasets.h"
#include "data/listops.h"
#include "data/output_file.h"
#include "data/source_files.h"
#include "gma/error.h"

namespace gma::app {
namespace {

/// The training text of WikiText-103 has 0.54 GB.
constexpr SourceLimits kWikitextLimits{
    .entries = 10'000, .file_bytes = 2'000'000'000, .total_bytes = 4'000'000'000};
/// The release has images of other tasks beside it, in millions of files; the training rows have
/// 0.64 GB.
constexpr SourceLimits kLraLimits{
    .entries = 20'000'000, .file_bytes = 4'000'000'000, .total_bytes = 200'000'000'000};

constexpr std::string_view kListOpsStart = "basic_";
constexpr std::string_view kListOpsEnding = ".tsv";

/// Checks what is copied, and counts its rows.
class Check {
 public:
  virtual ~Check() = default;
  virtual void add(std::string_view bytes) = 0;
  virtual std::int64_t finish() = 0;
};

class TextCheck final : public Check {
 public:
  explicit TextCheck(std::string place) : place_(std::move(place)) {}

  void add(std::string_view bytes) override {
    if (bytes.find('\0') != std::string_view::npos) {
      throw InvalidArgument(fmt::format("{}: not a text file", place_));
    }
    lines_ += std::ranges::count(bytes, '\n');
    is_empty_ = is_empty_ && bytes.find_first_not_of(" \n") == std::string_view::npos;
  }
  std::int64_t finish() override {
    if (is_empty_) throw InvalidArgument(fmt::format("{}: the file is empty", place_));
    return lines_;
  }

 private:
  std::string place_;
  std::int64_t lines_ = 0;
  bool is_empty_ = true;
};

class ListOpsCheck final : public Check {
 public:
  explicit ListOpsCheck(const std::string& place)
      : parser_(place, [](std::span<const Token>, int) {}) {}

  void add(std::string_view bytes) override { parser_.add(bytes); }
  std::int64_t finish() override {
    parser_.finish();
    return parser_.rows();
  }

 private:
  ListOpsParser parser_;
};

struct SplitSource {
  /// The split that a file holds; nullopt for other files.
  std::function<std::optional<std::string>(const std::string& name)> split_of;
  std::function<std::unique_ptr<Check>(const std::string& place)> make_check;
  SourceLimits limits;
  bool stop_when_complete = false;  ///< do not read the rest of the archive
};

std::vector<ConvertedFile> copy_splits(Dataset dataset, const ConvertOptions& options,
                                       const SplitSource& source, const Watch& watch) {
  const std::vector<std::string> names = file_names(dataset, options);
  std::vector<ConvertedFile> made(names.size());
  std::vector<bool> is_there(names.size(), false);
  OutputFiles files(options.out, names);
  const auto index_of = [&](const std::string& name) {
    const auto split = source.split_of(name);
    const auto found = split ? std::ranges::find(options.splits, *split) : options.splits.end();
    return static_cast<std::size_t>(found - options.splits.begin());
  };
  const SourceVisitor visitor{
      .wants = [&](const std::string& name) { return index_of(name) < names.size(); },
      .visit =
          [&](const SourceFile& file) {
            const std::size_t i = index_of(file.name);
            if (is_there[i]) {
              throw InvalidArgument(fmt::format("{}: a second file for {}", file.place, names[i]));
            }
            const std::unique_ptr<Check> check = source.make_check(file.place);
            made[i].name = names[i];
            file.read([&](std::string_view bytes) {
              check->add(bytes);
              files.write(i, bytes);
              made[i].bytes += std::ssize(bytes);
              watch.status(
                  fmt::format("{}: {:.1f} MB", names[i], static_cast<double>(made[i].bytes) / 1e6));
            });
            made[i].rows = check->finish();
            is_there[i] = true;
            return !source.stop_when_complete || std::ranges::count(is_there, false) != 0;
          }};
  visit_source(options.source, source.limits, visitor, watch);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (is_there[i]) continue;
    throw InvalidArgument(
        fmt::format("{}: expected a file {}, got none; --splits takes some of them",
                    options.source.string(), names[i]));
  }
  watch.check();
  files.commit();
  return made;
}

/// Whether a folder in `name` says that it is of the other of the two sets.
bool is_of_other(Dataset dataset, const std::string& name) {
  const char* other = dataset == Dataset::wikitext_2 ? "wikitext-103" : "wikitext-2";
  return std::ranges::any_of(std::filesystem::path(name), [&](const std::filesystem::path& part) {
    return part == other || part == std::string(other) + "-raw";
  });
}

}  // namespace

std::vector<ConvertedFile> convert_wikitext(Dataset dataset, const ConvertOptions& options,
                                            const Watch& watch) {
  const std::string ending = options.raw ? ".raw" : ".tokens";
  const std::string short_name = options.raw                      ? "wt_raw."
                                 : dataset == Dataset::wikitext_2 ? "wt2."
                                                                  : "wt103.";
  const SplitSource source{
      .split_of = [=](const std::string& name) -> std::optional<std::string> {
        std::string_view file = file_name(name);
        if (!file.ends_with(ending) || is_of_other(dataset, name)) return std::nullopt;
        file.remove_suffix(ending.size());
        for (const std::string_view start :
             {std::string_view("wiki."), std::string_view(short_name)}) {
          if (file.starts_with(start)) return std::string(file.substr(start.size()));
        }
        return std::nullopt;
      },
      .make_check = [](const std::string& place) { return std::make_unique<TextCheck>(place); },
      .limits = kWikitextLimits};
  return copy_splits(dataset, options, source, watch);
}

std::vector<ConvertedFile> convert_lra(const ConvertOptions& options, const Watch& watch) {
  const SplitSource source{
      .split_of = [](const std::string& name) -> std::optional<std::string> {
        std::string_view file = file_name(name);
        if (!file.starts_with(kListOpsStart) || !file.ends_with(kListOpsEnding))
          return std::nullopt;
        file.remove_prefix(kListOpsStart.size());
        file.remove_suffix(kListOpsEnding.size());
        return std::string(file);
      },
      .make_check = [](const std::string& place) { return std::make_unique<ListOpsCheck>(place); },
      .limits = kLraLimits,
      // Gigabytes follow; each row of these files has been checked by its label.
      .stop_when_complete = true};
  return copy_splits(Dataset::lra, options, source, watch);
}

}  // namespace gma::app
