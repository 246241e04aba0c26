// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Causal attention over 1,024 tokens, then one more token from the state that they leave.
#include <gma/gma.h>

#include <cstdint>
#include <iostream>
#include <random>
#include <vector>

int main() {
  constexpr std::int64_t kTokens = 1024, kHeads = 8, kDim = 64, kComponents = 128;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto noise = [&](std::int64_t size) {
    std::vector<float> values(size);
    for (float& value : values) value = normal(random);
    return values;
  };

  const auto q = noise(kTokens * kHeads * kDim), k = noise(kTokens * kHeads * kDim),
             v = noise(kTokens * kHeads * kDim), mu = noise(kHeads * kComponents * kDim);
  const std::vector<float> sigma2(mu.size(), 32.0F), log_pi(kHeads * kComponents, 0.0F);
  std::vector<float> out(q.size()), s(kHeads * kComponents * kDim), z(kHeads * kComponents);

  using gma::View;
  const auto tokens = [](auto* data) {
    return View<std::remove_pointer_t<decltype(data)>, 4>::contiguous(data,
                                                                      {1, kTokens, kHeads, kDim});
  };
  const auto means = View<const float, 3>::contiguous(mu.data(), {kHeads, kComponents, kDim});
  const auto variances =
      View<const float, 3>::contiguous(sigma2.data(), {kHeads, kComponents, kDim});
  const auto priors = View<const float, 2>::contiguous(log_pi.data(), {kHeads, kComponents});
  const gma::State<float> state{
      View<float, 4>::contiguous(s.data(), {1, kHeads, kComponents, kDim}),
      View<float, 3>::contiguous(z.data(), {1, kHeads, kComponents})};

  gma::gaussian_mixture_attention<float>(tokens(q.data()), tokens(k.data()), tokens(v.data()),
                                         means, variances, priors, tokens(out.data()),
                                         {.is_causal = true, .final_state = state});

  const auto token = [](auto* data) {
    return View<std::remove_pointer_t<decltype(data)>, 3>::contiguous(data, {1, kHeads, kDim});
  };
  gma::step<float>({.query = token(q.data()),
                    .key = token(k.data()),
                    .value = token(v.data()),
                    .means = means,
                    .variances = variances,
                    .prior_logits = priors,
                    .state = state},
                   token(out.data()));
  std::cout << "gma " << gma::version() << " on " << gma::instruction_set() << ": next output "
            << out.front() << "\n";
  return out.front() == out.front() ? 0 : 1;
}
