// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "inspect/routing_sample.h"

#include <algorithm>

namespace gma::app {

TopComponents::TopComponents(std::size_t components, std::size_t most)
    : per_token_(std::min(components, most)) {}

void TopComponents::add(std::span<const float> responsibilities) {
  const std::size_t begin = components_.size();
  for (std::size_t k = 0; k < responsibilities.size(); ++k) {
    const std::size_t held = components_.size() - begin;
    if (held == per_token_ && !(responsibilities[k] > responsibilities_.back())) continue;
    if (held == per_token_) {
      components_.pop_back();
      responsibilities_.pop_back();
    }
    const auto place =
        std::find_if(responsibilities_.begin() + static_cast<std::ptrdiff_t>(begin),
                     responsibilities_.end(), [&](float r) { return r < responsibilities[k]; });
    components_.insert(components_.begin() + (place - responsibilities_.begin()),
                       static_cast<std::uint32_t>(k));
    responsibilities_.insert(place, responsibilities[k]);
  }
}

std::vector<Window> spread_windows(std::span<const std::int64_t> starts, std::int64_t tokens,
                                   std::int64_t count, std::int64_t wanted) {
  std::vector<Window> windows;
  const auto add = [&](std::int64_t token) {
    const auto next = std::ranges::upper_bound(starts, token);
    const std::int64_t first = *std::prev(next);
    const std::int64_t end = next == starts.end() ? tokens : std::min(*next, tokens);
    const std::int64_t start = std::max(first, std::min(token, end - kWindowTokens));
    windows.push_back({start, std::min(kWindowTokens, end - start)});
  };
  if (tokens <= 0) return windows;
  for (std::int64_t i = 0; i < count; ++i) add(i * tokens / count);
  if (wanted >= 0 && wanted < tokens) add(wanted);
  std::ranges::sort(windows, {}, &Window::start);
  const auto repeated = std::ranges::unique(windows, {}, &Window::start);
  windows.erase(repeated.begin(), repeated.end());
  return windows;
}

}  // namespace gma::app
