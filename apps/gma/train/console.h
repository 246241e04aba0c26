// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "train/routing_health.h"

namespace gma::app {

/// What a run says while it goes on, on standard output: on a terminal one line that is drawn over
/// and over, otherwise plain lines.
class Console {
 public:
  Console();
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool is_terminal() const { return is_terminal_; }
  /// A line that stays.
  void line(std::string_view text);
  /// The passing line; only on a terminal.
  void status(std::string_view text);

 private:
  void clear_status();

  bool is_terminal_;
  bool has_status_ = false;
};

/// What a run has to say about a step.
struct StepReport {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double fraction = 0.0;  ///< of the whole run
  double loss = 0.0;
  double learning_rate = 0.0;
  double tokens_per_second = 0.0;
  double seconds_left = 0.0;
  std::optional<RoutingHealth> routing = {};  ///< of models with Gaussian mixture attention
};

/// "42% [########------------] step 420/1000  loss 1.234  12.3k tokens/s  1:23 left"; with
/// `routing`, "routing 0.12, 3 dead" behind the loss, and what a narrow terminal may cut off,
/// "usage 0.93  variances 4.5 to 23", at the end.
std::string progress_bar(const StepReport& report);
/// "step 420/1000  loss 1.234  lr 1.0e-03  12.3k tokens/s  1:23 left", with the same behind the
/// loss.
std::string progress_line(const StepReport& report);

/// 1234567 as "1.2M".
std::string human_count(double count);
/// 3725 seconds as "1:02:05".
std::string human_duration(double seconds);
/// Bytes as "1.2 GB".
std::string human_bytes(double bytes);

}  // namespace gma::app
