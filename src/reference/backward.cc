// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/sequences.h"
#include "reference/mixture.h"
#include "reference/reference.h"
#include "reference/token.h"

namespace gma::reference {
namespace {

/// A query whose output has a gradient, and the gradients of its numerator and normaliser.
struct Reader {
  std::int64_t row = 0;  ///< within its sequence
  Token query;
  Vector dn;
  double ds = 0;
};

/// Gradients of one head's mixture.
struct MixtureGradient {
  explicit MixtureGradient(const Mixture& mixture)
      : means(mixture.num_components(), Vector(mixture.dim())),
        variances(means),
        prior_logits(mixture.num_components()) {}

  template <class T>
  void store_to(const AttentionGradients<T>& gradients, std::int64_t head) const {
    for (std::size_t k = 0; k < means.size(); ++k) {
      if (gradients.means) {
        store(means[k], gradients.means.at(head, k), gradients.means.strides[2]);
      }
    }
    if (gradients.variances) store_variances(gradients.variances, head);
    if (gradients.prior_logits) {
      store(prior_logits, gradients.prior_logits.at(head), gradients.prior_logits.strides[1]);
    }
  }

  /// Summed over the components or channels that share a variance.
  template <class A>
  void store_variances(const View<A, 3>& to, std::int64_t head) const {
    for (std::int64_t row = 0; row < to.size(1); ++row) {
      Vector sum(static_cast<std::size_t>(to.size(2)));
      for (std::size_t k = 0; k < variances.size(); ++k) {
        if (to.size(1) != 1 && static_cast<std::int64_t>(k) != row) continue;
        for (std::size_t d = 0; d < variances[k].size(); ++d) {
          sum[sum.size() == 1 ? 0 : d] += variances[k][d];
        }
      }
      store(sum, to.at(head, row), to.strides[2]);
    }
  }

  std::vector<Vector> means;
  std::vector<Vector> variances;
  Vector prior_logits;
};

/// dGamma_k = row . S_k + scale Z_k: the gradient of a token's weights, for the query with S, Z and
/// (dn, ds), for the key with dS, dZ and (v, 1).
Vector weight_gradient(const Vector& row, double scale, const HeadState& state) {
  Vector gradient(state.z.size());
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    gradient[k] = dot(row, state.rows[k]) + scale * state.z[k];
  }
  return gradient;
}

/// From the gradient of a token's weights through dropout, softmax and log-density. Adds to the
/// mixture's gradient and returns dx.
Vector route_backward(const Mixture& mixture, const Token& token, const Vector& weight_gradient,
                      MixtureGradient& mixture_gradient) {
  const std::int64_t num_components = mixture.num_components();
  double mean_gradient = 0;
  for (std::int64_t k = 0; k < num_components; ++k) {
    mean_gradient += token.weights[k] * weight_gradient[k];
  }
  Vector dx(token.x.size());
  for (std::int64_t k = 0; k < num_components; ++k) {
    if (token.gamma[k] == 0) continue;  // Inert, whatever its mean and variance hold.
    const double dl = token.gamma[k] * (token.keep[k] * weight_gradient[k] - mean_gradient);
    mixture_gradient.prior_logits[k] += dl;
    for (std::int64_t d = 0; d < mixture.dim(); ++d) {
      const double difference = token.x[d] - mixture.mean(k, d);
      const double sigma2 = mixture.variance(k, d);
      dx[d] -= dl * difference / sigma2;
      mixture_gradient.means[k][d] += dl * difference / sigma2;
      mixture_gradient.variances[k][d] +=
          0.5 * dl * (difference * difference / (sigma2 * sigma2) - 1 / sigma2);
    }
  }
  return dx;
}

template <class T>
void store_row(const Vector& values, const View<T, 4>& view, std::int64_t b, std::int64_t t,
               std::int64_t h) {
  if (view) store(values, view.at(b, t, h), view.strides[3]);
}

/// One sequence of one key head and the query heads that share it.
template <class T>
class SequenceBackward {
 public:
  SequenceBackward(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
                   const AttentionGradients<T>& gradients, const Mixture& mixture,
                   MixtureGradient& mixture_gradient, const Sequence& sequence, std::int64_t index,
                   std::int64_t head)
      : args_(args),
        upstream_(upstream),
        gradients_(gradients),
        mixture_(mixture),
        mixture_gradient_(mixture_gradient),
        sequence_(sequence),
        index_(index),
        head_(head) {}

