// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace gma::app {

/// The folder of a run, held by one process at a time. It is made at once, so that a place which
/// cannot be used is known before any work, and goes away again if nothing was ever saved in it.
class RunFolder {
 public:
  /// Makes the folder, locks it, and clears away what a killed run left half-written. Throws
  /// InvalidArgument if it cannot be written to, or if another process trains in it.
  explicit RunFolder(const std::filesystem::path& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Whether a run has left a checkpoint here, or the record of its end.
  bool holds_run() const;

 private:
  void make();
  void lock();
  void clear_leftovers() const;

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  ///< folders that were not there, innermost first
  int descriptor_ = -1;
};

}  // namespace gma::app
