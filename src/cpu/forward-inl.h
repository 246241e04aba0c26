// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The forward pass of every operator that writes weighted values into a state and reads it with
// other weights. Weights of a tile go into cache and from there at once into the state (write) or
// the output (read); where they come from is Weighting's concern. The comments speak of Gaussian
// mixture attention, where weights are responsibilities.

#if defined(GMA_CPU_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_FORWARD_INL_H_
#undef GMA_CPU_FORWARD_INL_H_
#else
#define GMA_CPU_FORWARD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/dropout.h"
#include "common/plan.h"
#include "cpu/layout.h"
#include "cpu/shares.h"
#include "cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// Everything the tasks of one call share.
template <class Args>
struct Forward {
  using T = typename Weighting<Args>::Element;
  using A = accumulate_t<T>;

  Forward(const Args& args, const AttentionOutputs<T>& outputs)
      : args(args), outputs(outputs), plan(make_plan(args)), extents(args), weights(args) {}

  const Args& args;
  const AttentionOutputs<T>& outputs;
  Plan plan;
  Extents extents;
  typename Weighting<Args>::Shared weights;
};

/// Workspace of one task at a time.
template <class Args>
class ForwardWorker {
 public:
  using T = typename Weighting<Args>::Element;
  using A = accumulate_t<T>;
  using Tile = typename Weighting<Args>::Tile;

  explicit ForwardWorker(const Forward<Args>& shared)
      : shared_(shared),
        keys_(shared.extents, shared.weights),
        queries_(shared.extents, shared.weights),
        values_(shared.extents.value_dim),
        output_(shared.extents.value_dim),
        affinity_t_(shared.args.is_causal ? kCausalTileTokens * kTokenStride<A> : 0),
        local_(shared.extents),
        before_(shared.extents),
        total_(shared.extents) {}

  /// Sums the state of a whole segment from zero: HeadState `local`.
  const HeadState<A>& write(const Segment& segment, std::int64_t h, std::int64_t tile_tokens) {
    local_.clear();
    for_tiles(segment, tile_tokens, [&](std::int64_t begin, std::int64_t count) {
      route_keys(segment.sequence, h, begin, count);
      write_state(keys_, count, values_, local_);
    });
    return local_;
  }

  /// Outputs of a segment's queries from a finished state.
  void read(const Segment& segment, std::int64_t h, const A* s, const A* z) {
    total_.load(s, z);
    for (std::int64_t hq = h * group(); hq < (h + 1) * group(); ++hq) {
      for_tiles(segment, kTileTokens, [&](std::int64_t begin, std::int64_t count) {
        const TileRange range = route_queries(segment.sequence, h, hq, begin, count);
        fetch_now(shared_.outputs.output, range);
        read_state(queries_, count, total_, output_);
        finish(range);
      });
    }
  }

  /// Outputs of a causal segment, given the state before it; leaves the segment's own sum in
  /// `local`.
  const HeadState<A>& read_causal(const Segment& segment, std::int64_t h, const A* s, const A* z) {
    before_.load(s, z);
    local_.clear();
    for_tiles(segment, kCausalTileTokens, [&](std::int64_t begin, std::int64_t count) {
      total_.set_sum(before_, local_);
      route_keys(segment.sequence, h, begin, count);
      for (std::int64_t hq = h * group(); hq < (h + 1) * group(); ++hq) {
        const TileRange range = route_queries(segment.sequence, h, hq, begin, count);
        fetch_now(shared_.outputs.output, range);
        read_state(queries_, count, total_, output_);
        read_tile(count);
        finish(range);
      }
      write_state(keys_, count, values_, local_);
    });
    return local_;
  }

 private:
  std::int64_t group() const { return shared_.extents.group; }

  void route_keys(std::int64_t sequence_index, std::int64_t h, std::int64_t begin,
                  std::int64_t count) {
    const Args& args = shared_.args;
    const Sequence& sequence = shared_.plan.sequences[sequence_index];
    const TileRange range{sequence.batch, sequence.k_begin + begin, h, count};
    bool buffer[kTileTokens];
    const bool* keep = kept_keys(args, range, buffer);
    Prefetch next;
    fetch(args.key, range, count, sequence.k_begin, sequence.k_end, next);
    fetch(args.value, range, count, sequence.k_begin, sequence.k_end, next);
    keys_.route(h, args.key, range, keep, {sequence_index, h, Side::key, begin}, next);
    values_.load(args.value, range, keep);
  }

  TileRange route_queries(std::int64_t sequence_index, std::int64_t h, std::int64_t hq,
                          std::int64_t begin, std::int64_t count) {
    const Sequence& sequence = shared_.plan.sequences[sequence_index];
    const TileRange range{sequence.batch, sequence.q_begin + begin, hq, count};
    Prefetch next;
    fetch(shared_.args.query, range, count, sequence.q_begin, sequence.q_end, next);
    queries_.route(h, shared_.args.query, range, nullptr, {sequence_index, hq, Side::query, begin},
                   next);
    return range;
  }

