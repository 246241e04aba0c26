// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include <ATen/Dispatch.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "gma/error.h"
#include "gma_torch/nn/short_conv.h"
#include "ops/executor.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

// Gradients of x and weight, each undefined unless it is needed.
variable_list conv_gradients(const Tensor& x, const Tensor& weight, const Tensor& upstream,
                             std::int64_t left, bool needs_x, bool needs_weight) {
  const Tensor tokens = x.contiguous(), taps = weight.t().contiguous();
  const Tensor grad = upstream.contiguous();
  const std::int64_t width = taps.size(0);
  variable_list gradients(2);
  if (needs_x) gradients[0] = convolve(grad, taps.flip(0), width - 1 - left, x.size(1));
  if (needs_weight) {
    const std::int64_t blocks = x.size(0) * ((grad.size(1) + kTokenBlock - 1) / kTokenBlock);
    const Tensor sums = torch::zeros({blocks, width, x.size(2)}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "depthwise_conv_backward",
                               [&] { correlate<scalar_t>(tokens, grad, left, sums); });
    gradients[1] = sums.sum(0).t();
  }
  return gradients;
}

// The backward pass under create_graph: right as it is, but not to be differentiated again.
class DepthwiseConvBackward : public torch::autograd::Function<DepthwiseConvBackward> {
 public:
  static variable_list forward(AutogradContext* /*context*/, const Tensor& x, const Tensor& weight,
                               const Tensor& upstream, std::int64_t left) {
    return conv_gradients(x, weight, upstream, left, true, true);
  }

  static variable_list backward(AutogradContext* /*context*/, const variable_list& /*gradients*/) {
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "depthwise_conv: expected to be differentiated once, got a request "
                                "for its second derivative");
  }
};

class DepthwiseConv : public torch::autograd::Function<DepthwiseConv> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        std::int64_t left, std::int64_t length) {
    context->save_for_backward({x, weight});
    context->saved_data["left"] = left;
    return convolve(x.contiguous(), weight.t().contiguous(), left, length);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const std::int64_t left = context->saved_data["left"].toInt();
    variable_list result =
        at::GradMode::is_enabled()
            ? DepthwiseConvBackward::apply(saved[0], saved[1], gradients[0], left)
            : conv_gradients(saved[0], saved[1], gradients[0], left, context->needs_input_grad(0),
                             context->needs_input_grad(1));
    result.resize(4);
    return result;
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
  if (x.dim() != 3 || weight.dim() != 2 || weight.size(0) != x.size(2)) {
    throw gma::InvalidArgument(
        fmt::format("x must be (batch, tokens, channels) and weight (channels, width), got ({}) "
                    "and ({})",
                    fmt::join(x.sizes(), ", "), fmt::join(weight.sizes(), ", ")));
  }
  // The loops know nothing of forward-mode tangents; ATen does.
  const bool has_tangent =
      x._fw_grad(/*level=*/0).defined() || weight._fw_grad(/*level=*/0).defined();
  const bool has_loops = !has_tangent && x.is_cpu() && weight.is_cpu() &&
                         x.scalar_type() == weight.scalar_type() &&
                         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
  if (!has_loops) return composite_conv(x, weight.to(x.scalar_type()), left, length);
  if (at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad())) {
    return DepthwiseConv::apply(x, weight, left, length);
  }
  return convolve(x.contiguous(), weight.t().contiguous(), left, length);
}

}  // namespace gma_torch::nn
