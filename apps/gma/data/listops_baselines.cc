// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/listops_baselines.h"

#include <algorithm>
#include <vector>

#include "data/listops.h"
#include "gma/error.h"

namespace gma::app {
namespace {

constexpr int kNoDigit = 10;

/// The operator at the root on the digits directly under it; kNoDigit where there is none.
int value_of_root_digits(std::span<const Token> tokens) {
  std::vector<int> digits;
  std::int64_t depth = 0;
  for (const Token token : tokens) {
    depth += is_list_op(token) ? 1 : token == kListOpsClose ? -1 : 0;
    if (depth == 1 && is_list_digit(token)) digits.push_back(token - kListOpsDigit0);
  }
  if (digits.empty()) return kNoDigit;
  return apply_list_op(static_cast<ListOp>(tokens.front()), digits);
}

std::int64_t argmax(const std::array<std::int64_t, 10>& counts) {
  return std::ranges::max_element(counts) - counts.begin();
}

}  // namespace

void ListOpsCounts::add(std::span<const Token> tokens, std::int64_t label) {
  const auto at = static_cast<std::size_t>(label);
  const int root = tokens.front();
  ++labels_[0][at];
  ++by_root_[root][at];
  ++by_root_digits_[root * (kNoDigit + 1) + value_of_root_digits(tokens)][at];
  ++size_;
}

double ListOpsCounts::accuracy(const ListOpsCounts& train, const ListOpsCounts& test,
                               Table ListOpsCounts::* table) {
  const std::int64_t majority = argmax(train.labels_.at(0));
  std::int64_t correct = 0;
  for (const auto& [feature, counts] : test.*table) {
    const auto found = (train.*table).find(feature);
    const std::int64_t guess = found == (train.*table).end() ? majority : argmax(found->second);
    correct += counts.at(static_cast<std::size_t>(guess));
  }
  return static_cast<double>(correct) / static_cast<double>(test.size_);
}

ListOpsBaselines listops_baselines(const ListOpsCounts& train, const ListOpsCounts& test) {
  if (train.size() == 0 || test.size() == 0) {
    throw InvalidArgument("listops_baselines: expected examples to fit and to test on, got none");
  }
  return {.majority = ListOpsCounts::accuracy(train, test, &ListOpsCounts::labels_),
          .root_operator = ListOpsCounts::accuracy(train, test, &ListOpsCounts::by_root_),
          .root_digits = ListOpsCounts::accuracy(train, test, &ListOpsCounts::by_root_digits_)};
}

ListOpsBaselines listops_baselines(const LabelledTokens& train, const LabelledTokens& test) {
  const auto count = [](const LabelledTokens& examples) {
    ListOpsCounts counts;
    for (std::int64_t i = 0; i < examples.size(); ++i) {
      counts.add(examples.tokens(i), examples.label(i));
    }
    return counts;
  };
  return listops_baselines(count(train), count(test));
}

}  // namespace gma::app
