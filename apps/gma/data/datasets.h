// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Public data sets, out of the archives or folders that they come in, as files to train on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/watch.h"

namespace gma::app {

enum class Dataset { imdb, wikitext_2, wikitext_103, lra };

/// A data set as the program offers it.
struct DatasetInfo {
  Dataset dataset = Dataset::imdb;
  const char* name = "";     ///< of the subcommand
  const char* what = "";     ///< for help
  const char* url = "";      ///< where its makers, or a host that they named, serve it
  const char* raw_url = "";  ///< of the variant that --raw takes; empty where there is none
  const char* rows = "";     ///< what a line of its files is
  std::vector<std::string> splits;
};

/// The table of all of them; docs/data.md repeats it.
std::span<const DatasetInfo> datasets();

/// What convert_dataset() is to do.
struct ConvertOptions {
  std::filesystem::path source;     ///< archive or folder
  std::filesystem::path out;        ///< folder, which is there
  std::vector<std::string> splits;  ///< some of DatasetInfo::splits
  bool raw = false;                 ///< WikiText: .raw instead of .tokens
};

/// A file that was made.
struct ConvertedFile {
  std::string name;
  std::int64_t rows = 0;  ///< examples, or lines of text
  std::int64_t bytes = 0;
};

/// Names of the files that convert_dataset() makes, in the order of options.splits.
std::vector<std::string> file_names(Dataset dataset, const ConvertOptions& options);

/// Makes the files of some splits, all or none, out of
/// - imdb: train|test/pos|neg/*.txt, or a folder with train.tsv and test.tsv, plain or .gz. Lines
///   are label<TAB>text, 0 (negative) before 1 and within these in the order of the file names;
///   each tab, line feed and carriage return of a text becomes a space;
/// - wikitext-2, wikitext-103: wiki.{train,valid,test}.{tokens,raw}, also under the names
///   wt2.SPLIT.tokens, wt103.SPLIT.tokens and wt_raw.SPLIT.raw; copied as they are;
/// - lra: basic_{train,val,test}.tsv; copied as they are, each row checked (ListOpsParser).
///
/// Throws InvalidArgument as visit_source() does, and for a split that is missing, empty or not
/// what it should be; IoError where writing fails; Stopped when `watch` says so.
std::vector<ConvertedFile> convert_dataset(Dataset dataset, const ConvertOptions& options,
                                           const Watch& watch);

/// One data set each; convert_dataset() chooses.
std::vector<ConvertedFile> convert_imdb(const ConvertOptions& options, const Watch& watch);
std::vector<ConvertedFile> convert_wikitext(Dataset dataset, const ConvertOptions& options,
                                            const Watch& watch);
std::vector<ConvertedFile> convert_lra(const ConvertOptions& options, const Watch& watch);

}  // namespace gma::app
