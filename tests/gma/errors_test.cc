// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Every refusal: its message names the argument, what was expected and what came, and nothing is
// written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "gma/attention.h"
#include "gma/error.h"
#include "support/case.h"
#include "support/close.h"
#include "support/problem.h"
#include "support/tensor.h"

namespace gma::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kTokens = 6;

/// Everything a call of forward and backward is made of, with views that a test may spoil.
struct Call {
  Problem<float> problem = make_problem<float>({.batch = 2,
                                                .queries = kTokens,
                                                .keys = kTokens,
                                                .query_heads = 4,
                                                .key_heads = 2,
                                                .dim = 3,
                                                .value_dim = 5,
                                                .components = 7,
                                                .has_mask = true,
                                                .has_state = true});
  Results<float> results = solve(problem, Backend::reference);
  AttentionArgs<float> args = problem.args(Backend::automatic);
  Tensor<float, 4> segment_s{{saved_segments(args), 2, 7, 5}, 0.0F};
  Tensor<float, 3> segment_z{{saved_segments(args), 2, 7}, 0.0F};
  AttentionOutputs<float> outputs{
      .output = results.output.view(),
      .final_state = {results.final_s.view(), results.final_z.view()},
      .saved = {results.normalizer.view(), segment_s.view(), segment_z.view()}};
  AttentionUpstream<float> upstream{
      .saved = outputs.saved,
      .grad_output = problem.grad_output.view(),
      .grad_final_state = {problem.grad_final_s.view(), problem.grad_final_z.view()}};
  AttentionGradients<float> gradients{
      .query = results.dquery.view(),
      .key = results.dkey.view(),
      .value = results.dvalue.view(),
      .means = results.dmeans.view(),
      .variances = results.dvariances.view(),
      .prior_logits = results.dprior_logits.view(),
      .initial_state = {results.dinitial_s.view(), results.dinitial_z.view()}};
};

struct Refusal {
  std::string name;
  std::function<void(Call&)> spoil;
  std::vector<std::string> message;
};

void PrintTo(const Refusal& refusal, std::ostream* stream) { *stream << refusal.name; }

template <class Param>
std::string name_of(const testing::TestParamInfo<Param>& info) {
  return info.param.name;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_refused(const Refusal& refusal, const std::function<void(const Call&)>& run) {
  for (const Backend backend : {Backend::automatic, Backend::cpu, Backend::reference}) {
    Call call;
    call.args.backend = backend;
    refusal.spoil(call);
    const Results<float> before = call.results;
    const std::string message = message_of([&] { run(call); });
    for (const std::string& part : refusal.message) EXPECT_THAT(message, HasSubstr(part));
    expect_same_bits(call.results, before);
  }
}

class ForwardRefuses : public testing::TestWithParam<Refusal> {};
class BackwardRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ForwardRefuses, AndSaysWhy) {
  expect_refused(GetParam(), [](const Call& call) { forward(call.args, call.outputs); });
}

TEST_P(BackwardRefuses, AndSaysWhy) {
  expect_refused(GetParam(),
                 [](const Call& call) { backward(call.args, call.upstream, call.gradients); });
}

constexpr float kInf = std::numeric_limits<float>::infinity();
const std::vector<std::int64_t> kPacked = {0, 2, kTokens};
const std::vector<std::int64_t> kLateStart = {1, kTokens};
const std::vector<std::int64_t> kDecreasing = {0, 4, 2, kTokens};
const std::vector<std::int64_t> kEarlyEnd = {0, 2, kTokens - 1};
const std::vector<std::int64_t> kOther = {0, 3, kTokens};
const std::vector<std::int64_t> kWhole = {0, kTokens};

/// Boundaries on one batch entry, without what has a row a sequence.
void pack(Call& call, const std::vector<std::int64_t>& q, const std::vector<std::int64_t>& k) {
  for (auto* view : {&call.args.query, &call.args.key, &call.args.value}) view->shape[0] = 1;
  call.args.key_padding_mask = {};
  call.args.initial_state = {};
  call.args.cu_seqlens_q = q;
  call.args.cu_seqlens_k = k;
  call.outputs.output.shape[0] = 1;
  call.outputs.final_state = {};
  call.outputs.saved = {};
}

