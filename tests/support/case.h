// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The shape grid: one description of a call, from which tests, gradient checks and benchmarks alike
// make their problems.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/covariance.h"

namespace gma::test {

struct Case {
  std::string name = {};
  std::int64_t batch = 1;
  std::int64_t queries = 19;
  std::int64_t keys = 19;
  std::int64_t query_heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t dim = 8;
  std::int64_t value_dim = 8;
  std::int64_t components = 6;
  bool is_causal = false;
  bool has_mask = false;
  bool has_state = false;  ///< an initial state, and a gradient of the final one
  std::vector<std::int64_t> cu_seqlens_q = {};
  std::vector<std::int64_t> cu_seqlens_k = {};
  double eps = 1e-6;
  double dropout_p = 0;
  double variance = 3;  ///< variances lie between half and twice this: small ones route sharply
  double offset = 0;    ///< added to means and routing vectors
  CovarianceType covariance_type = CovarianceType::diag;
  std::int64_t far_every = 0;  ///< every so many routing vectors lie 20 times further out

  std::int64_t num_sequences() const {
    return cu_seqlens_q.empty() ? batch : static_cast<std::int64_t>(cu_seqlens_q.size()) - 1;
  }
};

/// Every length around the borders of vectors, tiles and segments, causal and not.
std::vector<Case> length_cases();

/// Every pair of awkward D, Dv and K, causal and not.
std::vector<Case> size_cases();

/// Every option, alone and together.
std::vector<Case> option_cases();

/// What is timed: the usual size, at two lengths, and what differs from it in one thing each.
std::vector<Case> benchmark_cases();

/// Small enough for a finite difference of each element.
std::vector<Case> gradient_cases();

}  // namespace gma::test
