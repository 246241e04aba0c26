// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Linear attention: the passes of the mixture with the weights as they are given.
#include "gma/linear_attention.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/dropout.h"
#include "common/sequences.h"
#include "reference/backward.h"
#include "reference/forward.h"
#include "reference/mixture.h"
#include "reference/reference.h"
#include "reference/token.h"

namespace gma::reference {
namespace {

/// Weights that are features: the gradient of the one is that of the other.
template <class T>
class FeatureWeighting {
 public:
  FeatureWeighting(const LinearAttentionArgs<T>& args, const Sequence& sequence)
      : args_(args), sequence_(sequence) {}

  std::int64_t size() const { return args_.key.size(3); }
  Token route(Side side, std::int64_t row, std::int64_t h) const {
    const bool is_query = side == Side::query;
    const View<const T, 4>& features = is_query ? args_.query : args_.key;
    const std::int64_t begin = is_query ? sequence_.q_begin : sequence_.k_begin;
    Token token;
    token.weights = load(features.at(sequence_.batch, begin + row, h), size(), features.strides[3]);
    return token;
  }
  Vector backward(const Token& /*token*/, const Vector& weight_gradient) const {
    return weight_gradient;
  }

 private:
  const LinearAttentionArgs<T>& args_;
  const Sequence& sequence_;
};

/// Calls task(weighting, sequence, its position, head) for every sequence and key head.
template <class T, class Task>
void for_sequences(const LinearAttentionArgs<T>& args, const Task& task) {
  const std::vector<Sequence> list = sequences(args);
  for (std::int64_t head = 0; head < args.key.size(2); ++head) {
    for (std::size_t index = 0; index < list.size(); ++index) {
      const FeatureWeighting<T> weighting(args, list[index]);
      task(weighting, list[index], static_cast<std::int64_t>(index), head);
    }
  }
}

}  // namespace

template <class T>
void linear_attention_forward(const LinearAttentionArgs<T>& args,
                              const AttentionOutputs<T>& outputs) {
  for_sequences(args, [&](const FeatureWeighting<T>& weighting, const Sequence& sequence,
                          std::int64_t index, std::int64_t head) {
    forward_sequence(
        args, outputs, weighting.size(), sequence, index, head,
        [&](Side side, std::int64_t row, std::int64_t h) { return weighting.route(side, row, h); });
  });
}

template <class T>
void linear_attention_backward(const LinearAttentionArgs<T>& args,
                               const AttentionUpstream<T>& upstream,
                               const LinearAttentionGradients<T>& gradients) {
  for_sequences(args, [&](const FeatureWeighting<T>& weighting, const Sequence& sequence,
                          std::int64_t index, std::int64_t head) {
    SequenceBackward(args, upstream, gradients, weighting, sequence, index, head).run();
  });
}

template void linear_attention_forward(const LinearAttentionArgs<float>&,
                                       const AttentionOutputs<float>&);
template void linear_attention_forward(const LinearAttentionArgs<double>&,
                                       const AttentionOutputs<double>&);
template void linear_attention_backward(const LinearAttentionArgs<float>&,
                                        const AttentionUpstream<float>&,
                                        const LinearAttentionGradients<float>&);
template void linear_attention_backward(const LinearAttentionArgs<double>&,
                                        const AttentionUpstream<double>&,
                                        const LinearAttentionGradients<double>&);

}  // namespace gma::reference
