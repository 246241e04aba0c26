// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Makes ListOps expressions with the distribution of Long Range Arena's generator (Tay et al.,
// arXiv 2011.04006, lra_benchmarks/data/listops.py).
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "data/tokenizer.h"

namespace gma::app {

/// The defaults are those of Long Range Arena's task.
struct ListOpsOptions {
  std::int64_t max_depth = 10;    ///< of the leaves, where a lone digit has depth 1
  std::int64_t max_args = 10;     ///< of an operator; the least is 2
  std::int64_t min_length = 500;  ///< tokens, brackets among them; both bounds are exclusive
  std::int64_t max_length = 2000;
};

inline constexpr std::int64_t kListOpsMaxDepth = 1000;
inline constexpr std::int64_t kListOpsMaxArgs = 1 << 10;
inline constexpr std::int64_t kListOpsMaxLength = 1 << 20;

/// Whole numbers below a bound with equal probability, the same on every platform: what the
/// distributions of the standard library give is left to each implementation.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed);
  /// `bound` is 1 to 2^32.
  std::uint32_t below(std::uint64_t bound);

 private:
  std::uint32_t bits(unsigned count);

  std::mt19937_64 random_;
  std::uint64_t left_ = 0;  ///< bits that are drawn but not used
  unsigned left_count_ = 0;
};

/// A sequence of different expressions, the same for the same seed and options.
///
/// A node is an operator with probability 1/4 and a digit otherwise, or always a digit at
/// `max_depth`; the operator, the digit and the number of arguments, 2 to `max_args`, are uniform.
/// Trees whose length is not between the bounds are drawn again, and so are those that came before.
class ListOpsGenerator {
 public:
  /// Throws InvalidArgument, naming the option of the program, for options out of range.
  ListOpsGenerator(const ListOpsOptions& options, std::uint64_t seed);

  /// The next expression; the view holds until the next call. Throws InvalidArgument where
  /// ten million trees in a row were out of bounds or not new.
  std::span<const Token> next();

 private:
  bool draw_node(std::int64_t depth);
  bool push(Token token);
  bool is_new();

  ListOpsOptions options_;
  RandomNumbers random_;
  std::vector<Token> tokens_;
  std::unordered_set<std::string> seen_;  ///< expressions, two tokens a byte
};

}  // namespace gma::app
