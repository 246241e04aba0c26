// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <ostream>

#include "gma_torch/nn/gaussian_mixture_attention.h"
#include "gma_torch/nn/mixer.h"
#include "gma_torch/nn/softmax_attention.h"
#include "nn_support.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

MixerConfig small_config() {
  MixerConfig config;
  config.hidden_size = 24;
  config.num_heads = 4;
  config.num_components = 5;
  config.is_causal = true;
  return config;
}

struct Variant {
  const char* mixer;
  bool short_conv;
  std::int64_t key_value_heads;
  torch::Dtype dtype;
  const char* covariance_type = "diag";
};

void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.mixer << (variant.short_conv ? ", short conv" : "") << ", "
       << variant.key_value_heads << " key heads, " << c10::toString(variant.dtype) << ", "
       << variant.covariance_type;
}

class EveryMixer : public testing::TestWithParam<Variant> {
 protected:
  MixerConfig config(bool is_causal = true) const {
    MixerConfig config = small_config();
    config.is_causal = is_causal;
    config.use_short_conv = GetParam().short_conv;
    config.num_key_value_heads = GetParam().key_value_heads;
    config.covariance_type = GetParam().covariance_type;
    return config;
  }
  std::shared_ptr<Mixer> make(const MixerConfig& config) const {
    torch::manual_seed(1);
    auto mixer = make_mixer(GetParam().mixer, config);
    mixer->to(GetParam().dtype);
    return mixer;
  }
  Tensor tokens(std::int64_t batch, std::int64_t length) const {
    return torch::randn({batch, length, small_config().hidden_size}, GetParam().dtype);
  }
  double tolerance() const {
    return GetParam().dtype == torch::kFloat64 ? kDoubleTolerance : kFloatTolerance;
  }
};

INSTANTIATE_TEST_SUITE_P(Mixers, EveryMixer,
                         testing::Values(Variant{"gma", false, 0, torch::kFloat32},
                                         Variant{"gma", true, 2, torch::kFloat32},
                                         Variant{"gma", true, 0, torch::kFloat64},
                                         Variant{"gma", false, 2, torch::kFloat32, "tied"},
                                         Variant{"gma", true, 0, torch::kFloat64, "spherical"},
                                         Variant{"linear", false, 2, torch::kFloat32},
                                         Variant{"linear", true, 0, torch::kFloat64},
                                         Variant{"performer", false, 2, torch::kFloat32},
                                         Variant{"performer", true, 0, torch::kFloat64},
                                         Variant{"mamba", false, 0, torch::kFloat32},
                                         Variant{"mamba", false, 0, torch::kFloat64},
                                         Variant{"softmax", false, 2, torch::kFloat32},
                                         Variant{"softmax", true, 0, torch::kFloat64}));

TEST_P(EveryMixer, C09_ContinuesFromItsState) {
  auto mixer = make(config());
  mixer->eval();
  const torch::NoGradGuard no_grad;
  const Tensor x = tokens(2, 150);
  const Tensor whole = mixer->forward(x);
  ASSERT_EQ(whole.sizes(), x.sizes());

  for (const std::vector<std::int64_t>& chunks :
       {std::vector<std::int64_t>{37, 5, 1, 1, 64, 42}, std::vector<std::int64_t>(150, 1)}) {
    MixerState state = mixer->initial_state(2);
    std::vector<Tensor> parts;
    for (const std::int64_t length : chunks) {
      parts.push_back(mixer->forward(x.narrow(1, state.position, length), std::nullopt, &state));
    }
    EXPECT_EQ(state.position, 150);
    EXPECT_TRUE(near(torch::cat(parts, 1), whole, tolerance())) << chunks.size() << " chunks";
  }
}

TEST_P(EveryMixer, StateCarriesGradients) {
  auto mixer = make(config());
  const Tensor x = tokens(1, 12).requires_grad_();
  MixerState state = mixer->initial_state(1);
  mixer->forward(x.narrow(1, 0, 8), std::nullopt, &state);
  mixer->forward(x.narrow(1, 8, 4), std::nullopt, &state).square().sum().backward();
  const Tensor chunked = x.grad().clone();
  x.mutable_grad() = Tensor();
  mixer->forward(x).narrow(1, 8, 4).square().sum().backward();
  EXPECT_TRUE(near(chunked, x.grad(), 10 * tolerance()));
  EXPECT_GT(chunked.narrow(1, 0, 8).abs().max().item<double>(), 0.0);
}

