// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Backward pass of what forward-inl.h computes, in two sweeps. Queries first: with the states that
// forward saved they give dq, and each segment's share of dS and dZ. Then keys, with dS and dZ
// summed over all that read them.
// A causal sequence whose heads alone keep all threads busy is swept once, last segment first: both
// sweeps of a segment follow each other, and share its responsibilities. Otherwise these are
// recomputed. The derivation and the symbols are those of docs/math.md.

#if defined(GMA_CPU_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_BACKWARD_INL_H_
#undef GMA_CPU_BACKWARD_INL_H_
#else
#define GMA_CPU_BACKWARD_INL_H_
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
struct Backward {
  using T = typename Weighting<Args>::Element;
  using A = accumulate_t<T>;
  using Gradients = typename Weighting<Args>::Gradients;

  Backward(const Args& args, const AttentionUpstream<T>& upstream, const Gradients& gradients)
      : args(args),
        upstream(upstream),
        gradients(gradients),
        plan(make_plan(args)),
        extents(args),
        weights(args),
        sums(std::max(plan.queries.num_batches(), plan.keys.num_batches()), extents,
             args.is_causal),
        in_one_sweep(args.is_causal && !can_share(plan.keys.num_groups() * extents.num_heads,
                                                  args.executor.num_threads)),
        grad_states(in_one_sweep ? 0 : plan.queries.num_segments(), extents),
        grad_normalizer_data(args.is_causal ? upstream.saved.normalizer.numel() : 0),
        grad_normalizers(
            View<A, 3>::contiguous(grad_normalizer_data.data(), upstream.saved.normalizer.shape)),
        live_tokens_(static_cast<std::size_t>(plan.num_sequences() * extents.num_heads)) {
    for (std::int64_t i = 0; i < plan.num_sequences() * extents.num_heads; ++i) {
      live_tokens_[i] = count_live_tokens(i / extents.num_heads, i % extents.num_heads);
    }
  }

  /// Tokens of a causal sequence past which no gradient comes from: their keys reach no query that
  /// has one. They are left out by selection, and may hold anything.
  std::int64_t live_tokens(std::int64_t sequence, std::int64_t h) const {
    return live_tokens_[sequence * extents.num_heads + h];
  }

  /// S or Z that forward saved for a segment or sequence.
  const A* saved_s(std::int64_t index, std::int64_t h) const {
    const auto& s = upstream.saved.segment_s;
    return s.data + (index * extents.num_heads + h) * s.size(2) * s.size(3);
  }
  const A* saved_z(std::int64_t index, std::int64_t h) const {
    const auto& z = upstream.saved.segment_z;
    return z.data + (index * extents.num_heads + h) * z.size(2);
  }

  /// Of the longest segment.
  std::int64_t max_causal_tiles() const {
    std::int64_t tokens = 0;
    for (const Segment& segment : plan.keys.segments) {
      tokens = std::max(tokens, segment.end - segment.begin);
    }
    return (tokens + kCausalTileTokens - 1) / kCausalTileTokens;
  }

  const Args& args;
  const AttentionUpstream<T>& upstream;
  const Gradients& gradients;
  Plan plan;
  Extents extents;
  typename Weighting<Args>::Shared weights;
  typename Weighting<Args>::SumArray sums;
  bool in_one_sweep;
  /// dS and dZ: of each query segment on its own; when causal, then of all that comes after it.
  StateArray<A> grad_states;
  AlignedArray<A> grad_normalizer_data;
  View<A, 3>
      grad_normalizers;  ///< ds, (B, Tq, Hq): from the queries' sweep to the keys', if causal

 private:
  std::int64_t count_live_tokens(std::int64_t index, std::int64_t h) const {
    const Sequence& sequence = plan.sequences[index];
    std::int64_t count = sequence.num_queries();
    if (!args.is_causal || upstream.grad_final_state) return count;
    const auto has_gradient = [&](std::int64_t i) {
      for (std::int64_t hq = h * extents.group; hq < (h + 1) * extents.group; ++hq) {
        for (std::int64_t e = 0; e < extents.value_dim; ++e) {
          const T value = upstream.grad_output(sequence.batch, sequence.q_begin + i, hq, e);
          if (static_cast<A>(value) != 0) return true;
        }
      }
      return false;
    };
    while (count > 0 && !has_gradient(count - 1)) --count;
    return count;
  }

