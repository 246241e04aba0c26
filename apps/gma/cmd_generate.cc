// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma generate.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli.h"
#include "data/text_files.h"
#include "data/utf8.h"
#include "gma/error.h"
#include "infer/generate.h"
#include "infer/saved_model.h"

namespace gma::app {
namespace {

struct GenerateCommand {
  CLI::App* app = nullptr;
  std::string checkpoint;
  std::string prompt;
  std::string prompt_file;
  SamplingOptions sampling;
  std::int64_t max_tokens = 256;
  std::vector<std::string> stop;
  std::int64_t threads = 1;  ///< a token is too little work to share, but in large models
  bool echo = false;
};

std::string read_prompt(const GenerateCommand& command) {
  if (!command.app->get_option("--prompt")->empty()) return command.prompt;
  if (!command.prompt_file.empty()) return read_text_file(command.prompt_file).text;
  if (isatty(STDIN_FILENO) == 1) return {};
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

/// Learned positions end where training did: as many tokens as fit, unless so many were asked for.
std::int64_t tokens_to_generate(const GenerateCommand& command, const SavedModel& saved,
                                std::int64_t prompt) {
  if (!saved.config.learned_positions) return command.max_tokens;
  // The last token is shown but not read.
  const std::int64_t most = saved.config.max_length - prompt + 1;
  const bool was_asked = !command.app->get_option("--max-tokens")->empty();
  if (most < 1 || (was_asked && command.max_tokens > most)) {
    throw InvalidArgument(
        fmt::format("--max-tokens {}: the model was trained with --learned-positions and reads at "
                    "most {} tokens, of which the prompt takes {}",
                    command.max_tokens, saved.config.max_length, prompt));
  }
  return std::min(command.max_tokens, most);
}

/// Writes at once, so that a reader sees text as it comes into being.
void show(std::string_view text) {
  if (text.empty()) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error("cannot write to standard output");
  }
}

void run(const GenerateCommand& command) {
  apply_config_file(*command.app);
  set_threads(command.threads);
  const SavedModel saved = load_model(command.checkpoint);
  gma_torch::nn::CausalLm model = make_lm(saved);
  const Tokenizer& tokenizer = *saved.tokenizer;
  const std::string prompt = read_prompt(command);
  // Without a prompt the text begins as if after a line end.
  const std::vector<Token> tokens = tokenizer.encode(prompt.empty() ? "\n" : prompt);
  const std::int64_t max_tokens = tokens_to_generate(command, saved, std::ssize(tokens));
  SamplingOptions sampling = command.sampling;
  sampling.greedy = sampling.greedy || sampling.temperature == 0;

  Utf8Stream characters;
  StopFilter filter(command.stop);
  if (command.echo) show(characters.push(prompt));
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t count = 0;
  generate(model, tokens, sampling, max_tokens, [&](Token token) {
    ++count;
    show(characters.push(filter.push(tokenizer.bytes_of(token))));
    return !filter.stopped();
  });
  show(characters.push(filter.finish()) + characters.finish());
  if (isatty(STDOUT_FILENO) == 1) show("\n");
  if (isatty(STDERR_FILENO) == 1) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    fmt::print(stderr, "({} tokens, {:.0f} tokens/s)\n", count,
               static_cast<double>(count) / taken.count());
  }
}

}  // namespace

void add_generate_command(CLI::App& root) {
  auto command = std::make_shared<GenerateCommand>();
  CLI::App* app = command->app =
      root.add_subcommand("generate", "Continue a text with a language model");
  app->add_option("checkpoint", command->checkpoint,
                  "Checkpoint, or folder of a run (its best model)")
      ->required()
      ->type_name("PATH");

  constexpr const char* kText = "Text";
  CLI::Option* prompt =
      app->add_option("--prompt", command->prompt,
                      "Text to continue; without it or --prompt-file, standard input")
          ->group(kText);
  app->add_option("--prompt-file", command->prompt_file, "File with the text to continue")
      ->type_name("FILE")
      ->excludes(prompt)
      ->group(kText);
  add_number(*app, "--max-tokens", command->max_tokens, kCountOr0, "Tokens to generate")
      ->group(kText);
  app->add_option("--stop", command->stop, "Text before which to end; may be given several times")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->group(kText);
  app->add_flag("--echo", command->echo, "Print the prompt first")->group(kText);

  constexpr const char* kSampling = "Sampling";
  SamplingOptions& sampling = command->sampling;
  CLI::Option* greedy =
      app->add_flag("--greedy", sampling.greedy, "Take the likeliest token each time")
          ->group(kSampling);
  const auto add = [&](const char* name, auto& value, const Range& range, const char* help) {
    return add_number(*app, name, value, range, help)->group(kSampling);
  };
  add("--temperature", sampling.temperature, {.min = 0, .max = 1000},
      "Below 1: surer; above 1: more varied; 0: as --greedy")
      ->excludes(greedy);
  add("--top-k", sampling.top_k, kCountOr0, "Draw among the k likeliest; 0: all")->excludes(greedy);
  add("--top-p", sampling.top_p, {.min = 0, .max = 1, .exclude_min = true},
      "Draw among the fewest that hold this probability; 1: all")
      ->excludes(greedy);
  add("--repetition-penalty", sampling.repetition_penalty, {.min = 1e-3, .max = 1000},
      "Above 1: tokens that were there before are less likely");
  add("--seed", sampling.seed, kCountOr0, "Seed of the draws");
  add_number(*app, "--threads", command->threads, kThreads,
             "Threads; more than one pays in large models; 0: one a core");
  add_config_option(*app);
  app->footer("Example: gma generate runs/lm --prompt 'The ' --temperature 0.8 --top-p 0.95");
  app->callback([command] { run(*command); });
}

}  // namespace gma::app
