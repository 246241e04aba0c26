// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "report/inspect_page.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "data/utf8.h"
#include "inspect/metrics_json.h"
#include "report/page.h"

namespace gma::app {
namespace {

using nlohmann::ordered_json;

/// Little-endian arrays one after the other, as JavaScript's typed arrays read them.
class Block {
 public:
  template <class T>
  void add(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(std::span<const T>(values));
  }

  std::string base64() const {
    // Each call takes an int, and whole groups of three but for the last.
    constexpr std::size_t kPiece = std::size_t{3} << 24;
    std::string text((bytes_.size() + 2) / 3 * 4 + 1, '\0');
    std::size_t at = 0;
    for (std::size_t begin = 0; begin < bytes_.size(); begin += kPiece) {
      const std::size_t count = std::min(kPiece, bytes_.size() - begin);
      at += static_cast<std::size_t>(EVP_EncodeBlock(
          reinterpret_cast<unsigned char*>(text.data() + at),
          reinterpret_cast<const unsigned char*>(bytes_.data() + begin), static_cast<int>(count)));
    }
    text.resize(at);
    return text;
  }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

template <class Index>
void add_indices(Block& block, const TopComponents& top, std::size_t per_token) {
  std::vector<Index> indices;
  for (std::size_t rank = 0; rank < per_token; ++rank) {
    for (std::size_t at = rank; at < top.components().size(); at += top.per_token()) {
      indices.push_back(static_cast<Index>(top.components()[at]));
    }
  }
  block.add(indices);
}

/// The largest responsibility of all; in 65535ths of it, those of the most responsible component of
/// every token, then those of the next; and the components, in as few bytes as hold their number.
Block top_block(const TopComponents& top, std::size_t per_token, std::int64_t components) {
  constexpr float kParts = UINT16_MAX;
  const std::span<const float> all = top.responsibilities();
  const float largest = all.empty() ? 1.0F : std::ranges::max(all);
  std::vector<std::uint16_t> shares;
  for (std::size_t rank = 0; rank < per_token; ++rank) {
    for (std::size_t at = rank; at < all.size(); at += top.per_token()) {
      shares.push_back(static_cast<std::uint16_t>(std::lround(kParts * (all[at] / largest))));
    }
  }
  Block block;
  block.add(std::vector{largest});
  block.add(shares);
  if (components <= 1 << 8) {
    add_indices<std::uint8_t>(block, top, per_token);
  } else if (components <= 1 << 16) {
    add_indices<std::uint16_t>(block, top, per_token);
  } else {
    add_indices<std::uint32_t>(block, top, per_token);
  }
  return block;
}

Block statistics_block(const LayerInspection& layer) {
  Block block;
  for (const SideInspection* const side : {&layer.query, &layer.key}) {
    for (const HeadStatistics& head : side->statistics) {
      block.add(floats(head.usage()));
      block.add(floats(head.sharpness()));
      std::vector<std::uint32_t> table;
      for (const std::uint64_t count : head.table().counts()) {
        table.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(count, UINT32_MAX)));
      }
      block.add(table);
    }
  }
  return block;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

/// Text, or its bytes where they are no text by themselves.
ordered_json piece_json(const std::string& piece) {
  if (is_utf8(piece)) return piece;
  ordered_json bytes = ordered_json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

ordered_json layer_json(const LayerInspection& layer) {
  ordered_json ranks = ordered_json::array();
  for (const AffinityRank& one : layer.ranks) ranks.push_back({one.rank, one.effective});
  return {{"number", layer.number},      {"heads", layer.heads},
          {"keyHeads", layer.key_heads}, {"components", layer.components},
          {"headSize", layer.head_size}, {"ranks", std::move(ranks)}};
}

ordered_json model_json(const Inspection& model) {
  ordered_json windows = ordered_json::array(), pieces = ordered_json::array();
  for (const Window& window : model.windows) windows.push_back({window.start, window.length});
  for (const auto& [token, piece] : model.pieces) pieces.push_back(piece_json(piece));
  ordered_json layers = ordered_json::array();
  for (const LayerInspection& layer : model.layers) layers.push_back(layer_json(layer));
  return {
      {"metrics", metrics_json(model)},
      {"layersOfModel", model.layers_of_model},
      {"isCausal", model.is_causal},
      {"eps", model.eps},
      {"sample", model.sample.size()},
      {"perToken", std::min<std::int64_t>(model.page_components, model.layers.front().components)},
      {"starts", model.task == "lm" ? std::vector<std::int64_t>{} : model.starts},
      {"windows", std::move(windows)},
      {"pieces", std::move(pieces)},
      {"layers", std::move(layers)}};
}

/// For each token of the sample, its place among the pieces.
std::vector<std::uint32_t> places_of(const Inspection& model) {
  std::unordered_map<Token, std::uint32_t> places;
  for (const auto& [token, piece] : model.pieces) {
    places.emplace(token, static_cast<std::uint32_t>(places.size()));
  }
  std::vector<std::uint32_t> result;
  for (const Token token : model.sample) result.push_back(places.at(token));
  return result;
}

void write_blocks(const Inspection& model, std::size_t number,
                  const std::function<void(std::string_view)>& sink) {
  const auto write = [&](const std::string& name, const Block& block) {
    sink(fmt::format("<script type=\"text/plain\" id=\"m{}-{}\">", number, name));
    sink(block.base64());
    sink("</script>\n");
  };
  Block text;
  text.add(places_of(model));
  text.add(model.categories);
  write("text", text);
  const auto per_token = static_cast<std::size_t>(model.page_components);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerInspection& layer = model.layers[i];
    write(fmt::format("{}-statistics", i), statistics_block(layer));
    Block mixture, windows;
    mixture.add(layer.means);
    mixture.add(layer.variances);
    mixture.add(layer.log_priors);
    write(fmt::format("{}-mixture", i), mixture);
    windows.add(layer.query.window_vectors);
    windows.add(layer.key.window_vectors);
    windows.add(floats(layer.keys_outside));
    write(fmt::format("{}-windows", i), windows);
    for (const auto& [side, name] : {std::pair(&layer.query, "query"), {&layer.key, "key"}}) {
      for (std::size_t head = 0; head < side->top.size(); ++head) {
        const TopComponents& top = side->top[head];
        write(fmt::format("{}-{}-{}", i, name, head),
              top_block(top, std::min(per_token, top.per_token()), layer.components));
      }
    }
  }
}

}  // namespace

void write_inspect_page(const std::string& title, std::span<const Inspection> models,
                        const std::function<void(std::string_view)>& sink) {
  ordered_json data = {{"title", title},
                       {"categories", kTokenCategoryNames},
                       {"deadShare", kDeadShare},
                       {"models", ordered_json::array()}};
  for (const Inspection& model : models) data["models"].push_back(model_json(model));
  constexpr std::string_view kBlocks = "<!--BLOCKS-->";
  const std::string page = make_page(inspect_template(), std::move(data));
  const std::size_t at = page.find(kBlocks);
  sink(std::string_view(page).substr(0, at));
  for (std::size_t i = 0; i < models.size(); ++i) write_blocks(models[i], i, sink);
  sink(std::string_view(page).substr(at + kBlocks.size()));
}

}  // namespace gma::app
