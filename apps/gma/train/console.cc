// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace gma::app {
namespace {

constexpr int kBarWidth = 20;
constexpr int kBarWidthBesideRouting = 6;  // what matters then fits into 80 columns

std::string scaled(double value, const std::array<const char*, 4>& units) {
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < units.size(); ++unit) value /= 1000.0;
  return fmt::format("{:.{}f}{}", value, unit > 0 && value < 99.95 ? 1 : 0, units[unit]);
}

std::size_t terminal_width() {
  constexpr std::size_t kUsualWidth = 80;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                         : kUsualWidth;
}

/// Whether routing collapses: what a token tells of its component, and components without a part.
std::string collapse(const StepReport& report) {
  if (!report.routing) return {};
  const RoutingHealth& routing = *report.routing;
  const std::string text = fmt::format("  routing {:.2f}", routing.routing_information);
  return routing.dead_components > 0 ? fmt::format("{}, {} dead", text, routing.dead_components)
                                     : text;
}

std::string spread(const StepReport& report) {
  if (!report.routing) return {};
  const RoutingHealth& routing = *report.routing;
  return fmt::format("  usage {:.2f}  variances {:.2g} to {:.2g}", routing.usage_entropy,
                     routing.variance_min, routing.variance_max);
}

}  // namespace

Console::Console() : is_terminal_(isatty(STDOUT_FILENO) == 1) {}

Console::~Console() {
  clear_status();
  std::fflush(stdout);
}

void Console::line(std::string_view text) {
  clear_status();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Console::status(std::string_view text) {
  if (!is_terminal_) return;
  // A line that wraps could not be drawn over.
  fmt::print("\r{}\x1b[K", text.substr(0, terminal_width() - 1));
  std::fflush(stdout);
  has_status_ = true;
}

void Console::clear_status() {
  if (has_status_) fmt::print("\r\x1b[K");
  has_status_ = false;
}

std::string progress_bar(const StepReport& report) {
  const int width = report.routing ? kBarWidthBesideRouting : kBarWidth;
  const int filled = static_cast<int>(std::clamp(report.fraction, 0.0, 1.0) * width);
  return fmt::format("{:3.0f}% [{:#<{}}{:-<{}}] step {}/{}  loss {:.3f}  {} tokens/s  {} left{}{}",
                     100.0 * std::floor(std::min(report.fraction, 1.0) * 100.0) / 100.0, "", filled,
                     "", width - filled, report.step, report.steps, report.loss,
                     human_count(report.tokens_per_second), human_duration(report.seconds_left),
                     collapse(report), spread(report));
}

std::string progress_line(const StepReport& report) {
  return fmt::format("step {}/{}  loss {:.4f}{}{}  lr {:.1e}  {} tokens/s  {} left", report.step,
                     report.steps, report.loss, collapse(report), spread(report),
                     report.learning_rate, human_count(report.tokens_per_second),
                     human_duration(report.seconds_left));
}

std::string human_count(double count) { return scaled(count, {"", "k", "M", "G"}); }

std::string human_bytes(double bytes) { return scaled(bytes, {" B", " kB", " MB", " GB"}); }

std::string human_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, std::round(seconds)));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace gma::app
