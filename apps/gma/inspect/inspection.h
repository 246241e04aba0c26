// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What `gma inspect` finds out about a model. Free of torch, as are all who show it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "inspect/mixture_overlap.h"
#include "inspect/routing_sample.h"
#include "inspect/routing_statistics.h"

namespace gma::app {

struct InspectOptions {
  std::vector<std::string> data;
  std::int64_t max_tokens = 0;  ///< of the text; 0: all
  std::int64_t context = 0;     ///< tokens of a sequence of a language model; 0: as trained
  std::int64_t sample = 20000;  ///< first tokens that a reader can look at
  std::int64_t top = 0;         ///< components that are kept of each of them, at least
  std::int64_t window = -1;     ///< a token that one of the windows is to hold
  std::int64_t page_bytes = 0;  ///< what the sample may take in a page
};

/// One side of a layer, queries or keys.
struct SideInspection {
  std::vector<HeadStatistics> statistics;  ///< one a head
  std::vector<TopComponents> top;          ///< one a head, of the sample
  std::vector<float> window_vectors;       ///< (tokens of all windows, heads, D)
  std::vector<double> radius;              ///< one a head: the largest norm of a routing vector
};

/// Of the affinity in one window.
struct AffinityRank {
  std::int64_t rank = 0;   ///< singular values above rounding, in double
  double effective = 0.0;  ///< exp of the entropy of the singular values (Roy and Vetterli 2007)
};

struct LayerInspection {
  std::int64_t number = 0;  ///< among all layers of the model, from 0
  std::int64_t heads = 0, key_heads = 0, components = 0, head_size = 0;
  std::vector<float> means, variances;  ///< (key heads, K, D), each variance spelled out
  std::vector<float> log_priors;        ///< (key heads, K), normalised
  SideInspection query, key;
  /// (windows, key heads, K): sums of the responsibilities of the keys that are not in a window and
  /// that queries in it read, those before it in its sequence or, without causality, all others.
  std::vector<double> keys_outside;
  std::vector<AffinityRank> ranks;  ///< (windows, heads)

  /// That of a key head, and of the query heads that share it.
  MixtureView mixture(std::int64_t key_head) const {
    const auto size = static_cast<std::size_t>(components * head_size);
    const auto begin = static_cast<std::size_t>(key_head) * size;
    return {static_cast<std::size_t>(components), static_cast<std::size_t>(head_size),
            std::span(means).subspan(begin, size), std::span(variances).subspan(begin, size)};
  }
};

struct Inspection {
  std::string name;  ///< as the user called it, in UTF-8
  std::string task, tokenizer, covariance_type;
  std::int64_t step = 0, layers_of_model = 0, parameters = 0;
  bool is_causal = false;
  double eps = 0.0;
  std::int64_t context = 0;
  std::int64_t tokens = 0, sequences = 0;  ///< of all text
  std::vector<std::int64_t> category_counts;

  std::vector<Token> sample;
  std::vector<TokenCategory> categories;  ///< of the sample
  std::vector<std::int64_t> starts;       ///< of the sequences in the sample
  std::map<Token, std::string> pieces;    ///< what the sample's tokens stand for
  std::vector<Window> windows;
  std::int64_t page_components = 1;  ///< components a token that fit into a page

  std::vector<LayerInspection> layers;  ///< those with Gaussian mixture attention
};

/// Told from time to time how many tokens are done, of how many.
using InspectProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Reads text through the model of a checkpoint, a language model from the state that it carries, a
/// classifier text by text. Throws InvalidArgument for a checkpoint that cannot be used or has no
/// layer of Gaussian mixture attention, for mixtures and routing that are not finite, for data
/// without a token, and for a window that is not in the sample.
Inspection inspect_checkpoint(const std::string& checkpoint, const InspectOptions& options,
                              const InspectProgress& progress = {});

}  // namespace gma::app
