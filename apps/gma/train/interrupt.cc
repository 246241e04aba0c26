// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/interrupt.h"

#include <unistd.h>

namespace gma::app {
namespace {

constexpr int kExitInterrupted = 130;

volatile std::sig_atomic_t interrupts = 0;

extern "C" void on_interrupt(int) {
  if (interrupts > 0) _exit(kExitInterrupted);
  interrupts = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupts = 0;
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

bool InterruptGuard::requested() { return interrupts > 0; }

}  // namespace gma::app
