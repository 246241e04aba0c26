// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/page.h"
#include "train/console.h"

namespace gma::app {
namespace {

using nlohmann::ordered_json;

/// Least-squares slope of log y over log x; nothing with fewer than two points, or a y of 0.
std::optional<double> log_slope(std::vector<std::pair<double, double>> points) {
  if (points.size() > 3) points.erase(points.begin(), points.begin() + std::ssize(points) / 2);
  if (points.size() < 2) return std::nullopt;
  double mean_x = 0.0, mean_y = 0.0;
  for (auto& [x, y] : points) {
    if (!(x > 0 && y > 0)) return std::nullopt;
    x = std::log(x);
    y = std::log(y);
    mean_x += x / static_cast<double>(points.size());
    mean_y += y / static_cast<double>(points.size());
  }
  double products = 0.0, squares = 0.0;
  for (const auto& [x, y] : points) {
    products += (x - mean_x) * (y - mean_y);
    squares += (x - mean_x) * (x - mean_x);
  }
  return products / squares;
}

template <class Value>
std::optional<double> slope_of(const std::vector<ProfileSeries::Point>& points,
                               const Value& value) {
  std::vector<std::pair<double, double>> pairs;
  for (const auto& point : points) {
    pairs.emplace_back(static_cast<double>(point.tokens), value(point.measurement));
  }
  return log_slope(std::move(pairs));
}

/// The time of the next length as the last two have it, or as for a quadratic pass.
double expected_seconds(const std::vector<ProfileSeries::Point>& points, std::int64_t tokens) {
  const auto& last = points.back();
  double exponent = 2.0;
  if (points.size() > 1) {
    const auto& before = points[points.size() - 2];
    exponent = std::log(last.measurement.median_seconds / before.measurement.median_seconds) /
               std::log(static_cast<double>(last.tokens) / static_cast<double>(before.tokens));
  }
  return last.measurement.median_seconds *
         std::pow(static_cast<double>(tokens) / static_cast<double>(last.tokens),
                  std::clamp(exponent, 1.0, 2.0));
}

std::string human_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string text(const std::optional<double>& slope) {
  return slope ? fmt::format("{:.2f}", *slope) : "";
}

const char* describe(const std::string& pass) {
  if (pass == "forward") return "Layer, forward";
  if (pass == "backward") return "Layer, forward and backward";
  if (pass == "step") return "Layer, one decoding step after N tokens (memory: its state)";
  return "Language model, forward and backward";
}

}  // namespace

void to_json(nlohmann::ordered_json& json, const Measurement& measurement) {
  json = {{"seconds", measurement.seconds},
          {"median_seconds", measurement.median_seconds},
          {"peak_bytes", measurement.peak_bytes},
          {"repeats", measurement.repeats}};
}

void from_json(const nlohmann::ordered_json& json, Measurement& measurement) {
  json.at("seconds").get_to(measurement.seconds);
  json.at("median_seconds").get_to(measurement.median_seconds);
  json.at("peak_bytes").get_to(measurement.peak_bytes);
  json.at("repeats").get_to(measurement.repeats);
}

std::string ProfileSeries::name() const {
  return first.mixer == "gma" ? fmt::format("gma, K={}", first.components) : first.mixer;
}

std::optional<double> ProfileSeries::time_slope() const {
  return slope_of(points, [](const Measurement& m) { return m.seconds; });
}

std::optional<double> ProfileSeries::memory_slope() const {
  return slope_of(points, [](const Measurement& m) { return m.peak_bytes; });
}

void run_series(ProfileSeries& series, const std::vector<std::int64_t>& lengths,
                const ProfileBudget& budget,
                const std::function<ProfileOutcome(const ProfileCase&)>& measure_case) {
  for (const std::int64_t tokens : lengths) {
    // A step costs little, but what comes before it as much as a forward pass.
    if (series.first.pass != "step" && !series.points.empty()) {
      const double expected = expected_seconds(series.points, tokens);
      if (expected > budget.seconds) {
        series.stopped = fmt::format("N={} would take about {} of {}", tokens, human_time(expected),
                                     human_time(budget.seconds));
        return;
      }
    }
    ProfileCase one = series.first;
    one.tokens = tokens;
    ProfileOutcome outcome = measure_case(one);
    if (!outcome.measurement) {
      series.stopped = fmt::format("N={}: {}", tokens, outcome.reason);
      return;
    }
    series.points.push_back({tokens, *outcome.measurement});
  }
}

std::string profile_markdown(const std::vector<ProfileSeries>& all,
                             const std::vector<std::int64_t>& lengths) {
  std::string result;
  for (const std::string& pass : kProfilePasses) {
    std::string rows;
    for (const ProfileSeries& series : all) {
      if (series.first.pass != pass) continue;
      rows += fmt::format("| {} |", series.name());
      for (const std::int64_t tokens : lengths) {
        const auto found = std::ranges::find(series.points, tokens, &ProfileSeries::Point::tokens);
        rows += found == series.points.end()
                    ? " |"
                    : fmt::format(" {}, {} |", human_time(found->measurement.seconds),
                                  human_bytes(found->measurement.peak_bytes));
      }
      rows += fmt::format(" {} | {} | {} |\n", text(series.time_slope()),
                          text(series.memory_slope()), series.stopped);
    }
    if (rows.empty()) continue;
    result += fmt::format("{}:\n\n| mixer |", describe(pass));
    for (const std::int64_t tokens : lengths) result += fmt::format(" N={} |", tokens);
    result += " time slope | memory slope | stopped |\n|---|";
    for (std::size_t i = 0; i < lengths.size(); ++i) result += "---|";
    result += "---|---|---|\n" + rows + "\n";
  }
  return result;
}

ordered_json profile_json(const std::vector<ProfileSeries>& all) {
  ordered_json json = ordered_json::array();
  for (const ProfileSeries& series : all) {
    ordered_json points = ordered_json::array();
    for (const auto& [tokens, measurement] : series.points) {
      ordered_json point = {{"tokens", tokens}};
      point.update(ordered_json(measurement));
      points.push_back(std::move(point));
    }
    const ProfileCase& one = series.first;
    ordered_json entry = {{"name", series.name()},
                          {"mixer", one.mixer},
                          {"pass", one.pass},
                          {"components", one.components},
                          {"hidden_size", one.hidden_size},
                          {"heads", one.heads},
                          {"batch_size", one.batch_size},
                          {"is_causal", one.is_causal},
                          {"use_short_conv", one.use_short_conv}};
    if (const auto slope = series.time_slope()) entry["time_slope"] = *slope;
    if (const auto slope = series.memory_slope()) entry["memory_slope"] = *slope;
    entry["stopped"] = series.stopped;
    entry["points"] = std::move(points);
    json.push_back(std::move(entry));
  }
  return json;
}

std::string profile_page(const std::string& title, const std::vector<ProfileSeries>& all) {
  return make_page(profile_template(), {{"title", title}, {"series", profile_json(all)}});
}

}  // namespace gma::app
