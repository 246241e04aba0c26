// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "reference/backward.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/sequences.h"
#include "reference/mixture.h"
#include "reference/reference.h"
#include "reference/token.h"

namespace gma::reference {
namespace {

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

/// What SequenceBackward is to know of a mixture and one of its sequences.
template <class T>
class MixtureWeighting {
 public:
  MixtureWeighting(const AttentionArgs<T>& args, const Mixture& mixture, MixtureGradient& gradient,
                   const Sequence& sequence, std::int64_t index)
      : args_(args), mixture_(mixture), gradient_(gradient), sequence_(sequence), index_(index) {}

  std::int64_t size() const { return mixture_.num_components(); }
  Token route(Side side, std::int64_t row, std::int64_t h) const {
    return reference::route(args_, mixture_, sequence_, index_, side, row, h);
  }
  Vector backward(const Token& token, const Vector& weight_gradient) const {
    return route_backward(mixture_, token, weight_gradient, gradient_);
  }

 private:
  const AttentionArgs<T>& args_;
  const Mixture& mixture_;
  MixtureGradient& gradient_;
  const Sequence& sequence_;
  std::int64_t index_;
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
      const auto position = static_cast<std::int64_t>(index);
      const MixtureWeighting<T> weighting(args, mixture, mixture_gradient, list[index], position);
      SequenceBackward(args, upstream, gradients, weighting, list[index], position, head).run();
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
