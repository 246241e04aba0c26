// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace gma::app {

/// Counts of bytes and of pairs of bytes: the baselines that a language model has to beat.
class ByteNgrams {
 public:
  ByteNgrams();

  /// Counts `text` as a stream of its own: no pair reaches from one text into the next.
  void add(std::string_view text);
  std::uint64_t total() const { return total_; }

 private:
  friend double unigram_bits_per_byte(const ByteNgrams& train, const ByteNgrams& held_out);
  friend double bigram_bits_per_byte(const ByteNgrams& train, const ByteNgrams& held_out);

  double unigram_probability(std::size_t byte) const;

  std::array<std::uint64_t, 256> bytes_{};
  std::vector<std::uint64_t> pairs_;  ///< [previous * 256 + next]
  std::uint64_t total_ = 0;
};

/// Cross-entropy of `held_out` under p(b) = (n(b) + 1) / (n + 256), the counts being those of
/// `train`.
double unigram_bits_per_byte(const ByteNgrams& train, const ByteNgrams& held_out);

/// The same under p(b | a) = (n(ab) + p(b)) / (n(a.) + 1): pairs, smoothed by the unigram model.
/// Bytes without a predecessor are left out; where no byte has one, the unigram model decides.
double bigram_bits_per_byte(const ByteNgrams& train, const ByteNgrams& held_out);

}  // namespace gma::app
