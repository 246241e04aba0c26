// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Any call is either refused with InvalidArgument, by kernels and oracle alike, or computed as the
// oracle computes it, and writes nothing but its outputs. Bytes decide on types, shapes, layouts,
// options and damage; run it under sanitizers. A failed expectation throws, which ends the run.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

#include "gma/error.h"
#include "support/case.h"
#include "support/close.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace gma::test {
namespace {

/// Bytes may well add up to a problem that multiplies rounding errors.
constexpr Leniency kLeniency{.factor = 100, .least_scale = 1};

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

/// One thing about what backward is given and what it writes.
template <class T>
void spoil_gradients(AttentionUpstream<T>& upstream, AttentionGradients<T>& gradients,
                     Bytes& bytes) {
  switch (bytes.below(6)) {
    case 0:
      return spoil_extent(upstream.grad_output, bytes);
    case 1:
      return spoil_extent(upstream.saved.normalizer, bytes);
    case 2:
      return spoil_extent(upstream.saved.segment_s, bytes);
    case 3:
      return spoil_extent(upstream.saved.segment_z, bytes);
    case 4:
      return spoil_extent(gradients.query, bytes);
    default:
      upstream.saved.segment_s.strides[bytes.below(4)] += 1;
  }
}

/// Whether `call` was computed rather than refused.
template <class Call>
bool is_accepted(const Call& call) {
  try {
    call();
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

/// What came of a spoiled call on one backend.
template <class T>
struct Outcome {
  bool forward = false;
  bool backward = false;
  Tensor<T, 4> output;
};

/// Forward with spoiled arguments; then backward, of a right forward, with either those or spoiled
/// gradients.
template <class T>
Outcome<T> call_spoiled(const Problem<T>& problem, Backend backend, Bytes bytes) {
  AttentionArgs<T> args = problem.args(backend);
  args.executor = threads(2);
  const Case& c = problem.options;
  const std::int64_t segments = saved_segments(args);
  Tensor<T, 3> normalizer({c.batch, c.queries, c.query_heads});
  Tensor<T, 4> segment_s({segments, c.key_heads, c.components, c.value_dim});
  Tensor<T, 3> segment_z({segments, c.key_heads, c.components});
  const Saved<T> saved{normalizer.view(), segment_s.view(), segment_z.view()};
  Tensor<T, 4> dquery(problem.query.shape());
  Outcome<T> outcome{.output = Tensor<T, 4>(problem.grad_output.shape(), T{0})};
  forward<T>(args, {.output = outcome.output.view(), .saved = saved});

  AttentionUpstream<T> upstream{.saved = saved, .grad_output = problem.grad_output.view()};
  AttentionGradients<T> gradients{.query = dquery.view()};
  std::vector<std::int64_t> cu_seqlens;
  if (bytes.one_in(2)) {
    spoil_gradients(upstream, gradients, bytes);
  } else {
    spoil_arguments(args, cu_seqlens, bytes);
    outcome.forward = is_accepted([&] { forward<T>(args, {.output = outcome.output.view()}); });
  }
  outcome.backward = is_accepted([&] { backward<T>(args, upstream, gradients); });
  return outcome;
}

template <class T>
void expect_same_verdict(const Problem<T>& problem, const Bytes& bytes) {
  const Outcome<T> actual = call_spoiled(problem, Backend::cpu, bytes);
  const Outcome<T> right = call_spoiled(problem, Backend::reference, bytes);
  EXPECT_EQ(actual.forward, right.forward);
  EXPECT_EQ(actual.backward, right.backward);
  EXPECT_TRUE(close(actual.output, right.output, kLeniency));
}

/// A step from the state that the problem leaves behind, with a spoiled extent now and then.
template <class T>
void take_step(const Problem<T>& problem, Bytes& bytes) {
  const Case& c = problem.options;
  if (!c.cu_seqlens_q.empty() || c.queries == 0 || c.keys == 0) return;
  const bool is_spoiled = bytes.one_in(2);
  const Results<T> start = solve_forward(problem, Backend::reference);
  const auto run = [&](Backend backend, Results<T>& results, Tensor<T, 3>& output, Bytes b) {
    StepArgs<T> args = step_args(problem, results, 0, backend);
    View<T, 3> to = output.view();
    if (is_spoiled) {
      View<const T, 3>* const views[] = {&args.query, &args.key, &args.value, &args.means,
                                         &args.variances};
      const std::int64_t which = b.below(8);
      if (which < 5) spoil_extent(*views[which], b);
      if (which == 5) spoil_extent(args.state.s, b);
      if (which == 6) spoil_extent(args.state.z, b);
      if (which == 7) spoil_extent(to, b);
    }
    return is_accepted([&] { step<T>(args, to); });
  };
  Results<T> actual = start;
  Results<T> right = start;
  Tensor<T, 3> output({c.batch, c.query_heads, c.value_dim}, T{0});
  Tensor<T, 3> right_output = output;
  EXPECT_EQ(run(Backend::cpu, actual, output, bytes),
            run(Backend::reference, right, right_output, bytes));
  EXPECT_TRUE(close(output, right_output, kLeniency));
  EXPECT_TRUE(close(actual.final_s, right.final_s, kLeniency));
  EXPECT_TRUE(close(actual.final_z, right.final_z, kLeniency));
}

template <class T>
void run(Bytes& bytes) {
  Problem<T> problem = make_problem<T>(read_case(bytes), 1 + bytes.below(1000));
  scatter(problem, bytes);
  const Layout layout = kLayouts[bytes.below(kLayouts.size())];
  switch (bytes.below(5)) {
    case 0:
      spoil_values(problem, bytes);
      solve(problem, Backend::cpu, threads(2), layout);
      return;
    case 1:
      return expect_same_verdict(problem, bytes);
    case 2:
      return take_step(problem, bytes);
    default:
      expect_close(solve(problem, Backend::cpu, threads(2), layout), expected(problem), kLeniency);
  }
}

/// Storage of 16 bits is float, rounded where it is stored.
template <class T>
void run_narrow(Bytes& bytes) {
  Problem<float> problem = make_problem<float>(read_case(bytes), 1 + bytes.below(1000));
  Problem<T> narrow = stored_as<T>(problem);
  scatter(narrow, bytes);
  const Layout layout = kLayouts[bytes.below(kLayouts.size())];
  const Results<T> actual = solve(narrow, Backend::cpu, threads(2), layout);
  const Results<float> wide = solve(problem, Backend::cpu);
  EXPECT_TRUE(same_bits(convert<float>(actual.output), convert<float>(convert<T>(wide.output))));
  EXPECT_TRUE(same_bits(convert<float>(actual.dkey), convert<float>(convert<T>(wide.dkey))));
  EXPECT_TRUE(same_bits(actual.dmeans, wide.dmeans));
}

}  // namespace

void fuzz_attention(std::span<const std::uint8_t> data) {
  testing::GTEST_FLAG(throw_on_failure) = true;
  Bytes bytes(data);
  switch (bytes.below(6)) {
    case 0:
      return run_narrow<bfloat16>(bytes);
    case 1:
      return run_narrow<float16>(bytes);
    case 2:
    case 3:
      return run<double>(bytes);
    default:
      return run<float>(bytes);
  }
}

}  // namespace gma::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gma::test::fuzz_attention({data, size});
  return 0;
}
