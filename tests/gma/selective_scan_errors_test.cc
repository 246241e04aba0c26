// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Every refusal of the selective scan: its message names the argument, what was expected and what
// came, and nothing is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "gma/error.h"
#include "gma/selective_scan.h"
#include "support/close.h"
#include "support/scan_problem.h"

namespace gma::test {
namespace {

/// Everything a call of forward and backward is made of, with views that a test may spoil.
struct Call {
  ScanProblem<float> problem =
      make_scan_problem<float>({.batch = 2, .tokens = 65, .channels = 3, .states = 4});
  ScanResults<float> results = solve(problem, Backend::reference);
  Tensor<float, 4> saved{{2, 2, 4, 3}, 0.0F};
  ScanArgs<float> args = problem.args(Backend::automatic);
  ScanOutputs<float> outputs{
      .y = results.y.view(), .final_state = results.final_state.view(), .saved = saved.view()};
  ScanUpstream<float> upstream{.saved = outputs.saved,
                               .grad_y = std::as_const(problem).grad_y.view(),
                               .grad_final_state = std::as_const(problem).grad_final_state.view()};
  ScanGradients<float> gradients{.u = results.du.view(),
                                 .delta = results.ddelta.view(),
                                 .a = results.da.view(),
                                 .b = results.db.view(),
                                 .c = results.dc.view(),
                                 .d = results.dd.view(),
                                 .initial_state = results.dinitial_state.view()};
};

struct Refusal {
  std::string name;
  std::function<void(Call&)> spoil;
  std::vector<std::string> message;
};

void PrintTo(const Refusal& refusal, std::ostream* stream) { *stream << refusal.name; }

std::string name_of(const testing::TestParamInfo<Refusal>& info) { return info.param.name; }

void expect_refused(const Refusal& refusal, const std::function<void(const Call&)>& run) {
  for (const Backend backend : {Backend::automatic, Backend::cpu, Backend::reference}) {
    Call call;
    call.args.backend = backend;
    refusal.spoil(call);
    const ScanResults<float> before = call.results;
    std::string message = "nothing was thrown";
    try {
      run(call);
    } catch (const InvalidArgument& error) {
      message = error.what();
    }
    for (const std::string& part : refusal.message) EXPECT_THAT(message, testing::HasSubstr(part));
    call.results.for_each_with(before, [](const char* name, const auto& x, const auto& y) {
      EXPECT_TRUE(same_bits(x, y)) << name;
    });
  }
}

class ScanRefuses : public testing::TestWithParam<Refusal> {};
class ScanBackwardRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ScanRefuses, AndSaysWhy) {
  expect_refused(GetParam(), [](const Call& call) { selective_scan(call.args, call.outputs); });
}

TEST_P(ScanBackwardRefuses, AndSaysWhy) {
  expect_refused(GetParam(), [](const Call& call) {
    selective_scan_backward(call.args, call.upstream, call.gradients);
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, ScanRefuses,
    testing::Values(
        Refusal{"DeltaOfAnotherLength",
                [](Call& c) { c.args.delta.shape[1] = 64; },
                {"delta", "(B, T, E) = (2, 65, 3)", "(2, 64, 3)"}},
        Refusal{"NoStates", [](Call& c) { c.args.a.shape[1] = 0; }, {"a:", "S = 0"}},
        Refusal{"AOfOtherChannels",
                [](Call& c) { c.args.a.shape[0] = 4; },
                {"a:", "(E, S) = (3, 4)", "(4, 4)"}},
        Refusal{"BOfOtherStates",
                [](Call& c) { c.args.b.shape[2] = 5; },
                {"b:", "(B, T, S) = (2, 65, 4)", "(2, 65, 5)"}},
        Refusal{"COfAnotherBatch",
                [](Call& c) { c.args.c.shape[0] = 1; },
                {"c:", "(2, 65, 4)", "(1, 65, 4)"}},
        Refusal{
            "DOfOtherChannels", [](Call& c) { c.args.d.shape[0] = 2; }, {"d:", "(E) = (3)", "(2)"}},
        Refusal{"UWithoutData", [](Call& c) { c.args.u.data = nullptr; }, {"u:", "null"}},
        Refusal{
            "NegativeExtent", [](Call& c) { c.args.u.shape[2] = -3; }, {"u:", "at least 0", "-3"}},
        Refusal{"InitialStateOfOtherStates",
                [](Call& c) { c.args.initial_state.shape[2] = 3; },
                {"initial_state", "(B, E, S) = (2, 3, 4)", "(2, 3, 3)"}},
        Refusal{"YOfOtherChannels",
                [](Call& c) { c.outputs.y.shape[2] = 2; },
                {"y:", "(2, 65, 3)", "(2, 65, 2)"}},
        Refusal{"FinalStateOfAnotherBatch",
                [](Call& c) { c.outputs.final_state.shape[0] = 1; },
                {"final_state", "(2, 3, 4)", "(1, 3, 4)"}},
        Refusal{"SavedOfOtherSegments",
                [](Call& c) { c.outputs.saved.shape[1] = 1; },
                {"saved", "(B, segments, S, E) = (2, 2, 4, 3)", "(2, 1, 4, 3)"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    All, ScanBackwardRefuses,
    testing::Values(Refusal{"GradYOfAnotherLength",
                            [](Call& c) { c.upstream.grad_y.shape[1] = 1; },
                            {"grad_y", "(2, 65, 3)", "(2, 1, 3)"}},
                    Refusal{"GradFinalStateOfOtherStates",
                            [](Call& c) { c.upstream.grad_final_state.shape[2] = 1; },
                            {"grad_final_state", "(2, 3, 4)", "(2, 3, 1)"}},
                    Refusal{"SavedOfOtherStates",
                            [](Call& c) { c.upstream.saved.shape[2] = 1; },
                            {"saved", "(2, 2, 4, 3)", "(2, 2, 1, 3)"}},
                    Refusal{"GradientOfA",
                            [](Call& c) { c.gradients.a.shape[1] = 1; },
                            {"gradients.a", "(3, 4)", "(3, 1)"}},
                    Refusal{"GradientOfInitialState",
                            [](Call& c) { c.gradients.initial_state.shape[0] = 1; },
                            {"gradients.initial_state", "(2, 3, 4)", "(1, 3, 4)"}}),
    name_of);

TEST(ScanBackward, NeedsWhatForwardSaved) {
  Call call;
  call.upstream.saved = {};
  try {
    selective_scan_backward(call.args, call.upstream, call.gradients);
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("saved: expected what forward saved"));
  }
}

}  // namespace
}  // namespace gma::test
