// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Time and memory of one mixer at one length, measured in the process that asks for it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gma::app {

/// What is run: a layer's forward pass; forward and backward; one decoding step after the tokens;
/// or forward and backward of a whole language model with its loss.
inline const std::vector<std::string> kProfilePasses = {"forward", "backward", "step", "model"};

struct ProfileCase {
  std::string mixer = "gma";
  std::string pass = "forward";
  std::int64_t tokens = 512;
  std::int64_t batch_size = 1;
  std::int64_t hidden_size = 512;
  std::int64_t heads = 8;
  std::int64_t components = 128;
  bool is_causal = true;
  bool use_short_conv = false;
  std::int64_t layers = 4;         ///< of the model
  std::int64_t vocab_size = 4096;  ///< of the model
};

struct Measurement {
  double seconds = 0.0;  ///< the least of `repeats`; of one token for a step
  double median_seconds = 0.0;
  /// What the pass takes beside what was there before it, at its first run; for a step, what is
  /// kept from token to token.
  double peak_bytes = 0.0;
  std::int64_t repeats = 0;
};

void to_json(nlohmann::ordered_json& json, const Measurement& measurement);
void from_json(const nlohmann::ordered_json& json, Measurement& measurement);

/// Runs the case at least twice and then for about `seconds`. The peak is true in a fresh process
/// alone. Throws InvalidArgument for a case that the mixer refuses.
Measurement measure(const ProfileCase& one, double seconds);

}  // namespace gma::app
