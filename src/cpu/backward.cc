// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Backward pass, in two sweeps. Queries first: with the states that forward saved they give dq and,
// on the way, each segment's share of dS and dZ. Then keys, with dS and dZ summed over all that
// read them. Responsibilities are recomputed; the derivation and the symbols are those of
// docs/math.md.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/backward.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/plan.h"
#include "cpu/cpu.h"
#include "cpu/layout.h"
#include "cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// The mixture's moments, one partial sum a batch of segments, joined in order at the end.
template <class A>
class MomentArray {
 public:
  MomentArray(std::int64_t batches, const Extents& extents)
      : batches_(batches),
        k_(extents.num_components),
        dim_(extents.dim),
        stride_(row_stride<A>(extents.dim)),
        expanded_stride_(row_stride<A>(extents.dim + 2)),
        has_expanded_(extents.has_shared_variances),
        data_(batches * extents.num_heads * size()) {
    data_.fill(0);
  }

  Moments<A> at(std::int64_t batch, std::int64_t head) const {
    return in_block(data_.data() + (head * batches_ + batch) * size());
  }

  template <class T>
  void store(const AttentionArgs<T>& args, const PackedMixtures<A>& mixtures,
             const AttentionGradients<T>& gradients) const {
    const std::int64_t heads = args.means.size(0);
    const AlignedArray<double> totals(heads * size());
    args.executor.run(heads * k_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) join_batches(i / k_, i % k_, totals.data());
    });
    args.executor.run(heads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t h = begin; h < end; ++h) {
        store_head(mixtures.head(h), in_block(totals.data() + h * size()), gradients, h);
      }
    });
  }

 private:
  std::int64_t size() const {
    return row_stride<A>(k_) + 2 * k_ * stride_ + (has_expanded_ ? k_ * expanded_stride_ : 0);
  }

  template <class Element>
  Moments<Element> in_block(Element* data) const {
    Element* first = data + row_stride<A>(k_);
    Element* second = first + k_ * stride_;
    return {data, first, second, has_expanded_ ? second + k_ * stride_ : nullptr};
  }

  /// Sums the `part`-th of k_ parts of a head's blocks.
  void join_batches(std::int64_t h, std::int64_t part, double* totals) const {
    const std::int64_t length = (size() + k_ - 1) / k_;
    const std::int64_t begin = std::min(part * length, size());
    const std::int64_t end = std::min(begin + length, size());
    double* total = totals + h * size();
    std::fill(total + begin, total + end, 0.0);
    for (std::int64_t b = 0; b < batches_; ++b) {
      const A* block = data_.data() + (h * batches_ + b) * size();
      for (std::int64_t i = begin; i < end; ++i) total[i] += static_cast<double>(block[i]);
    }
  }

  template <class T>
  void store_head(const HeadMixture<A>& mixture, const Moments<double>& moments,
                  const AttentionGradients<T>& gradients, std::int64_t h) const {
    const View<A, 3>& to_variances = gradients.variances;
    const std::int64_t columns = to_variances ? to_variances.size(2) : 0;
    const std::int64_t rows = to_variances ? to_variances.size(1) : 0;
    std::vector<double> variances(static_cast<std::size_t>(rows * columns));
    for (std::int64_t k = 0; k < k_; ++k) {
      if (gradients.prior_logits) {
        gradients.prior_logits(h, k) = static_cast<A>(moments.zeroth[k]);
      }
      double* row = variances.data() + (rows == 1 ? 0 : k) * columns;
      for (std::int64_t d = 0; d < mixture.dim; ++d) {
        const Slope slope = channel_gradient(mixture, moments, k, d);
        if (gradients.means) gradients.means(h, k, d) = static_cast<A>(slope.mean);
        if (to_variances) row[columns == 1 ? 0 : d] += slope.variance;
      }
    }
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      to_variances(h, i / columns, i % columns) = static_cast<A>(variances[i]);
    }
  }

  struct Slope {
    double mean = 0;
    double variance = 0;
  };

  /// dmu = sum dl t / sigma and dsigma2 = 1/2 sum dl (t^2 - 1) / sigma2, the latter one channel's
  /// share where channels or components share it. With the expanded sums F = sum dl y,
  /// Q = sum dl |y|^2 and L = sum dl, t = sqrt(p) (y - m):
  ///   sum dl t = sqrt(p) (F - m L),  sum dl t^2 = p (q - 2 m F + m^2 L),
  /// where q = sum dl y^2 of the channel is Q / D on the average (spherical), or 0 once summed over
  /// components (tied).
  Slope channel_gradient(const HeadMixture<A>& mixture, const Moments<double>& moments,
                         std::int64_t k, std::int64_t d) const {
    const double inverse_std = static_cast<double>(mixture.inverse_std[k * stride_ + d]);
    double first = moments.first[k * stride_ + d];
    double second = moments.second[k * stride_ + d];
    if (const ExpandedMixture<A>& expanded = mixture.expanded; expanded && inverse_std > 0) {
      const A* factors = expanded.factors + k * expanded.stride;
      const double* sums = moments.expanded + k * expanded.stride;
      const double p = static_cast<double>(expanded.precision[k]);
      const double m = static_cast<double>(factors[d]) / p;
      const double q = factors[dim_] != 0 ? sums[dim_] / static_cast<double>(dim_) : 0;
      first += std::sqrt(p) * (sums[d] - m * sums[dim_ + 1]);
      second += p * (q - 2 * m * sums[d] + m * m * sums[dim_ + 1]);
    }
    return {first * inverse_std, 0.5 * (second - moments.zeroth[k]) * inverse_std * inverse_std};
  }

  std::int64_t batches_;
  std::int64_t k_;
  std::int64_t dim_;
  std::int64_t stride_;
  std::int64_t expanded_stride_;
  bool has_expanded_;
  AlignedArray<A> data_;
};

