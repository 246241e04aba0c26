// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/listops_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "data/listops.h"
#include "gma/error.h"

namespace gma::app {
namespace {

constexpr std::int64_t kMaxDraws = 10'000'000;
constexpr std::uint64_t kOneOperatorIn = 4;
constexpr std::uint64_t kMinArgs = 2;

std::mt19937_64 seeded(std::uint64_t seed) {
  std::seed_seq sequence{seed, seed >> 32};
  return std::mt19937_64(sequence);
}

void check_range(const char* option, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw InvalidArgument(fmt::format("{} {}: expected {} to {}", option, value, least, most));
}

}  // namespace

RandomNumbers::RandomNumbers(std::uint64_t seed) : random_(seeded(seed)) {}

std::uint32_t RandomNumbers::bits(unsigned count) {
  if (left_count_ < count) {
    left_ = random_();
    left_count_ = 64;
  }
  const std::uint64_t value = left_ & ((std::uint64_t{1} << count) - 1);
  left_ >>= count;
  left_count_ -= count;
  return static_cast<std::uint32_t>(value);
}

std::uint32_t RandomNumbers::below(std::uint64_t bound) {
  const auto width = static_cast<unsigned>(std::bit_width(bound - 1));
  std::uint32_t value = bits(width);
  while (value >= bound) value = bits(width);
  return value;
}

ListOpsGenerator::ListOpsGenerator(const ListOpsOptions& options, std::uint64_t seed)
    : options_(options), random_(seed) {
  check_range("--max-depth", options.max_depth, 1, kListOpsMaxDepth);
  check_range("--max-args", options.max_args, kMinArgs, kListOpsMaxArgs);
  check_range("--min-length", options.min_length, 0, kListOpsMaxLength - 2);
  check_range("--max-length", options.max_length, options.min_length + 2, kListOpsMaxLength);
}

bool ListOpsGenerator::push(Token token) {
  tokens_.push_back(token);
  return std::ssize(tokens_) < options_.max_length;
}

/// False as soon as the tree is too long: what is left of it would not change that.
bool ListOpsGenerator::draw_node(std::int64_t depth) {
  if (depth >= options_.max_depth || random_.below(kOneOperatorIn) != 0) {
    return push(static_cast<Token>(kListOpsDigit0 + random_.below(kListOpsClasses)));
  }
  const std::size_t place = tokens_.size();
  if (!push(static_cast<Token>(ListOp::min))) return false;
  const std::uint64_t choices = static_cast<std::uint64_t>(options_.max_args) - kMinArgs + 1;
  for (std::uint64_t left = kMinArgs + random_.below(choices); left > 0; --left) {
    if (!draw_node(depth + 1)) return false;
  }
  tokens_[place] = static_cast<Token>(kListOps[random_.below(kListOps.size())]);
  return push(kListOpsClose);
}

bool ListOpsGenerator::is_new() {
  std::string key((tokens_.size() + 1) / 2, '\0');
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto half = static_cast<unsigned>(tokens_[i]) << (4 * (i % 2));
    key[i / 2] = static_cast<char>(static_cast<unsigned char>(key[i / 2]) | half);
  }
  return seen_.insert(std::move(key)).second;
}

std::span<const Token> ListOpsGenerator::next() {
  for (std::int64_t draws = 0; draws < kMaxDraws; ++draws) {
    tokens_.clear();
    if (draw_node(1) && std::ssize(tokens_) > options_.min_length && is_new()) return tokens_;
  }
  throw InvalidArgument(
      fmt::format("--max-depth {}, --max-args {}, --min-length {}, --max-length {}: no further "
                  "expression in {} trees, after {}",
                  options_.max_depth, options_.max_args, options_.min_length, options_.max_length,
                  kMaxDraws, seen_.size()));
}

}  // namespace gma::app
