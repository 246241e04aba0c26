// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma inspect.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gma_torch/nn/checkpoint.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli.h"
#include "data/output_file.h"
#include "gma/error.h"
#include "inspect/inspection.h"
#include "inspect/metrics_json.h"
#include "report/inspect_page.h"
#include "train/console.h"

namespace gma::app {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kPageBytes = std::int64_t{80} << 20;

struct InspectCommand {
  CLI::App* app = nullptr;
  std::vector<std::string> checkpoints;
  bool compare = false;
  InspectOptions options;
  std::int64_t responsibilities = 0;
  std::string out = "inspect";
  std::string title;
  std::int64_t threads = 0;
  bool json = false;
};

template <class T>
torch::Tensor tensor_of(std::span<const T> values, std::vector<std::int64_t> shape,
                        torch::Dtype dtype) {
  torch::Tensor tensor = torch::empty(shape, dtype);
  std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size_bytes());
  return tensor;
}

/// (tokens, heads, m) of what each head has by itself.
template <class Values>
torch::Tensor of_heads(const SideInspection& side, std::int64_t most, torch::Dtype dtype,
                       const Values& values) {
  std::vector<torch::Tensor> heads;
  for (const TopComponents& top : side.top) {
    const auto per_token = static_cast<std::int64_t>(top.per_token());
    const auto span = values(top);
    heads.push_back(tensor_of(span, {std::ssize(span) / per_token, per_token}, dtype)
                        .narrow(1, 0, std::min(most, per_token)));
  }
  return torch::stack(heads, 1).contiguous();
}

gma_torch::nn::Checkpoint responsibilities_file(const Inspection& model, std::int64_t most) {
  gma_torch::nn::Checkpoint file;
  const auto tokens = std::ssize(model.sample);
  const std::vector<std::int32_t> ids(model.sample.begin(), model.sample.end());
  file.tensors["tokens"] = tensor_of(std::span<const std::int32_t>(ids), {tokens}, torch::kInt32);
  file.tensors["categories"] =
      tensor_of(std::span<const TokenCategory>(model.categories), {tokens}, torch::kUInt8);
  for (const LayerInspection& layer : model.layers) {
    for (const auto& [side, name] : {std::pair(&layer.query, "query"), {&layer.key, "key"}}) {
      const std::string prefix = fmt::format("layer.{}.{}.", layer.number, name);
      file.tensors[prefix + "components"] = of_heads(
          *side, most, torch::kInt32, [](const TopComponents& top) { return top.components(); });
      file.tensors[prefix + "responsibilities"] =
          of_heads(*side, most, torch::kFloat32,
                   [](const TopComponents& top) { return top.responsibilities(); });
    }
  }
  std::string names;
  for (const std::string_view name : kTokenCategoryNames) {
    names += fmt::format("{}{}", names.empty() ? "" : ",", name);
  }
  file.metadata = {
      {"format", "gma-responsibilities"}, {"checkpoint", model.name}, {"categories", names}};
  return file;
}

/// Least and greatest bound of a head, "unknown" where there is none.
std::string bounds_text(const ordered_json& metrics) {
  std::vector<double> bounds;
  for (const ordered_json& layer : metrics.at("layers")) {
    for (const ordered_json& head : layer.at("heads")) {
      if (head.at("bounds").is_null()) continue;
      bounds.push_back(head.at("bounds").at("responsibilities").get<double>());
    }
  }
  if (bounds.empty()) return "unknown";
  const auto [least, greatest] = std::ranges::minmax(bounds);
  return fmt::format("{:.3g} to {:.3g} over heads", least, greatest);
}

void print(const ordered_json& metrics) {
  const auto number = [&](const char* name) { return metrics.at(name).get<double>(); };
  const auto count = [&](const char* name) { return metrics.at(name).get<std::int64_t>(); };
  fmt::print("{}, step {}: {} tokens in {} sequences\n",
             metrics.at("checkpoint").get<std::string>(), count("step"), count("tokens"),
             count("sequences"));
  fmt::print("components       {} of {} used, {} dead; {:.1f} effective a head\n",
             count("components_used"), count("components"), count("components_dead"),
             number("effective_components"));
  fmt::print("usage entropy    {:.3f} of the greatest (assignments {:.3f})\n",
             number("usage_entropy"), number("assignment_entropy"));
  fmt::print("a token          {:.3f} of the greatest entropy; {:.1f}% on its first component\n",
             number("responsibility_entropy"), 100.0 * number("top_responsibility"));
  fmt::print("NMI, categories  {:.3f} (by chance {:.3f}; adjusted {:.3f})\n", number("nmi"),
             number("nmi_by_chance"), number("ami"));
  fmt::print("Lipschitz bound  {} (responsibilities, 1-norm, within the text's radius)\n",
             bounds_text(metrics));
}

