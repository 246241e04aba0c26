// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The write and the read in plain ATen, chunk by chunk, wherever weights come from.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/arguments.h"
#include "ops/dtype.h"

namespace gma_torch::ops {

inline constexpr std::int64_t kCompositeChunk = 64;

inline std::int64_t extent(const at::Tensor& tensor, std::int64_t axis) {
  return tensor.sym_size(axis).guard_int(__FILE__, __LINE__);
}

/// One batch of sequences of equal length: what is read from `args`, and the state so far.
/// `weights` turns chunks of tokens (B, L, H, *), in the type of the sums, into their rows of
/// weights (B, L, H, K): of_keys(key, first token), of_queries(query, first token).
template <class Args, class Weights>
class CompositePass {
 public:
  CompositePass(const Args& args, Weights weights, at::Tensor s, at::Tensor z)
      : args_(args),
        weights_(std::move(weights)),
        accumulate_(accumulate_type(args.query.scalar_type())),
        group_(extent(args.query, 2) / std::max<std::int64_t>(extent(args.key, 2), 1)),
        s_(std::move(s)),
        z_(std::move(z)) {}

  /// output (B, Tq, Hq, Dv), S and Z.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> run() {
    const std::int64_t queries = extent(args_.query, 1);
    const std::int64_t keys = extent(args_.key, 1);
    std::vector<at::Tensor> outputs;
    if (args_.is_causal) {
      for_chunks(queries, [&](std::int64_t begin, std::int64_t count) {
        outputs.push_back(read(begin, count, write(begin, count)));
      });
    } else {
      for_chunks(keys, [&](std::int64_t begin, std::int64_t count) {
        const Keys chunk = write(begin, count);
        s_ = s_ + chunk.s;
        z_ = z_ + chunk.z;
      });
      for_chunks(queries, [&](std::int64_t begin, std::int64_t count) {
        outputs.push_back(read(begin, count, {}));
      });
    }
    return {at::cat(outputs, 1), s_, z_};
  }

 private:
  /// A chunk of keys and what it adds to the state.
  struct Keys {
    at::Tensor gamma;  // (B, L, Hk, K)
    at::Tensor value;  // (B, L, Hk, Dv)
    at::Tensor s;
    at::Tensor z;
  };

  /// At least one chunk, so that empty sequences stay part of the graph.
  template <class Body>
  static void for_chunks(std::int64_t tokens, Body&& body) {
    std::int64_t begin = 0;
    do {
      const std::int64_t count = std::min(kCompositeChunk, tokens - begin);
      body(begin, count);
      begin += count;
    } while (begin < tokens);
  }

  at::Tensor chunk(const at::Tensor& tensor, std::int64_t begin, std::int64_t count) const {
    return tensor.narrow(1, begin, count).to(accumulate_);
  }

  Keys write(std::int64_t begin, std::int64_t count) const {
    at::Tensor key = chunk(args_.key, begin, count);
    Keys result;
    result.value = chunk(args_.value, begin, count);
    at::Tensor mask;
    if (is_given(args_.key_padding_mask)) {
      // Masked rows may hold NaN, and zero times NaN is NaN, in the gradient too.
      mask = args_.key_padding_mask->narrow(1, begin, count).unsqueeze(-1).unsqueeze(-1);
      key = at::where(mask, key, 0.0);
      result.value = at::where(mask, result.value, 0.0);
    }
    result.gamma = weights_.of_keys(key, begin);
    if (mask.defined()) result.gamma = at::where(mask, result.gamma, 0.0);
    result.s = at::einsum("blhk,blhd->bhkd", {result.gamma, result.value});
    result.z = result.gamma.sum(1);
    return result;
  }

  /// Reads the state and, where there are `keys` of the same tokens, those at or before each query;
  /// then adds the keys to the state.
  at::Tensor read(std::int64_t begin, std::int64_t count, const Keys& keys) {
    const at::Tensor query = chunk(args_.query, begin, count);
    const at::Tensor gamma =
        weights_.of_queries(query, begin).unflatten(2, at::IntArrayRef{extent(z_, 1), group_});
    at::Tensor numerator = at::einsum("blhgk,bhkd->blhgd", {gamma, s_});
    at::Tensor normalizer = at::einsum("blhgk,bhk->blhg", {gamma, z_});
    if (keys.gamma.defined()) {
      const at::Tensor affinity = at::einsum("blhgk,bmhk->bhglm", {gamma, keys.gamma}).tril();
      numerator = numerator + at::einsum("bhglm,bmhd->blhgd", {affinity, keys.value});
      normalizer = normalizer + affinity.sum(-1).permute({0, 3, 1, 2});
      s_ = s_ + keys.s;
      z_ = z_ + keys.z;
    }
    const at::Tensor denominator = (normalizer + args_.eps).unsqueeze(-1);
    const at::Tensor nothing = denominator == 0;
    const at::Tensor output =
        at::where(nothing, 0.0, numerator / at::where(nothing, 1.0, denominator));
    return output.flatten(2, 3).to(args_.query.scalar_type());
  }

  const Args& args_;
  Weights weights_;
  at::ScalarType accumulate_;
  std::int64_t group_;
  at::Tensor s_;
  at::Tensor z_;
};

}  // namespace gma_torch::ops
