// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/byte_ngrams.h"

#include <cmath>
#include <numeric>

namespace gma::app {

ByteNgrams::ByteNgrams() : pairs_(256 * 256) {}

void ByteNgrams::add(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    ++bytes_[next];
    if (i > 0) ++pairs_[static_cast<unsigned char>(text[i - 1]) * 256U + next];
  }
  total_ += text.size();
}

double ByteNgrams::unigram_probability(std::size_t byte) const {
  return (static_cast<double>(bytes_[byte]) + 1.0) / (static_cast<double>(total_) + 256.0);
}

double unigram_bits_per_byte(const ByteNgrams& train, const ByteNgrams& held_out) {
  double bits = 0.0;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    bits -= static_cast<double>(held_out.bytes_[byte]) * std::log2(train.unigram_probability(byte));
  }
  return bits / static_cast<double>(held_out.total_);
}

double bigram_bits_per_byte(const ByteNgrams& train, const ByteNgrams& held_out) {
  double bits = 0.0;
  std::uint64_t scored = 0;
  for (std::size_t previous = 0; previous < 256; ++previous) {
    const auto train_row = train.pairs_.begin() + static_cast<std::ptrdiff_t>(previous * 256);
    const double seen =
        static_cast<double>(std::accumulate(train_row, train_row + 256, std::uint64_t{0}));
    for (std::size_t next = 0; next < 256; ++next) {
      const std::uint64_t count = held_out.pairs_[previous * 256 + next];
      if (count == 0) continue;
      const double pair = static_cast<double>(train.pairs_[previous * 256 + next]);
      bits -= static_cast<double>(count) *
              std::log2((pair + train.unigram_probability(next)) / (seen + 1.0));
      scored += count;
    }
  }
  if (scored == 0) return unigram_bits_per_byte(train, held_out);
  return bits / static_cast<double>(scored);
}

}  // namespace gma::app