TEST_P(EveryMixer, C30_SelectedStatesContinueAlone) {
  auto mixer = make(config());
  mixer->eval();
  const torch::NoGradGuard no_grad;
  const Tensor x = tokens(3, 9), next = tokens(2, 1);
  MixerState state = mixer->initial_state(3);
  mixer->forward(x, std::nullopt, &state);

  const Tensor index = torch::tensor({2, 0}, torch::kInt64);
  MixerState selected = state.reorder(index);
  MixerState alone = mixer->initial_state(2);
  mixer->forward(x.index_select(0, index), std::nullopt, &alone);
  EXPECT_TRUE(near(mixer->forward(next, std::nullopt, &selected),
                   mixer->forward(next, std::nullopt, &alone), tolerance()));
}

TEST_P(EveryMixer, ClonedStateIsIndependent) {
  auto mixer = make(config());
  mixer->eval();
  const torch::NoGradGuard no_grad;
  MixerState state = mixer->initial_state(1);
  mixer->forward(tokens(1, 6), std::nullopt, &state);
  MixerState copy = state.clone();
  const Tensor next = tokens(1, 1);
  const Tensor first = mixer->forward(next, std::nullopt, &state);
  EXPECT_EQ(copy.position, 6);
  EXPECT_TRUE(torch::equal(mixer->forward(next, std::nullopt, &copy), first));
}

TEST_P(EveryMixer, C15_LooksBackOnly) {
  auto mixer = make(config());
  mixer->eval();
  const torch::NoGradGuard no_grad;
  const Tensor x = tokens(1, 40);
  const Tensor before = mixer->forward(x);
  x.narrow(1, 25, 1).fill_(1e6);
  const Tensor after = mixer->forward(x);
  EXPECT_TRUE(torch::equal(after.narrow(1, 0, 25), before.narrow(1, 0, 25)));
  EXPECT_FALSE(torch::equal(after.narrow(1, 25, 1), before.narrow(1, 25, 1)));
}

// 11 tokens alone, with 4 tokens of padding in front, and with 4 behind; NaN in the padding.
TEST_P(EveryMixer, C13_PaddingOnEitherSideChangesNothing) {
  for (const bool is_causal : {false, true}) {
    auto mixer = make(config(is_causal));
    const Tensor x = tokens(1, 11).requires_grad_();
    const Tensor padding = torch::full({1, 4, x.size(2)}, NAN, x.options().requires_grad(false));
    const Tensor both = torch::cat({torch::cat({padding, x}, 1), torch::cat({x, padding}, 1)});
    const Tensor mask = torch::ones({2, 15}, torch::kBool);
    mask[0].narrow(0, 0, 4).fill_(false);
    mask[1].narrow(0, 11, 4).fill_(false);

    const Tensor alone = mixer->forward(x), padded = mixer->forward(both, mask);
    const Tensor in_front = padded[0].narrow(0, 4, 11), behind = padded[1].narrow(0, 0, 11);
    EXPECT_TRUE(near(in_front, alone[0], tolerance())) << is_causal;
    EXPECT_TRUE(near(behind, alone[0], tolerance())) << is_causal;

    alone.square().sum().backward();
    const Tensor expected = x.grad().clone();
    x.mutable_grad() = Tensor();
    for (auto& parameter : mixer->parameters()) parameter.mutable_grad() = Tensor();
    in_front.square().sum().backward();
    EXPECT_TRUE(near(x.grad(), expected, 10 * tolerance())) << is_causal;
    for (const auto& parameter : mixer->named_parameters()) {
      EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
    }
  }
}

