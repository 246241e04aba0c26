// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include <ATen/Dispatch.h>

#include <algorithm>

#include "gma_torch/nn/short_conv.h"
#include "ops/executor.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

// Tokens in one task, and in one partial sum of the weight's gradient. It fixes how the work is
// split, so results do not depend on the number of threads.
constexpr std::int64_t kTokenBlock = 128;

// Calls body(batch, first token, last token + 1, block) for every block of tokens.
template <class Body>
void for_each_block(std::int64_t batch, std::int64_t length, const Body& body) {
  const std::int64_t blocks = (length + kTokenBlock - 1) / kTokenBlock;
  ops::aten_executor().run(batch * blocks, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block % blocks * kTokenBlock;
      body(block / blocks, first, std::min(first + kTokenBlock, length), block);
    }
  });
}

// taps (W, C) is the weight transposed: the loop over channels is the inner one and vectorises. The
// pointers are restrict arguments because that is what lets it.
template <class T>
void multiply(const T* __restrict a, const T* __restrict b, T* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] * b[i];
}

template <class T>
void multiply_add(const T* __restrict a, const T* __restrict b, T* __restrict sum,
                  std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += a[i] * b[i];
}

template <class T>
void convolve(const Tensor& x, const Tensor& taps, std::int64_t left, const Tensor& y) {
  const std::int64_t length = x.size(1), channels = x.size(2), width = taps.size(0);
  const T* const in = x.const_data_ptr<T>();
  const T* const weight = taps.const_data_ptr<T>();
  T* const out = y.mutable_data_ptr<T>();
  for_each_block(y.size(0), y.size(1), [&](auto batch, auto first, auto end, auto) {
    for (std::int64_t t = first; t < end; ++t) {
      T* const row = out + (batch * y.size(1) + t) * channels;
      bool started = false;
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t source = t + j - left;
        if (source < 0 || source >= length) continue;
        const T* const from = in + (batch * length + source) * channels;
        if (started) {
          multiply_add(from, weight + j * channels, row, channels);
        } else {
          multiply(from, weight + j * channels, row, channels);
          started = true;
        }
      }
      if (!started) std::fill_n(row, channels, T{0});
    }
  });
}

// sums (blocks, W, C), zero on entry: sums[., j, c] = sum_t grad[b,t,c] x[b, t + j - left, c].
template <class T>
void correlate(const Tensor& x, const Tensor& grad, std::int64_t left, const Tensor& sums) {
  const std::int64_t length = x.size(1), channels = x.size(2), width = sums.size(1);
  const T* const in = x.const_data_ptr<T>();
  const T* const upstream = grad.const_data_ptr<T>();
  T* const out = sums.mutable_data_ptr<T>();
  for_each_block(grad.size(0), grad.size(1), [&](auto batch, auto first, auto end, auto block) {
    for (std::int64_t t = first; t < end; ++t) {
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t source = t + j - left;
        if (source < 0 || source >= length) continue;
        multiply_add(in + (batch * length + source) * channels,
                     upstream + (batch * grad.size(1) + t) * channels,
                     out + (block * width + j) * channels, channels);
      }
    }
  });
}

Tensor convolve(const Tensor& x, const Tensor& taps, std::int64_t left, std::int64_t length) {
  const Tensor y = torch::empty({x.size(0), length, x.size(2)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "depthwise_conv",
                             [&] { convolve<scalar_t>(x, taps, left, y); });
  return y;
}

class DepthwiseConv : public torch::autograd::Function<DepthwiseConv> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& weight, std::int64_t left, std::int64_t length) {
    const Tensor tokens = x.contiguous(), taps = weight.t().contiguous();
    context->save_for_backward({tokens, taps});
    context->saved_data["left"] = left;
    return convolve(tokens, taps, left, length);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "depthwise_conv: a second derivative (create_graph) is not supported");
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &taps = saved[1];
    const std::int64_t left = context->saved_data["left"].toInt(), width = taps.size(0);
    const Tensor grad = gradients[0].contiguous();

    Tensor grad_x, grad_weight;
    if (context->needs_input_grad(0)) {
      grad_x = convolve(grad, taps.flip(0), width - 1 - left, x.size(1));
    }
    if (context->needs_input_grad(1)) {
      const std::int64_t blocks = x.size(0) * ((grad.size(1) + kTokenBlock - 1) / kTokenBlock);
      const Tensor sums = torch::zeros({blocks, width, x.size(2)}, x.options());
      AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "depthwise_conv_backward",
                                 [&] { correlate<scalar_t>(x, grad, left, sums); });
      grad_weight = sums.sum(0).t();
    }
    return {grad_x, grad_weight, Tensor(), Tensor()};
  }
};

// Shifted products in ATen, for devices and dtypes that the loops above are not written for.
Tensor composite_conv(const Tensor& x, const Tensor& weight, std::int64_t left,
                      std::int64_t length) {
  const std::int64_t width = weight.size(1);
  const std::int64_t right = length + width - 1 - left - x.size(1);
  const Tensor padded = torch::constant_pad_nd(x, {0, 0, left, right});
  Tensor y = padded.narrow(1, 0, length) * weight.select(1, 0);
  for (std::int64_t j = 1; j < width; ++j) {
    y = torch::addcmul(y, padded.narrow(1, j, length), weight.select(1, j));
  }
  return y;
}

}  // namespace

Tensor depthwise_conv(const Tensor& x, const Tensor& weight, std::int64_t left,
                      std::int64_t length) {
  const bool has_loops = x.device().is_cpu() && x.scalar_type() == weight.scalar_type() &&
                         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
  if (!has_loops) return composite_conv(x, weight.to(x.scalar_type()), left, length);
  if (at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad())) {
    return DepthwiseConv::apply(x, weight, left, length);
  }
  return convolve(x.contiguous(), weight.t().contiguous(), left, length);
}

}  // namespace gma_torch::nn
