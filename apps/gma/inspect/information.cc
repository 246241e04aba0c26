// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "inspect/information.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gma::app {
namespace {

double sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::size_t labels(std::span<const double> sums) {
  return static_cast<std::size_t>(std::ranges::count_if(sums, [](double s) { return s > 0.0; }));
}

/// log of a factorial.
double log_factorial(double n) { return std::lgamma(n + 1.0); }

/// The mean, over a hypergeometric n (a of one label and b of another among `total`), of
/// n/total log(total n / (a b)). Terms are summed from the likeliest n outwards, each probability
/// from its neighbour's, until they no longer count.
double expected_cell(double a, double b, double total) {
  const double least = std::max(0.0, a + b - total), most = std::min(a, b);
  const double mode = std::clamp(std::floor((a + 1.0) * (b + 1.0) / (total + 2.0)), least, most);
  const double log_probability = log_factorial(a) + log_factorial(b) + log_factorial(total - a) +
                                 log_factorial(total - b) - log_factorial(total) -
                                 log_factorial(mode) - log_factorial(a - mode) -
                                 log_factorial(b - mode) - log_factorial(total - a - b + mode);
  const auto term = [&](double n) {
    return n > 0.0 ? n / total * std::log(total * n / (a * b)) : 0.0;
  };
  constexpr double kNegligible = 1e-18;
  const double at_mode = std::exp(log_probability);
  double mean = at_mode * term(mode);
  double probability = at_mode;
  for (double n = mode; n < most && probability > kNegligible; ++n) {
    probability *= (a - n) * (b - n) / ((n + 1.0) * (total - a - b + n + 1.0));
    mean += probability * term(n + 1.0);
  }
  probability = at_mode;
  for (double n = mode; n > least && probability > kNegligible; --n) {
    probability *= n * (total - a - b + n) / ((a - n + 1.0) * (b - n + 1.0));
    mean += probability * term(n - 1.0);
  }
  return mean;
}

}  // namespace

double entropy(std::span<const double> weights) {
  const double total = sum(weights);
  double result = 0.0;
  for (const double weight : weights) {
    if (weight > 0.0) result -= weight / total * std::log(weight / total);
  }
  return std::max(result, 0.0);
}

double normalised_by_log(double value, std::size_t count) {
  return count > 1 ? value / std::log(static_cast<double>(count)) : 0.0;
}

std::uint64_t ContingencyTable::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

std::vector<double> ContingencyTable::row_sums() const {
  std::vector<double> sums(rows_);
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    sums[i / columns_] += static_cast<double>(counts_[i]);
  }
  return sums;
}

std::vector<double> ContingencyTable::column_sums() const {
  std::vector<double> sums(columns_);
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    sums[i % columns_] += static_cast<double>(counts_[i]);
  }
  return sums;
}

double mutual_information(const ContingencyTable& table) {
  const std::vector<double> rows = table.row_sums(), columns = table.column_sums();
  const double total = sum(rows);
  double information = 0.0;
  for (std::size_t i = 0; i < table.counts().size(); ++i) {
    const auto count = static_cast<double>(table.counts()[i]);
    if (count == 0.0) continue;
    information +=
        count / total *
        std::log(count * total / (rows[i / columns.size()] * columns[i % columns.size()]));
  }
  return std::max(information, 0.0);
}

double expected_mutual_information(const ContingencyTable& table) {
  const std::vector<double> rows = table.row_sums(), columns = table.column_sums();
  const double total = sum(rows);
  double expected = 0.0;
  for (const double a : rows) {
    for (const double b : columns) {
      if (a > 0.0 && b > 0.0) expected += expected_cell(a, b, total);
    }
  }
  return std::max(expected, 0.0);
}

Agreement agreement(const ContingencyTable& table) {
  const std::vector<double> rows = table.row_sums(), columns = table.column_sums();
  if (labels(rows) <= 1 && labels(columns) <= 1) return {1.0, 1.0, 1.0};
  const double scale = 0.5 * (entropy(rows) + entropy(columns));
  const double information = mutual_information(table);
  const double expected = expected_mutual_information(table);
  // Chance alone may give all that there is to have, as where every token has a label of its own.
  const double room = scale - expected;
  constexpr double kRounding = 1e-12;
  return {std::min(information / scale, 1.0), expected / scale,
          room > kRounding * scale ? (information - expected) / room : 0.0};
}

}  // namespace gma::app