TEST_P(EveryMixer, C13_PaddedPromptsContinueAsEachAlone) {
  auto mixer = make(config());
  mixer->eval();
  const torch::NoGradGuard no_grad;
  const Tensor x = tokens(2, 10), next = tokens(2, 3);
  const Tensor mask = torch::ones({2, 10}, torch::kBool);
  mask[1].narrow(0, 0, 6).fill_(false);
  MixerState state = mixer->initial_state(2);
  mixer->forward(x, mask, &state);
  const Tensor continued = mixer->forward(next, std::nullopt, &state);

  for (const std::int64_t row : {0, 1}) {
    const Tensor kept = x.narrow(0, row, 1).narrow(1, row == 0 ? 0 : 6, row == 0 ? 10 : 4);
    MixerState alone = mixer->initial_state(1);
    mixer->forward(kept, std::nullopt, &alone);
    EXPECT_TRUE(near(continued.narrow(0, row, 1),
                     mixer->forward(next.narrow(0, row, 1), std::nullopt, &alone), tolerance()))
        << row;
  }
}

TEST_P(EveryMixer, ReachesEveryParameter) {
  for (const bool is_causal : {false, true}) {
    auto mixer = make(config(is_causal));
    mixer->forward(tokens(2, 20)).square().sum().backward();
    for (const auto& parameter : mixer->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_GT(parameter.value().grad().abs().max().item<double>(), 0.0) << parameter.key();
    }
  }
}

TEST_P(EveryMixer, CrossAttendsToAContext) {
  auto mixer = std::dynamic_pointer_cast<AttentionMixer>(make(config(/*is_causal=*/false)));
  if (mixer == nullptr) GTEST_SKIP() << "only mixers of queries and keys have a context";
  const Tensor x = tokens(2, 7), context = tokens(2, 13);
  EXPECT_EQ(mixer->forward_cross(x, context).sizes(), x.sizes());
  EXPECT_TRUE(near(mixer->forward_cross(x, x), mixer->forward(x), tolerance()));

  const Tensor mask = torch::ones({2, 13}, torch::kBool);
  mask.narrow(1, 9, 4).fill_(false);
  EXPECT_TRUE(near(mixer->forward_cross(x, context, mask),
                   mixer->forward_cross(x, context.narrow(1, 0, 9)), tolerance()));
}

TEST_P(EveryMixer, RefusesWhatItCannotDo) {
  auto mixer = make(config());
  const Tensor x = tokens(2, 5);
  EXPECT_TRUE(refuses([&] { mixer->forward(x.narrow(2, 0, 23)); }, "x must be"));
  EXPECT_TRUE(refuses([&] { mixer->forward(x, torch::ones({2, 4}, torch::kBool)); },
                      "key_padding_mask must be bool of shape (2, 5)"));

  EXPECT_TRUE(refuses([&] { mixer->forward(x.to(torch::kInt64)); }, "x must be"));
  EXPECT_TRUE(refuses([&] { mixer->forward(x.to(torch::kBFloat16)); }, "got BFloat16"));
  EXPECT_TRUE(refuses([&] { mixer->forward(x.to(torch::kMeta)); }, "x must be on cpu"));
  EXPECT_TRUE(refuses([&] { mixer->forward(x, torch::ones({2, 5})); }, "key_padding_mask"));
  MixerState state = mixer->initial_state(2);
  const Tensor behind = torch::tensor({{1, 1, 1, 1, 0}, {1, 1, 1, 1, 1}}, torch::kBool);
  EXPECT_TRUE(refuses([&] { mixer->forward(x, behind, &state); }, "in front"));
  mixer->forward(x, std::nullopt, &state);
  EXPECT_TRUE(
      refuses([&] { mixer->forward(x, torch::ones({2, 5}, torch::kBool), &state); }, "position 5"));

  auto bidirectional = make(config(/*is_causal=*/false));
  EXPECT_TRUE(refuses([&] { bidirectional->initial_state(2); }, "is_causal"));
  EXPECT_TRUE(refuses([&] { bidirectional->forward(x, std::nullopt, &state); }, "is_causal"));
}

