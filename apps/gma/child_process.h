// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gma::app {

/// Runs this very program with other arguments and waits for it; its output is ours. SIGINT and
/// SIGTERM are handed on to it, once each time, and it gets SIGTERM if we are killed. Returns its
/// exit code, 127 if it could not be started, or 128 and the signal that ended it. Throws
/// std::runtime_error if there can be no further process. One at a time, from the main thread.
int run_self(const std::vector<std::string>& arguments);

/// The same with its standard output for us to read.
struct ChildOutput {
  int code = 0;
  std::string text;
};
ChildOutput read_self(const std::vector<std::string>& arguments);

}  // namespace gma::app