  void run() {
    read_forward();
    write_backward();
  }

 private:
  Token route_token(Side side, std::int64_t row, std::int64_t h) const {
    return route(args_, mixture_, sequence_, index_, side, row, h);
  }

  /// First to last: S and Z as each query saw them give dGamma_Q.
  void read_forward() {
    HeadState state(mixture_.num_components(), args_.value.size(3));
    state.load_from(args_.initial_state, index_, head_);
    const std::int64_t group = args_.query.size(2) / args_.key.size(2);
    std::int64_t written = 0;
    for (std::int64_t row = 0; row < sequence_.num_queries(); ++row) {
      for (; written < visible_keys(args_, sequence_, row); ++written) {
        if (!is_kept(args_, sequence_, written)) continue;
        state.add(route_token(Side::key, written, head_).weights,
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
    Vector dq(static_cast<std::size_t>(mixture_.dim()));
    // A query that nothing depends on is left out by selection: it may hold anything, NaN included.
    if (!std::ranges::all_of(grad, [](double value) { return value == 0; })) {
      Reader reader{row, route_token(Side::query, row, h), grad, 0};
      const Read forward(reader.query.weights, state, args_.eps);
      if (forward.denominator != 0) {
        for (double& value : reader.dn) value /= forward.denominator;
        reader.ds = -dot(reader.dn, forward.output);
        dq = route_backward(mixture_, reader.query, weight_gradient(reader.dn, reader.ds, state),
                            mixture_gradient_);
        readers_.push_back(std::move(reader));
      }
    }
    store_row(dq, gradients_.query, sequence_.batch, i, h);
  }

  /// Last to first: dS and dZ of all that read after a key give its gradients.
  void write_backward() {
    HeadState dstate(mixture_.num_components(), args_.value.size(3));
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
    Vector dk(static_cast<std::size_t>(mixture_.dim()));
    Vector dv(static_cast<std::size_t>(args_.value.size(3)));
    // As for queries: a key that is masked or that nobody reads may hold anything.
    if (is_kept(args_, sequence_, row) && !dstate.is_zero()) {
      const Token key = route_token(Side::key, row, head_);
      dv = weighted_rows(key.weights, dstate);
      const Vector v = value_row(args_, sequence_, row, head_);
      dk = route_backward(mixture_, key, weight_gradient(v, 1.0, dstate), mixture_gradient_);
    }
    const std::int64_t j = sequence_.k_begin + row;
    store_row(dk, gradients_.key, sequence_.batch, j, head_);
    store_row(dv, gradients_.value, sequence_.batch, j, head_);
  }

  const AttentionArgs<T>& args_;
  const AttentionUpstream<T>& upstream_;
  const AttentionGradients<T>& gradients_;
  const Mixture& mixture_;
  MixtureGradient& mixture_gradient_;
  const Sequence& sequence_;
  std::int64_t index_;
  std::int64_t head_;
  std::vector<Reader> readers_;
};

}  // namespace

template <class T>
void backward(const AttentionArgs<T>& args, const AttentionUpstream<T>& upstream,
              const AttentionGradients<T>& gradients) {
  const std::vector<Sequence> list = sequences(args);
  for (std::int64_t head = 0; head < args.key.size(2); ++head) {
    const Mixture mixture(args.means, args.variances, args.prior_logits, head);
    MixtureGradient mixture_gradient(mixture);
    for (std::size_t index = 0; index < list.size(); ++index) {
      SequenceBackward<T>(args, upstream, gradients, mixture, mixture_gradient, list[index],
                          static_cast<std::int64_t>(index), head)
          .run();
    }
    mixture_gradient.store_to(gradients, head);
  }
}

template void backward(const AttentionArgs<float>&, const AttentionUpstream<float>&,
                       const AttentionGradients<float>&);
template void backward(const AttentionArgs<double>&, const AttentionUpstream<double>&,
                       const AttentionGradients<double>&);
template void backward(const AttentionArgs<bfloat16>&, const AttentionUpstream<bfloat16>&,
                       const AttentionGradients<bfloat16>&);
template void backward(const AttentionArgs<float16>&, const AttentionUpstream<float16>&,
                       const AttentionGradients<float16>&);

}  // namespace gma::reference
