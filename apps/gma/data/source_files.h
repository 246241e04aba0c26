// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The files in an archive or a folder, read without being unpacked anywhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "data/watch.h"

namespace gma::app {

/// What an archive may unpack to at most. The data sets that are read have known sizes; a file that
/// unpacks to much more is no copy of them.
struct SourceLimits {
  std::int64_t entries = 0;      ///< files, folders and links
  std::int64_t file_bytes = 0;   ///< of a file that is read
  std::int64_t total_bytes = 0;  ///< of everything, what is passed over as well
};

using OnBytes = std::function<void(std::string_view)>;

/// A file that is visited.
struct SourceFile {
  std::string name;   ///< path within the source, with / between folders and without .gz
  std::string place;  ///< for errors: "SOURCE: NAME"
  /// Hands over the content, unpacked, in pieces. To be called once, within the visit.
  std::function<void(const OnBytes&)> read;
};

struct SourceVisitor {
  std::function<bool(const std::string& name)> wants;
  /// Returns whether to go on.
  std::function<bool(const SourceFile& file)> visit;
};

/// Visits the wanted files of `source`: a tar archive, plain or gzip, in its own order, a zip
/// archive, or a folder with what is below it, in the order of the paths.
///
/// Nothing is written, so no name in an archive can lead out of a folder. Throws InvalidArgument,
/// naming `source`, where it is missing, no archive, damaged (checksums of gzip and zip included)
/// or cut short, past `limits`, where a name in it is absolute or climbs (".."), or where a wanted
/// file comes twice, is a link, or is anything else than a file. Throws Stopped when `watch` says
/// so.
void visit_source(const std::filesystem::path& source, const SourceLimits& limits,
                  const SourceVisitor& visitor, const Watch& watch);

/// The last part of a name: "c" of "a/b/c".
std::string_view file_name(std::string_view name);

}  // namespace gma::app
