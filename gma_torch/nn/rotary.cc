// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/rotary.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace gma_torch::nn {
namespace {

// Complex arithmetic exists for float and double only; narrower types rotate in float.
torch::Dtype real_dtype(const torch::Tensor& x) {
  return x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

torch::Tensor make_table(std::int64_t head_size, double base, std::int64_t length) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64);
  const auto exponents = torch::arange(0, head_size, 2, options) / static_cast<double>(head_size);
  const auto angles = torch::outer(torch::arange(length, options), torch::pow(base, -exponents));
  return torch::polar(torch::ones_like(angles), angles).unsqueeze(1);
}

// At least `length` rows. Every layer of a model asks for the same table, so it is made once.
torch::Tensor shared_table(std::int64_t head_size, double base, std::int64_t length,
                           const torch::Tensor& x) {
  using Key = std::tuple<std::int64_t, double, std::string, torch::Dtype>;
  static std::mutex mutex;
  static std::map<Key, torch::Tensor> tables;

  const Key key{head_size, base, x.device().str(), real_dtype(x)};
  const std::scoped_lock lock(mutex);
  torch::Tensor& table = tables[key];
  if (!table.defined() || table.size(0) < length) {
    // A table first asked for in inference mode must serve training as well.
    const torch::InferenceMode ordinary(false);
    const torch::NoGradGuard no_grad;
    constexpr std::int64_t kSmallest = 1024;
    const auto rows = std::bit_ceil(static_cast<std::uint64_t>(std::max(length, kSmallest)));
    table = make_table(head_size, base, static_cast<std::int64_t>(rows))
                .to(x.device(), c10::toComplexType(real_dtype(x)));
  }
  return table;
}

}  // namespace

torch::Tensor Rotary::phases(std::int64_t first, std::int64_t length,
                             const torch::Tensor& x) const {
  return shared_table(head_size_, base_, first + length, x).narrow(0, first, length);
}

torch::Tensor Rotary::phases(const torch::Tensor& positions, std::int64_t end,
                             const torch::Tensor& x) const {
  const auto rows = shared_table(head_size_, base_, end, x).index_select(0, positions.flatten());
  return rows.view({positions.size(0), positions.size(1), 1, -1});
}

torch::Tensor apply_rotary(const torch::Tensor& x, const torch::Tensor& phases) {
  const auto pairs = x.to(real_dtype(x)).contiguous().unflatten(-1, {-1, 2});
  return torch::view_as_real(torch::view_as_complex(pairs) * phases)
      .flatten(-2)
      .to(x.scalar_type());
}

}  // namespace gma_torch::nn
