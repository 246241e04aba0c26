// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "profile/measure.h"

#include <fmt/format.h>
#include <gma_torch/nn/models.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "gma/error.h"

namespace gma::app {
namespace {

using gma_torch::nn::Mixer;
using gma_torch::nn::MixerConfig;
using torch::Tensor;

/// Tokens that a timed piece of decoding takes: one alone is too short for the clock.
constexpr std::int64_t kSteps = 16;
constexpr std::size_t kMaxRepeats = 1000;

/// A number of bytes of /proc/self/status.
double status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(field + ":")) continue;
    std::istringstream words(line.substr(field.size() + 1));
    double kilobytes = 0.0;
    words >> kilobytes;
    return 1024.0 * kilobytes;
  }
  return 0.0;
}

MixerConfig mixer_config(const ProfileCase& one) {
  MixerConfig config;
  config.hidden_size = one.hidden_size;
  config.num_heads = one.heads;
  config.num_components = one.components;
  config.is_causal = one.is_causal;
  config.use_short_conv = one.use_short_conv;
  config.max_length = one.tokens;
  return config;
}

/// What is timed, and the bytes that it keeps, if that is what its memory means.
struct Pass {
  std::function<void()> run;
  std::function<double()> kept_bytes = nullptr;
};

Tensor random_input(const ProfileCase& one) {
  return torch::randn({one.batch_size, one.tokens, one.hidden_size});
}

Pass forward_pass(const ProfileCase& one) {
  const std::shared_ptr<Mixer> mixer = gma_torch::nn::make_mixer(one.mixer, mixer_config(one));
  mixer->eval();
  const Tensor x = random_input(one);
  return {[=] {
    const torch::NoGradGuard no_grad;
    mixer->forward(x);
  }};
}

Pass backward_pass(const ProfileCase& one) {
  const std::shared_ptr<Mixer> mixer = gma_torch::nn::make_mixer(one.mixer, mixer_config(one));
  const Tensor x = random_input(one).requires_grad_();
  const Tensor upstream = random_input(one);
  return {[=] {
    mixer->forward(x).backward(upstream);
    mixer->zero_grad();
    x.mutable_grad().reset();
  }};
}

Pass step_pass(const ProfileCase& one) {
  const std::shared_ptr<Mixer> mixer = gma_torch::nn::make_mixer(one.mixer, mixer_config(one));
  mixer->eval();
  const torch::NoGradGuard no_grad;
  const auto state =
      std::make_shared<gma_torch::nn::MixerState>(mixer->initial_state(one.batch_size));
  mixer->forward(random_input(one), std::nullopt, state.get());
  const Tensor token = torch::randn({one.batch_size, 1, one.hidden_size});
  const auto run = [=] {
    const torch::NoGradGuard guard;
    for (std::int64_t i = 0; i < kSteps; ++i) mixer->forward(token, std::nullopt, state.get());
  };
  const auto kept_bytes = [=] {
    double bytes = 0.0;
    for (const auto& [name, tensor] : state->tensors) bytes += static_cast<double>(tensor.nbytes());
    return bytes;
  };
  return {run, kept_bytes};
}

Pass model_pass(const ProfileCase& one) {
  gma_torch::nn::ModelConfig config;
  config.mixer = one.mixer;
  config.mixer_config = mixer_config(one);
  config.vocab_size = one.vocab_size;
  config.num_layers = one.layers;
  config.max_length = one.tokens;
  gma_torch::nn::CausalLm model(config);
  const Tensor tokens = torch::randint(one.vocab_size, {one.batch_size, one.tokens + 1});
  return {[=]() mutable {
    const Tensor logits = model->forward(tokens.narrow(1, 0, one.tokens)).flatten(0, 1);
    const Tensor targets = tokens.narrow(1, 1, one.tokens).flatten();
    torch::nn::functional::cross_entropy(logits, targets).backward();
    model->zero_grad();
  }};
}

Pass make_pass(const ProfileCase& one) {
  if (one.pass == "forward") return forward_pass(one);
  if (one.pass == "backward") return backward_pass(one);
  if (one.pass == "step") return step_pass(one);
  if (one.pass == "model") return model_pass(one);
  throw InvalidArgument(
      fmt::format("pass: expected forward, backward, step or model, got '{}'", one.pass));
}

}  // namespace

Measurement measure(const ProfileCase& one, double seconds) {
  using Clock = std::chrono::steady_clock;
  torch::manual_seed(1);
  const Pass pass = make_pass(one);
  const double before = status_bytes("VmRSS");
  std::ofstream("/proc/self/clear_refs") << "5";  // starts the peak anew
  pass.run();
  Measurement result{.peak_bytes = pass.kept_bytes ? pass.kept_bytes()
                                                   : std::max(0.0, status_bytes("VmHWM") - before)};

  std::vector<double> times;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  do {
    const Clock::time_point start = Clock::now();
    pass.run();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end && times.size() < kMaxRepeats);
  std::ranges::sort(times);
  const double per_run = one.pass == "step" ? static_cast<double>(kSteps) : 1.0;
  result.seconds = times.front() / per_run;
  result.median_seconds = times[times.size() / 2] / per_run;
  result.repeats = std::ssize(times);
  return result;
}

}  // namespace gma::app
