// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "inspect/metrics_json.h"

#include <algorithm>

#include "gma/error.h"
#include "gma/theory.h"
#include "gma/version.h"

namespace gma::app {
namespace {

using nlohmann::ordered_json;

std::vector<RoutingMetrics> metrics_of(const SideInspection& side) {
  std::vector<RoutingMetrics> all;
  for (const HeadStatistics& head : side.statistics) all.push_back(head.metrics());
  return all;
}

/// Components of a mixture that no query head of its group and no key head used (or left dead).
struct Union {
  std::int64_t components = 0, used = 0, dead = 0;

  void add(const LayerInspection& layer) {
    const auto group = static_cast<std::size_t>(layer.heads / layer.key_heads);
    for (std::size_t key_head = 0; key_head < layer.key.statistics.size(); ++key_head) {
      std::vector<const HeadStatistics*> sides = {&layer.key.statistics[key_head]};
      for (std::size_t i = 0; i < group; ++i) {
        sides.push_back(&layer.query.statistics[key_head * group + i]);
      }
      const auto count = static_cast<std::size_t>(layer.components);
      std::vector<bool> is_used(count), is_alive(count);
      for (const HeadStatistics* const side : sides) {
        const std::vector<double> assigned = side->table().row_sums(), usage = side->usage();
        for (std::size_t k = 0; k < count; ++k) {
          if (assigned[k] > 0.0) is_used[k] = true;
          if (usage[k] >= kDeadShare / static_cast<double>(count)) is_alive[k] = true;
        }
      }
      components += layer.components;
      used += std::ranges::count(is_used, true);
      dead += std::ranges::count(is_alive, false);
    }
  }
};

/// What holds of a head for every routing vector as large as the text's (docs/theory.md); nothing
/// for a mixture that is not finite.
ordered_json bounds_json(const LayerInspection& layer, std::int64_t key_head, double radius) {
  const std::int64_t components = layer.components, size = layer.head_size;
  const MixtureView mixture = layer.mixture(key_head);
  const std::vector<double> means(mixture.means.begin(), mixture.means.end());
  const std::vector<double> variances(mixture.variances.begin(), mixture.variances.end());
  const auto first = layer.log_priors.begin() + key_head * components;
  const std::vector<double> priors(first, first + components);
  try {
    const theory::Bounds bounds =
        theory::bounds({View<const double, 2>::contiguous(means.data(), {components, size}),
                        View<const double, 2>::contiguous(variances.data(), {components, size}),
                        View<const double, 1>::contiguous(priors.data(), {components})},
                       radius);
    return {{"radius", bounds.radius},
            {"rank", bounds.rank},
            {"score_spread", bounds.score_spread},
            {"responsibilities", bounds.responsibilities},
            {"gradient", bounds.gradient},
            {"read_query", bounds.read_query},
            {"read_key", bounds.read_key}};
  } catch (const InvalidArgument&) {
    return nullptr;
  }
}

ordered_json head_json(const LayerInspection& layer, std::size_t head) {
  const std::int64_t key_head = static_cast<std::int64_t>(head) / (layer.heads / layer.key_heads);
  const MixtureView mixture = layer.mixture(key_head);
  const OverlapSummary overlaps = overlap_summary(mixture);
  const double query_radius = layer.query.radius[head];
  const double key_radius = layer.key.radius[static_cast<std::size_t>(key_head)];
  const auto [least, most] = std::ranges::minmax_element(mixture.variances);
  return {{"head", head},
          {"key_head", key_head},
          {"query", layer.query.statistics[head].metrics()},
          {"key", layer.key.statistics[static_cast<std::size_t>(key_head)].metrics()},
          {"overlap_mean", overlaps.mean},
          {"overlap_max", overlaps.largest},
          {"query_radius", query_radius},
          {"key_radius", key_radius},
          {"bounds", bounds_json(layer, key_head, std::max(query_radius, key_radius))},
          {"variance_min", *least},
          {"variance_max", *most}};
}

}  // namespace

void to_json(ordered_json& json, const RoutingMetrics& metrics) {
  json = {{"components", metrics.components},
          {"components_used", metrics.components_used},
          {"components_dead", metrics.components_dead},
          {"usage_entropy", metrics.usage_entropy},
          {"assignment_entropy", metrics.assignment_entropy},
          {"effective_components", metrics.effective_components},
          {"responsibility_entropy", metrics.responsibility_entropy},
          {"routing_information", metrics.routing_information},
          {"top_responsibility", metrics.top_responsibility},
          {"nmi", metrics.categories.nmi},
          {"nmi_by_chance", metrics.categories.chance},
          {"ami", metrics.categories.adjusted}};
}

ordered_json metrics_json(const Inspection& inspection) {
  std::vector<RoutingMetrics> queries, keys;
  Union both;
  ordered_json layers = ordered_json::array();
  for (const LayerInspection& layer : inspection.layers) {
    const std::vector<RoutingMetrics> of_queries = metrics_of(layer.query);
    const std::vector<RoutingMetrics> of_keys = metrics_of(layer.key);
    queries.insert(queries.end(), of_queries.begin(), of_queries.end());
    keys.insert(keys.end(), of_keys.begin(), of_keys.end());
    both.add(layer);
    ordered_json heads = ordered_json::array();
    for (std::size_t head = 0; head < of_queries.size(); ++head) {
      heads.push_back(head_json(layer, head));
    }
    layers.push_back({{"layer", layer.number},
                      {"query", summarise(of_queries)},
                      {"key", summarise(of_keys)},
                      {"heads", std::move(heads)}});
  }
  RoutingMetrics whole = summarise(std::vector{summarise(queries), summarise(keys)});
  whole.components = both.components;
  whole.components_used = both.used;
  whole.components_dead = both.dead;

  ordered_json categories = ordered_json::object();
  for (std::size_t i = 0; i < kTokenCategories; ++i) {
    categories[std::string(kTokenCategoryNames[i])] = inspection.category_counts[i];
  }
  ordered_json json = {
      {"format", "gma-inspect"},           {"gma_version", version()},
      {"checkpoint", inspection.name},     {"task", inspection.task},
      {"step", inspection.step},           {"parameters", inspection.parameters},
      {"tokenizer", inspection.tokenizer}, {"covariance_type", inspection.covariance_type},
      {"context", inspection.context},     {"tokens", inspection.tokens},
      {"sequences", inspection.sequences}, {"token_categories", std::move(categories)}};
  json.update(ordered_json(whole));
  json["query"] = summarise(queries);
  json["key"] = summarise(keys);
  json["layers"] = std::move(layers);
  return json;
}

}  // namespace gma::app
