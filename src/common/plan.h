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

/// Consecutive segments, about kBatchTokens of tokens, that share one partial sum of the mixture's
/// gradients: several short sequences, or a part of a long one.
struct Batch {
  std::int64_t first_segment = 0;
  std::int64_t last_segment = 0;  ///< exclusive
};

inline constexpr std::int64_t kBatchTokens = 1024;

/// Consecutive sequences whose batches are theirs alone: one long sequence, or the short ones of a
/// batch.
struct Group {
  std::int64_t first_sequence = 0;
  std::int64_t last_sequence = 0;  ///< exclusive
};

/// One side (queries or keys) cut into segments and batches.
struct Cut {
  std::vector<Segment> segments;
  std::vector<std::int64_t> first;  ///< first segment of each sequence, and the total count
  std::vector<Batch> batches;
  std::vector<std::int64_t> batch_of;  ///< of each segment
  std::vector<Group> groups;           ///< of all sequences

  std::int64_t num_segments() const { return static_cast<std::int64_t>(segments.size()); }
  std::int64_t num_batches() const { return static_cast<std::int64_t>(batches.size()); }
  std::int64_t num_groups() const { return static_cast<std::int64_t>(groups.size()); }
};

/// A long sequence is cut coarsely, to keep the states between segments small beside the tokens; a
/// short one finely, to give every core something to do.
constexpr std::int64_t segment_tokens(std::int64_t tokens) {
  return tokens > 4096 ? 1024 : kMinSegmentTokens;
}

inline Cut cut(const std::vector<std::int64_t>& lengths) {
  Cut result;
  std::int64_t room = 0;  // tokens that the last batch still takes
  for (std::size_t index = 0; index < lengths.size(); ++index) {
    const auto sequence = static_cast<std::int64_t>(index);
    const std::int64_t length = lengths[index];
    const bool is_long = length > kBatchTokens;
    if (is_long) room = 0;
    if (result.groups.empty() || (length > 0 && room <= 0)) {
      result.groups.push_back({sequence, sequence});
    }
    result.groups.back().last_sequence = sequence + 1;
    result.first.push_back(result.num_segments());
    const std::int64_t step = segment_tokens(length);
    for (std::int64_t begin = 0; begin < length; begin += step) {
      const std::int64_t end = std::min(begin + step, length);
      if (room <= 0 && (is_long || begin == 0)) {
        result.batches.push_back({result.num_segments(), result.num_segments()});
        room = kBatchTokens;
      }
      result.segments.push_back({sequence, begin, end});
      result.batch_of.push_back(result.num_batches() - 1);
      result.batches.back().last_segment = result.num_segments();
      room -= end - begin;
    }
    if (is_long) room = 0;
  }
  result.first.push_back(result.num_segments());
  return result;
}

/// Leading entries of Saved::segment_s: the state before each segment (causal), or each sequence's
/// total (otherwise).
template <class Args>
std::int64_t num_saved(const Args& args) {
  std::int64_t count = 0;
  for (const Sequence& sequence : sequences(args)) {
    const std::int64_t step = segment_tokens(sequence.num_keys());
    count += args.is_causal ? (sequence.num_keys() + step - 1) / step : 1;
  }
  return count;
}

struct Plan {
  std::vector<Sequence> sequences;
  Cut queries;
  Cut keys;

  std::int64_t num_sequences() const { return static_cast<std::int64_t>(sequences.size()); }
};

template <class Args>
Plan make_plan(const Args& args) {
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
  return plan;
}

}  // namespace gma