TEST_P(EveryMixer, C30_RefusesAStateOfAnotherSize) {
  auto mixer = make(config());
  const Tensor x = tokens(2, 5);
  MixerState stale = mixer->initial_state(3);
  EXPECT_TRUE(refuses([&] { mixer->forward(x, std::nullopt, &stale); }, "batch size of x (2)"));

  MixerConfig wider = config();
  wider.hidden_size *= 2;
  MixerState foreign = make(wider)->initial_state(2);
  EXPECT_TRUE(refuses([&] { mixer->forward(x, std::nullopt, &foreign); }, "state must have"));
  MixerState empty;
  EXPECT_TRUE(refuses([&] { mixer->forward(x, std::nullopt, &empty); }, "initial_state()"));

  const MixerState state = mixer->initial_state(2);
  EXPECT_TRUE(
      refuses([&] { state.reorder(torch::tensor({0, 2})); }, "index must be in [0, 2), got 2"));
  EXPECT_TRUE(refuses([&] { state.reorder(torch::tensor({0.0})); }, "index must be int64"));
}

TEST_P(EveryMixer, LeavesTheStateAloneWhenItThrows) {
  auto mixer = make(config());
  MixerState state = mixer->initial_state(2);
  mixer->forward(tokens(2, 5), std::nullopt, &state);
  const char* const last = state.tensors.back().first.c_str();
  const Tensor kept = state.at(last);
  state.set(last, torch::zeros({2, 1, 1}));
  const MixerState before = state;
  EXPECT_TRUE(refuses([&] { mixer->forward(tokens(2, 1), std::nullopt, &state); }, last));
  EXPECT_EQ(state.position, 5);
  ASSERT_EQ(state.tensors.size(), before.tensors.size());
  for (const auto& [name, tensor] : before.tensors) {
    EXPECT_TRUE(state.at(name).is_same(tensor)) << name;
  }
}

TEST_P(EveryMixer, ClonesAreEqualAndIndependent) {
  auto mixer = make(config());
  mixer->eval();
  mixer->parameters().front().set_requires_grad(false);
  torch::manual_seed(4);
  const Tensor drawn = torch::rand({3});
  torch::manual_seed(4);
  const auto copy = std::dynamic_pointer_cast<Mixer>(mixer->clone());
  ASSERT_NE(copy, nullptr);
  EXPECT_TRUE(torch::equal(torch::rand({3}), drawn)) << "clone() moved the generator";

  EXPECT_FALSE(copy->is_training());
  const auto parameters = mixer->named_parameters(), copies = copy->named_parameters();
  ASSERT_EQ(copies.size(), parameters.size());
  for (const auto& item : parameters) {
    const Tensor& twin = copies[item.key()];
    EXPECT_TRUE(torch::equal(twin, item.value())) << item.key();
    EXPECT_EQ(twin.scalar_type(), item.value().scalar_type()) << item.key();
    EXPECT_EQ(twin.requires_grad(), item.value().requires_grad()) << item.key();
  }
  const torch::NoGradGuard no_grad;
  const Tensor x = tokens(2, 7), expected = mixer->forward(x);
  EXPECT_TRUE(torch::equal(copy->forward(x), expected));
  for (Tensor& parameter : copy->parameters()) parameter.add_(1.0);
  EXPECT_TRUE(torch::equal(mixer->forward(x), expected));
}

TEST(Clone, ReachesIntoContainersOfTorch) {
  struct HolderImpl : torch::nn::Cloneable<HolderImpl> {
    HolderImpl() { reset(); }
    void reset() override { mixer = register_module("mixer", SoftmaxAttention(small_config())); }
    SoftmaxAttention mixer{nullptr};
  };
  const auto holder = std::make_shared<HolderImpl>();
  const auto copy = std::dynamic_pointer_cast<HolderImpl>(holder->clone());
  const Tensor x = torch::randn({1, 4, 24});
  EXPECT_TRUE(torch::equal(copy->mixer->forward(x), holder->mixer->forward(x)));
}

