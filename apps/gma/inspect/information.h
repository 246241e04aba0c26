// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// How much one labelling of tokens says about another. All logarithms are natural.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gma::app {

/// Entropy of the distribution that is proportional to `weights`, which are not negative; 0 where
/// they sum to 0.
double entropy(std::span<const double> weights);

/// `value` over log(count): 1 where it is the entropy of `count` equal shares. 0 for one share.
double normalised_by_log(double value, std::size_t count);

/// How often each pair of labels comes together.
class ContingencyTable {
 public:
  ContingencyTable(std::size_t rows, std::size_t columns)
      : rows_(rows), columns_(columns), counts_(rows * columns) {}

  void add(std::size_t row, std::size_t column) { ++counts_[row * columns_ + column]; }

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  /// In the order of rows.
  std::span<const std::uint64_t> counts() const { return counts_; }
  std::uint64_t total() const;
  std::vector<double> row_sums() const;
  std::vector<double> column_sums() const;

 private:
  std::size_t rows_, columns_;
  std::vector<std::uint64_t> counts_;
};

/// Sum over pairs of p(row, column) log(p(row, column) / (p(row) p(column))).
double mutual_information(const ContingencyTable& table);

/// The mean of mutual_information() over all ways to pair the labels anew, each label as often as
/// it is (Vinh, Epps and Bailey 2010, equation 24).
double expected_mutual_information(const ContingencyTable& table);

/// Mutual information over the mean of both entropies, as scikit-learn's
/// normalized_mutual_info_score: 1 where either labelling tells the other. Where both have one
/// label or none, 1; where one has, 0.
struct Agreement {
  double nmi = 0.0;
  double chance = 0.0;  ///< the mean nmi of labels that are paired anew
  double adjusted =
      0.0;  ///< nmi on a scale where chance is 0 and 1 is 1 (adjusted_mutual_info_score)
};
Agreement agreement(const ContingencyTable& table);

}  // namespace gma::app
