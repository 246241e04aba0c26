// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma inspect.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gma_torch/nn/checkpoint.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
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
constexpr const char* kReport = "report.html";
constexpr const char* kMetrics = "metrics.json";
constexpr std::array kTensorFiles = {"responsibilities.safetensors",
                                     "responsibilities-2.safetensors"};

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

/// A tensor file that stays under another name until all that appears with it is complete.
class StagedTensors {
 public:
  StagedTensors(const std::filesystem::path& path, const gma_torch::nn::Checkpoint& tensors)
      : path_(path),
        staged_(path.parent_path() / fmt::format(".{}.staged", path.filename().string())) {
    gma_torch::nn::save_checkpoint(staged_, tensors);
  }
  ~StagedTensors() {
    std::error_code ignored;  // it has been renamed, or nothing can be done
    std::filesystem::remove(staged_, ignored);
  }
  StagedTensors(const StagedTensors&) = delete;
  StagedTensors& operator=(const StagedTensors&) = delete;

  void commit() const { std::filesystem::rename(staged_, path_); }

 private:
  std::filesystem::path path_, staged_;
};

/// Writes all files of a run, or none; what an earlier run wrote beside them goes.
void write_files(const InspectCommand& command, const OutputFolder& folder,
                 std::span<const Inspection> models, const std::string& metrics) {
  std::vector<std::unique_ptr<StagedTensors>> tensors;
  for (std::size_t i = 0; command.responsibilities > 0 && i < models.size(); ++i) {
    tensors.push_back(std::make_unique<StagedTensors>(
        folder.path() / kTensorFiles.at(i),
        responsibilities_file(models[i], command.responsibilities)));
  }
  OutputFiles files(folder.path(), {kReport, kMetrics});
  write_inspect_page(command.title, models, [&](std::string_view bytes) { files.write(0, bytes); });
  files.write(1, metrics);
  files.commit();
  for (const auto& file : tensors) file->commit();
  for (std::size_t i = tensors.size(); i < kTensorFiles.size(); ++i) {
    std::filesystem::remove(folder.path() / kTensorFiles[i]);
  }
}

/// JSON whose text is UTF-8, whatever a name may hold.
std::string text_of(const ordered_json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

/// Least and greatest of a bound over heads, "unknown" where there is none.
std::string bounds_text(const ordered_json& metrics, const char* name) {
  std::vector<double> bounds;
  for (const ordered_json& layer : metrics.at("layers")) {
    for (const ordered_json& head : layer.at("heads")) {
      if (head.at("bounds").is_null()) continue;
      bounds.push_back(head.at("bounds").at(name).get<double>());
    }
  }
  if (bounds.empty()) return "unknown";
  const auto [least, greatest] = std::ranges::minmax(bounds);
  return least == greatest ? fmt::format("{:.3g}", least)
                           : fmt::format("{:.3g} to {:.3g}", least, greatest);
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
  fmt::print("information      {:.3f} of the greatest: what a token tells of its component\n",
             number("routing_information"));
  fmt::print("NMI, categories  {:.3f} (by chance {:.3f}; adjusted {:.3f})\n", number("nmi"),
             number("nmi_by_chance"), number("ami"));
  const auto bounds = [&](const char* name) { return bounds_text(metrics, name); };
  fmt::print(
      "bounds           affinity of rank {}; within the text's radius a routing vector that\n"
      "                 moves by 1 moves responsibilities by {} (1-norm), a query's output by\n"
      "                 {} and a key's by {} of the values' diameter; gradients {}\n",
      bounds("rank"), bounds("responsibilities"), bounds("read_query"), bounds("read_key"),
      bounds("gradient"));
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
  folder.check_absent({kReport, kMetrics, kTensorFiles[0], kTensorFiles[1]}, /*overwrite=*/true);
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

  const ordered_json record = command.compare ? ordered_json{{"models", metrics}} : metrics.front();
  write_files(command, folder, models, text_of(record, 1) + "\n");
  if (command.json) {
    fmt::print("{}\n", text_of(record, -1));
    return;
  }
  for (const ordered_json& one : metrics) print(one);
  fmt::print("Open {}\n", (folder.path() / kReport).string());
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