TEST(ShortConv, AgreesWithConv1dInValuesAndGradients) {
  torch::manual_seed(2);
  for (const std::int64_t length : {1, 3, 300}) {
    for (const std::int64_t left : {3, 2, 0}) {
      Tensor x = torch::randn({2, length, 5}, torch::kFloat64).requires_grad_();
      Tensor weight = torch::randn({5, 4}, torch::kFloat64).requires_grad_();
      const auto reference = [&] {
        const Tensor padded = torch::constant_pad_nd(x.transpose(1, 2), {left, 3 - left});
        return torch::conv1d(padded, weight.unsqueeze(1), {}, 1, at::IntArrayRef{0}, 1, 5)
            .transpose(1, 2);
      };
      const Tensor actual = depthwise_conv(x, weight, left, length), expected = reference();
      const Tensor upstream = torch::randn_like(expected);
      EXPECT_TRUE(near(actual, expected, kDoubleTolerance));
      const auto grads = torch::autograd::grad({actual}, {x, weight}, {upstream});
      const auto wanted = torch::autograd::grad({expected}, {x, weight}, {upstream});
      EXPECT_TRUE(near(grads[0], wanted[0], kDoubleTolerance)) << length << " " << left;
      EXPECT_TRUE(near(grads[1], wanted[1], kDoubleTolerance)) << length << " " << left;

      const Tensor narrow = depthwise_conv(x.to(torch::kBFloat16), weight, left, length);
      EXPECT_TRUE(near(narrow.to(torch::kFloat64), expected, 4e-2));
    }
  }
}

TEST(ShortConv, RefusesASecondDerivative) {
  Tensor x = torch::randn({1, 5, 2}).requires_grad_();
  Tensor weight = torch::randn({2, 4}).requires_grad_();
  const Tensor loss = depthwise_conv(x, weight, 3, 5).square().sum();
  const auto first = torch::autograd::grad({loss}, {x, weight}, {}, true);
  const auto recorded = torch::autograd::grad({loss}, {x, weight}, {}, true, /*create_graph=*/true);
  EXPECT_TRUE(torch::equal(recorded[0], first[0]));
  EXPECT_TRUE(torch::equal(recorded[1], first[1]));
  for (const Tensor& gradient : recorded) {
    EXPECT_THROW(torch::autograd::grad({gradient.sum()}, {x}, {}, true), c10::NotImplementedError);
  }
}

TEST(ShortConv, PassesForwardModeTangentsOn) {
  const auto level = torch::autograd::forward_ad::enter_dual_level();
  const Tensor x = torch::randn({1, 5, 2}), tangent = torch::randn({1, 5, 2});
  const Tensor weight = torch::randn({2, 4});
  const Tensor y = depthwise_conv(at::_make_dual(x, tangent, level), weight, 3, 5);
  const Tensor moved = std::get<1>(at::_unpack_dual(y, level));
  ASSERT_TRUE(moved.defined());
  EXPECT_TRUE(near(moved, depthwise_conv(tangent, weight, 3, 5), kFloatTolerance));
  torch::autograd::forward_ad::exit_dual_level(level);
}

TEST(ShortConv, RefusesShapesThatDoNotFit) {
  EXPECT_TRUE(refuses([] { depthwise_conv(torch::ones({1, 5, 3}), torch::ones({2, 4}), 3, 5); },
                      "weight (channels, width)"));
  ShortConv conv(3, 4, /*is_causal=*/true);
  Tensor tail = torch::zeros({1, 2, 3});
  EXPECT_TRUE(refuses([&] { conv->forward(torch::ones({1, 5, 3}), &tail); },
                      "'tail' of shape (1, 3, 3), got (1, 2, 3)"));
}

TEST(Rotary, RotatesPairsByTheirPositions) {
  const Rotary rotary(6, 100.0);
  const Tensor x = torch::randn({2, 9, 3, 6}, torch::kFloat64);
  const Tensor rotated = apply_rotary(x, rotary.phases(4, 9, x));
  const double angle = 12.0 * std::pow(100.0, -4.0 / 6.0);
  const Tensor a = x.select(-1, 4).select(1, 8), b = x.select(-1, 5).select(1, 8);
  EXPECT_TRUE(near(rotated.select(-1, 4).select(1, 8), a * std::cos(angle) - b * std::sin(angle),
                   kDoubleTolerance));
  EXPECT_TRUE(near(rotated.select(-1, 5).select(1, 8), a * std::sin(angle) + b * std::cos(angle),
                   kDoubleTolerance));

  const Tensor positions = torch::arange(4, 13).expand({2, 9});
  EXPECT_TRUE(torch::equal(apply_rotary(x, rotary.phases(positions, 13, x)), rotated));
  EXPECT_EQ(apply_rotary(x.to(torch::kBFloat16), rotary.phases(4, 9, x.to(torch::kBFloat16)))
                .scalar_type(),
            torch::kBFloat16);
}