  /// Adds what the tile's own keys contribute: key j reaches query i >= j.
  void read_tile(std::int64_t count) {
    const Rows<A> affinity_t{affinity_t_.data(), kTokenStride<A>};
    upper_triangular_product<A>(count, total_.num_components, keys_.token_rows(),
                                queries_.transposed(), affinity_t);
    add_lower_triangular_product<A>(count, values_.dim, {affinity_t.data, 1, affinity_t.stride},
                                    values_.const_view(), output_.view());
    add_column_sums<A>(count, {affinity_t.data, affinity_t.stride}, output_.last.data());
  }

  /// o_i = n_i / (s_i + eps).
  void finish(const TileRange& range) {
    for (std::int64_t i = 0; i < range.count; ++i) {
      const A s = output_.last.data()[i];
      const A inverse = inverse_normalizer(s, shared_.args.eps);
      A* row = output_.row(i);
      for (std::int64_t e = 0; e < output_.dim; ++e) row[e] *= inverse;
      if (shared_.outputs.saved) {
        shared_.outputs.saved.normalizer(range.batch, range.first + i, range.head) = s;
      }
    }
    output_.store(shared_.outputs.output, range);
  }

  const Forward<Args>& shared_;
  Tile keys_;
  Tile queries_;
  RowTile<A> values_;
  RowTile<A> output_;
  AlignedArray<A> affinity_t_;
  HeadState<A> local_;
  HeadState<A> before_;
  HeadState<A> total_;
};

/// Where states between segments or of whole sequences go: to the caller, or into workspace.
template <class Args>
StateArray<typename Forward<Args>::A> saved_states(const Forward<Args>& shared) {
  const auto& saved = shared.outputs.saved;
  if (saved) return {saved.segment_s.data, saved.segment_z.data, shared.extents};
  return {num_saved(shared.args), shared.extents};
}

/// Calls task(worker, h, index) for every index in [0, count) and head, a worker a range. Heads
/// follow each other within an index: their rows share pages, whose addresses are dear to look up.
template <class Args, class Task>
void for_heads(const Forward<Args>& shared, std::int64_t count, const Task& task) {
  const std::int64_t heads = shared.extents.num_heads;
  shared.args.executor.run(heads * count, [&](std::int64_t begin, std::int64_t end) {
    ForwardWorker<Args> worker(shared);
    for (std::int64_t i = begin; i < end; ++i) {
      task(worker, i % heads, i / heads);
    }
  });
}

/// State of every segment on its own.
template <class Args>
void write_segments(const Forward<Args>& shared, std::int64_t tile_tokens,
                    const StateArray<typename Forward<Args>::A>& sums) {
  const Cut& keys = shared.plan.keys;
  for_heads(shared, keys.num_segments(),
            [&](ForwardWorker<Args>& worker, std::int64_t h, std::int64_t i) {
              worker.write(keys.segments[i], h, tile_tokens).store(sums.s(i, h), sums.z(i, h));
            });
}

template <class Args>
void forward_bidirectional(const Forward<Args>& shared) {
  using A = typename Forward<Args>::A;
  const Cut& keys = shared.plan.keys;
  const Cut& queries = shared.plan.queries;
  const StateArray<A> totals = saved_states(shared);
  {
    const StateArray<A> sums(keys.num_segments(), shared.extents);
    write_segments(shared, kTileTokens, sums);
    for_states<A>(shared.plan.num_sequences(), shared.extents, shared.args.executor,
                  [&](RunningState<A>& state, std::int64_t sequence, std::int64_t h) {
                    state.load(shared.args.initial_state, sequence, h);
                    for (std::int64_t i = keys.first[sequence]; i < keys.first[sequence + 1]; ++i) {
                      state.add(sums.s(i, h), sums.z(i, h));
                    }
                    state.store(totals.s(sequence, h), totals.z(sequence, h));
                    state.store(shared.outputs.final_state, sequence, h);
                  });
  }
  for_heads(shared, queries.num_segments(),
            [&](ForwardWorker<Args>& worker, std::int64_t h, std::int64_t i) {
              const Segment& segment = queries.segments[i];
              worker.read(segment, h, totals.s(segment.sequence, h), totals.z(segment.sequence, h));
            });
}

/// Outputs of one segment and head, given the state before it, which moves on.
template <class Args>
void sweep_segment(const Forward<Args>& shared, const StateArray<typename Forward<Args>::A>& before,
                   ForwardWorker<Args>& worker, std::int64_t i, std::int64_t h,
                   RunningState<typename Forward<Args>::A>& state) {
  state.store(before.s(i, h), before.z(i, h));
  state.add(worker.read_causal(shared.plan.keys.segments[i], h, before.s(i, h), before.z(i, h)));
}

