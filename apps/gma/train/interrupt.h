// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace gma::app {

/// While one lives, SIGINT and SIGTERM only ask to stop; the second of them ends the process at
/// once with code 130.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool requested();

 private:
  struct sigaction old_int_{};
  struct sigaction old_term_{};
};

}  // namespace gma::app
