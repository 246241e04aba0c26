// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Any call is either refused with InvalidArgument or computed as the oracle computes it, and writes
// nothing but its outputs. Bytes decide on shapes, strides, options and damage; run it under
// sanitizers. A failed expectation throws, which ends the run.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

#include "gma/error.h"
#include "support/case.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace gma::test {
namespace {

/// Hands out bytes as numbers; zeros once they are used up.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  /// In [0, count).
  std::int64_t below(std::int64_t count) {
    std::uint64_t value = 0;
    for (int i = 0; i < 2; ++i) value = value << 8 | next();
    return static_cast<std::int64_t>(value % static_cast<std::uint64_t>(count));
  }
  bool one_in(std::int64_t count) { return below(count) == count - 1; }

 private:
  std::uint8_t next() {
    if (bytes_.empty()) return 0;
    const std::uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }

  std::span<const std::uint8_t> bytes_;
};

/// Non-decreasing from 0 to `tokens`.
std::vector<std::int64_t> boundaries(Bytes& bytes, std::int64_t sequences, std::int64_t tokens) {
  std::vector<std::int64_t> result{0};
  for (std::int64_t i = 1; i < sequences; ++i) {
    result.push_back(result.back() + bytes.below(tokens - result.back() + 1));
  }
  result.push_back(tokens);
  return result;
}

Case read_case(Bytes& bytes) {
  Case c;
  c.batch = bytes.below(4);
  c.queries = bytes.one_in(4) ? bytes.below(600) : bytes.below(70);
  c.is_causal = bytes.one_in(2);
  c.keys = c.is_causal ? c.queries : bytes.below(140);
  c.key_heads = bytes.below(4);
  c.query_heads = c.key_heads * (1 + bytes.below(3));
  c.dim = 1 + bytes.below(20);
  c.value_dim = bytes.below(20);
  c.components = 1 + bytes.below(20);
  c.has_mask = bytes.one_in(3);
  c.has_state = bytes.one_in(3);
  c.covariance_type = static_cast<CovarianceType>(bytes.below(3));
  if (bytes.one_in(3)) {
    c.batch = 1;
    const std::int64_t sequences = 1 + bytes.below(6);
    c.cu_seqlens_q = boundaries(bytes, sequences, c.queries);
    c.cu_seqlens_k = c.is_causal ? c.cu_seqlens_q : boundaries(bytes, sequences, c.keys);
  }
  if (bytes.one_in(4)) c.dropout_p = 0.25;
  if (bytes.one_in(4)) c.far_every = 1 + bytes.below(5);
  c.eps = bytes.one_in(4) ? 0.5 : 1e-6;
  return c;
}

template <class T>
void scatter(Problem<T>& problem, Bytes& bytes) {
  problem.for_each_tensor(
      [&](auto& tensor) { tensor = tensor.with_layout(kLayouts[bytes.below(kLayouts.size())]); });
}

/// Values that no result has to be right for, but that must not lead outside of any array.
template <class T>
void spoil_values(Problem<T>& problem, Bytes& bytes) {
  constexpr T kBad[] = {std::numeric_limits<T>::quiet_NaN(),  std::numeric_limits<T>::infinity(),
                        -std::numeric_limits<T>::infinity(),  std::numeric_limits<T>::max(),
                        std::numeric_limits<T>::denorm_min(), T{0}};
  const auto spoil = [&](auto& tensor) {
    tensor.for_each([&](T& value) {
      if (bytes.one_in(8)) value = kBad[bytes.below(std::size(kBad))];
    });
  };
  spoil(problem.query);
  spoil(problem.key);
  spoil(problem.value);
  spoil(problem.means);
  spoil(problem.variances);
}

template <class View>
void spoil_extent(View& view, Bytes& bytes) {
  std::int64_t& extent = view.shape[bytes.below(static_cast<std::int64_t>(view.shape.size()))];
  extent += bytes.one_in(2) ? 1 : -1;
  if (extent < 0) extent = 0;
}

/// One thing about a call that does not fit the rest, most of the time.
template <class T>
void spoil_arguments(AttentionArgs<T>& args, std::vector<std::int64_t>& cu_seqlens, Bytes& bytes) {
  switch (bytes.below(12)) {
    case 0:
      return spoil_extent(args.query, bytes);
    case 1:
      return spoil_extent(args.key, bytes);
    case 2:
      return spoil_extent(args.value, bytes);
    case 3:
      return spoil_extent(args.means, bytes);
    case 4:
      return spoil_extent(args.variances, bytes);
    case 5:
      return spoil_extent(args.prior_logits, bytes);
    case 6:
      if (args.key_padding_mask) spoil_extent(args.key_padding_mask, bytes);
      return;
    case 7:
      if (args.initial_state) spoil_extent(args.initial_state.s, bytes);
      return;
    case 8:
      if (args.initial_state) spoil_extent(args.initial_state.z, bytes);
      return;
    case 9:
      args.eps = bytes.one_in(2) ? -1 : std::numeric_limits<double>::quiet_NaN();
      return;
    case 10:
      args.dropout_p = bytes.one_in(2) ? 1 : -0.5;
      return;
    default:
      for (std::int64_t i = bytes.below(6); i > 0; --i) cu_seqlens.push_back(bytes.below(80) - 4);
      args.cu_seqlens_q = cu_seqlens;
      if (bytes.one_in(2)) args.cu_seqlens_k = cu_seqlens;
  }
}

/// Forward alone, into outputs of the shape that the arguments were made for.
template <class T>
void call_spoiled(const Problem<T>& problem, Bytes& bytes) {
  std::vector<std::int64_t> cu_seqlens;
  for (const Backend backend : {Backend::cpu, Backend::reference}) {
    Bytes same_bytes = bytes;
    AttentionArgs<T> args = problem.args(backend);
    args.executor = threads(2);
    cu_seqlens.clear();
    spoil_arguments(args, cu_seqlens, same_bytes);
    Tensor<T, 4> output(problem.grad_output.shape());
    try {
      forward<T>(args, {.output = output.view()});
    } catch (const InvalidArgument&) {
    }
  }
}

template <class T>
void run(Bytes& bytes) {
  Problem<T> problem = make_problem<T>(read_case(bytes), 1 + bytes.below(1000));
  scatter(problem, bytes);
  const Layout layout = kLayouts[bytes.below(kLayouts.size())];
  switch (bytes.below(4)) {
    case 0:
      spoil_values(problem, bytes);
      solve(problem, Backend::cpu, threads(2), layout);
      return;
    case 1:
      return call_spoiled(problem, bytes);
    default:
      // Bytes may well add up to a problem that multiplies rounding errors.
      expect_close(solve(problem, Backend::cpu, threads(2), layout), expected(problem),
                   {.factor = 100, .least_scale = 1});
  }
}

}  // namespace

void fuzz_attention(std::span<const std::uint8_t> data) {
  testing::GTEST_FLAG(throw_on_failure) = true;
  Bytes bytes(data);
  if (bytes.one_in(2)) {
    run<float>(bytes);
  } else {
    run<double>(bytes);
  }
}

}  // namespace gma::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gma::test::fuzz_attention({data, size});
  return 0;
}
