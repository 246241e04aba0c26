// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "data/datasets.h"
#include "data/labelled_texts.h"
#include "data/output_file.h"
#include "data/source_files.h"
#include "gma/error.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

/// Three times what the archive unpacks to; its reviews have at most 14 kB.
constexpr SourceLimits kLimits{
    .entries = 1'000'000, .file_bytes = 100'000'000, .total_bytes = 2'000'000'000};
constexpr std::int64_t kReviewsOfASplit = 25'000;

/// Of one split: texts by label and file name.
using Reviews = std::map<std::pair<int, std::string>, std::string>;

/// Split, label and file name in ".../train/pos/0_9.txt"; nullopt for other files.
std::optional<std::tuple<std::string, int, std::string>> parse_name(const std::string& name) {
  const fs::path path(name);
  const std::string label = path.parent_path().filename().string();
  if (path.extension() != ".txt" || (label != "pos" && label != "neg")) return std::nullopt;
  return std::tuple(path.parent_path().parent_path().filename().string(), label == "pos" ? 1 : 0,
                    path.filename().string());
}

std::string on_one_line(std::string text) {
  for (char& c : text) c = c == '\t' || c == '\n' || c == '\r' ? ' ' : c;
  return text;
}

std::map<std::string, Reviews> read_reviews(const ConvertOptions& options, const Watch& watch) {
  std::map<std::string, Reviews> splits;
  for (const std::string& split : options.splits) splits[split];
  std::int64_t count = 0;
  const SourceVisitor visitor{
      .wants =
          [&](const std::string& name) {
            const auto parts = parse_name(name);
            return parts && splits.contains(std::get<0>(*parts));
          },
      .visit =
          [&](const SourceFile& file) {
            const auto [split, label, name] = parse_name(file.name).value();
            std::string text;
            file.read([&](std::string_view bytes) { text += bytes; });
            if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
              throw InvalidArgument(fmt::format("{}: the review is empty", file.place));
            }
            if (text.find('\0') != std::string::npos) {
              throw InvalidArgument(fmt::format("{}: not a text file", file.place));
            }
            if (!splits[split].emplace(std::pair(label, name), on_one_line(text)).second) {
              throw InvalidArgument(
                  fmt::format("{}: a second review of that name in {}", file.place, split));
            }
            if (++count % 1000 == 0) watch.status(fmt::format("{} reviews read", count));
            return true;
          }};
  visit_source(options.source, kLimits, visitor, watch);
  return splits;
}

/// A split as lines that are there already.
std::optional<fs::path> lines_of(const fs::path& folder, const std::string& split) {
  for (const char* ending : {".tsv", ".tsv.gz"}) {
    if (fs::exists(folder / (split + ending))) return folder / (split + ending);
  }
  return std::nullopt;
}

Reviews reviews_in_lines(const fs::path& path) {
  Reviews reviews;
  const TextFile file = read_text_file(path);
  for (const LabelledText& item : parse_labelled(file, /*num_classes=*/2)) {
    // Numbers that sort as their text does keep the order of the lines.
    reviews.emplace(std::pair(static_cast<int>(item.label), fmt::format("{:012}", reviews.size())),
                    on_one_line(std::string(item.text)));
  }
  return reviews;
}

}  // namespace

std::vector<ConvertedFile> convert_imdb(const ConvertOptions& options, const Watch& watch) {
  std::map<std::string, Reviews> splits;
  const bool has_lines = fs::is_directory(options.source) &&
                         std::ranges::any_of(options.splits, [&](const std::string& split) {
                           return lines_of(options.source, split).has_value();
                         });
  if (has_lines) {
    for (const std::string& split : options.splits) {
      if (const auto path = lines_of(options.source, split))
        splits[split] = reviews_in_lines(*path);
    }
  } else {
    splits = read_reviews(options, watch);
  }

  for (const std::string& split : options.splits) {
    for (const int label : {0, 1}) {
      const Reviews& reviews = splits[split];
      const auto first = reviews.lower_bound({label, ""});
      if (first == reviews.end() || first->first.first != label) {
        throw InvalidArgument(
            fmt::format("{}: expected reviews in {}, got none", options.source.string(),
                        has_lines ? fmt::format("{}.tsv with label {}", split, label)
                                  : fmt::format("{}/{}/*.txt", split, label == 1 ? "pos" : "neg")));
      }
    }
  }

  const std::vector<std::string> names = file_names(Dataset::imdb, options);
  std::vector<ConvertedFile> made;
  OutputFiles files(options.out, names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Reviews& reviews = splits[options.splits[i]];
    made.push_back({names[i], std::ssize(reviews), 0});
    for (const auto& [key, text] : reviews) {
      const std::string line = fmt::format("{}\t{}\n", key.first, text);
      made.back().bytes += std::ssize(line);
      files.write(i, line);
    }
    if (made.back().rows != kReviewsOfASplit) {
      watch.line(fmt::format("note: {} has {} reviews; the data set has {} in each split", names[i],
                             made.back().rows, kReviewsOfASplit));
    }
  }
  watch.check();
  files.commit();
  return made;
}

}  // namespace gma::app