void check(const InspectCommand& command) {
  require_option(*command.app, "--data");
  const std::size_t expected = command.compare ? 2 : 1;
  if (command.checkpoints.size() != expected) {
    throw InvalidArgument(fmt::format("expected {} with{} --compare, got {}",
                                      command.compare ? "two checkpoints" : "one checkpoint",
                                      command.compare ? "" : "out", command.checkpoints.size()));
  }
}

void run(InspectCommand& command) {
  apply_config_file(*command.app);
  check(command);
  set_threads(command.threads);
  const OutputFolder folder(command.out);
  InspectOptions& options = command.options;
  options.top = command.responsibilities;
  options.page_bytes = kPageBytes / std::ssize(command.checkpoints);

  std::vector<Inspection> models;
  ordered_json metrics = ordered_json::array();
  {
    Console console;
    for (const std::string& checkpoint : command.checkpoints) {
      models.push_back(
          inspect_checkpoint(checkpoint, options, [&](std::int64_t done, std::int64_t total) {
            console.status(fmt::format("{}  {} of {} tokens", checkpoint, done, total));
          }));
      metrics.push_back(metrics_json(models.back()));
    }
  }
  if (command.title.empty()) {
    command.title = fmt::format("{}", fmt::join(command.checkpoints, " and "));
  }

  OutputFiles files(folder.path(), {"report.html", "metrics.json"});
  write_inspect_page(command.title, models, [&](std::string_view bytes) { files.write(0, bytes); });
  const ordered_json record = command.compare ? ordered_json{{"models", metrics}} : metrics.front();
  files.write(1, record.dump(1) + "\n");
  files.commit();
  for (std::size_t i = 0; command.responsibilities > 0 && i < models.size(); ++i) {
    const std::string name = i == 0 ? "responsibilities" : "responsibilities-2";
    gma_torch::nn::save_checkpoint(folder.path() / (name + ".safetensors"),
                                   responsibilities_file(models[i], command.responsibilities));
  }
  if (command.json) {
    fmt::print("{}\n", record.dump());
    return;
  }
  for (const ordered_json& one : metrics) print(one);
  fmt::print("Open {}\n", (folder.path() / "report.html").string());
}

}  // namespace

void add_inspect_command(CLI::App& root) {
  auto command = std::make_shared<InspectCommand>();
  InspectOptions& options = command->options;
  CLI::App* app = command->app = root.add_subcommand(
      "inspect", "Show which components the tokens of a text use, and what these stand for");
  app->add_option("checkpoints", command->checkpoints,
                  "Checkpoint, or folder of a run (its best model); two with --compare")
      ->required()
      ->expected(1, 2)
      ->type_name("PATH");
  app->add_flag("--compare", command->compare, "Set two checkpoints side by side");
  app->add_option("--data", options.data,
                  "Text files or folders; label<TAB>text files for a classifier")
      ->type_name("PATH");
  add_number(*app, "--tokens", options.max_tokens, kCountOr0, "Most tokens to read; 0: all");
  add_number(*app, "--context", options.context, kCountOr0,
             "Tokens after which a language model starts afresh (of a text, for a classifier); 0: "
             "as trained");
  add_number(*app, "--sample", options.sample, kCount,
             "Tokens, from the first, that the report shows");
  add_number(*app, "--window", options.window, {.min = -1, .max = kMaxCount},
             "A token of the sample whose window's affinity is shown beside the others; -1: none");
  add_number(*app, "--responsibilities", command->responsibilities, kSizeOr0,
             "Components of each token of the sample to write to responsibilities.safetensors; 0: "
             "no such file");
  app->add_option("--out", command->out, "Folder for report.html and metrics.json")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--title", command->title, "Heading of the report [the checkpoints]");
  add_number(*app, "--threads", command->threads, kThreads, "Threads; 0: one a core");
  app->add_flag("--json", command->json, "Print metrics.json");
  add_config_option(*app);
  app->footer("Example: gma inspect runs/lm --data wiki.test.tokens --out runs/lm-inspect");
  app->callback([command] { run(*command); });
}

}  // namespace gma::app