/// Everything the tasks of one call share.
template <class T>
struct Backward {
  using A = accumulate_t<T>;

  Backward(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
           const AttentionGradients<T>& gradients)
      : args(args),
        upstream(upstream),
        gradients(gradients),
        plan(make_plan(args)),
        extents(args),
        dropout(args.dropout_p, args.dropout_seed),
        mixtures(args.means, args.variances, args.prior_logits, args.executor),
        moments(std::max(plan.queries.num_batches(), plan.keys.num_batches()), extents),
        grad_states(plan.queries.num_segments(), extents),
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

  const AttentionArgs<T>& args;
  const AttentionUpstream<T>& upstream;
  const AttentionGradients<T>& gradients;
  Plan plan;
  Extents extents;
  Dropout dropout;
  PackedMixtures<A> mixtures;
  MomentArray<A> moments;
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
template <class T>
class BackwardWorker {
 public:
  using A = accumulate_t<T>;

  explicit BackwardWorker(const Backward<T>& shared)
      : shared_(shared),
        keys_(shared.extents, shared.dropout),
        queries_(shared.extents, shared.dropout),
        values_(shared.extents.value_dim),
        grad_values_(shared.extents.value_dim),
        grad_numerators_(shared.extents.value_dim),
        inverse_normalizers_(kTileTokens),
        dx_(shared.extents.dim),
        grad_weights_t_(shared.extents.num_components * kTokenStride<A>),
        square_(shared.args.is_causal ? kCausalTileTokens * kTokenStride<A> : 0),
        before_(shared.extents),
        local_(shared.extents),
        total_(shared.extents),
        grad_local_(shared.extents) {}

  /// dq of a segment; leaves its share of dS and dZ in the state that it returns.
  const HeadState<A>& queries(const Segment& segment, std::int64_t h, std::int64_t saved,
                              const Moments<A>& moments) {
    total_.load(shared_.saved_s(saved, h), shared_.saved_z(saved, h));
    grad_local_.clear();
    for (std::int64_t hq = h * group(); hq < (h + 1) * group(); ++hq) {
      for_tiles(segment, kTileTokens, [&](std::int64_t begin, std::int64_t count) {
        const TileRange range = load_queries(segment.sequence, h, hq, begin, count, count);
        row_gradient(total_, count, grad_numerators_, grad_weights_t());
        compute_grad_normalizers(count);
        add_sum_gradient(total_, count, grad_numerators_, grad_weights_t());
        finish_queries(range, h, moments);
        write_state(queries_, count, grad_numerators_, grad_local_);
      });
    }
    return grad_local_;
  }

  /// The same when causal: the state before each tile is rebuilt from that before the segment.
  const HeadState<A>& queries_causal(const Segment& segment, std::int64_t h, std::int64_t saved,
                                     const Moments<A>& moments) {
    before_.load(shared_.saved_s(saved, h), shared_.saved_z(saved, h));
    local_.clear();
    grad_local_.clear();
    for_tiles(segment, kCausalTileTokens, [&](std::int64_t begin, std::int64_t count) {
      total_.set_sum(before_, local_);
      load_keys(segment.sequence, h, begin, count, count);
      for (std::int64_t hq = h * group(); hq < (h + 1) * group(); ++hq) {
        const TileRange range = load_queries(segment.sequence, h, hq, begin, count, count);
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
        finish_queries(range, h, moments);
        write_state(queries_, count, grad_numerators_, grad_local_);
      }
      write_state(keys_, count, values_, local_);
    });
    return grad_local_;
  }

