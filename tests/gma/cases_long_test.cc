// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Cases about size: long sequences, many sequences, offsets past 32 bits.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "cases.h"
#include "support/close.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace gma::test {
namespace {

/// On the best instruction set alone: the others, and the oracle, would take minutes.
class LongCases : public ImplementationTest {};
INSTANTIATE_TEST_SUITE_P(All, LongCases, testing::Values(kernels().front()), test_name);

TEST_P(LongCases, C22_SumsOverAMillionTokens) {
  for (const std::int64_t n : {131'072, 1'048'576}) {
    for (const bool is_causal : {false, true}) {
      SCOPED_TRACE(testing::Message() << n << (is_causal ? " causal" : ""));
      Problem<float> problem = make_problem<float>({.queries = n,
                                                    .keys = n,
                                                    .dim = 4,
                                                    .value_dim = 2,
                                                    .components = 3,
                                                    .is_causal = is_causal});
      problem.value = Tensor<float, 4>(problem.value.shape(), 1.0F);
      const Results<bfloat16> results = solve_forward(stored_as<bfloat16>(problem), backend());
      const std::vector<double> sums = in_double(results.final_z);
      EXPECT_NEAR(std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(n), 1, 1e-6);
      const std::vector<bfloat16> outputs = results.output.values();
      EXPECT_TRUE(
          std::ranges::all_of(outputs, [](bfloat16 o) { return static_cast<float>(o) == 1.0F; }));
    }
  }
}

double relative_rms(const std::vector<double>& actual, const std::vector<double>& expected) {
  double error = 0;
  double scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    scale += expected[i] * expected[i];
  }
  return std::sqrt(error / scale);
}

TEST_P(LongCases, C23_ErrorDoesNotGrowWithTheSequence) {
  double first_error = 0;
  for (const std::int64_t n : {1'024, 8'192, 65'536, 131'072}) {
    SCOPED_TRACE(n);
    Problem<float> problem = make_problem<float>(
        {.queries = n, .keys = n, .dim = 8, .value_dim = 4, .components = 8, .is_causal = true});
    const Problem<bfloat16> narrow = stored_as<bfloat16>(problem);
    const std::vector<double> expected =
        in_double(solve_forward(in_double(problem), Backend::reference).output);
    const double error =
        relative_rms(in_double(solve_forward(problem, backend()).output), expected);
    EXPECT_LE(error, 1e-5);

    const double narrow_error =
        relative_rms(in_double(solve_forward(narrow, backend()).output), expected);
    EXPECT_LE(narrow_error, 1e-2);
    if (first_error == 0) first_error = narrow_error;
    EXPECT_LE(narrow_error, 2 * first_error);
  }
}

/// Float against double, the kernels of both being held to the oracle elsewhere.
TEST_P(LongCases, ErrorOfEveryResultDoesNotGrowWithTheSequence) {
  for (const bool is_causal : {false, true}) {
    for (const std::int64_t n : {1'024, 8'192, 65'536}) {
      const Problem<float> problem = make_problem<float>({.queries = n,
                                                          .keys = n,
                                                          .dim = 32,
                                                          .value_dim = 16,
                                                          .components = 32,
                                                          .is_causal = is_causal});
      const Results<double> expected = solve(in_double(problem), backend());
      solve(problem, backend())
          .for_each_with(expected, [&](const char* name, const auto& actual, const auto& right) {
            if (actual.empty()) return;
            const double error = relative_rms(in_double(actual), in_double(right));
            SCOPED_TRACE(testing::Message()
                         << name << " of " << n << (is_causal ? ", causal" : ""));
            EXPECT_LE(error, 4e-6);
            RecordProperty(
                std::string(name) + "_" + std::to_string(n) + (is_causal ? "_causal" : ""),
                testing::PrintToString(error));
          });
    }
  }
}

TEST_P(LongCases, C27_MoreSequencesAndHeadsThan16Bits) {
  for (const bool is_causal : {false, true}) {
    const Problem<float> problem = make_problem<float>({.batch = 35'000,
                                                        .queries = 2,
                                                        .keys = 2,
                                                        .query_heads = 2,
                                                        .key_heads = 2,
                                                        .dim = 2,
                                                        .value_dim = 2,
                                                        .components = 2,
                                                        .is_causal = is_causal});
    expect_close(solve(problem, backend()), expected(problem));
  }
}

TEST_P(LongCases, C27_MoreElementsThan32BitsAreAllCounted) {
  constexpr std::int64_t kTokens = (std::int64_t{1} << 21) + 3;
  constexpr std::int64_t kDim = 1024;
  static_assert(kTokens * kDim > std::int64_t{1} << 31);
  Problem<float> problem =
      make_problem<float>({.queries = 1, .keys = 1, .dim = kDim, .value_dim = 1, .components = 2});
  AttentionArgs<float> args = problem.args(backend());
  for (View<const float, 4>* view : {&args.query, &args.key, &args.value}) {
    view->shape[1] = kTokens;
    view->strides[1] = 0;
  }
  Tensor<float, 4> output({1, kTokens, 1, 1});
  Tensor<float, 4> s({1, 1, 2, 1});
  Tensor<float, 3> z({1, 1, 2});
  forward<float>(args, {.output = output.view(), .final_state = {s.view(), z.view()}});
  EXPECT_TRUE(close(output, Tensor<float, 4>(output.shape(), problem.value(0, 0, 0, 0))));
  EXPECT_NEAR((z(0, 0, 0) + z(0, 0, 1)) / kTokens, 1, 1e-6);
}

/// Address space of which only what is touched takes memory.
class SparseArray {
 public:
  explicit SparseArray(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(float)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  SparseArray(const SparseArray&) = delete;
  SparseArray& operator=(const SparseArray&) = delete;
  ~SparseArray() {
    if (*this) munmap(data_, bytes_);
  }

  explicit operator bool() const { return data_ != MAP_FAILED; }
  float* data() const { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

TEST_P(LongCases, C27_OffsetsPast32Bits) {
  constexpr std::int64_t kStride = (std::int64_t{1} << 29) + 16;
  constexpr std::int64_t kTokens = 7;
  static_assert(kStride * (kTokens - 1) > std::int64_t{1} << 31);
  const Problem<float> problem =
      make_problem<float>({.queries = kTokens, .keys = kTokens, .is_causal = true});
  const SparseArray memory(kStride * kTokens);
  if (!memory) GTEST_SKIP() << "no " << kStride * kTokens * 4 << " bytes of address space";

  // Inputs, outputs and gradients, side by side in every row of the sparse array.
  std::int64_t offset = 0;
  const auto place = [&](const Tensor<float, 4>& tensor) {
    View<float, 4> view{memory.data() + offset, tensor.shape(), {0, kStride, 0, 1}};
    offset += tensor.shape()[3];
    for_each_index(tensor.shape(),
                   [&](auto i) { std::apply(view, i) = std::apply(tensor.view(), i); });
    return view;
  };
  const auto gather = [](const View<float, 4>& view) {
    Tensor<float, 4> tensor(view.shape);
    for_each_index(view.shape, [&](auto i) { std::apply(tensor.view(), i) = std::apply(view, i); });
    return tensor;
  };
  AttentionArgs<float> args = problem.args(backend());
  args.query = place(problem.query);
  args.key = place(problem.key);
  args.value = place(problem.value);
  const View<float, 4> grad_output = place(problem.grad_output);
  const View<float, 4> output = place(problem.grad_output);
  const View<float, 4> dquery = place(problem.query);
  const View<float, 4> dkey = place(problem.key);
  const View<float, 4> dvalue = place(problem.value);
  Tensor<float, 3> normalizer({1, kTokens, 1});
  const std::int64_t segments = saved_segments(args);
  Tensor<float, 4> segment_s({segments, 1, problem.options.components, problem.options.value_dim});
  Tensor<float, 3> segment_z({segments, 1, problem.options.components});
  const Saved<float> saved{normalizer.view(), segment_s.view(), segment_z.view()};
  forward<float>(args, {.output = output, .saved = saved});
  backward<float>(args, {.saved = saved, .grad_output = grad_output},
                  {.query = dquery, .key = dkey, .value = dvalue});

  const Results<double> right = expected(problem);
  EXPECT_TRUE(close(gather(output), right.output));
  EXPECT_TRUE(close(gather(dquery), right.dquery));
  EXPECT_TRUE(close(gather(dkey), right.dkey));
  EXPECT_TRUE(close(gather(dvalue), right.dvalue));
}

}  // namespace
}  // namespace gma::test
