// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// How the tokens of a text use the components of a mixture: sums that take the same memory whatever
// the length of the text. docs/inspect.md defines each figure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inspect/information.h"
#include "inspect/token_category.h"

namespace gma::app {

/// A component whose mean responsibility is below this part of an equal share, 1/K, is dead: it
/// takes no part worth the name.
inline constexpr double kDeadShare = 0.01;

/// Figures of one mixture on one side.
struct RoutingMetrics {
  std::int64_t components = 0;          ///< K
  std::int64_t components_used = 0;     ///< most responsible for at least one token
  std::int64_t components_dead = 0;     ///< see kDeadShare
  double usage_entropy = 0.0;           ///< of the mean responsibilities, over log K
  double assignment_entropy = 0.0;      ///< of how often each is most responsible, over log K
  double effective_components = 0.0;    ///< exp of the entropy of the mean responsibilities
  double responsibility_entropy = 0.0;  ///< mean over tokens, over log K: 0 sharp, 1 spread evenly
  /// usage_entropy less responsibility_entropy, the mutual information of token and component over
  /// log K: 0 where all tokens are routed alike, 1 where each is sharp and components are used
  /// alike.
  double routing_information = 0.0;
  double top_responsibility = 0.0;  ///< mean over tokens of the largest
  Agreement categories;             ///< of the most responsible component with the token's category
};

/// Sums over tokens for one head and one side, queries or keys.
class HeadStatistics {
 public:
  explicit HeadStatistics(std::size_t components);

  /// Adds a token: its responsibilities (K), which sum to 1. Of equal ones the first counts as the
  /// most responsible.
  void add(std::span<const float> responsibilities, TokenCategory category);

  std::size_t components() const { return mass_.size(); }
  std::int64_t tokens() const { return tokens_; }
  /// Mean responsibility of each component; zeros before the first token.
  std::vector<double> usage() const;
  /// Of each component, its mean responsibility for the tokens that it is most responsible for, 0
  /// where there are none.
  std::vector<double> sharpness() const;
  /// How often each component is most responsible for a token of each category.
  const ContingencyTable& table() const { return table_; }

  RoutingMetrics metrics() const;

 private:
  std::int64_t tokens_ = 0;
  double entropy_ = 0.0, top_ = 0.0;
  std::vector<double> mass_;      ///< sums of responsibilities
  std::vector<double> top_mass_;  ///< the same where the component is most responsible
  ContingencyTable table_;
};

/// Means of the figures, and sums of the counts of components.
RoutingMetrics summarise(std::span<const RoutingMetrics> heads);

}  // namespace gma::app