  /// dk and dv of a segment, given dS and dZ of all that reads it.
  void keys(const Segment& segment, std::int64_t h, const A* grad_s, const A* grad_z,
            const Moments<A>& moments) {
    total_.load(grad_s, grad_z);
    for_tiles(segment, kTileTokens, [&](std::int64_t begin, std::int64_t count) {
      const TileRange range = load_keys(segment.sequence, h, begin, count, count);
      key_gradients_from_state(count);
      finish_keys(range, h, moments);
    });
  }

  /// The same when causal, last tile first, given dS and dZ of all that comes after the segment.
  void keys_causal(const Segment& segment, std::int64_t h, const A* grad_s, const A* grad_z,
                   const Moments<A>& moments) {
    before_.load(grad_s, grad_z);
    grad_local_.clear();
    const std::int64_t tiles =
        (segment.end - segment.begin + kCausalTileTokens - 1) / kCausalTileTokens;
    for (std::int64_t tile = tiles; tile-- > 0;) {
      const std::int64_t begin = segment.begin + tile * kCausalTileTokens;
      const std::int64_t count = std::min(kCausalTileTokens, segment.end - begin);
      total_.set_sum(before_, grad_local_);
      const TileRange range = load_keys(segment.sequence, h, begin, count, -kCausalTileTokens);
      key_gradients_from_state(count);
      for (std::int64_t hq = h * group(); hq < (h + 1) * group(); ++hq) {
        const TileRange from =
            load_queries(segment.sequence, h, hq, begin, count, -kCausalTileTokens);
        grad_numerators_.last.fill(0);
        for (std::int64_t i = 0; i < count; ++i) {
          grad_numerators_.last.data()[i] =
              shared_.grad_normalizers(from.batch, from.first + i, hq);
        }
        key_gradients_from_tile(count);
        write_state(queries_, count, grad_numerators_, grad_local_);
      }
      finish_keys(range, h, moments);
    }
  }

 private:
  std::int64_t group() const { return shared_.extents.group; }
  Rows<A> grad_weights_t() const { return {grad_weights_t_.data(), kTokenStride<A>}; }
  Rows<A> square() const { return {square_.data(), kTokenStride<A>}; }

  /// Gamma_K and v of a tile. The tile `step` tokens on is fetched meanwhile.
  TileRange load_keys(std::int64_t sequence_index, std::int64_t h, std::int64_t begin,
                      std::int64_t count, std::int64_t step) {
    const AttentionArgs<T>& args = shared_.args;
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
    keys_.route(shared_.mixtures.head(h), args.key, range, keep,
                {sequence_index, h, Side::key, begin}, next);
    values_.load(args.value, range, keep);
    values_.make_transpose(count);
    return range;
  }

