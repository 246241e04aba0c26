// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What is provable about a head, as functions: the affinity written out, the Jacobian of the
// responsibilities, and bounds on how fast responsibilities and outputs can change. docs/theory.md
// states each claim with its conditions and its proof, in the symbols of docs/math.md. The claims
// are those of Huang and Raza, "Gaussian Mixture Attention" (arXiv 2606.18283): affinity of rank
// <= K, responsibility-modulated gradients, local stability of the routing. The constants are this
// project's.
//
// For understanding and for tests, not for speed: one head at a time, in double, and of the size
// that is written out. Bounds hold up to rounding. All functions throw InvalidArgument for shapes
// that do not fit together, K = 0, D = 0, variances that are not positive and finite, means that
// are not finite, prior logits that are NaN or +inf, or that are all -inf. A component whose prior
// logit is -inf is off: its mean and variance may hold anything, and it has no part in any bound.
#pragma once

#include <cstdint>

#include "gma/view.h"

namespace gma::theory {

/// The mixture of one head. Shapes of `variances` mean what they mean in AttentionArgs: diag, tied
/// or spherical.
struct Mixture {
  View<const double, 2> means;         ///< (K, D)
  View<const double, 2> variances;     ///< (K, D), (1, D) or (K, 1)
  View<const double, 1> prior_logits;  ///< (K)
};

/// gamma_k(x) of each row of `x`, (N, D), into `gamma`, (N, K).
void responsibilities(const Mixture& mixture, const View<const double, 2>& x,
                      const View<double, 2>& gamma);

/// How affinity() is written out.
struct AffinityOptions {
  bool is_causal = false;  ///< entries j > i are 0; needs Tq = Tk
  bool normalize = false;  ///< rows divided by s_i + eps, zero where that is 0
  double eps = 1e-6;       ///< finite, >= 0
};

/// A = Gamma_Q Gamma_K^T from `gamma_q`, (Tq, K), and `gamma_k`, (Tk, K), into `affinity`,
/// (Tq, Tk). With `normalize`, `affinity` times the values is the operator's output. A masked key
/// is a row of zeros in `gamma_k`.
void affinity(const View<const double, 2>& gamma_q, const View<const double, 2>& gamma_k,
              const AffinityOptions& options, const View<double, 2>& affinity);

/// How many columns of `matrix`, of any shape, are independent: those that column-pivoted
/// orthogonalisation takes before all that is left has a norm of at most `tolerance` times the
/// largest column's. 0 stands for 4 max(rows, columns) epsilon, what rounding leaves of a matrix
/// with entries known to a few units in the last place. `matrix` must be finite.
std::int64_t numerical_rank(const View<const double, 2>& matrix, double tolerance = 0);

/// d gamma_k / d x_d = gamma_k (u_kd - sum_m gamma_m u_md) at `x`, (D), with the scores
/// u_k = (mu_k - x) / sigma2_k, into `jacobian`, (K, D).
void responsibility_jacobian(const Mixture& mixture, const View<const double, 1>& x,
                             const View<double, 2>& jacobian);

/// A bound on the Jacobian at `x`, (D), as a map from the 2-norm to the 1-norm: the smaller of
///   1/2 max_{k,l} |u_k - u_l|   and   sum_{k,l} gamma_k gamma_l |u_k - u_l|,
/// of which the second vanishes where one component owns x. O(K^2 D).
double jacobian_bound(const Mixture& mixture, const View<const double, 1>& x);

/// U(R) = max_{k,l} max_{|x| <= R} |u_k(x) - u_l(x)|, to rounding the maximum itself: the one
/// number behind all bounds over a ball. For tied variances it does not depend on R, which may
/// then be infinite. Infinity where the scores or their norms overflow. O(K^2 D), beside a search
/// for the few pairs that come near the maximum.
/// `radius` must be at least 0.
double score_spread(const Mixture& mixture, double radius);

/// U(R) <= (R + 2 M) / floor, whatever the mixture, for means of norm at most M and variances of
/// at least `variance_floor`.
double coarse_score_spread(double radius, double largest_mean, double variance_floor);

/// Diameter of the values (N, Dv), with 0 among them if eps > 0: what an output can travel.
double value_diameter(const View<const double, 2>& values, double eps);

/// The same for a query that reads the state S, (K, Dv), and Z, (K): the diameter of the rows
/// S_k / (Z_k + eps), of which the output is a weighted mean. Never more than value_diameter() of
/// the values that the state was written from. Rows with Z_k + eps = 0 are not read.
double state_diameter(const View<const double, 2>& s, const View<const double, 1>& z, double eps);

/// What holds of a head whose routing vectors have norms of at most `radius`, whatever its prior
/// logits. With U = U(R), and diameters of values as value_diameter() or state_diameter() has them:
struct Bounds {
  double radius = 0;
  std::int64_t rank = 0;    ///< of the affinity without causality: components that are not off
  double score_spread = 0;  ///< U
  double coarse_score_spread = 0;  ///< from radius, largest mean and smallest variance alone
  /// Lipschitz constant of x -> gamma(x) from the 2-norm to the 1-norm, which is twice the total
  /// variation between two posteriors: U / 2.
  double responsibilities = 0;
  double responsibilities_2 = 0;  ///< the same to the 2-norm: U / sqrt 8
  /// |dx| <= gradient (max_k g_k - min_k g_k) for the gradient g of a loss by gamma(x), and
  /// |d gamma_k / dx| <= gradient: U / 4.
  double gradient = 0;
  /// |delta o| <= read_query |delta q|, for a fixed state: U / 4, times the diameter.
  double read_query = 0;
  /// |delta o| <= read_key max_j |delta k_j|, for a fixed query: U / 2, times the diameter.
  double read_key = 0;
};

Bounds bounds(const Mixture& mixture, double radius);

}  // namespace gma::theory
