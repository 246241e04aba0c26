// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What is kept of the first tokens of a text, for a reader to look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gma::app {

/// The most responsible components of each token, for one head and one side.
class TopComponents {
 public:
  /// Of each token as many as `most`, or all there are.
  TopComponents(std::size_t components, std::size_t most);

  /// Adds a token: its responsibilities (K). Equal ones keep their order.
  void add(std::span<const float> responsibilities);

  std::size_t per_token() const { return per_token_; }
  /// (tokens, per_token()), the most responsible first.
  std::span<const std::uint32_t> components() const { return components_; }
  std::span<const float> responsibilities() const { return responsibilities_; }

 private:
  std::size_t per_token_;
  std::vector<std::uint32_t> components_;
  std::vector<float> responsibilities_;
};

/// Tokens that follow each other in one sequence, of which the routing vectors are kept.
struct Window {
  std::int64_t start = 0, length = 0;
};

/// Tokens of a window, where the sequence has so many.
inline constexpr std::int64_t kWindowTokens = 64;

/// At most `count` windows within the first `tokens` tokens, spread over them, in order, none
/// twice; and one that holds token `wanted`, if that is not negative. `starts` are the first
/// tokens of the sequences, from 0 and increasing.
std::vector<Window> spread_windows(std::span<const std::int64_t> starts, std::int64_t tokens,
                                   std::int64_t count, std::int64_t wanted = -1);

}  // namespace gma::app
