// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Causal attention over 1,024 tokens of LibTorch, and the gradient that it leaves.
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gma_torch/attention.h>

#include <iostream>

int main() {
  const at::Tensor x = at::randn({1, 1024, 8, 64}).requires_grad_();
  const at::Tensor means = at::randn({8, 128, 64}), variances = at::full_like(means, 32.0);
  const at::Tensor output = gma_torch::gaussian_mixture_attention(
                                x, x, x, means, variances, at::zeros({8, 128}), {.is_causal = true})
                                .first;
  output.sum().backward();
  std::cout << "output " << output.sizes() << ", gradient " << x.grad().sizes() << "\n";
  return x.grad().isfinite().all().item<bool>() ? 0 : 1;
}
