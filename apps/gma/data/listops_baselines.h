// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// How far ListOps can be solved without solving it: what a model must pass before its accuracy
// says that it follows the nesting.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>

#include "data/labelled_texts.h"
#include "data/tokenizer.h"

namespace gma::app {

/// Accuracies on a test set, 0 to 1, of guesses from one feature of the expression. For each value
/// of the feature the guess is its most frequent label in the training set; for one that is not
/// there, the most frequent label of all.
struct ListOpsBaselines {
  double majority = 0.0;       ///< no feature
  double root_operator = 0.0;  ///< the first token
  /// The first token, and its operator applied to those of its arguments that are digits: what
  /// reading one level down gives. Without such an argument the feature is the first token alone.
  double root_digits = 0.0;
};

/// How often each label comes with each value of the features.
class ListOpsCounts {
 public:
  /// Expects what evaluate_listops() accepts.
  void add(std::span<const Token> tokens, std::int64_t label);
  std::int64_t size() const { return size_; }

 private:
  friend ListOpsBaselines listops_baselines(const ListOpsCounts& train, const ListOpsCounts& test);
  using Table = std::map<int, std::array<std::int64_t, 10>>;

  static double accuracy(const ListOpsCounts& train, const ListOpsCounts& test,
                         Table ListOpsCounts::* table);

  Table labels_;
  Table by_root_;
  Table by_root_digits_;
  std::int64_t size_ = 0;
};

/// Throws InvalidArgument if either set is empty.
ListOpsBaselines listops_baselines(const ListOpsCounts& train, const ListOpsCounts& test);
ListOpsBaselines listops_baselines(const LabelledTokens& train, const LabelledTokens& test);

}  // namespace gma::app