  std::vector<std::int64_t> live_tokens_;
};

/// Workspace of one task at a time.
template <class Args>
class BackwardWorker {
 public:
  using T = typename Weighting<Args>::Element;
  using A = accumulate_t<T>;
  using Tile = typename Weighting<Args>::Tile;
  using Sums = typename Weighting<Args>::Sums;

  explicit BackwardWorker(const Backward<Args>& shared)
      : shared_(shared),
        keys_(shared.extents, shared.weights),
        queries_(shared.extents, shared.weights),
        values_(shared.extents.value_dim),
        grad_values_(shared.extents.value_dim),
        grad_numerators_(shared.extents.value_dim),
        inverse_normalizers_(kTileTokens),
        dx_(shared.extents.dim),
        grad_weights_t_(round_up(shared.extents.num_components, kLineElements<A>) *
                        kTokenStride<A>),
        square_(shared.args.is_causal ? kCausalTileTokens * kTokenStride<A> : 0),
        gammas_(shared.args.is_causal
                    ? shared.max_causal_tiles() * (1 + shared.extents.group) * saved_size()
                    : 0),
        before_(shared.extents),
        local_(shared.extents),
        total_(shared.extents),
        grad_local_(shared.extents) {}

  /// dq of a segment; leaves its share of dS and dZ in the state that it returns.
  const HeadState<A>& queries(const Segment& segment, std::int64_t h, std::int64_t saved,
                              const Sums& sums) {
    total_.load(shared_.saved_s(saved, h), shared_.saved_z(saved, h));
    grad_local_.clear();
    for (std::int64_t hq = h * group(); hq < (h + 1) * group(); ++hq) {
      for_tiles(segment, kTileTokens, [&](std::int64_t begin, std::int64_t count) {
        const TileRange range = load_queries(segment.sequence, h, hq, begin, count, count);
        fetch_now(shared_.gradients.query, range);
        row_gradient(total_, count, grad_numerators_, grad_weights_t());
        compute_grad_normalizers(count);
        add_sum_gradient(total_, count, grad_numerators_, grad_weights_t());
        finish_queries(range, h, sums);
        write_state(queries_, count, grad_numerators_, grad_local_);
      });
    }
    return grad_local_;
  }

  /// dq of a causal segment: the state before each tile is rebuilt from that before the segment.
  /// Leaves ds, and all responsibilities, for the other two causal steps.
  void queries_causal(const Segment& segment, std::int64_t h, std::int64_t saved,
                      const Sums& sums) {
    before_.load(shared_.saved_s(saved, h), shared_.saved_z(saved, h));
    local_.clear();
    for_tiles(segment, kCausalTileTokens, [&](std::int64_t begin, std::int64_t count) {
      total_.set_sum(before_, local_);
      load_keys(segment.sequence, h, begin, count, count);
      keys_.save(total_.num_components, gamma_of_keys(segment, begin));
      for (std::int64_t hq = h * group(); hq < (h + 1) * group(); ++hq) {
        const TileRange range = load_queries(segment.sequence, h, hq, begin, count, count);
        queries_.save(total_.num_components, gamma_of_queries(segment, begin, hq));
        fetch_now(shared_.gradients.query, range);
        row_gradient(total_, count, grad_numerators_, grad_weights_t());
        upper_triangular_product<A>(count, values_.dim, values_.left(),
                                    grad_numerators_.transposed(), square());
        add_from_tile_keys(count);
        compute_grad_normalizers(count);
        for (std::int64_t i = 0; i < count; ++i) {
          shared_.grad_normalizers(range.batch, range.first + i, hq) =
              grad_numerators_.last.data()[i];
        }
        add_sum_gradient(total_, count, grad_numerators_, grad_weights_t());
        for (std::int64_t j = 0; j < count; ++j) {
          std::copy(grad_numerators_.last.data() + j, grad_numerators_.last.data() + count,
                    square().at(j, j).data);
        }
        add_from_tile_keys(count);
        finish_queries(range, h, sums);
      }
      write_state(keys_, count, values_, local_);
    });
  }

