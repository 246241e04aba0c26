// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/watch.h"

namespace gma::app {

struct DownloadOptions {
  std::string url;              ///< http or https
  std::string sha256;           ///< of the file, in hexadecimal; empty: not checked
  std::int64_t retries = 5;     ///< after failures that may pass, without a byte in between
  double retry_seconds = 1.0;   ///< before the first retry; doubles with each, to a minute at most
  double stall_seconds = 60.0;  ///< without a byte, after which a connection counts as broken
};

/// The last part of a URL's path, as a name for a file. Throws InvalidArgument where that is none,
/// or where the URL is neither http nor https.
std::string file_name_of_url(const std::string& url);

/// Downloads to `path`, which appears only when it is complete.
///
/// Until then the bytes are in ".NAME.part" beside it, and what the server said to know them again
/// (ETag or date) in ".NAME.part.json": after a break, in this call or a later one, the rest alone
/// is asked for (Range), on condition that the file is still that one (If-Range). Where the file
/// has changed or the server does not do ranges, the download starts anew. Proxies are those of the
/// environment, as for curl.
///
/// Throws InvalidArgument for a URL that cannot be used, an answer that a retry would not change
/// (404 and its like), a wrong checksum, and where another process downloads to `path`; IoError for
/// failures of network, server or disk; Stopped when `watch` says so.
void download(const DownloadOptions& options, const std::filesystem::path& path,
              const Watch& watch);

/// Throws InvalidArgument where `sha256` is not 64 hexadecimal digits.
void check_sha256_option(const std::string& sha256);
/// Throws InvalidArgument where a file has another checksum than `sha256`, or cannot be read.
void check_sha256(const std::filesystem::path& path, const std::string& sha256, const Watch& watch);

}  // namespace gma::app
