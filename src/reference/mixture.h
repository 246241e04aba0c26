// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// One head's mixture and state, held in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/covariance.h"
#include "gma/attention.h"

namespace gma::reference {

using Vector = std::vector<double>;

/// Copies `count` elements that lie `stride` apart.
template <class T>
Vector load(const T* data, std::int64_t count, std::int64_t stride) {
  Vector values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<double>(data[i * stride]);
  return values;
}

template <class T>
void store(const Vector& values, T* data, std::int64_t stride) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    data[static_cast<std::int64_t>(i) * stride] = static_cast<T>(values[i]);
  }
}

class Mixture {
 public:
  template <class A>
  Mixture(const View<const A, 3>& means, const View<const A, 3>& variances,
          const View<const A, 2>& prior_logits, std::int64_t head)
      : num_components_(means.size(1)),
        dim_(means.size(2)),
        prior_logits_(load(prior_logits.at(head), num_components_, prior_logits.strides[1])) {
    const View<const A, 3> all = broadcast_variances(variances, num_components_, dim_);
    for (std::int64_t k = 0; k < num_components_; ++k) {
      const Vector mean = load(means.at(head, k), dim_, means.strides[2]);
      const Vector variance = load(all.at(head, k), dim_, all.strides[2]);
      double log_determinant = 0;
      for (const double sigma2 : variance) log_determinant += std::log(sigma2);
      means_.insert(means_.end(), mean.begin(), mean.end());
      variances_.insert(variances_.end(), variance.begin(), variance.end());
      log_determinants_.push_back(log_determinant);
    }
  }

  std::int64_t num_components() const { return num_components_; }
  std::int64_t dim() const { return dim_; }
  double mean(std::int64_t k, std::int64_t d) const { return means_[k * dim_ + d]; }
  double variance(std::int64_t k, std::int64_t d) const { return variances_[k * dim_ + d]; }

  /// gamma_k(x) = softmax_k(log pi_k - 1/2 sum_d [log sigma2_kd + (x_d - mu_kd)^2 / sigma2_kd]).
  /// A component whose prior logit is -inf gets 0, whatever its mean and variance hold.
  Vector responsibilities(const Vector& x) const {
    Vector gamma(prior_logits_);
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t k = 0; k < num_components_; ++k) {
      if (std::isinf(prior_logits_[k])) continue;
      double distance = 0;
      for (std::int64_t d = 0; d < dim_; ++d) {
        const double difference = x[d] - mean(k, d);
        distance += difference * difference / variance(k, d);
      }
      gamma[k] -= 0.5 * (log_determinants_[k] + distance);
      largest = std::max(largest, gamma[k]);
    }
    double sum = 0;
    for (double& value : gamma) sum += value = std::exp(value - largest);
    for (double& value : gamma) value /= sum;
    return gamma;
  }

 private:
  std::int64_t num_components_;
  std::int64_t dim_;
  Vector prior_logits_;
  Vector means_;
  Vector variances_;
  Vector log_determinants_;
};

/// S and Z of one head of one sequence, or their gradients.
struct HeadState {
  HeadState(std::int64_t num_components, std::int64_t value_dim)
      : rows(static_cast<std::size_t>(num_components), Vector(static_cast<std::size_t>(value_dim))),
        z(static_cast<std::size_t>(num_components)) {}

  template <class A>
  void load_from(const State<A>& state, std::int64_t index, std::int64_t head) {
    if (!state) return;
    for (std::size_t k = 0; k < z.size(); ++k) {
      rows[k] = load(state.s.at(index, head, k), state.s.size(3), state.s.strides[3]);
    }
    z = load(state.z.at(index, head), state.z.size(2), state.z.strides[2]);
  }

  template <class A>
  void store_to(const State<A>& state, std::int64_t index, std::int64_t head) const {
    if (!state) return;
    for (std::size_t k = 0; k < z.size(); ++k) {
      store(rows[k], state.s.at(index, head, k), state.s.strides[3]);
    }
    store(z, state.z.at(index, head), state.z.strides[2]);
  }

  /// S_k += weights_k row, Z_k += weights_k scale.
  void add(const Vector& weights, const Vector& row, double scale) {
    for (std::size_t k = 0; k < z.size(); ++k) {
      for (std::size_t c = 0; c < row.size(); ++c) rows[k][c] += weights[k] * row[c];
      z[k] += weights[k] * scale;
    }
  }

  bool is_zero() const {
    const auto zero = [](double value) { return value == 0; };
    return std::ranges::all_of(z, zero) && std::ranges::all_of(rows, [&](const Vector& row) {
             return std::ranges::all_of(row, zero);
           });
  }

  std::vector<Vector> rows;  ///< S, (K, Dv)
  Vector z;                  ///< Z, (K)
};

/// sum_k weights_k S_k.
inline Vector weighted_rows(const Vector& weights, const HeadState& state) {
  Vector sum(state.rows.empty() ? 0 : state.rows.front().size());
  for (std::size_t k = 0; k < weights.size(); ++k) {
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += weights[k] * state.rows[k][c];
  }
  return sum;
}

inline double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// What one query reads: o = n / (s + eps) with n = weights S and s = weights Z.
struct Read {
  Read(const Vector& weights, const HeadState& state, double eps)
      : output(weighted_rows(weights, state)),
        normalizer(dot(weights, state.z)),
        denominator(normalizer + eps) {
    for (double& value : output) value = denominator == 0 ? 0 : value / denominator;
  }

  Vector output;
  double normalizer;   ///< s
  double denominator;  ///< s + eps
};

}  // namespace gma::reference