INSTANTIATE_TEST_SUITE_P(
    All, ForwardRefuses,
    testing::Values(
        Refusal{"KeyWithAnotherBatch",
                [](Call& c) { c.args.key.shape[0] = 1; },
                {"key", "(2, 6, 2, 3)", "(1, 6, 2, 3)"}},
        Refusal{"KeyWithAnotherDim",
                [](Call& c) { c.args.key.shape[3] = 2; },
                {"key", "(2, 6, 2, 3)", "(2, 6, 2, 2)"}},
        Refusal{"NegativeExtent",
                [](Call& c) {
                  c.args.value.shape[3] = -3;
                  c.outputs.output.shape[3] = -3;
                },
                {"value", "at least 0", "-3"}},
        Refusal{"MoreElementsThanCanBeCounted",
                [](Call& c) {
                  for (auto* view : {&c.args.query, &c.args.key, &c.args.value}) {
                    view->shape[0] = view->shape[1] = std::int64_t{1} << 40;
                  }
                },
                {"query", "fewer than 2^63"}},
        Refusal{"ValueWithAnotherLength",
                [](Call& c) { c.args.value.shape[1] = 5; },
                {"value", "(2, 6, 2, 5)", "(2, 5, 2, 5)"}},
        Refusal{"HeadsThatDoNotDivide",
                [](Call& c) {
                  c.args.query.shape[2] = 3;
                  c.outputs.output.shape[2] = 3;
                },
                {"query", "multiple", "2", "3"}},
        Refusal{"NoComponents",
                [](Call& c) {
                  c.args.means.shape[1] = 0;
                  c.args.variances.shape[1] = 0;
                  c.args.prior_logits.shape[1] = 0;
                },
                {"means", "K = 0"}},
        Refusal{"NoRoutingDimension",
                [](Call& c) {
                  c.args.query.shape[3] = c.args.key.shape[3] = 0;
                  c.args.means.shape[2] = c.args.variances.shape[2] = 0;
                },
                {"D", "0"}},
        Refusal{"MeansOfAnotherHeadCount",
                [](Call& c) { c.args.means.shape[0] = 1; },
                {"means", "(2, 7, 3)", "(1, 7, 3)"}},
        Refusal{"MeansOfAnotherDim",
                [](Call& c) { c.args.means.shape[2] = 2; },
                {"means", "(2, 7, 3)", "(2, 7, 2)"}},
        Refusal{"VariancesOfAnotherShape",
                [](Call& c) { c.args.variances.shape[1] = 6; },
                {"variances", "(2, 7, 3)", "(2, 6, 3)"}},
        Refusal{"PriorsOfAnotherShape",
                [](Call& c) { c.args.prior_logits.shape[1] = 6; },
                {"prior_logits", "(2, 7)", "(2, 6)"}},
        Refusal{"EveryPriorMinusInfinity",
                [](Call& c) {
                  for (std::int64_t k = 0; k < 7; ++k) c.problem.prior_logits(1, k) = -kInf;
                },
                {"prior_logits", "-inf", "head 1"}},
        Refusal{"CausalWithOtherLengths",
                [](Call& c) {
                  c.args.is_causal = true;
                  c.args.key.shape[1] = c.args.value.shape[1] = 5;
                  c.args.key_padding_mask.shape[1] = 5;
                },
                {"is_causal", "Tq = 6", "Tk = 5"}},
        Refusal{"MaskOfAnotherShape",
                [](Call& c) { c.args.key_padding_mask.shape[1] = 5; },
                {"key_padding_mask", "(2, 6)", "(2, 5)"}},
        Refusal{"InitialStateOfAnotherShape",
                [](Call& c) { c.args.initial_state.s.shape[2] = 6; },
                {"initial_state", "(2, 2, 7, 5)", "(2, 2, 6, 5)"}},
        Refusal{"InitialNormaliserOfAnotherBatch",
                [](Call& c) { c.args.initial_state.z.shape[0] = 3; },
                {"initial_state", "(2, 2, 7)", "(3, 2, 7)"}},
        Refusal{"HalfAnInitialState",
                [](Call& c) { c.args.initial_state.z = {}; },
                {"initial_state", "S and Z", "S alone"}},
        Refusal{"TheOtherHalfOfAnInitialState",
                [](Call& c) { c.args.initial_state.s.data = nullptr; },
                {"initial_state", "S and Z", "Z alone"}},
        Refusal{"NegativeEps", [](Call& c) { c.args.eps = -1e-6; }, {"eps", "-1e-06"}},
        Refusal{"InfiniteEps", [](Call& c) { c.args.eps = kInf; }, {"eps", "inf"}},
        Refusal{"NaNEps", [](Call& c) { c.args.eps = NAN; }, {"eps", "nan"}},
        Refusal{"DropoutOfOne", [](Call& c) { c.args.dropout_p = 1; }, {"dropout_p", "1"}},
        Refusal{"NegativeDropout", [](Call& c) { c.args.dropout_p = -0.5; }, {"dropout_p", "-0.5"}},
        Refusal{"NaNDropout", [](Call& c) { c.args.dropout_p = NAN; }, {"dropout_p", "nan"}},
        Refusal{
            "QueryWithoutData", [](Call& c) { c.args.query.data = nullptr; }, {"query", "null"}},
        Refusal{"KeyWithoutData", [](Call& c) { c.args.key.data = nullptr; }, {"key", "null"}},
        Refusal{
            "MeansWithoutData", [](Call& c) { c.args.means.data = nullptr; }, {"means", "null"}},
        Refusal{"VariancesWithoutData",
                [](Call& c) { c.args.variances.data = nullptr; },
                {"variances", "null"}},
        Refusal{"PriorsWithoutData",
                [](Call& c) { c.args.prior_logits.data = nullptr; },
                {"prior_logits", "null"}},
        Refusal{
            "ValueWithoutData", [](Call& c) { c.args.value.data = nullptr; }, {"value", "null"}},
        Refusal{"OutputOfAnotherShape",
                [](Call& c) { c.outputs.output.shape[3] = 4; },
                {"output", "(2, 6, 4, 5)", "(2, 6, 4, 4)"}},
        Refusal{"OutputWithoutData",
                [](Call& c) { c.outputs.output.data = nullptr; },
                {"output", "null"}},
        Refusal{"FinalStateOfAnotherShape",
                [](Call& c) { c.outputs.final_state.s.shape[0] = 1; },
                {"final_state", "(2, 2, 7, 5)", "(1, 2, 7, 5)"}},
        Refusal{"SavedOfAnotherShape",
                [](Call& c) { c.outputs.saved.normalizer.shape[2] = 2; },
                {"normalizer", "(2, 6, 4)", "(2, 6, 2)"}},
        Refusal{"SavedSegmentsOfAnotherCount",
                [](Call& c) { c.outputs.saved.segment_z.shape[0] += 1; },
                {"segment_z"}}),
    name_of<Refusal>);

