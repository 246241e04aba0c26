// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0

#include "gma_torch/nn/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gma/error.h"
#include "gma/safetensors.h"

namespace gma_torch::nn {
namespace {

using torch::Tensor;

constexpr std::array<std::pair<gma::DType, torch::Dtype>, 10> kDtypes{{
    {gma::DType::boolean, torch::kBool},
    {gma::DType::uint8, torch::kUInt8},
    {gma::DType::int8, torch::kInt8},
    {gma::DType::int16, torch::kInt16},
    {gma::DType::int32, torch::kInt32},
    {gma::DType::int64, torch::kInt64},
    {gma::DType::float16, torch::kFloat16},
    {gma::DType::bfloat16, torch::kBFloat16},
    {gma::DType::float32, torch::kFloat32},
    {gma::DType::float64, torch::kFloat64},
}};

torch::Dtype to_torch(const std::string& name, gma::DType dtype) {
  for (const auto& [stored, used] : kDtypes) {
    if (stored == dtype) return used;
  }
  throw gma::IoError(fmt::format("tensor '{}' has a dtype that torch does not know", name));
}

gma::DType from_torch(const std::string& name, torch::Dtype dtype) {
  for (const auto& [stored, used] : kDtypes) {
    if (used == dtype) return stored;
  }
  throw gma::InvalidArgument(
      fmt::format("tensor '{}' must have a dtype of the safetensors format, got {}", name,
                  c10::toString(dtype)));
}

std::string describe(const Tensor& tensor) {
  return fmt::format("{} ({})", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "));
}

}  // namespace

Checkpoint load_checkpoint(const std::filesystem::path& path) {
  const gma::SafetensorsFile file(path);
  Checkpoint checkpoint{{}, file.metadata()};
  for (const auto& [name, stored] : file.tensors()) {
    const Tensor tensor = torch::empty(stored.shape, to_torch(name, stored.dtype));
    if (!stored.bytes.empty()) {
      std::memcpy(tensor.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
    }
    checkpoint.tensors.emplace(name, tensor);
  }
  return checkpoint;
}

void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  std::vector<Tensor> owners;  // of the bytes that `stored` points to
  std::map<std::string, gma::TensorBytes> stored;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const Tensor& host = owners.emplace_back(tensor.detach().cpu().contiguous());
    stored.emplace(name, gma::TensorBytes{from_torch(name, host.scalar_type()),
                                          host.sizes().vec(),
                                          {static_cast<const std::byte*>(host.const_data_ptr()),
                                           host.nbytes()}});
  }
  gma::write_safetensors(path, stored, checkpoint.metadata);
}

std::map<std::string, Tensor> state_dict(const torch::nn::Module& module) {
  std::map<std::string, Tensor> tensors;
  std::unordered_set<const c10::TensorImpl*> seen;
  const auto add = [&](const auto& named) {
    for (const auto& item : named) {
      if (seen.insert(item.value().unsafeGetTensorImpl()).second) {
        tensors.emplace(item.key(), item.value().detach());
      }
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return tensors;
}

void load_state_dict(torch::nn::Module& module, const std::map<std::string, Tensor>& tensors) {
  const std::map<std::string, Tensor> targets = state_dict(module);
  for (const auto& [name, target] : targets) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      throw gma::InvalidArgument(
          fmt::format("tensor '{}' must be {}, got none", name, describe(target)));
    }
    const Tensor& source = found->second;
    if (source.sizes() != target.sizes() || source.scalar_type() != target.scalar_type()) {
      throw gma::InvalidArgument(
          fmt::format("tensor '{}' must be {}, got {}", name, describe(target), describe(source)));
    }
  }
  for (const auto& entry : tensors) {
    if (!targets.contains(entry.first)) {
      throw gma::InvalidArgument(fmt::format("tensor '{}' is not part of this model", entry.first));
    }
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, target] : targets) Tensor(target).copy_(tensors.at(name));
}

}  // namespace gma_torch::nn