/// Heads [begin, end) of one sequence, side by side from segment to segment.
template <class Args>
void forward_causal_heads(const Forward<Args>& shared,
                          const StateArray<typename Forward<Args>::A>& before,
                          ForwardWorker<Args>& worker, std::int64_t sequence, std::int64_t begin,
                          std::int64_t end) {
  using A = typename Forward<Args>::A;
  const Cut& keys = shared.plan.keys;
  std::vector<RunningState<A>> states;
  for (std::int64_t h = begin; h < end; ++h) {
    states.emplace_back(shared.extents).load(shared.args.initial_state, sequence, h);
  }
  for (std::int64_t i = keys.first[sequence]; i < keys.first[sequence + 1]; ++i) {
    for (std::int64_t h = begin; h < end; ++h) {
      sweep_segment(shared, before, worker, i, h, states[h - begin]);
    }
  }
  for (std::int64_t h = begin; h < end; ++h) {
    states[h - begin].store(shared.outputs.final_state, sequence, h);
  }
}

/// One pass, a task a sequence and head: half as many responsibilities of keys as in two.
template <class Args>
void forward_causal_sequential(const Forward<Args>& shared,
                               const StateArray<typename Forward<Args>::A>& before) {
  const std::int64_t heads = shared.extents.num_heads;
  shared.args.executor.run(
      shared.plan.num_sequences() * heads, [&](std::int64_t begin, std::int64_t end) {
        ForwardWorker<Args> worker(shared);
        for_head_ranges(begin, end, heads,
                        [&](std::int64_t sequence, std::int64_t first, std::int64_t last) {
                          forward_causal_heads(shared, before, worker, sequence, first, last);
                        });
      });
}

/// A segment's sum costs this much of its whole pass: one of two sides routed, one of two products.
inline constexpr double kForwardSumCost = 0.45;

/// Several threads a sequence and head, as Shares has it. The same bits.
template <class Args>
void forward_causal_shared(const Forward<Args>& shared,
                           const StateArray<typename Forward<Args>::A>& before) {
  using A = typename Forward<Args>::A;
  const Cut& keys = shared.plan.keys;
  const std::int64_t heads = shared.extents.num_heads;
  const std::int64_t jobs = shared.plan.num_sequences() * heads;
  const std::int64_t threads = shared.args.executor.num_threads / jobs;
  std::vector<RunningState<A>> states;
  std::vector<Shares> shares;
  for (std::int64_t job = 0; job < jobs; ++job) {
    const std::int64_t sequence = job / heads;
    states.emplace_back(shared.extents).load(shared.args.initial_state, sequence, job % heads);
    shares.push_back(make_shares(keys.first[sequence + 1] - keys.first[sequence], threads,
                                 kForwardSumCost, 1.0));
  }
  /// Calls task(worker, job, thread of the job) for all of them.
  const auto run = [&](const auto& task) {
    shared.args.executor.run(jobs * threads, [&](std::int64_t begin, std::int64_t end) {
      ForwardWorker<Args> worker(shared);
      for (std::int64_t i = begin; i < end; ++i) task(worker, i / threads, i % threads);
    });
  };
  const auto sweep = [&](ForwardWorker<Args>& worker, std::int64_t job, std::int64_t first,
                         std::int64_t last) {
    const std::int64_t start = keys.first[job / heads];
    for (std::int64_t i = start + first; i < start + last; ++i) {
      sweep_segment(shared, before, worker, i, job % heads, states[job]);
    }
  };

  run([&](ForwardWorker<Args>& worker, std::int64_t job, std::int64_t thread) {
    const Shares& share = shares[job];
    if (thread == 0) return sweep(worker, job, 0, share.front);
    const std::int64_t start = keys.first[job / heads], h = job % heads;
    for (std::int64_t i = start + share.first(thread - 1); i < start + share.last(thread - 1);
         ++i) {
      worker.write(keys.segments[i], h, kCausalTileTokens).store(before.s(i, h), before.z(i, h));
    }
  });
  for (std::int64_t job = 0; job < jobs; ++job) {
    const std::int64_t start = keys.first[job / heads], h = job % heads;
    for (std::int64_t i = start + shares[job].front; i < start + shares[job].back; ++i) {
      states[job].exchange(before.s(i, h), before.z(i, h));
    }
  }
  run([&](ForwardWorker<Args>& worker, std::int64_t job, std::int64_t thread) {
    const Shares& share = shares[job];
    const std::int64_t start = keys.first[job / heads], h = job % heads;
    if (thread == 0) {
      sweep(worker, job, share.back, share.end);
      return states[job].store(shared.outputs.final_state, job / heads, h);
    }
    for (std::int64_t i = start + share.first(thread - 1); i < start + share.last(thread - 1);
         ++i) {
      worker.read_causal(keys.segments[i], h, before.s(i, h), before.z(i, h));
    }
  });
}

template <class Args>
void run_forward(const Args& args,
                 const AttentionOutputs<typename Weighting<Args>::Element>& outputs) {
  const Forward<Args> shared(args, outputs);
  if (!args.is_causal) return forward_bidirectional(shared);
  const StateArray<typename Forward<Args>::A> before = saved_states(shared);
  const std::int64_t jobs = shared.plan.num_sequences() * shared.extents.num_heads;
  if (can_share(jobs, args.executor.num_threads)) {
    forward_causal_shared(shared, before);
  } else {
    forward_causal_sequential(shared, before);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
