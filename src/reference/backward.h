// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Backward over one sequence, wherever the weights of its tokens come from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/dropout.h"
#include "common/sequences.h"
#include "gma/attention.h"
#include "reference/mixture.h"
#include "reference/token.h"

namespace gma::reference {

/// A query whose output has a gradient, and the gradients of its numerator and normaliser.
struct Reader {
  std::int64_t row = 0;  ///< within its sequence
  Token query;
  Vector dn;
  double ds = 0;
};

/// dGamma_k = row . S_k + scale Z_k: the gradient of a token's weights, for the query with S, Z and
/// (dn, ds), for the key with dS, dZ and (v, 1).
inline Vector weight_gradient(const Vector& row, double scale, const HeadState& state) {
  Vector gradient(state.z.size());
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    gradient[k] = dot(row, state.rows[k]) + scale * state.z[k];
  }
  return gradient;
}

template <class T>
void store_row(const Vector& values, const View<T, 4>& view, std::int64_t b, std::int64_t t,
               std::int64_t h) {
  if (view) store(values, view.at(b, t, h), view.strides[3]);
}

/// One sequence of one key head and the query heads that share it. `weighting` says where weights
/// come from:
///   size()                    how many a token has
///   route(side, row, head)    a Token of the sequence
///   backward(token, dweights) from the gradient of its weights to that of x; adds to the gradients
///                             of parameters
template <class Args, class T, class Gradients, class Weighting>
class SequenceBackward {
 public:
  SequenceBackward(const Args& args, const AttentionUpstream<T>& upstream,
                   const Gradients& gradients, const Weighting& weighting, const Sequence& sequence,
                   std::int64_t index, std::int64_t head)
      : args_(args),
        upstream_(upstream),
        gradients_(gradients),
        weighting_(weighting),
        sequence_(sequence),
        index_(index),
        head_(head) {}

  void run() {
    read_forward();
    write_backward();
  }

 private:
  /// First to last: S and Z as each query saw them give dGamma_Q.
  void read_forward() {
    HeadState state(weighting_.size(), args_.value.size(3));
    state.load_from(args_.initial_state, index_, head_);
    const std::int64_t group = args_.query.size(2) / args_.key.size(2);
    std::int64_t written = 0;
    for (std::int64_t row = 0; row < sequence_.num_queries(); ++row) {
      for (; written < visible_keys(args_, sequence_, row); ++written) {
        if (!is_kept(args_, sequence_, written)) continue;
        state.add(weighting_.route(Side::key, written, head_).weights,
                  value_row(args_, sequence_, written, head_), 1.0);
      }
      for (std::int64_t h = head_ * group; h < (head_ + 1) * group; ++h) read(state, row, h);
    }
  }

  void read(const HeadState& state, std::int64_t row, std::int64_t h) {
    const std::int64_t i = sequence_.q_begin + row;
    const View<const T, 4>& grad_output = upstream_.grad_output;
    const Vector grad =
        load(grad_output.at(sequence_.batch, i, h), grad_output.size(3), grad_output.strides[3]);
    Vector dq(static_cast<std::size_t>(args_.query.size(3)));
    // A query that nothing depends on is left out by selection: it may hold anything, NaN included.
    if (!std::ranges::all_of(grad, [](double value) { return value == 0; })) {
      Reader reader{row, weighting_.route(Side::query, row, h), grad, 0};
      const Read forward(reader.query.weights, state, args_.eps);
      if (forward.denominator != 0) {
        for (double& value : reader.dn) value /= forward.denominator;
        reader.ds = -dot(reader.dn, forward.output);
        dq = weighting_.backward(reader.query, weight_gradient(reader.dn, reader.ds, state));
        readers_.push_back(std::move(reader));
      }
    }
    store_row(dq, gradients_.query, sequence_.batch, i, h);
  }

  /// Last to first: dS and dZ of all that read after a key give its gradients.
  void write_backward() {
    HeadState dstate(weighting_.size(), args_.value.size(3));
    dstate.load_from(upstream_.grad_final_state, index_, head_);
    const auto collect_from = [&](std::int64_t first_row) {
      while (!readers_.empty() && readers_.back().row >= first_row) {
        dstate.add(readers_.back().query.weights, readers_.back().dn, readers_.back().ds);
        readers_.pop_back();
      }
    };
    for (std::int64_t row = sequence_.num_keys(); row-- > 0;) {
      collect_from(args_.is_causal ? row : 0);
      write(dstate, row);
    }
    collect_from(0);
    dstate.store_to(gradients_.initial_state, index_, head_);
  }

  void write(const HeadState& dstate, std::int64_t row) {
    Vector dk(static_cast<std::size_t>(args_.query.size(3)));
    Vector dv(static_cast<std::size_t>(args_.value.size(3)));
    // As for queries: a key that is masked or that nobody reads may hold anything.
    if (is_kept(args_, sequence_, row) && !dstate.is_zero()) {
      const Token key = weighting_.route(Side::key, row, head_);
      dv = weighted_rows(key.weights, dstate);
      const Vector v = value_row(args_, sequence_, row, head_);
      dk = weighting_.backward(key, weight_gradient(v, 1.0, dstate));
    }
    const std::int64_t j = sequence_.k_begin + row;
    store_row(dk, gradients_.key, sequence_.batch, j, head_);
    store_row(dv, gradients_.value, sequence_.batch, j, head_);
  }

  const Args& args_;
  const AttentionUpstream<T>& upstream_;
  const Gradients& gradients_;
  const Weighting& weighting_;
  const Sequence& sequence_;
  std::int64_t index_;
  std::int64_t head_;
  std::vector<Reader> readers_;
};

}  // namespace gma::reference
