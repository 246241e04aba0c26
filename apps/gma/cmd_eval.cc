// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma eval.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli.h"
#include "data/labelled_texts.h"
#include "data/text_corpus.h"
#include "gma/error.h"
#include "infer/evaluate.h"
#include "infer/saved_model.h"
#include "train/task.h"

namespace gma::app {
namespace {

using nlohmann::ordered_json;

struct EvalCommand {
  CLI::App* app = nullptr;
  std::string checkpoint;
  std::vector<std::string> data;
  std::int64_t context = 0;
  std::int64_t stride = 0;
  std::int64_t batch_size = 16;
  std::int64_t threads = 0;
  bool json = false;
};

/// The context that was asked for, or with which the model was trained.
std::int64_t context_of(const EvalCommand& command, const SavedModel& saved) {
  std::int64_t context = command.context;
  if (context == 0) {
    const auto found = saved.training_config.find("context");
    if (found == saved.training_config.end() || !found->is_number_integer() || *found < 1) {
      throw InvalidArgument(fmt::format("{}: names no context: give --context", saved.file));
    }
    context = *found;
  }
  if (saved.config.max_length > 0 && context > saved.config.max_length) {
    throw InvalidArgument(fmt::format(
        "--context {}: the model was trained with {} and reads at most {} tokens", context,
        saved.config.learned_positions ? "--learned-positions" : "--mixer " + saved.config.mixer,
        saved.config.max_length));
  }
  return context;
}

ordered_json evaluate_lm(const EvalCommand& command, const SavedModel& saved) {
  const TextFiles files = read_text_files(command.data);
  std::vector<std::string_view> texts;
  for (const TextFile& file : files.files) texts.emplace_back(file.text);
  const TokenStream stream = tokenize(*saved.tokenizer, texts);
  if (stream.tokens.size() < 2)
    throw InvalidArgument("--data: expected at least two tokens of text, got one");

  LmScoreOptions options{.context = context_of(command, saved),
                         .stride = command.stride,
                         .batch_size = command.batch_size};
  if (options.stride == 0) options.stride = options.context;
  if (options.stride > options.context) {
    throw InvalidArgument(fmt::format("--stride {}: expected at most the context, {}",
                                      options.stride, options.context));
  }
  gma_torch::nn::CausalLm model = make_lm(saved);
  const LmScore score = *score_lm(model, stream.tokens, *saved.tokenizer, options);

  ordered_json result = {{"task", "lm"},
                         {"tokenizer", saved.tokenizer->kind()},
                         {"vocab_size", saved.tokenizer->vocab_size()},
                         {"context", options.context},
                         {"stride", options.stride},
                         {"batch_size", options.batch_size},
                         {"files", files.files.size()},
                         {"skipped_files", files.skipped},
                         {"skipped_folders", files.skipped_folders},
                         {"tokens", score.tokens},
                         {"bytes", score.bytes},
                         {"loss", score.loss()},
                         {"perplexity", score.perplexity()},
                         {"bits_per_byte", score.bits_per_byte()}};
  if (stream.words) {
    result["words"] = *stream.words;
    result["word_perplexity"] = std::exp(score.nats / static_cast<double>(*stream.words));
  }
  return result;
}

LabelledTokens read_labelled_files(const EvalCommand& command, const SavedModel& saved,
                                   std::int64_t context) {
  const TextFiles files = read_text_files(command.data);
  std::vector<LabelledText> texts;
  for (const TextFile& file : files.files) {
    const std::vector<LabelledText> more = parse_labelled(file, saved.config.num_classes);
    texts.insert(texts.end(), more.begin(), more.end());
  }
  if (texts.empty()) {
    throw InvalidArgument(fmt::format("--data: expected lines of label<TAB>text, found none in {}",
                                      fmt::join(command.data, ", ")));
  }
  return {texts, *saved.tokenizer, context};
}

ordered_json evaluate_classifier(const EvalCommand& command, const SavedModel& saved) {
  if (command.stride > 0) {
    throw InvalidArgument("--stride: expected a language model, and the model is a classifier");
  }
  const std::int64_t context = context_of(command, saved);
  const LabelledTokens data = saved.tokenizer->kind() == "listops"
                                  ? read_listops_files(command.data, context)
                                  : read_labelled_files(command, saved, context);
  gma_torch::nn::SequenceClassifier model = make_classifier(saved);
  const ClassifierScore score = *score_classifier(model, data, data.size(), command.batch_size);
  return {{"task", "classify"},
          {"tokenizer", saved.tokenizer->kind()},
          {"vocab_size", saved.tokenizer->vocab_size()},
          {"context", context},
          {"batch_size", command.batch_size},
          {"texts", score.texts},
          {"loss", score.loss()},
          {"accuracy", score.accuracy()}};
}

void print(const ordered_json& result) {
  const auto number = [&](const char* name) { return result.at(name).get<double>(); };
  fmt::print("tokenizer        {}, vocabulary {}\n", result.at("tokenizer").get<std::string>(),
             result.at("vocab_size").get<std::int64_t>());
  if (result.at("task") == "lm") {
    fmt::print("context, stride  {}, {} tokens\n", result.at("context").get<std::int64_t>(),
               result.at("stride").get<std::int64_t>());
    fmt::print("scored           {} tokens, {} bytes in {} files ({} skipped, and {} folders)\n",
               result.at("tokens").get<std::int64_t>(), result.at("bytes").get<std::int64_t>(),
               result.at("files").get<std::int64_t>(),
               result.at("skipped_files").get<std::int64_t>(),
               result.at("skipped_folders").get<std::int64_t>());
    fmt::print("loss             {:.5f} nats a token\n", number("loss"));
    fmt::print("perplexity       {:.4f} a token\n", number("perplexity"));
    if (result.contains("words")) {
      fmt::print("                 {:.4f} a word ({} words, line ends counted)\n",
                 number("word_perplexity"), result.at("words").get<std::int64_t>());
    }
    fmt::print("bits per byte    {:.5f}\n", number("bits_per_byte"));
  } else {
    fmt::print("context          {} tokens of each text\n",
               result.at("context").get<std::int64_t>());
    fmt::print("scored           {} texts\n", result.at("texts").get<std::int64_t>());
    fmt::print("loss             {:.5f} nats a text\n", number("loss"));
    fmt::print("accuracy         {:.2f}%\n", 100.0 * number("accuracy"));
  }
}

void run(const EvalCommand& command) {
  apply_config_file(*command.app);
  require_option(*command.app, "--data");
  set_threads(command.threads);
  const SavedModel saved = load_model(command.checkpoint);
  const ordered_json result =
      saved.task == Task::lm ? evaluate_lm(command, saved) : evaluate_classifier(command, saved);
  if (command.json) {
    fmt::print("{}\n", result.dump());
  } else {
    print(result);
  }
}

}  // namespace

void add_eval_command(CLI::App& root) {
  auto command = std::make_shared<EvalCommand>();
  CLI::App* app = command->app = root.add_subcommand("eval", "Evaluate a checkpoint on files");
  app->add_option("checkpoint", command->checkpoint,
                  "Checkpoint, or folder of a run (its best model)")
      ->required()
      ->type_name("PATH");
  app->add_option("--data", command->data,
                  "Text files or folders; label<TAB>text files for a classifier")
      ->type_name("PATH");
  add_number(*app, "--context", command->context, kSizeOr0,
             "Tokens a window holds (a text, for a classifier); 0: as trained");
  add_number(
      *app, "--stride", command->stride, kSizeOr0,
      "Tokens from window to window; the smaller, the more context each has; 0: the context");
  add_number(*app, "--batch-size", command->batch_size, kSize,
             "Windows at a time; has no say in the figures");
  add_number(*app, "--threads", command->threads, kThreads, "Threads; 0: one a core");
  app->add_flag("--json", command->json, "Print one JSON object");
  add_config_option(*app);
  app->footer("Example: gma eval runs/lm --data wiki.test.tokens --stride 128");
  app->callback([command] { run(*command); });
}

}  // namespace gma::app
