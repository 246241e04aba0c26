// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "infer/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gma/error.h"

namespace gma::app {
namespace {

/// Tokens of a prompt that go through the model at once.
constexpr std::size_t kPromptChunk = 512;

std::span<const float> last_logits(const torch::Tensor& logits) {
  const std::int64_t vocab_size = logits.size(2);
  return {logits.const_data_ptr<float>() + logits.numel() - vocab_size,
          static_cast<std::size_t>(vocab_size)};
}

torch::Tensor as_row(std::span<const Token> tokens) {
  torch::Tensor row = torch::empty({1, static_cast<std::int64_t>(tokens.size())}, torch::kInt64);
  std::copy(tokens.begin(), tokens.end(), row.mutable_data_ptr<std::int64_t>());
  return row;
}

}  // namespace

TokenSampler::TokenSampler(const SamplingOptions& options, std::int64_t vocab_size)
    : options_(options), seen_(static_cast<std::size_t>(vocab_size)), random_(options.seed) {}

void TokenSampler::saw(Token token) { seen_.at(token) = true; }

Token TokenSampler::next(std::span<const float> logits) {
  std::vector<float> adjusted(logits.begin(), logits.end());
  if (options_.repetition_penalty != 1.0) {
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (std::size_t i = 0; i < adjusted.size(); ++i) {
      if (seen_[i]) adjusted[i] = adjusted[i] > 0 ? adjusted[i] / penalty : adjusted[i] * penalty;
    }
  }
  if (options_.greedy) {
    return static_cast<Token>(std::max_element(adjusted.begin(), adjusted.end()) -
                              adjusted.begin());
  }
  return draw(adjusted);
}

Token TokenSampler::draw(std::vector<float>& logits) {
  std::vector<Token> order(logits.size());
  std::iota(order.begin(), order.end(), Token{0});
  const auto likelier = [&](Token a, Token b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const std::size_t kept = options_.top_k > 0
                               ? std::min(order.size(), static_cast<std::size_t>(options_.top_k))
                               : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    likelier);
  order.resize(kept);

  const double greatest = logits[order.front()];
  std::vector<double> weights;
  weights.reserve(kept);
  for (const Token token : order) {
    weights.push_back(std::exp((logits[token] - greatest) / options_.temperature));
  }
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options_.top_p < 1.0) {
    const double wanted = options_.top_p * total;
    total = 0.0;
    std::size_t count = 0;
    while (count < kept && total < wanted) total += weights[count++];
    order.resize(std::max<std::size_t>(count, 1));
    total = std::max(total, weights.front());
  }
  double left = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    if (left < weights[i]) return order[i];
    left -= weights[i];
  }
  return order.back();
}

void generate(gma_torch::nn::CausalLm& model, std::span<const Token> prompt,
              const SamplingOptions& options, std::int64_t max_tokens,
              const std::function<bool(Token)>& sink) {
  if (prompt.empty()) throw InvalidArgument("prompt: expected at least one token, got none");
  const c10::InferenceMode inference;
  TokenSampler sampler(options, model->config().vocab_size);
  gma_torch::nn::ModelState state = model->initial_state(1);
  torch::Tensor logits;
  for (std::span<const Token> rest = prompt; !rest.empty();) {
    const std::size_t count = std::min(rest.size(), kPromptChunk);
    logits = model->forward(as_row(rest.first(count)), &state).to(torch::kFloat32).contiguous();
    rest = rest.subspan(count);
  }
  for (const Token token : prompt) sampler.saw(token);
  for (std::int64_t i = 0; i < max_tokens; ++i) {
    const Token token = sampler.next(last_logits(logits));
    if (!sink(token) || i + 1 == max_tokens) return;
    sampler.saw(token);
    logits = model->forward(as_row({&token, 1}), &state).to(torch::kFloat32).contiguous();
  }
}

StopFilter::StopFilter(std::vector<std::string> stop_texts) : stop_texts_(std::move(stop_texts)) {
  std::erase(stop_texts_, "");
}

std::string StopFilter::push(std::string_view bytes) {
  if (stopped_) return {};
  held_ += bytes;
  std::size_t safe = held_.size();
  for (const std::string& stop : stop_texts_) {
    if (const std::size_t at = held_.find(stop); at != std::string::npos) {
      stopped_ = true;
      safe = std::min(safe, at);
    }
  }
  if (!stopped_) {
    for (const std::string& stop : stop_texts_) {
      for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > 0; --n) {
        if (held_.ends_with(std::string_view(stop).substr(0, n))) {
          safe = std::min(safe, held_.size() - n);
          break;
        }
      }
    }
  }
  std::string shown = held_.substr(0, safe);
  held_.erase(0, safe);
  return shown;
}

std::string StopFilter::finish() {
  std::string rest = stopped_ ? std::string() : std::move(held_);
  held_.clear();
  return rest;
}

}  // namespace gma::app