  /// The segment's share of dS and dZ, after queries_causal(); summed as by keys_causal().
  const HeadState<A>& grad_state_causal(const Segment& segment, std::int64_t h) {
    grad_local_.clear();
    for_tiles_reversed(segment, [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t hq = h * group(); hq < (h + 1) * group(); ++hq) {
        recall_queries(segment, h, hq, begin, count, gamma_of_queries(segment, begin, hq));
        write_state(queries_, count, grad_numerators_, grad_local_);
      }
    });
    return grad_local_;
  }

  /// dk and dv of a segment, given dS and dZ of all that reads it.
  void keys(const Segment& segment, std::int64_t h, const A* grad_s, const A* grad_z,
            const Sums& sums) {
    total_.load(grad_s, grad_z);
    for_tiles(segment, kTileTokens, [&](std::int64_t begin, std::int64_t count) {
      const TileRange range = load_keys(segment.sequence, h, begin, count, count);
      fetch_key_gradients(range);
      key_gradients_from_state(count);
      finish_keys(range, h, sums);
    });
  }

  /// Where keys_causal() has the responsibilities from.
  enum class Gammas {
    routed,   ///< computed anew
    recalled  ///< as queries_causal() left them, if that was this worker's last segment and head
  };

  /// dk and dv of a causal segment, last tile first, given dS and dZ of all that comes after it;
  /// leaves its own share in the state that it returns.
  const HeadState<A>& keys_causal(const Segment& segment, std::int64_t h, const A* grad_s,
                                  const A* grad_z, const Sums& sums, Gammas gammas) {
    const bool recalled = gammas == Gammas::recalled;
    before_.load(grad_s, grad_z);
    grad_local_.clear();
    for_tiles_reversed(segment, [&](std::int64_t begin, std::int64_t count) {
      total_.set_sum(before_, grad_local_);
      const TileRange range = load_keys(segment.sequence, h, begin, count, -kCausalTileTokens,
                                        recalled ? gamma_of_keys(segment, begin) : nullptr);
      fetch_key_gradients(range);
      key_gradients_from_state(count);
      for (std::int64_t hq = h * group(); hq < (h + 1) * group(); ++hq) {
        recall_queries(segment, h, hq, begin, count,
                       recalled ? gamma_of_queries(segment, begin, hq) : nullptr);
        key_gradients_from_tile(count);
        write_state(queries_, count, grad_numerators_, grad_local_);
      }
      finish_keys(range, h, sums);
    });
    return grad_local_;
  }

 private:
  std::int64_t group() const { return shared_.extents.group; }
  Rows<A> grad_weights_t() const { return {grad_weights_t_.data(), kTokenStride<A>}; }
  Rows<A> square() const { return {square_.data(), kTokenStride<A>}; }

  std::int64_t saved_size() const { return Tile::saved_size(shared_.extents); }
  /// Room for the responsibilities of a tile of a causal segment.
  A* gamma_of_keys(const Segment& segment, std::int64_t begin) const {
    const std::int64_t tile = (begin - segment.begin) / kCausalTileTokens;
    return gammas_.data() + tile * (1 + group()) * saved_size();
  }
  A* gamma_of_queries(const Segment& segment, std::int64_t begin, std::int64_t hq) const {
    return gamma_of_keys(segment, begin) + (1 + hq % group()) * saved_size();
  }

  /// Calls task(begin, count) for the causal tiles of a segment, last to first.
  template <class Task>
  static void for_tiles_reversed(const Segment& segment, const Task& task) {
    const std::int64_t tiles =
        (segment.end - segment.begin + kCausalTileTokens - 1) / kCausalTileTokens;
    for (std::int64_t tile = tiles; tile-- > 0;) {
      const std::int64_t begin = segment.begin + tile * kCausalTileTokens;
      task(begin, std::min(kCausalTileTokens, segment.end - begin));
    }
  }

  /// Gamma_K and v of a tile, the former from `saved` if given. The tile `step` tokens on is
  /// fetched while it is routed.
  TileRange load_keys(std::int64_t sequence_index, std::int64_t h, std::int64_t begin,
                      std::int64_t count, std::int64_t step, const A* saved = nullptr) {
    const Args& args = shared_.args;
    const Sequence& sequence = shared_.plan.sequences[sequence_index];
    const TileRange range{sequence.batch, sequence.k_begin + begin, h, count};
    bool buffer[kTileTokens];
    const bool* keep = kept_keys(args, range, buffer);
    const std::int64_t live = shared_.live_tokens(sequence_index, h) - begin;
    if (args.is_causal && live < count) {
      if (keep == nullptr) std::fill_n(buffer, count, true);
      std::fill(buffer + std::max<std::int64_t>(live, 0), buffer + count, false);
      keep = buffer;
    }
    Prefetch next;
    fetch(args.key, range, step, sequence.k_begin, sequence.k_end, next);
    fetch(args.value, range, step, sequence.k_begin, sequence.k_end, next);
    const TileOrigin origin{sequence_index, h, Side::key, begin};
    if (saved != nullptr) {
      keys_.recall(h, args.key, range, keep, origin, saved, next);
    } else {
      keys_.route(h, args.key, range, keep, origin, next);
    }
    values_.load(args.value, range, keep);
    values_.make_transpose(count);
    return range;
  }

  /// Gamma_Q and dn of a tile, likewise. A query on whose output nothing depends is left out by
  /// selection.
  TileRange load_queries(std::int64_t sequence_index, std::int64_t h, std::int64_t hq,
                         std::int64_t begin, std::int64_t count, std::int64_t step,
                         const A* saved = nullptr) {
    const Sequence& sequence = shared_.plan.sequences[sequence_index];
    const TileRange range{sequence.batch, sequence.q_begin + begin, hq, count};
    grad_numerators_.load(shared_.upstream.grad_output, range, nullptr);
    inverse_normalizers_.fill(0);
    bool keep[kTileTokens];
    for (std::int64_t i = 0; i < count; ++i) {
      A* row = grad_numerators_.row(i);
      keep[i] = std::any_of(row, row + grad_numerators_.dim, [](A value) { return value != 0; });
      if (!keep[i]) continue;
      const A s = shared_.upstream.saved.normalizer(range.batch, range.first + i, hq);
      const A inverse = inverse_normalizer(s, shared_.args.eps);
      for (std::int64_t e = 0; e < grad_numerators_.dim; ++e) row[e] *= inverse;
      inverse_normalizers_.data()[i] = inverse;
    }
    grad_numerators_.make_transpose(count);
    const View<const T, 4>& query = shared_.args.query;
    Prefetch next;
    fetch(query, range, step, sequence.q_begin, sequence.q_end, next);
    fetch(shared_.upstream.grad_output, range, step, sequence.q_begin, sequence.q_end, next);
    const TileOrigin origin{sequence_index, hq, Side::query, begin};
    if (saved != nullptr) {
      queries_.recall(h, query, range, keep, origin, saved, next);
    } else {
      queries_.route(h, query, range, keep, origin, next);
    }
    return range;
  }

  /// The same with ds, on the way back through a causal segment.
  void recall_queries(const Segment& segment, std::int64_t h, std::int64_t hq, std::int64_t begin,
                      std::int64_t count, const A* saved) {
    const TileRange range =
        load_queries(segment.sequence, h, hq, begin, count, -kCausalTileTokens, saved);
    grad_numerators_.last.fill(0);
    for (std::int64_t i = 0; i < count; ++i) {
      grad_numerators_.last.data()[i] = shared_.grad_normalizers(range.batch, range.first + i, hq);
    }
  }

  /// ds_i = -dn_i . o_i = -(dn_i . n_i) / (s_i + eps), with dn_i . n_i as the sum over k of
  /// Gamma_Q(i, k) (dn_i . S_k), which grad_weights_t holds. The output itself would not do where
  /// it has been rounded to 16 bits: with ds_i it has to cancel.
  void compute_grad_normalizers(std::int64_t count) {
    const Tag<A> d;
    for (std::int64_t i = 0; i < count; i += kLanes<A>) {
      Vec<A> sum = hn::Zero(d);
      for (std::int64_t k = 0; k < total_.num_components; ++k) {
        const std::int64_t at = k * kTokenStride<A> + i;
        sum = hn::MulAdd(hn::Load(d, queries_.weights_t() + at),
                         hn::Load(d, grad_weights_t_.data() + at), sum);
      }
      const Vec<A> inverse = hn::Load(d, inverse_normalizers_.data() + i);
      const Vec<A> ds = hn::Neg(hn::Mul(sum, inverse));
      hn::Store(hn::IfThenElseZero(hn::Ne(inverse, hn::Zero(d)), ds), d,
                grad_numerators_.last.data() + i);
    }
  }

  /// Adds what the tile's own keys contribute: sum over j <= i of square(j, i) Gamma_K(j, k).
  void add_from_tile_keys(std::int64_t count) {
    for_column_blocks<A>(count, [&](std::int64_t i, auto vecs) HWY_ATTR {
      constexpr int kVecs = decltype(vecs)::value;
      product_columns<Into::add, kVecs, A>(
          total_.num_components, std::min(count, i + kVecs * kLanes<A>), keys_.component_rows(),
          {square_.data() + i, kTokenStride<A>}, grad_weights_t().at(0, i));
    });
  }

  void finish_queries(const TileRange& range, std::int64_t h, const Sums& sums) {
    queries_.backward(h, range.count, grad_weights_t_.data(), sums, dx_);
    dx_.store(shared_.gradients.query, range);
  }

  void fetch_key_gradients(const TileRange& range) const {
    fetch_now(shared_.gradients.key, range);
    fetch_now(shared_.gradients.value, range);
  }

  /// dGamma_K(j, k) = v_j . dS_k + dZ_k; dv_j = sum_k Gamma_K(j, k) dS_k.
  void key_gradients_from_state(std::int64_t count) {
    row_gradient(total_, count, values_, grad_weights_t());
    add_sum_gradient(total_, count, values_, grad_weights_t());
    product<Into::set, A>(count, total_.num_components, values_.dim, keys_.token_rows(),
                          {total_.s.data(), total_.stride}, grad_values_.view());
  }

  /// What the tile's own queries add, i >= j: (dn_i . v_j + ds_i) Gamma_Q(i, k) to dGamma_K(j, k),
  /// and (Gamma_Q(i) . Gamma_K(j)) dn_i to dv_j.
  void key_gradients_from_tile(std::int64_t count) {
    lower_triangular_product<A>(count, values_.dim, grad_numerators_.left(), values_.transposed(),
                                square());
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        square().at(i, j).data[0] += grad_numerators_.last.data()[i];
      }
    }
    for_column_blocks<A>(count, [&](std::int64_t j, auto vecs) HWY_ATTR {
      product_columns<Into::add, decltype(vecs)::value, A>(
          total_.num_components, count - j, queries_.component_rows().at(0, j),
          {square().at(j, j).data, kTokenStride<A>}, grad_weights_t().at(0, j));
    });
    upper_triangular_product<A>(count, total_.num_components, keys_.token_rows(),
                                queries_.transposed(), square());
    add_upper_triangular_product<A>(count, values_.dim, {square_.data(), kTokenStride<A>, 1},
                                    grad_numerators_.const_view(), grad_values_.view());
  }

  void finish_keys(const TileRange& range, std::int64_t h, const Sums& sums) {
    keys_.backward(h, range.count, grad_weights_t_.data(), sums, dx_);
    dx_.store(shared_.gradients.key, range);
    grad_values_.store(shared_.gradients.value, range);
  }

  const Backward<Args>& shared_;
  Tile keys_;
  Tile queries_;
  RowTile<A> values_;
  RowTile<A> grad_values_;
  RowTile<A> grad_numerators_;  ///< dn, ds
  AlignedArray<A> inverse_normalizers_;
  RowTile<A> dx_;
  AlignedArray<A> grad_weights_t_;
  AlignedArray<A> square_;
  AlignedArray<A> gammas_;  ///< of a causal segment: of its keys and its group's queries by tile
  HeadState<A> before_;
  HeadState<A> local_;
  HeadState<A> total_;
  HeadState<A> grad_local_;
};

