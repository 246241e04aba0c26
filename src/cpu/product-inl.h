// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The one matrix product of the kernels: c(r, j) [+]= sum_p a(r, p) b(p, j), with c and b in rows
// of whole vectors and a read one element at a time, from any strides. It writes the state, reads
// it, and does both again in backward.

#if defined(GMA_CPU_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GMA_CPU_PRODUCT_INL_H_
#undef GMA_CPU_PRODUCT_INL_H_
#else
#define GMA_CPU_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gma::cpu {
namespace HWY_NAMESPACE {

/// The left factor: element (r, p) lies at data[r * row + p * step].
template <class A>
struct Left {
  const A* data;
  std::int64_t row;
  std::int64_t step;

  Left at(std::int64_t r, std::int64_t p) const { return {data + r * row + p * step, row, step}; }
};

/// Padded rows.
template <class A>
struct Rows {
  A* data;
  std::int64_t stride;

  Rows at(std::int64_t r, std::int64_t c) const { return {data + r * stride + c, stride}; }
};

enum class Into { set, add };

/// Sums start from zero and are added to c at the end, which keeps each of them short. The loops
/// over accumulators must be unrolled for them to stay in registers.
template <Into into, int kRows, int kVecs, class A>
HWY_INLINE void product_block(std::int64_t depth, Left<A> a, Rows<const A> b, Rows<A> c) {
  const Tag<A> d;
  Vec<A> sum[kRows][kVecs];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVecs; ++v) sum[r][v] = hn::Zero(d);
  }
  const A* left = a.data;
  const A* right = b.data;
  for (std::int64_t p = 0; p < depth; ++p, left += a.step, right += b.stride) {
    Vec<A> x[kVecs];
    HWY_UNROLL(16)
    for (int v = 0; v < kVecs; ++v) x[v] = hn::Load(d, right + v * kLanes<A>);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> factor = hn::Set(d, left[r * a.row]);
      HWY_UNROLL(16)
      for (int v = 0; v < kVecs; ++v) sum[r][v] = hn::MulAdd(factor, x[v], sum[r][v]);
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVecs; ++v) {
      A* to = c.data + r * c.stride + v * kLanes<A>;
      hn::Store(into == Into::add ? hn::Add(hn::Load(d, to), sum[r][v]) : sum[r][v], d, to);
    }
  }
}

/// Rows of accumulators that fit into the registers beside two vectors of b and one of a.
inline constexpr int kProductRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;

/// kVecs vectors of columns, all rows.
template <Into into, int kVecs, class A>
void product_columns(std::int64_t rows, std::int64_t depth, Left<A> a, Rows<const A> b, Rows<A> c) {
  std::int64_t r = 0;
  // A block of six and two single rows take longer than two blocks of four.
  const std::int64_t full = kProductRows == 6 && rows >= 8 && rows % 6 == 2 ? rows - 8 : rows;
  for (; r + kProductRows <= full; r += kProductRows) {
    product_block<into, kProductRows, kVecs>(depth, a.at(r, 0), b, c.at(r, 0));
  }
  for (; r + 4 <= rows; r += 4) product_block<into, 4, kVecs>(depth, a.at(r, 0), b, c.at(r, 0));
  for (; r < rows; ++r) product_block<into, 1, kVecs>(depth, a.at(r, 0), b, c.at(r, 0));
}

/// The columns in blocks of two vectors, then one: calls block(first column, vectors of the block
/// as an integral_constant).
template <class A, class Block>
HWY_INLINE void for_column_blocks(std::int64_t columns, Block&& block) {
  std::int64_t c = 0;
  for (; c + 2 * kLanes<A> <= columns; c += 2 * kLanes<A>) {
    block(c, std::integral_constant<int, 2>());
  }
  for (; c < columns; c += kLanes<A>) block(c, std::integral_constant<int, 1>());
}

/// The whole product. `columns` may run into the padding and is rounded up to whole vectors.
template <Into into, class A>
void product(std::int64_t rows, std::int64_t depth, std::int64_t columns, Left<A> a,
             Rows<const A> b, Rows<A> c) {
  for_column_blocks<A>(columns, [&](std::int64_t j, auto vecs) HWY_ATTR {
    product_columns<into, decltype(vecs)::value, A>(rows, depth, a, b.at(0, j), c.at(0, j));
  });
}

/// c(r, j) += sum over p <= r of a(r, p) b(p, j). What b holds past row r cannot reach row r of c.
template <class A>
void add_lower_triangular_product(std::int64_t rows, std::int64_t columns, Left<A> a,
                                  Rows<const A> b, Rows<A> c) {
  for_column_blocks<A>(columns, [&](std::int64_t j, auto vecs) HWY_ATTR {
    constexpr int kVecs = decltype(vecs)::value;
    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      product_block<Into::add, 4, kVecs, A>(r + 1, a.at(r, 0), b.at(0, j), c.at(r, j));
      for (std::int64_t below = 1; below < 4; ++below) {
        product_block<Into::add, 1, kVecs, A>(below, a.at(r + below, r + 1), b.at(r + 1, j),
                                              c.at(r + below, j));
      }
    }
    for (; r < rows; ++r) {
      product_block<Into::add, 1, kVecs, A>(r + 1, a.at(r, 0), b.at(0, j), c.at(r, j));
    }
  });
}

/// c(r, j) += sum over p >= r of a(r, p) b(p, j), p < count. Reads a(r, p) for p < r too, within
/// blocks of rows: it must be 0 there.
template <class A>
void add_upper_triangular_product(std::int64_t count, std::int64_t columns, Left<A> a,
                                  Rows<const A> b, Rows<A> c) {
  for_column_blocks<A>(columns, [&](std::int64_t j, auto vecs) HWY_ATTR {
    for (std::int64_t r = 0; r < count; r += kProductRows) {
      product_columns<Into::add, decltype(vecs)::value, A>(
          std::min<std::int64_t>(kProductRows, count - r), count - r, a.at(r, r), b.at(r, j),
          c.at(r, j));
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gma::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
