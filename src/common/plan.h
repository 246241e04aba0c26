// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// How a call is cut into independent pieces. The cut depends on shapes alone, never on the number
// of threads, and partial sums join in the order of the pieces: hence the same bits for any
// executor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/sequences.h"
#include "gma/attention.h"

namespace gma {

/// A run of tokens of one sequence, counted from the sequence's start.
struct Segment {
  std::int64_t sequence = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Consecutive segments, about one full segment's worth of tokens, that share one partial sum of
/// the mixture's gradients.
struct Batch {
  std::int64_t first_segment = 0;
  std::int64_t last_segment = 0;  ///< exclusive
};

/// One side (queries or keys) cut into segments and batches.
struct Cut {
  std::vector<Segment> segments;
  std::vector<std::int64_t> first;  ///< first segment of each sequence, and the total count
  std::vector<Batch> batches;

  std::int64_t num_segments() const { return static_cast<std::int64_t>(segments.size()); }
  std::int64_t num_batches() const { return static_cast<std::int64_t>(batches.size()); }
};

/// A long sequence is cut coarsely, to keep the states between segments small beside the tokens; a
/// short one finely, to give every core something to do.
constexpr std::int64_t segment_tokens(std::int64_t tokens) {
  return tokens > 4096 ? 1024 : kMinSegmentTokens;
}

inline Cut cut(const std::vector<std::int64_t>& lengths) {
  Cut result;
  for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence) {
    result.first.push_back(result.num_segments());
    const std::int64_t step = segment_tokens(lengths[sequence]);
    for (std::int64_t begin = 0; begin < lengths[sequence]; begin += step) {
      result.segments.push_back(
          {static_cast<std::int64_t>(sequence), begin, std::min(begin + step, lengths[sequence])});
    }
  }
  result.first.push_back(result.num_segments());

  constexpr std::int64_t kBatchTokens = 1024;
  std::int64_t tokens = kBatchTokens;
  for (std::int64_t i = 0; i < result.num_segments(); ++i) {
    if (tokens >= kBatchTokens) {
      result.batches.push_back({i, i});
      tokens = 0;
    }
    result.batches.back().last_segment = i + 1;
    tokens += result.segments[i].end - result.segments[i].begin;
  }
  return result;
}

struct Plan {
  std::vector<Sequence> sequences;
  Cut queries;
  Cut keys;
  /// Leading entries of Saved::segment_s: the state before each segment (causal), or each
  /// sequence's total (otherwise).
  std::int64_t num_saved = 0;

  std::int64_t num_sequences() const { return static_cast<std::int64_t>(sequences.size()); }
};

template <class T>
Plan make_plan(const AttentionArgs<T>& args) {
  Plan plan;
  plan.sequences = sequences(args);
  std::vector<std::int64_t> queries;
  std::vector<std::int64_t> keys;
  for (const Sequence& sequence : plan.sequences) {
    queries.push_back(sequence.num_queries());
    keys.push_back(sequence.num_keys());
  }
  plan.queries = cut(queries);
  plan.keys = cut(keys);
  plan.num_saved = args.is_causal ? plan.keys.num_segments() : plan.num_sequences();
  return plan;
}

}  // namespace gma