/// Calls task(worker, head, batch) for every batch of segments and head, a worker a range, in the
/// order of forward's for_heads().
template <class Args, class Task>
void for_batches(const Backward<Args>& shared, const Cut& cut, const Task& task) {
  const std::int64_t heads = shared.extents.num_heads;
  shared.args.executor.run(heads * cut.num_batches(), [&](std::int64_t begin, std::int64_t end) {
    BackwardWorker<Args> worker(shared);
    for (std::int64_t i = begin; i < end; ++i) {
      task(worker, i % heads, i / heads);
    }
  });
}

/// First sweep of a segment: dq, and its own share of dS and dZ into `grad_states`.
template <class Args>
void queries_of_segment(const Backward<Args>& shared, BackwardWorker<Args>& worker, std::int64_t i,
                        std::int64_t h) {
  const Cut& queries = shared.plan.queries;
  const Segment& segment = queries.segments[i];
  const auto sums = shared.sums.at(queries.batch_of[i], Side::query, h);
  if (shared.args.is_causal) {
    worker.queries_causal(segment, h, i, sums);
    worker.grad_state_causal(segment, h)
        .store(shared.grad_states.s(i, h), shared.grad_states.z(i, h));
  } else {
    worker.queries(segment, h, segment.sequence, sums)
        .store(shared.grad_states.s(i, h), shared.grad_states.z(i, h));
  }
}

