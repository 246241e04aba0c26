// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "common/checks.h"
#include "gma/theory.h"
#include "reference/mixture.h"
#include "theory/components.h"

namespace gma::theory {

void affinity(const View<const double, 2>& gamma_q, const View<const double, 2>& gamma_k,
              const AffinityOptions& options, const View<double, 2>& affinity) {
  const std::int64_t queries = gamma_q.size(0);
  const std::int64_t keys = gamma_k.size(0);
  const std::int64_t num_components = gamma_q.size(1);
  check_present("gamma_q", gamma_q);
  check_shape("gamma_k", gamma_k, "(Tk, K)", {keys, num_components});
  check_shape("affinity", affinity, "(Tq, Tk)", {queries, keys});
  check(std::isfinite(options.eps) && options.eps >= 0,
        "eps: expected a finite number >= 0, got {}", options.eps);
  check(!options.is_causal || queries == keys,
        "is_causal: expected as many queries as keys, got Tq = {} and Tk = {}", queries, keys);

  for (std::int64_t i = 0; i < queries; ++i) {
    const std::int64_t visible = options.is_causal ? i + 1 : keys;
    double normalizer = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      double overlap = 0;
      for (std::int64_t k = 0; k < num_components && j < visible; ++k) {
        overlap += gamma_q(i, k) * gamma_k(j, k);
      }
      affinity(i, j) = overlap;
      normalizer += overlap;
    }
    const double denominator = normalizer + options.eps;
    for (std::int64_t j = 0; j < keys && options.normalize; ++j) {
      affinity(i, j) = denominator == 0 ? 0 : affinity(i, j) / denominator;
    }
  }
}

std::int64_t numerical_rank(const View<const double, 2>& matrix, double tolerance) {
  check_extents("matrix", matrix);
  check_present("matrix", matrix);
  check(tolerance >= 0 && tolerance < 1, "tolerance: expected a number in [0, 1), got {}",
        tolerance);
  if (matrix.numel() == 0) return 0;
  std::vector<Vector> columns;
  double largest = 0;
  for (std::int64_t j = 0; j < matrix.size(1); ++j) {
    columns.push_back(reference::load(matrix.at(0, j), matrix.size(0), matrix.strides[0]));
    const double size = norm(columns.back());
    check(std::isfinite(size), "matrix: expected finite numbers, got {} as the norm of column {}",
          size, j);
    largest = std::max(largest, size);
  }
  if (tolerance == 0) {
    tolerance = 4 * static_cast<double>(std::max(matrix.size(0), matrix.size(1))) *
                std::numeric_limits<double>::epsilon();
  }

  std::int64_t rank = 0;
  while (!columns.empty() && rank < matrix.size(0)) {
    const auto pivot = std::ranges::max_element(columns, {}, norm);
    const double size = norm(*pivot);
    if (size <= tolerance * largest) break;
    std::swap(*pivot, columns.back());
    Vector direction = std::move(columns.back());
    columns.pop_back();
    for (double& value : direction) value /= size;
    for (Vector& column : columns) {
      double along = 0;
      for (std::size_t i = 0; i < column.size(); ++i) along += column[i] * direction[i];
      for (std::size_t i = 0; i < column.size(); ++i) column[i] -= along * direction[i];
    }
    ++rank;
  }
  return rank;
}

}  // namespace gma::theory
