// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/datasets.h"

#include <fmt/format.h>

namespace gma::app {

std::span<const DatasetInfo> datasets() {
  static const std::vector<DatasetInfo> table = {
      {.dataset = Dataset::imdb,
       .name = "imdb",
       .what = "IMDb reviews with their sentiment (Maas et al., 2011)",
       .url = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
       .raw_url = "",
       .rows = "reviews",
       .splits = {"train", "test"}},
      {.dataset = Dataset::wikitext_2,
       .name = "wikitext-2",
       .what = "WikiText-2, 2 million words of Wikipedia (Merity et al., 2016)",
       .url = "https://wikitext.smerity.com/wikitext-2-v1.zip",
       .raw_url = "https://wikitext.smerity.com/wikitext-2-raw-v1.zip",
       .rows = "lines",
       .splits = {"train", "valid", "test"}},
      {.dataset = Dataset::wikitext_103,
       .name = "wikitext-103",
       .what = "WikiText-103, 103 million words of Wikipedia (Merity et al., 2016)",
       .url = "https://wikitext.smerity.com/wikitext-103-v1.zip",
       .raw_url = "https://wikitext.smerity.com/wikitext-103-raw-v1.zip",
       .rows = "lines",
       .splits = {"train", "valid", "test"}},
      {.dataset = Dataset::lra,
       .name = "lra",
       .what = "The ListOps files that Long Range Arena released (Tay et al., 2020)",
       .url = "https://storage.googleapis.com/long-range-arena/lra_release.gz",
       .raw_url = "",
       .rows = "expressions",
       .splits = {"train", "val", "test"}},
  };
  return table;
}

std::vector<std::string> file_names(Dataset dataset, const ConvertOptions& options) {
  std::vector<std::string> names;
  for (const std::string& split : options.splits) {
    switch (dataset) {
      case Dataset::imdb:
        names.push_back(fmt::format("{}.tsv", split));
        break;
      case Dataset::wikitext_2:
      case Dataset::wikitext_103:
        names.push_back(fmt::format("wiki.{}.{}", split, options.raw ? "raw" : "tokens"));
        break;
      case Dataset::lra:
        names.push_back(fmt::format("basic_{}.tsv", split));
        break;
    }
  }
  return names;
}

std::vector<ConvertedFile> convert_dataset(Dataset dataset, const ConvertOptions& options,
                                           const Watch& watch) {
  switch (dataset) {
    case Dataset::imdb:
      return convert_imdb(options, watch);
    case Dataset::wikitext_2:
    case Dataset::wikitext_103:
      return convert_wikitext(dataset, options, watch);
    case Dataset::lra:
      break;
  }
  return convert_lra(options, watch);
}

}  // namespace gma::app
