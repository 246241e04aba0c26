// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gma {

/// Queries and keys that belong together. Its state is at its own position in the list of
/// sequences; its tokens are rows [begin, end) of batch entry `batch`.
struct Sequence {
  std::int64_t batch = 0;
  std::int64_t q_begin = 0;
  std::int64_t q_end = 0;
  std::int64_t k_begin = 0;
  std::int64_t k_end = 0;

  std::int64_t num_queries() const { return q_end - q_begin; }
  std::int64_t num_keys() const { return k_end - k_begin; }
};

/// The sequences of a call: one a batch entry, or one a pair of neighbouring boundaries when
/// packed. Expects valid cu_seqlens.
template <class Args>
std::vector<Sequence> sequences(const Args& args) {
  std::vector<Sequence> list;
  if (args.cu_seqlens_q.empty()) {
    for (std::int64_t b = 0; b < args.query.size(0); ++b) {
      list.push_back({b, 0, args.query.size(1), 0, args.key.size(1)});
    }
  } else {
    for (std::size_t i = 0; i + 1 < args.cu_seqlens_q.size(); ++i) {
      list.push_back({0, args.cu_seqlens_q[i], args.cu_seqlens_q[i + 1], args.cu_seqlens_k[i],
                      args.cu_seqlens_k[i + 1]});
    }
  }
  return list;
}

}  // namespace gma
