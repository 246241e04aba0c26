// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// A query or a key on its way through the mixture.
#pragma once

#include <cstdint>

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

/// The token of row `position` of its batch entry, for head `head` of `vectors`.
template <class T>
Token route(const Mixture& mixture, const View<const T, 4>& vectors, const Sequence& sequence,
            std::int64_t position, std::int64_t head) {
  Token token;
  token.x = load(vectors.at(sequence.batch, position, head), mixture.dim(), vectors.strides[3]);
  token.gamma = mixture.responsibilities(token.x);
  token.keep.assign(token.gamma.size(), 1.0);
  token.weights = token.gamma;
  return token;
}

/// Whether row `position` of key and value takes part. Boundaries win over the mask.
template <class T>
bool is_kept(const AttentionArgs<T>& args, const Sequence& sequence, std::int64_t position) {
  return !args.key_padding_mask || !args.cu_seqlens_q.empty() ||
         args.key_padding_mask(sequence.batch, position);
}

/// How many keys of its sequence query `i` of the sequence may read.
template <class T>
std::int64_t visible_keys(const AttentionArgs<T>& args, const Sequence& sequence, std::int64_t i) {
  return args.is_causal ? i + 1 : sequence.num_keys();
}

}  // namespace gma::reference