INSTANTIATE_TEST_SUITE_P(
    C11_Packing, ForwardRefuses,
    testing::Values(
        Refusal{"LateStart",
                [](Call& c) { pack(c, kLateStart, kLateStart); },
                {"cu_seqlens_q", "start at 0", "1"}},
        Refusal{"Decreasing", [](Call& c) { pack(c, kPacked, kDecreasing); }, {"cu_seqlens_k"}},
        Refusal{"DecreasingQueries",
                [](Call& c) { pack(c, kDecreasing, kDecreasing); },
                {"cu_seqlens_q", "non-decreasing", "2 after 4"}},
        Refusal{"EarlyEnd",
                [](Call& c) { pack(c, kPacked, kEarlyEnd); },
                {"cu_seqlens_k", "T = 6", "5"}},
        Refusal{"OneSideAlone",
                [](Call& c) { pack(c, kPacked, {}); },
                {"cu_seqlens_q", "cu_seqlens_k", "alone"}},
        Refusal{
            "OtherCounts", [](Call& c) { pack(c, kPacked, kWhole); }, {"cu_seqlens_k", "3", "2"}},
        Refusal{"BatchOfTwo",
                [](Call& c) {
                  c.args.initial_state = {};
                  c.args.cu_seqlens_q = c.args.cu_seqlens_k = kPacked;
                },
                {"cu_seqlens_q", "B = 1", "B = 2"}},
        Refusal{"CausalWithOtherBoundaries",
                [](Call& c) {
                  pack(c, kPacked, kOther);
                  c.args.is_causal = true;
                },
                {"cu_seqlens_k", "is_causal", "3", "2"}},
        Refusal{"StateOfTheBatch",
                [](Call& c) {
                  const State<const float> state = c.args.initial_state;
                  pack(c, kWhole, kWhole);
                  c.args.initial_state = state;
                },
                {"initial_state", "(1, 2, 7, 5)", "(2, 2, 7, 5)"}}),
    name_of<Refusal>);

