// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The definition, word for word and in the type of its input: an explicit affinity between every
// query and every key, softmax attention with its matrix replaced. It is a second opinion on the
// oracle (in double) and the yardstick for rounding errors (in float).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/covariance.h"
#include "common/sequences.h"
#include "gma/attention.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace gma::test {

template <class T>
std::vector<T> plain_responsibilities(const AttentionArgs<T>& args, const View<const T, 4>& vectors,
                                      std::int64_t b, std::int64_t t, std::int64_t h,
                                      std::int64_t mixture) {
  const View<const T, 3> variances =
      broadcast_variances(args.variances, args.means.size(1), args.means.size(2));
  std::vector<T> gamma;
  for (std::int64_t k = 0; k < args.means.size(1); ++k) {
    T log_density = args.prior_logits(mixture, k);
    for (std::int64_t d = 0; d < args.means.size(2); ++d) {
      const T difference = vectors(b, t, h, d) - args.means(mixture, k, d);
      const T variance = variances(mixture, k, d);
      log_density -= (std::log(variance) + difference * difference / variance) / 2;
    }
    gamma.push_back(log_density);
  }
  const T largest = *std::ranges::max_element(gamma);
  T sum = 0;
  for (T& value : gamma) sum += value = std::exp(value - largest);
  for (T& value : gamma) value /= sum;
  return gamma;
}

/// The output of a problem without states and dropout.
template <class T>
Tensor<T, 4> plain_output(const Problem<T>& problem) {
  const AttentionArgs<T> args = problem.args(Backend::reference);
  const std::int64_t group = args.query.size(2) / args.key.size(2);
  Tensor<T, 4> output(problem.grad_output.shape());
  for (const Sequence& sequence : sequences(args)) {
    const std::int64_t b = sequence.batch;
    for (std::int64_t h = 0; h < args.query.size(2); ++h) {
      std::vector<std::vector<T>> keys;
      for (std::int64_t j = sequence.k_begin; j < sequence.k_end; ++j) {
        keys.push_back(plain_responsibilities(args, args.key, b, j, h / group, h / group));
      }
      for (std::int64_t i = sequence.q_begin; i < sequence.q_end; ++i) {
        const std::vector<T> query = plain_responsibilities(args, args.query, b, i, h, h / group);
        std::vector<T> numerator(static_cast<std::size_t>(args.value.size(3)));
        T denominator = static_cast<T>(args.eps);
        for (std::int64_t j = sequence.k_begin; j < sequence.k_end; ++j) {
          if (args.is_causal && j > i) break;
          if (args.key_padding_mask && !args.key_padding_mask(b, j)) continue;
          T affinity = 0;
          for (std::size_t k = 0; k < query.size(); ++k) {
            affinity += query[k] * keys[j - sequence.k_begin][k];
          }
          denominator += affinity;
          for (std::size_t c = 0; c < numerator.size(); ++c) {
            numerator[c] += affinity * args.value(b, j, h / group, c);
          }
        }
        for (std::size_t c = 0; c < numerator.size(); ++c) {
          output(b, i, h, c) = denominator == 0 ? T{0} : numerator[c] / denominator;
        }
      }
    }
  }
  return output;
}

}  // namespace gma::test