TEST(GaussianMixtureAttention, StartsWithSoftRouting) {
  MixerConfig config = small_config();
  EXPECT_TRUE(near(GaussianMixtureAttention(config)->variances(),
                   torch::full({4, 5, 6}, 4.0 * std::sqrt(6.0)), 1e-6));
  config.covariance_type = "tied";
  EXPECT_EQ(GaussianMixtureAttention(config)->variances().sizes(), torch::IntArrayRef({4, 1, 6}));
  config.covariance_type = "spherical";
  EXPECT_EQ(GaussianMixtureAttention(config)->variances().sizes(), torch::IntArrayRef({4, 5, 1}));
  config.covariance_type = "diag";
  for (const double variance : {2e-4, 0.3, 1.0, 90.0}) {
    config.initial_variance = variance;
    EXPECT_TRUE(
        near(GaussianMixtureAttention(config)->variances(), torch::full({4, 5, 6}, variance), 1e-5))
        << variance;
  }
}

TEST(GaussianMixtureAttention, C19_VariancesAreFiniteAtTheExtremes) {
  GaussianMixtureAttention mixer(small_config());
  const torch::NoGradGuard no_grad;
  Tensor raw = mixer->named_parameters()["raw_variances"];
  raw.fill_(-40.0);
  EXPECT_TRUE(near(mixer->variances(), torch::full({4, 5, 6}, 1e-4), 1e-6));
  raw.fill_(40.0);
  EXPECT_TRUE(near(mixer->variances(), torch::full({4, 5, 6}, 40.0001), 1e-6));
}

TEST(GaussianMixtureAttention, C29_MixtureParametersStayInFloat) {
  GaussianMixtureAttention mixer(small_config());
  const Tensor means = mixer->named_parameters()["means"].detach().clone();
  mixer->to(torch::kBFloat16);
  EXPECT_EQ(mixer->named_parameters()["q_proj.weight"].scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(mixer->named_parameters()["means"], means));
  mixer->to(torch::kFloat64);
  EXPECT_EQ(mixer->named_parameters()["means"].scalar_type(), torch::kFloat64);
}

TEST(GaussianMixtureAttention, DropoutFollowsTheGeneratorAndStopsInEvaluation) {
  MixerConfig config = small_config();
  config.attention_dropout = 0.4;
  GaussianMixtureAttention mixer(config);
  const Tensor x = torch::randn({2, 16, 24});
  const auto run = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return mixer->forward(x);
  };
  EXPECT_TRUE(torch::equal(run(5), run(5)));
  EXPECT_FALSE(torch::equal(run(5), run(6)));
  mixer->eval();
  EXPECT_TRUE(torch::equal(run(5), run(6)));
}