/// Second sweep of a causal segment: dk and dv, from what comes after it in `grad_states`.
template <class Args>
void keys_of_causal_segment(const Backward<Args>& shared, BackwardWorker<Args>& worker,
                            std::int64_t i, std::int64_t h) {
  const Cut& keys = shared.plan.keys;
  worker.keys_causal(keys.segments[i], h, shared.grad_states.s(i, h), shared.grad_states.z(i, h),
                     shared.sums.at(keys.batch_of[i], Side::key, h),
                     BackwardWorker<Args>::Gammas::routed);
}

template <class Args>
void backward_queries(const Backward<Args>& shared) {
  const Cut& queries = shared.plan.queries;
  for_batches(shared, queries,
              [&](BackwardWorker<Args>& worker, std::int64_t h, std::int64_t batch) {
                const Batch& range = queries.batches[batch];
                for (std::int64_t i = range.last_segment; i-- > range.first_segment;) {
                  queries_of_segment(shared, worker, i, h);
                }
              });
}

template <class Args>
void backward_keys(const Backward<Args>& shared,
                   const StateArray<typename Backward<Args>::A>& grad_totals) {
  const Cut& keys = shared.plan.keys;
  for_batches(shared, keys, [&](BackwardWorker<Args>& worker, std::int64_t h, std::int64_t batch) {
    const auto sums = shared.sums.at(batch, Side::key, h);
    const Batch& range = keys.batches[batch];
    for (std::int64_t i = range.last_segment; i-- > range.first_segment;) {
      if (shared.args.is_causal) {
        keys_of_causal_segment(shared, worker, i, h);
      } else {
        const Segment& segment = keys.segments[i];
        worker.keys(segment, h, grad_totals.s(segment.sequence, h),
                    grad_totals.z(segment.sequence, h), sums);
      }
    }
  });
}

