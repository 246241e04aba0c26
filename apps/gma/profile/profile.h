// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Series of measurements over the length, and what they say.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "profile/measure.h"

namespace gma::app {

/// One mixer and pass over growing lengths.
struct ProfileSeries {
  ProfileCase first;  ///< all but its number of tokens holds for the series
  struct Point {
    std::int64_t tokens = 0;
    Measurement measurement;
  };
  std::vector<Point> points = {};
  std::string stopped = {};  ///< why it ends before the longest length; empty if it does not

  std::string name() const;
  /// Exponent of the length in time or memory: least squares in logarithms over the longer half of
  /// the points; nothing with fewer than two.
  std::optional<double> time_slope() const;
  std::optional<double> memory_slope() const;
};

/// What came of one case: a measurement, or why there is none.
struct ProfileOutcome {
  std::optional<Measurement> measurement;
  std::string reason;
};

struct ProfileBudget {
  double seconds = 60.0;  ///< of one run of a pass; a length that would take longer is left out
};

/// Measures the series' lengths in turn, by `measure_case`, until they are done or the budget says
/// stop.
void run_series(ProfileSeries& series, const std::vector<std::int64_t>& lengths,
                const ProfileBudget& budget,
                const std::function<ProfileOutcome(const ProfileCase&)>& measure_case);

/// A table for each pass: a row a series, a column a length.
std::string profile_markdown(const std::vector<ProfileSeries>& all,
                             const std::vector<std::int64_t>& lengths);
nlohmann::ordered_json profile_json(const std::vector<ProfileSeries>& all);
/// HTML that opens offline.
std::string profile_page(const std::string& title, const std::vector<ProfileSeries>& all);

}  // namespace gma::app