TEST(GaussianMixtureAttention, TakesItsMeansFromRoutingVectors) {
  MixerConfig config = small_config();
  config.use_rotary = false;
  config.num_key_value_heads = 2;
  GaussianMixtureAttention mixer(config);
  const Tensor x = torch::randn({2, 30, 24});
  const auto parameters = mixer->named_parameters();
  const Tensor before = parameters["means"].detach().clone();
  mixer->initialize_means(x);

  const Tensor queries = torch::linear(x, parameters["q_proj.weight"]).view({60, 2, 2, 6});
  const Tensor keys = torch::linear(x, parameters["k_proj.weight"]).view({60, 2, 1, 6});
  const Tensor vectors = torch::cat({queries, keys}, 2).transpose(0, 1).flatten(1, 2);
  const Tensor nearest = std::get<0>(torch::cdist(parameters["means"], vectors).min(-1));
  EXPECT_LE(nearest.max().item<double>(),
            1e-3);  // cdist goes through a square root of a difference
  const Tensor between = torch::cdist(parameters["means"], parameters["means"]) + torch::eye(5);
  EXPECT_GT(between.min().item<double>(), 0.0);

  EXPECT_TRUE(refuses([&] { mixer->initialize_means(x.narrow(0, 0, 1).narrow(1, 0, 1)); },
                      "num_components (5)"));
  EXPECT_TRUE(refuses([&] { mixer->initialize_means(x.narrow(1, 0, 0)); }, "num_components (5)"));
  const Tensor means = parameters["means"].detach().clone();
  const Tensor spoilt = x.clone();
  spoilt[1][3][0] = NAN;
  EXPECT_TRUE(refuses([&] { mixer->initialize_means(spoilt); }, "finite routing vectors"));
  EXPECT_TRUE(torch::equal(parameters["means"], means));
  const Tensor mask = torch::ones({2, 30}, torch::kBool);
  mask[1][3] = false;
  mixer->initialize_means(spoilt, mask);
}

TEST(GaussianMixtureAttention, InspectionRefusesWhatForwardDoes) {
  GaussianMixtureAttention mixer(small_config());
  const Tensor x = torch::randn({2, 30, 24}), mask = torch::ones({2, 29}, torch::kBool);
  const auto inspect = [&](const auto& call) {
    EXPECT_TRUE(refuses([&] { call(x.narrow(2, 0, 23), std::nullopt); }, "x must be"));
    EXPECT_TRUE(refuses([&] { call(x[0], std::nullopt); }, "x must be"));
    EXPECT_TRUE(refuses([&] { call(x.to(torch::kFloat64), std::nullopt); }, "got Double"));
    EXPECT_TRUE(refuses([&] { call(x, mask); }, "key_padding_mask must be bool of shape (2, 30)"));
    EXPECT_TRUE(refuses([&] { call(x, torch::ones({2, 30})); }, "got Float of shape (2, 30)"));
  };
  inspect([&](const Tensor& tokens, const std::optional<Tensor>& kept) {
    mixer->initialize_means(tokens, kept);
  });
  inspect([&](const Tensor& tokens, const std::optional<Tensor>& kept) {
    mixer->responsibilities(tokens, kept);
  });
}

TEST(GaussianMixtureAttention, ShowsItsResponsibilities) {
  MixerConfig config = small_config();
  config.num_key_value_heads = 2;
  GaussianMixtureAttention mixer(config);
  const auto [queries, keys] = mixer->responsibilities(torch::randn({2, 7, 24}));
  EXPECT_EQ(queries.sizes(), (std::vector<std::int64_t>{2, 7, 4, 5}));
  EXPECT_EQ(keys.sizes(), (std::vector<std::int64_t>{2, 7, 2, 5}));
  EXPECT_TRUE(near(queries.sum(-1), torch::ones({2, 7, 4}), 1e-6));
}

TEST(MixerConfig, RefusesUnusableFieldsByName) {
  const auto with = [](auto change) {
    return [change] {
      MixerConfig config = small_config();
      change(config);
      make_mixer("gma", config);
    };
  };
  EXPECT_TRUE(refuses(with([](auto& c) { c.num_heads = 5; }), "num_heads must be a divisor"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.num_heads = 0; }), "num_heads must be positive"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.num_key_value_heads = 3; }), "num_key_value_heads"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.num_heads = 8; }), "even with use_rotary, got 3"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.num_components = 0; }), "num_components"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.covariance_type = "full"; }),
                      "covariance_type must be diag, tied or spherical, got 'full'"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.initial_variance = 5e-5; }), "initial_variance"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.variance_floor = NAN; }), "variance_floor"));
  EXPECT_TRUE(refuses(with([](auto& c) { c.attention_dropout = 1.0; }), "attention_dropout"));
  EXPECT_TRUE(refuses([] { make_mixer("gmaa", small_config()); }, "mixer must be one of gma, "));
  EXPECT_TRUE(refuses([] { make_mixer("gmaa", small_config()); }, "got 'gmaa'"));
}

}  // namespace
}  // namespace gma_torch::nn
