// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// A query or a key on its way through the mixture.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/dropout.h"
#include "common/sequences.h"
#include "gma/attention.h"
#include "reference/mixture.h"

namespace gma::reference {

struct Token {
  Vector x;        ///< routing vector, (D)
  Vector gamma;    ///< responsibilities, (K)
  Vector keep;     ///< what dropout multiplies them by: 0 or 1 / (1 - p), (K)
  Vector weights;  ///< gamma keep: the rows of Gamma_Q and Gamma_K
};

/// Token `row` of a sequence, of head `head` of the queries or the keys.
template <class T>
Token route(const AttentionArgs<T>& args, const Mixture& mixture, const Sequence& sequence,
            std::int64_t index, Side side, std::int64_t row, std::int64_t head) {
  const bool is_query = side == Side::query;
  const View<const T, 4>& vectors = is_query ? args.query : args.key;
  const std::int64_t begin = is_query ? sequence.q_begin : sequence.k_begin;

  Token token;
  token.x = load(vectors.at(sequence.batch, begin + row, head), mixture.dim(), vectors.strides[3]);
  token.gamma = mixture.responsibilities(token.x);
  token.keep.assign(token.gamma.size(), 1.0);
  if (const Dropout dropout(args.dropout_p, args.dropout_seed); dropout.active()) {
    const std::uint32_t token_key = dropout.token_key(index, head, side, row);
    for (std::int64_t k = 0; k < mixture.num_components(); ++k) {
      token.keep[k] = dropout.factor(token_key, k);
    }
  }
  for (std::size_t k = 0; k < token.gamma.size(); ++k) {
    token.weights.push_back(token.gamma[k] * token.keep[k]);
  }
  return token;
}

/// Value row `row` of a sequence.
template <class Args>
Vector value_row(const Args& args, const Sequence& sequence, std::int64_t row, std::int64_t head) {
  return load(args.value.at(sequence.batch, sequence.k_begin + row, head), args.value.size(3),
              args.value.strides[3]);
}

/// Whether row `row` of a sequence's key and value takes part. Boundaries win over the mask.
template <class Args>
bool is_kept(const Args& args, const Sequence& sequence, std::int64_t row) {
  return !args.key_padding_mask || !args.cu_seqlens_q.empty() ||
         args.key_padding_mask(sequence.batch, sequence.k_begin + row);
}

/// How many keys of its sequence query `i` of the sequence may read.
template <class Args>
std::int64_t visible_keys(const Args& args, const Sequence& sequence, std::int64_t i) {
  return args.is_causal ? i + 1 : sequence.num_keys();
}

}  // namespace gma::reference