/// Joins dS and dZ of the segments, last to first, with that of the final state. When causal, each
/// segment's entry becomes the sum of all after it; otherwise the totals go to `grad_totals`.
template <class Args>
void join_grad_states(const Backward<Args>& shared,
                      const StateArray<typename Backward<Args>::A>& grad_totals) {
  using A = typename Backward<Args>::A;
  const Cut& queries = shared.plan.queries;
  for_states<A>(shared.plan.num_sequences(), shared.extents, shared.args.executor,
                [&](RunningState<A>& state, std::int64_t sequence, std::int64_t h) {
                  state.load(shared.upstream.grad_final_state, sequence, h);
                  for (std::int64_t i = queries.first[sequence + 1];
                       i-- > queries.first[sequence];) {
                    state.exchange(shared.grad_states.s(i, h), shared.grad_states.z(i, h));
                  }
                  state.store(grad_totals.s(sequence, h), grad_totals.z(sequence, h));
                  state.store(shared.gradients.initial_state, sequence, h);
                });
}

/// Two sweeps over all segments, each in parallel.
template <class Args>
void backward_in_two_sweeps(const Backward<Args>& shared) {
  const StateArray<typename Backward<Args>::A> grad_totals(shared.plan.num_sequences(),
                                                           shared.extents);
  backward_queries(shared);
  join_grad_states(shared, grad_totals);
  backward_keys(shared, grad_totals);
}