INSTANTIATE_TEST_SUITE_P(
    All, BackwardRefuses,
    testing::Values(Refusal{"WhatForwardRefuses", [](Call& c) { c.args.eps = -1; }, {"eps", "-1"}},
                    Refusal{"SavedStatesWithGaps",
                            [](Call& c) { c.upstream.saved.segment_s.strides[2] = 7; },
                            {"saved.segment_s", "contiguous"}},
                    Refusal{"SavedNormalisersWithGaps",
                            [](Call& c) { c.upstream.saved.segment_z.strides[1] = 9; },
                            {"saved.segment_z", "contiguous"}},
                    Refusal{"GradOutputOfAnotherShape",
                            [](Call& c) { c.upstream.grad_output.shape[1] = 5; },
                            {"grad_output", "(2, 6, 4, 5)", "(2, 5, 4, 5)"}},
                    Refusal{"GradOutputWithoutData",
                            [](Call& c) { c.upstream.grad_output.data = nullptr; },
                            {"grad_output", "null"}},
                    Refusal{"GradFinalStateOfAnotherShape",
                            [](Call& c) { c.upstream.grad_final_state.z.shape[2] = 6; },
                            {"grad_final_state", "(2, 2, 7)", "(2, 2, 6)"}},
                    Refusal{"SavedOfAnotherShape",
                            [](Call& c) { c.upstream.saved.segment_s.shape[3] = 4; },
                            {"segment_s"}},
                    Refusal{"QueryGradientOfAnotherShape",
                            [](Call& c) { c.gradients.query.shape[3] = 4; },
                            {"gradients.query", "(2, 6, 4, 3)", "(2, 6, 4, 4)"}},
                    Refusal{"KeyGradientOfAnotherShape",
                            [](Call& c) { c.gradients.key.shape[2] = 4; },
                            {"gradients.key", "(2, 6, 2, 3)", "(2, 6, 4, 3)"}},
                    Refusal{"ValueGradientOfAnotherShape",
                            [](Call& c) { c.gradients.value.shape[3] = 4; },
                            {"gradients.value", "(2, 6, 2, 5)", "(2, 6, 2, 4)"}},
                    Refusal{"MeansGradientOfAnotherShape",
                            [](Call& c) { c.gradients.means.shape[1] = 6; },
                            {"gradients.means", "(2, 7, 3)", "(2, 6, 3)"}},
                    Refusal{"VariancesGradientOfAnotherShape",
                            [](Call& c) { c.gradients.variances.shape[1] = 6; },
                            {"gradients.variances", "(2, 7, 3)", "(2, 6, 3)"}},
                    Refusal{"PriorGradientOfAnotherShape",
                            [](Call& c) { c.gradients.prior_logits.shape[1] = 6; },
                            {"gradients.prior_logits", "(2, 7)", "(2, 6)"}},
                    Refusal{"StateGradientOfAnotherShape",
                            [](Call& c) { c.gradients.initial_state.s.shape[3] = 4; },
                            {"gradients.initial_state", "(2, 2, 7, 5)", "(2, 2, 7, 4)"}}),
    name_of<Refusal>);

TEST(BackwardNeedsWhatForwardSaved, OnTheCpu) {
  Call call;
  call.upstream.saved = {};
  call.args.backend = Backend::cpu;
  EXPECT_THAT(message_of([&] { backward(call.args, call.upstream, call.gradients); }),
              HasSubstr("saved"));
}

struct StepRefusal {
  std::string name;
  std::function<void(StepArgs<float>&, View<float, 3>&)> spoil;
  std::vector<std::string> message;
};

void PrintTo(const StepRefusal& refusal, std::ostream* stream) { *stream << refusal.name; }

class StepRefuses : public testing::TestWithParam<StepRefusal> {};

TEST_P(StepRefuses, AndSaysWhy) {
  Call call;
  StepArgs<float> args = step_args(call.problem, call.results, 0, Backend::automatic);
  View<float, 3> output = token_of(call.results.output.view(), 0);
  const Results<float> before = call.results;
  GetParam().spoil(args, output);
  const std::string message = message_of([&] { step(args, output); });
  for (const std::string& part : GetParam().message) EXPECT_THAT(message, HasSubstr(part));
  expect_same_bits(call.results, before);
}

