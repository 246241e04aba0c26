// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "infer/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace gma::app {
namespace {

/// Puts a module into evaluation mode and back into the mode it was in.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module)
      : module_(module), was_training_(module.is_training()) {
    module_.eval();
  }
  ~EvaluationMode() { module_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  c10::InferenceMode inference_;
  torch::nn::Module& module_;
  bool was_training_;
};

double sum_in_double(const torch::Tensor& x) { return x.to(torch::kFloat64).sum().item<double>(); }

double ratio(double numerator, std::int64_t count) {
  return numerator / static_cast<double>(count);
}

/// Nats of windows' last `scored` tokens.
double score_windows(gma_torch::nn::CausalLm& model, const torch::Tensor& windows,
                     std::int64_t scored) {
  const std::int64_t length = windows.size(1) - 1;
  const torch::Tensor logits = model->forward(windows.narrow(1, 0, length));
  const torch::Tensor last = logits.narrow(1, length - scored, scored).flatten(0, 1);
  const torch::Tensor targets = windows.narrow(1, 1 + length - scored, scored).flatten();
  using Options = torch::nn::functional::CrossEntropyFuncOptions;
  return sum_in_double(
      torch::nn::functional::cross_entropy(last, targets, Options().reduction(torch::kNone)));
}

}  // namespace

double LmScore::loss() const { return ratio(nats, tokens); }
double LmScore::perplexity() const { return std::exp(loss()); }
double LmScore::bits_per_byte() const { return ratio(nats / std::numbers::ln2, bytes); }
double ClassifierScore::loss() const { return ratio(nats, texts); }
double ClassifierScore::accuracy() const { return ratio(static_cast<double>(correct), texts); }

torch::Tensor window_batch(std::span<const Token> tokens, std::span<const std::int64_t> starts,
                           std::int64_t length) {
  torch::Tensor batch =
      torch::empty({static_cast<std::int64_t>(starts.size()), length}, torch::kInt64);
  auto* row = batch.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t start : starts) {
    row = std::copy_n(tokens.begin() + start, length, row);
  }
  return batch;
}

std::optional<LmScore> score_lm(gma_torch::nn::CausalLm& model, std::span<const Token> tokens,
                                const Tokenizer& tokenizer, const LmScoreOptions& options,
                                const StopRequest& stop) {
  const EvaluationMode mode(*model);
  const auto size = static_cast<std::int64_t>(tokens.size());
  const std::int64_t context = std::min(options.context, size - 1);
  const std::int64_t stride = options.stride > 0 ? std::min(options.stride, context) : context;

  LmScore score;
  std::int64_t done = 1;  // tokens before this one are scored, or have nothing to be predicted from
  std::vector<std::int64_t> starts;
  const auto flush = [&](std::int64_t length, std::int64_t scored) {
    score.nats += score_windows(model, window_batch(tokens, starts, length), scored);
    starts.clear();
  };
  for (std::int64_t start = 0; done < size; start += stride) {
    const std::int64_t end = std::min(start + context + 1, size);
    const bool is_full = start > 0 && end == start + context + 1;
    starts.push_back(start);
    // The first and the last window score another number of tokens than those between them.
    const std::int64_t scored = end - done;
    done = end;
    const bool next_is_full = start + stride + context + 1 <= size;
    if (!is_full || !next_is_full || std::ssize(starts) == options.batch_size) {
      flush(end - start, scored);
      if (stop && stop()) return std::nullopt;
    }
  }
  score.tokens = size - 1;
  for (const Token token : tokens.subspan(1)) {
    score.bytes += static_cast<std::int64_t>(tokenizer.bytes_of(token).size());
  }
  return score;
}

LabelledBatch labelled_batch(const LabelledTokens& data, std::span<const std::int64_t> items) {
  std::int64_t longest = 0;
  for (const std::int64_t item : items) longest = std::max(longest, data.length(item));
  const auto count = static_cast<std::int64_t>(items.size());
  LabelledBatch batch{torch::zeros({count, longest}, torch::kInt64),
                      torch::zeros({count, longest}, torch::kBool),
                      torch::empty({count}, torch::kInt64)};
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t item = items[static_cast<std::size_t>(row)];
    const std::span<const Token> tokens = data.tokens(item);
    std::copy(tokens.begin(), tokens.end(),
              batch.tokens.mutable_data_ptr<std::int64_t>() + row * longest);
    std::fill_n(batch.mask.mutable_data_ptr<bool>() + row * longest, tokens.size(), true);
    batch.labels.mutable_data_ptr<std::int64_t>()[row] = data.label(item);
  }
  return batch;
}

std::optional<ClassifierScore> score_classifier(gma_torch::nn::SequenceClassifier& model,
                                                const LabelledTokens& data, std::int64_t count,
                                                std::int64_t batch_size, const StopRequest& stop) {
  const EvaluationMode mode(*model);
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return data.length(a) < data.length(b); });

  ClassifierScore score;
  for (std::span<const std::int64_t> rest = order; !rest.empty();) {
    const std::size_t rows = std::min(rest.size(), static_cast<std::size_t>(batch_size));
    const LabelledBatch batch = labelled_batch(data, rest.first(rows));
    rest = rest.subspan(rows);
    const torch::Tensor logits = model->forward(batch.tokens, batch.mask);
    using Options = torch::nn::functional::CrossEntropyFuncOptions;
    score.nats += sum_in_double(torch::nn::functional::cross_entropy(
        logits, batch.labels, Options().reduction(torch::kNone)));
    score.correct += logits.argmax(1).eq(batch.labels).sum().item<std::int64_t>();
    score.texts += static_cast<std::int64_t>(rows);
    if (stop && stop()) return std::nullopt;
  }
  return score;
}

}  // namespace gma::app