/// Both sweeps of a causal segment and head, given dS and dZ of all after it, which move on.
/// `after` is workspace.
template <class Args>
void sweep_segment(const Backward<Args>& shared, BackwardWorker<Args>& worker, std::int64_t i,
                   std::int64_t h, const StateArray<typename Backward<Args>::A>& after,
                   RunningState<typename Backward<Args>::A>& state) {
  const Cut& cut = shared.plan.keys;
  const Segment& segment = cut.segments[i];
  const std::int64_t batch = cut.batch_of[i];
  state.store(after.s(0, 0), after.z(0, 0));
  worker.queries_causal(segment, h, i, shared.sums.at(batch, Side::query, h));
  state.add(worker.keys_causal(segment, h, after.s(0, 0), after.z(0, 0),
                               shared.sums.at(batch, Side::key, h),
                               BackwardWorker<Args>::Gammas::recalled));
}

/// Heads [begin, end) of a causal sequence, side by side from segment to segment.
template <class Args>
void backward_causal_heads(const Backward<Args>& shared, BackwardWorker<Args>& worker,
                           std::int64_t sequence, std::int64_t begin, std::int64_t end) {
  using A = typename Backward<Args>::A;
  const Cut& cut = shared.plan.keys;
  std::vector<RunningState<A>> states;
  for (std::int64_t h = begin; h < end; ++h) {
    states.emplace_back(shared.extents).load(shared.upstream.grad_final_state, sequence, h);
  }
  const StateArray<A> after(1, shared.extents);
  for (std::int64_t i = cut.first[sequence + 1]; i-- > cut.first[sequence];) {
    for (std::int64_t h = begin; h < end; ++h) {
      sweep_segment(shared, worker, i, h, after, states[h - begin]);
    }
  }
  for (std::int64_t h = begin; h < end; ++h) {
    states[h - begin].store(shared.gradients.initial_state, sequence, h);
  }
}

/// One sweep, a task a group of sequences and head: half as many responsibilities as in two. The
/// same bits.
template <class Args>
void backward_in_one_sweep(const Backward<Args>& shared) {
  const std::int64_t heads = shared.extents.num_heads;
  const std::vector<Group>& groups = shared.plan.keys.groups;
  shared.args.executor.run(
      shared.plan.keys.num_groups() * heads, [&](std::int64_t begin, std::int64_t end) {
        BackwardWorker<Args> worker(shared);
        for_head_ranges(begin, end, heads,
                        [&](std::int64_t index, std::int64_t first, std::int64_t last) {
                          const Group& group = groups[index];
                          for (std::int64_t i = group.last_sequence; i-- > group.first_sequence;) {
                            backward_causal_heads(shared, worker, i, first, last);
                          }
                        });
      });
}

/// What the two sweeps of a segment cost that is swept twice, of what it costs swept once: each
/// routes both sides.
inline constexpr double kBackwardQueriesCost = 0.62;
inline constexpr double kBackwardKeysCost = 0.65;