using Output = View<float, 3>;
INSTANTIATE_TEST_SUITE_P(
    All, StepRefuses,
    testing::Values(
        StepRefusal{"KeyOfAnotherBatch",
                    [](StepArgs<float>& args, Output&) { args.key.shape[0] = 1; },
                    {"key", "(2, 2, 3)", "(1, 2, 3)"}},
        StepRefusal{"ValueOfAnotherHeadCount",
                    [](StepArgs<float>& args, Output&) { args.value.shape[1] = 4; },
                    {"value", "(2, 2, 5)", "(2, 4, 5)"}},
        StepRefusal{"HeadsThatDoNotDivide",
                    [](StepArgs<float>& args, Output&) { args.query.shape[1] = 3; },
                    {"query", "multiple", "2", "3"}},
        StepRefusal{"MeansOfAnotherDim",
                    [](StepArgs<float>& args, Output&) { args.means.shape[2] = 2; },
                    {"means", "(2, 7, 3)", "(2, 7, 2)"}},
        StepRefusal{"VariancesOfAnotherShape",
                    [](StepArgs<float>& args, Output&) { args.variances.shape[1] = 6; },
                    {"variances", "(2, 7, 3)", "(2, 6, 3)"}},
        StepRefusal{"PriorsOfAnotherShape",
                    [](StepArgs<float>& args, Output&) { args.prior_logits.shape[1] = 6; },
                    {"prior_logits", "(2, 7)", "(2, 6)"}},
        StepRefusal{"EveryComponentOff",
                    [](StepArgs<float>& args, Output&) {
                      static const std::vector<float> off(14, -kInf);
                      args.prior_logits.data = off.data();
                    },
                    {"prior_logits", "-inf", "head 0"}},
        StepRefusal{"NoComponents",
                    [](StepArgs<float>& args, Output&) {
                      args.means.shape[1] = args.variances.shape[1] = 0;
                      args.prior_logits.shape[1] = 0;
                    },
                    {"means", "K = 0"}},
        StepRefusal{"NoRoutingDimension",
                    [](StepArgs<float>& args, Output&) {
                      args.query.shape[2] = args.key.shape[2] = 0;
                      args.means.shape[2] = args.variances.shape[2] = 0;
                    },
                    {"query", "D of at least 1"}},
        StepRefusal{"StaleBatch",
                    [](StepArgs<float>& args, Output&) { args.state.s.shape[0] = 3; },
                    {"state.s", "(2, 2, 7, 5)", "(3, 2, 7, 5)"}},
        StepRefusal{"NormaliserOfAnotherShape",
                    [](StepArgs<float>& args, Output&) { args.state.z.shape[2] = 6; },
                    {"state.z", "(2, 2, 7)", "(2, 2, 6)"}},
        StepRefusal{"NoState",
                    [](StepArgs<float>& args, Output&) { args.state = {}; },
                    {"state.s", "(2, 2, 7, 5)"}},
        StepRefusal{
            "NegativeEps", [](StepArgs<float>& args, Output&) { args.eps = -1; }, {"eps", "-1"}},
        StepRefusal{"OutputOfAnotherShape",
                    [](StepArgs<float>&, Output& out) { out.shape[2] = 4; },
                    {"output", "(2, 4, 5)", "(2, 4, 4)"}}),
    name_of<StepRefusal>);

TEST(ReorderState, RefusesWhatDoesNotFit) {
  Call call;
  const State<float> from = call.outputs.final_state;
  Tensor<float, 4> s({3, 2, 7, 5});
  Tensor<float, 3> z({3, 2, 7});
  const auto message = [&](const std::vector<std::int64_t>& order, const State<float>& to) {
    return message_of([&] { reorder_state<float>(from, order, to); });
  };
  EXPECT_THAT(message({0, 1, 2}, {s.view(), z.view()}), HasSubstr("order: expected indices in"));
  EXPECT_THAT(message({0, 1, -1}, {s.view(), z.view()}), HasSubstr("[0, 2), got -1"));
  EXPECT_THAT(message({0, 1}, {s.view(), z.view()}), HasSubstr("to.s: expected shape"));
  EXPECT_THAT(message({0, 1, 1}, {s.view(), {}}), HasSubstr("to.z: expected shape"));
}

}  // namespace
}  // namespace gma::test
