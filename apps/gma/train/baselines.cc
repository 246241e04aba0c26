// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/baselines.h"

#include <algorithm>
#include <vector>

#include "data/listops_baselines.h"

namespace gma::app {
namespace {

double majority_accuracy(const LabelledCorpus& corpus, const LabelledTokens& test) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(corpus.num_classes));
  for (std::int64_t i = 0; i < corpus.train.size(); ++i) {
    ++counts[static_cast<std::size_t>(corpus.train.label(i))];
  }
  const std::int64_t guess = std::ranges::max_element(counts) - counts.begin();
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < test.size(); ++i) right += test.label(i) == guess;
  return static_cast<double>(right) / static_cast<double>(test.size());
}

}  // namespace

nlohmann::ordered_json shortcut_baselines(const LabelledCorpus& corpus) {
  const LabelledTokens& test = corpus.test ? *corpus.test : corpus.held_out;
  nlohmann::ordered_json result = {{"majority", majority_accuracy(corpus, test)}};
  if (corpus.tokenizer->kind() == "listops") {
    const ListOpsBaselines baselines = listops_baselines(corpus.train, test);
    result["root_operator"] = baselines.root_operator;
    result["root_digits"] = baselines.root_digits;
  }
  return result;
}

}  // namespace gma::app