/// Whether there are threads for backward_causal_shared(), and each segment has a batch of its own:
/// one task adds to a batch.
template <class Args>
bool can_share_sequences(const Backward<Args>& shared) {
  const Plan& plan = shared.plan;
  return shared.args.is_causal && plan.keys.num_batches() == plan.keys.num_segments() &&
         can_share(plan.num_sequences() * shared.extents.num_heads,
                   shared.args.executor.num_threads);
}

/// Several threads a causal sequence and head, as Shares has it. The same bits.
template <class Args>
void backward_causal_shared(const Backward<Args>& shared) {
  using A = typename Backward<Args>::A;
  const Cut& cut = shared.plan.keys;
  const std::int64_t heads = shared.extents.num_heads;
  const std::int64_t jobs = shared.plan.num_sequences() * heads;
  const std::int64_t threads = shared.args.executor.num_threads / jobs;
  std::vector<RunningState<A>> states;
  std::vector<Shares> shares;
  for (std::int64_t job = 0; job < jobs; ++job) {
    const std::int64_t sequence = job / heads;
    states.emplace_back(shared.extents)
        .load(shared.upstream.grad_final_state, sequence, job % heads);
    shares.push_back(make_shares(cut.first[sequence + 1] - cut.first[sequence], threads,
                                 kBackwardQueriesCost, kBackwardKeysCost));
  }
  /// The segment that `count` others of the job's sequence come after.
  const auto segment_of = [&](std::int64_t job, std::int64_t count) {
    return cut.first[job / heads + 1] - 1 - count;
  };
  /// Calls task(worker, job, thread of the job) for all of them.
  const auto run = [&](const auto& task) {
    shared.args.executor.run(jobs * threads, [&](std::int64_t begin, std::int64_t end) {
      BackwardWorker<Args> worker(shared);
      for (std::int64_t i = begin; i < end; ++i) task(worker, i / threads, i % threads);
    });
  };
  const auto sweep = [&](BackwardWorker<Args>& worker, std::int64_t job, std::int64_t first,
                         std::int64_t last) {
    const StateArray<A> after(1, shared.extents);
    for (std::int64_t count = first; count < last; ++count) {
      sweep_segment(shared, worker, segment_of(job, count), job % heads, after, states[job]);
    }
  };

  run([&](BackwardWorker<Args>& worker, std::int64_t job, std::int64_t thread) {
    const Shares& share = shares[job];
    if (thread == 0) return sweep(worker, job, 0, share.front);
    for (std::int64_t count = share.first(thread - 1); count < share.last(thread - 1); ++count) {
      queries_of_segment(shared, worker, segment_of(job, count), job % heads);
    }
  });
  for (std::int64_t job = 0; job < jobs; ++job) {
    for (std::int64_t count = shares[job].front; count < shares[job].back; ++count) {
      const std::int64_t i = segment_of(job, count), h = job % heads;
      states[job].exchange(shared.grad_states.s(i, h), shared.grad_states.z(i, h));
    }
  }
  run([&](BackwardWorker<Args>& worker, std::int64_t job, std::int64_t thread) {
    const Shares& share = shares[job];
    if (thread == 0) {
      sweep(worker, job, share.back, share.end);
      return states[job].store(shared.gradients.initial_state, job / heads, job % heads);
    }
    for (std::int64_t count = share.first(thread - 1); count < share.last(thread - 1); ++count) {
      keys_of_causal_segment(shared, worker, segment_of(job, count), job % heads);
    }
  });
}

template <class Args>
void run_backward(const Args& args,
                  const AttentionUpstream<typename Weighting<Args>::Element>& upstream,
                  const typename Weighting<Args>::Gradients& gradients) {
  const Backward<Args> shared(args, upstream, gradients);
  if (shared.in_one_sweep) {
    backward_in_one_sweep(shared);
  } else if (can_share_sequences(shared)) {
    backward_causal_shared(shared);
  } else {
    backward_in_two_sweeps(shared);
  }
  shared.sums.store(args, shared.weights, gradients);
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
