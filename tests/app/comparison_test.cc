// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Tables and pages of runs, and series of measurements.
#include "compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gma/error.h"
#include "profile/profile.h"
#include "report/page.h"
#include "train/benchmark.h"

namespace gma::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ComparedRun ended_run(const std::string& variant, double accuracy) {
  return {variant,
          {.name = variant + "-1",
           .options = {{"mixer", "gma"}},
           .parameters = 1000,
           .train = {},
           .valid = {},
           .conclusion = {{"loss", 1.5},
                          {"test", {{"accuracy", accuracy}}},
                          {"tokens_per_second", 100.0},
                          {"peak_memory_bytes", 2e6},
                          {"seconds", 30.0}}}};
}

TEST(Spread, IsMeanAndSampleDeviation) {
  EXPECT_EQ(Spread::of({}).text(2), "-");
  EXPECT_EQ(Spread::of({1.5}).text(2), "1.50");
  const Spread spread = Spread::of({1, 2, 6});
  EXPECT_DOUBLE_EQ(spread.mean, 3);
  EXPECT_DOUBLE_EQ(spread.deviation, std::sqrt(7.0));
  EXPECT_EQ(spread.text(1), "3.0 +- 2.6 (3)");
}

TEST(Comparison, GathersSeedsByVariantAndCountsWhatDidNotEnd) {
  ComparedRun broken = ended_run("softmax", 0);
  broken.records.conclusion = nullptr;
  const auto rows =
      compare({ended_run("softmax", 0.5), ended_run("gma", 0.75), ended_run("gma", 0.25), broken});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].variant, "softmax");
  EXPECT_EQ(rows[0].failed, 1);
  EXPECT_EQ(rows[0].accuracy.count, 1);
  EXPECT_DOUBLE_EQ(rows[1].accuracy.mean, 0.5);
  EXPECT_DOUBLE_EQ(rows[1].seconds.mean, 30);
  const std::string table = comparison_markdown(Task::classify, rows, {{"root_operator", 0.362}});
  EXPECT_THAT(table, HasSubstr("| softmax (1 not ended) | 50.00 | 1.5000 | 1000 |"));
  EXPECT_THAT(table, HasSubstr("| no model: root operator | 36.20 |"));
  EXPECT_EQ(comparison_json(rows, {}).at("rows").at(1).at("test_accuracy").at("count"), 2);
}

TEST(RunNames, AreTheLastPartsThatDiffer) {
  EXPECT_THAT(run_names({"/a/x", "/a/y/"}), ElementsAre("x", "y"));
  EXPECT_THAT(run_names({"/a/x", "/b/x", "/b/y"}), ElementsAre("a/x", "b/x", "b/y"));
  EXPECT_THAT(run_names({"/a/x", "/a/x"}), ElementsAre("a/x", "a/x"));
}

TEST(Page, DataCannotLeaveItsElement) {
  const std::string page =
      make_page("<script>/*DATA*/</script>/*PLOTLY*/", {{"x", "</script>/*PLOTLY*/<b>\xFF"}});
  EXPECT_THAT(page, HasSubstr(R"("x":"\u003c/script>/*PLOTLY*/\u003cb>\ufffd")"));
  EXPECT_EQ(page.find("</script>"), page.find("}</script>") + 1);
}

TEST(Benchmarks, HaveTheSamePresets) {
  for (const Benchmark& task : benchmarks()) {
    for (const char* preset : {"nano", "small", "paper"}) {
      EXPECT_STREQ(task.preset(preset).name, preset);
      EXPECT_THAT(task.preset(preset).options, HasSubstr("\nparameters = "));
    }
    EXPECT_THROW(task.preset("other"), InvalidArgument);
  }
  EXPECT_THROW(benchmark("other"), InvalidArgument);
}

ProfileSeries series_of(double exponent, double constant, const ProfileBudget& budget) {
  ProfileSeries series;
  series.first.mixer = "softmax";
  run_series(series, {512, 1024, 2048, 4096, 8192}, budget, [&](const ProfileCase& one) {
    const double cost = constant * std::pow(static_cast<double>(one.tokens), exponent);
    return ProfileOutcome{Measurement{cost, cost, 10 * cost, 1}, {}};
  });
  return series;
}

TEST(Profile, FitsExponents) {
  const ProfileSeries series = series_of(1.5, 1e-6, {.seconds = 1000});
  EXPECT_NEAR(series.time_slope().value(), 1.5, 1e-9);
  EXPECT_NEAR(series.memory_slope().value(), 1.5, 1e-9);
  EXPECT_TRUE(series.stopped.empty());
}

TEST(Profile, StopsWhereTheNextLengthWouldTakeTooLong) {
  // 8192^2 * 1e-6 is 67 s, 4096^2 * 1e-6 is 17 s.
  const ProfileSeries series = series_of(2, 1e-6, {.seconds = 20});
  EXPECT_EQ(series.points.back().tokens, 4096);
  EXPECT_EQ(series.stopped, "N=8192 would take about 67.11 s of 20.00 s");
}

TEST(Profile, StopsWhereACaseFails) {
  ProfileSeries series;
  run_series(series, {512, 1024}, {}, [](const ProfileCase& one) {
    if (one.tokens == 512) return ProfileOutcome{Measurement{1, 1, 0, 1}, {}};
    return ProfileOutcome{std::nullopt, "more than 12 GB"};
  });
  EXPECT_EQ(series.points.size(), 1U);
  EXPECT_EQ(series.stopped, "N=1024: more than 12 GB");
  EXPECT_EQ(series.time_slope(), std::nullopt);
  const std::string table = profile_markdown({series}, {512, 1024});
  EXPECT_THAT(table, HasSubstr("| gma, K=128 | 1.00 s, 0 B | |"));
  EXPECT_THAT(table, HasSubstr("N=1024: more than 12 GB |"));
}

}  // namespace
}  // namespace gma::app