  /// Gamma_Q and dn of a tile, likewise. A query on whose output nothing depends is left out by
  /// selection.
  TileRange load_queries(std::int64_t sequence_index, std::int64_t h, std::int64_t hq,
                         std::int64_t begin, std::int64_t count, std::int64_t step) {
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
    Prefetch next;
    fetch(shared_.args.query, range, step, sequence.q_begin, sequence.q_end, next);
    fetch(shared_.upstream.grad_output, range, step, sequence.q_begin, sequence.q_end, next);
    queries_.route(shared_.mixtures.head(h), shared_.args.query, range, keep,
                   {sequence_index, hq, Side::query, begin}, next);
    return range;
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

  void finish_queries(const TileRange& range, std::int64_t h, const Moments<A>& moments) {
    queries_.backward(shared_.mixtures.head(h), range.count, grad_weights_t_.data(), moments, dx_);
    dx_.store(shared_.gradients.query, range);
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

  void finish_keys(const TileRange& range, std::int64_t h, const Moments<A>& moments) {
    keys_.backward(shared_.mixtures.head(h), range.count, grad_weights_t_.data(), moments, dx_);
    dx_.store(shared_.gradients.key, range);
    grad_values_.store(shared_.gradients.value, range);
  }

  const Backward<T>& shared_;
  RoutedTile<A> keys_;
  RoutedTile<A> queries_;
  RowTile<A> values_;
  RowTile<A> grad_values_;
  RowTile<A> grad_numerators_;  ///< dn, ds
  AlignedArray<A> inverse_normalizers_;
  RowTile<A> dx_;
  AlignedArray<A> grad_weights_t_;
  AlignedArray<A> square_;
  HeadState<A> before_;
  HeadState<A> local_;
  HeadState<A> total_;
  HeadState<A> grad_local_;
};

/// Calls task(worker, head, batch) for every batch of segments and head, a worker a range, in the
/// order of forward's for_heads().
template <class T, class Task>
void for_batches(const Backward<T>& shared, const Cut& cut, const Task& task) {
  const std::int64_t heads = shared.extents.num_heads;
  shared.args.executor.run(heads * cut.num_batches(), [&](std::int64_t begin, std::int64_t end) {
    BackwardWorker<T> worker(shared);
    for (std::int64_t i = begin; i < end; ++i) {
      task(worker, i % heads, i / heads);
    }
  });
}

template <class T>
void backward_queries(const Backward<T>& shared) {
  using A = accumulate_t<T>;
  const Cut& queries = shared.plan.queries;
  for_batches(shared, queries, [&](BackwardWorker<T>& worker, std::int64_t h, std::int64_t batch) {
    const Moments<A> moments = shared.moments.at(batch, h);
    const Batch& range = queries.batches[batch];
    for (std::int64_t i = range.first_segment; i < range.last_segment; ++i) {
      const Segment& segment = queries.segments[i];
      const HeadState<A>& grad = shared.args.is_causal
                                     ? worker.queries_causal(segment, h, i, moments)
                                     : worker.queries(segment, h, segment.sequence, moments);
      grad.store(shared.grad_states.s(i, h), shared.grad_states.z(i, h));
    }
  });
}

template <class T>
void backward_keys(const Backward<T>& shared, const StateArray<accumulate_t<T>>& grad_totals) {
  using A = accumulate_t<T>;
  const Cut& keys = shared.plan.keys;
  for_batches(shared, keys, [&](BackwardWorker<T>& worker, std::int64_t h, std::int64_t batch) {
    const Moments<A> moments = shared.moments.at(batch, h);
    const Batch& range = keys.batches[batch];
    for (std::int64_t i = range.first_segment; i < range.last_segment; ++i) {
      const Segment& segment = keys.segments[i];
      if (shared.args.is_causal) {
        worker.keys_causal(segment, h, shared.grad_states.s(i, h), shared.grad_states.z(i, h),
                           moments);
      } else {
        worker.keys(segment, h, grad_totals.s(segment.sequence, h),
                    grad_totals.z(segment.sequence, h), moments);
      }
    }
  });
}

/// Joins dS and dZ of the segments, last to first, with that of the final state. When causal, each
/// segment's entry becomes the sum of all after it; otherwise the totals go to `grad_totals`.
template <class T>
void join_grad_states(const Backward<T>& shared, const StateArray<accumulate_t<T>>& grad_totals) {
  using A = accumulate_t<T>;
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

template <class T>
void run_backward(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
                  const AttentionGradients<T>& gradients) {
  const Backward<T> shared(args, upstream, gradients);
  const StateArray<accumulate_t<T>> grad_totals(shared.plan.num_sequences(), shared.extents);
  backward_queries(shared);
  join_grad_states(shared, grad_totals);
  backward_keys(shared, grad_totals);
  shared.moments.store(args, shared.mixtures, gradients);
}

void backward_float(const AttentionArgs<float>& args, const AttentionUpstream<float>& upstream,
                    const AttentionGradients<float>& gradients) {
  run_backward(args, upstream, gradients);
}
void backward_double(const AttentionArgs<double>& args, const AttentionUpstream<double>& upstream,
                     const AttentionGradients<double>& gradients) {
  run_backward(args, upstream, gradients);
}
void backward_bfloat16(const AttentionArgs<bfloat16>& args,
                       const AttentionUpstream<bfloat16>& upstream,
                       const AttentionGradients<bfloat16>& gradients) {
  run_backward(args, upstream, gradients);
}
void backward_float16(const AttentionArgs<float16>& args,
                      const AttentionUpstream<float16>& upstream,
                      const AttentionGradients<float16>& gradients) {
  run_backward(args, upstream, gradients);
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gma::cpu {

HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);
HWY_EXPORT(backward_bfloat16);
HWY_EXPORT(backward_float16);

template <>
void backward(const AttentionArgs<float>& args, const AttentionUpstream<float>& upstream,
              const AttentionGradients<float>& gradients) {
  HWY_DYNAMIC_DISPATCH(backward_float)(args, upstream, gradients);
}
template <>
void backward(const AttentionArgs<double>& args, const AttentionUpstream<double>& upstream,
              const AttentionGradients<double>& gradients) {
  HWY_DYNAMIC_DISPATCH(backward_double)(args, upstream, gradients);
}
template <>
void backward(const AttentionArgs<bfloat16>& args, const AttentionUpstream<bfloat16>& upstream,
              const AttentionGradients<bfloat16>& gradients) {
  HWY_DYNAMIC_DISPATCH(backward_bfloat16)(args, upstream, gradients);
}
template <>
void backward(const AttentionArgs<float16>& args, const AttentionUpstream<float16>& upstream,
              const AttentionGradients<float16>& gradients) {
  HWY_DYNAMIC_DISPATCH(backward_float16)(args, upstream, gradients);
}

}  // namespace gma::cpu
#endif  // HWY_ONCE
