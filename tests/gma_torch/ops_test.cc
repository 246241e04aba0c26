// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The C++ interface of the operators, against the affinity written out.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "gma_torch/attention.h"

namespace gma_torch {
namespace {

using torch::indexing::Slice;

struct Inputs {
  at::Tensor query, key, value, means, variances, prior_logits;

  explicit Inputs(std::int64_t tokens, std::int64_t batch = 2, std::int64_t query_heads = 3) {
    torch::manual_seed(0);
    const auto options = torch::dtype(torch::kFloat64);
    query = torch::randn({batch, tokens, query_heads, 4}, options);
    key = torch::randn({batch, tokens, 3, 4}, options);
    value = torch::randn({batch, tokens, 3, 6}, options);
    means = torch::randn({3, 5, 4}, options);
    variances = torch::rand({3, 5, 4}, options) + 0.5;
    prior_logits = torch::randn({3, 5}, options);
  }

  std::vector<at::Tensor> all() const {
    return {query, key, value, means, variances, prior_logits};
  }
};

auto attend(const Inputs& in, const AttentionOptions& options) {
  return gaussian_mixture_attention(in.query, in.key, in.value, in.means, in.variances,
                                    in.prior_logits, options);
}

/// Attention with the N x N affinity of a causal pass.
at::Tensor quadratic(const Inputs& in, double eps) {
  const auto gamma_q = responsibilities(in.query, in.means, in.variances, in.prior_logits);
  const auto gamma_k = responsibilities(in.key, in.means, in.variances, in.prior_logits);
  const auto affinity = torch::einsum("bihk,bjhk->bhij", {gamma_q, gamma_k}).tril();
  const auto normalizer = affinity.sum(-1, true) + eps;
  return torch::einsum("bhij,bjhd->bihd", {affinity / normalizer, in.value});
}

/// The largest error, relative to the largest magnitude.
void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_LE((actual - expected).abs().max().item<double>(),
            tolerance * expected.abs().max().item<double>());
}

TEST(Attention, ValuesAndGradientsAreThoseOfTheAffinity) {
  Inputs in(40);
  for (const at::Tensor& tensor : in.all()) tensor.requires_grad_();
  const auto [output, state] = attend(in, {.is_causal = true, .eps = 1e-3});
  EXPECT_FALSE(state.has_value());
  const at::Tensor expected = quadratic(in, 1e-3);
  expect_close(output, expected, 1e-12);

  const auto actual_gradients = torch::autograd::grad({output.square().sum()}, in.all());
  const auto expected_gradients = torch::autograd::grad({expected.square().sum()}, in.all());
  for (std::size_t i = 0; i < actual_gradients.size(); ++i) {
    expect_close(actual_gradients[i], expected_gradients[i], 1e-10);
  }
}

TEST(Attention, C09_StateCarriesFromPassToStep) {
  const Inputs in(9);
  const at::Tensor expected = attend(in, {.is_causal = true}).first;

  Inputs prefix = in;
  for (at::Tensor* tensor : {&prefix.query, &prefix.key, &prefix.value}) {
    *tensor = tensor->index({Slice(), Slice(0, 8)});
  }
  const auto [output, state] = attend(prefix, {.is_causal = true, .return_state = true});
  expect_close(output, expected.index({Slice(), Slice(0, 8)}), 1e-13);
  ASSERT_TRUE(state.has_value());

  const auto token = [](const at::Tensor& tensor) { return tensor.index({Slice(), Slice(8, 9)}); };
  const auto [with_axis, next] =
      gaussian_mixture_attention_step(token(in.query), token(in.key), token(in.value), in.means,
                                      in.variances, in.prior_logits, *state);
  expect_close(with_axis, expected.index({Slice(), Slice(8, 9)}), 1e-13);
  EXPECT_FALSE(torch::equal(next.z, state->z));

  const auto [without_axis, same] = gaussian_mixture_attention_step(
      token(in.query).squeeze(1), token(in.key).squeeze(1), token(in.value).squeeze(1), in.means,
      in.variances, in.prior_logits, *state);
  EXPECT_TRUE(torch::equal(without_axis, with_axis.squeeze(1)));
  EXPECT_TRUE(torch::equal(same.s, next.s));
}

TEST(Attention, C10_PackedSequencesAreSeparateRuns) {
  const Inputs in(20, 1);
  const auto run = [&](std::int64_t from, std::int64_t to, std::int64_t k_from, std::int64_t k_to) {
    Inputs one = in;
    one.query = in.query.slice(1, from, to);
    one.key = in.key.slice(1, k_from, k_to);
    one.value = in.value.slice(1, k_from, k_to);
    return attend(one, {}).first;
  };
  const at::Tensor packed = attend(in, {.cu_seqlens_q = torch::tensor({0, 4, 20}, torch::kInt32),
                                        .cu_seqlens_k = torch::tensor({0, 15, 20}, torch::kInt64)})
                                .first;
  expect_close(packed, torch::cat({run(0, 4, 0, 15), run(4, 20, 15, 20)}, 1), 1e-13);
}

TEST(Attention, C13_MaskedKeysAreAbsent) {
  const Inputs in(12);
  at::Tensor mask = torch::ones({2, 12}, torch::kBool);
  mask.index_put_({Slice(), Slice(7, 12)}, false);
  Inputs shorter = in;
  shorter.key = in.key.slice(1, 0, 7);
  shorter.value = in.value.slice(1, 0, 7);
  expect_close(attend(in, {.key_padding_mask = mask}).first, attend(shorter, {}).first, 1e-13);
}

TEST(Attention, GroupedHeadsShareTheirMixture) {
  const Inputs grouped(12, 2, 6);
  Inputs repeated = grouped;
  for (at::Tensor* tensor : {&repeated.key, &repeated.value}) {
    *tensor = tensor->repeat_interleave(2, 2);
  }
  for (at::Tensor* tensor : {&repeated.means, &repeated.variances, &repeated.prior_logits}) {
    *tensor = tensor->repeat_interleave(2, 0);
  }
  for (const bool is_causal : {false, true}) {
    expect_close(attend(grouped, {.is_causal = is_causal}).first,
                 attend(repeated, {.is_causal = is_causal}).first, 1e-13);
  }
}

TEST(Attention, TiedAndSphericalVariancesAreBroadcast) {
  const Inputs in(12);
  for (const at::Tensor& variances : {in.variances.slice(1, 0, 1), in.variances.slice(2, 0, 1)}) {
    Inputs narrow = in;
    narrow.variances = variances.contiguous();
    Inputs whole = in;
    whole.variances = variances.expand({3, 5, 4}).contiguous();
    expect_close(attend(narrow, {}).first, attend(whole, {}).first, 1e-12);
  }
}

TEST(Attention, GradientsFlowThroughTheStates) {
  const Inputs in(10);
  const auto whole = attend(in, {.is_causal = true, .return_state = true});
  Inputs first = in;
  Inputs second = in;
  for (auto member : {&Inputs::query, &Inputs::key, &Inputs::value}) {
    first.*member = (in.*member).slice(1, 0, 6);
    second.*member = (in.*member).slice(1, 6, 10);
  }
  const at::Tensor value = first.value.clone().requires_grad_();
  first.value = value;
  const auto [unused, state] = attend(first, {.is_causal = true, .return_state = true});
  const auto [output, last] =
      attend(second, {.is_causal = true, .initial_state = state, .return_state = true});
  expect_close(output, whole.first.slice(1, 6, 10), 1e-12);
  expect_close(last->s, whole.second->s, 1e-12);
  const at::Tensor through = torch::autograd::grad({output.sum() + last->s.sum()}, {value})[0];

  const at::Tensor all = in.value.clone().requires_grad_();
  Inputs once = in;
  once.value = all;
  const auto [all_output, all_state] = attend(once, {.is_causal = true, .return_state = true});
  const at::Tensor sum = all_output.slice(1, 6, 10).sum() + all_state->s.sum();
  expect_close(through, torch::autograd::grad({sum}, {all})[0].slice(1, 0, 6), 1e-11);
}

TEST(State, C30_SelectedRowsAreThoseOfTheirSequences) {
  const auto state = attend(Inputs(9), {.return_state = true}).second;
  const State selected = state->reorder(torch::tensor({1, 0, 1}));
  EXPECT_TRUE(torch::equal(selected.s[0], state->s[1]));
  EXPECT_TRUE(torch::equal(selected.z[1], state->z[0]));
  EXPECT_TRUE(torch::equal(selected.z[2], state->z[1]));
  const State copy = state->clone();
  copy.z.zero_();
  EXPECT_GT(state->z.sum().item<double>(), 0);
}

TEST(Attention, DropoutSeedIsDrawnFromTorchsGenerator) {
  const Inputs in(16);
  const auto draw = [&] { return attend(in, {.dropout_p = 0.5}).first; };
  torch::manual_seed(1);
  const at::Tensor first = draw();
  EXPECT_FALSE(torch::equal(draw(), first));
  torch::manual_seed(1);
  EXPECT_TRUE(torch::equal(draw(), first));
  const AttentionOptions fixed{.dropout_p = 0.5, .dropout_seed = 3};
  EXPECT_TRUE(torch::equal(attend(in, fixed).first, attend(in, fixed).first));
}

TEST(Attention, ErrorsNameTheArgument) {
  Inputs in(4);
  in.key = in.key.to(torch::kFloat32);
  try {
    attend(in, {});
    FAIL() << "a key of another dtype was accepted";
  } catch (const c10::TypeError& error) {
    EXPECT_EQ(error.msg().rfind("key: expected dtype Double", 0), 0U) << error.msg();
  }
  in.key = at::Tensor();
  EXPECT_THROW(attend(in, {}), c10::ValueError);
  EXPECT_THROW(attend(Inputs(4), {.eps = -1.0}), c10::ValueError);
}

}  // namespace
}  // namespace gma_torch
