// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// gma generate.

#include <fmt/format.h>
#include <unistd.h>

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

/// Writes at once, so that a reader sees text as it comes into being.
void show(std::string_view text) {
  if (text.empty()) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error("cannot write to standard output");
  }
}

void run(const GenerateCommand& command) {
  apply_config_file(*command.app);
  require_option(*command.app, "checkpoint");
  set_threads(command.threads);
  const SavedModel saved = load_model(command.checkpoint);
  gma_torch::nn::CausalLm model = make_lm(saved);
  const Tokenizer& tokenizer = *saved.tokenizer;
  const std::string prompt = read_prompt(command);
  // Without a prompt the text begins as if after a line end.
  const std::vector<Token> tokens = tokenizer.encode(prompt.empty() ? "\n" : prompt);

  Utf8Stream characters;
  StopFilter filter(command.stop);
  if (command.echo) show(characters.push(prompt));
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t count = 0;
  generate(model, tokens, command.sampling, command.max_tokens, [&](Token token) {
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
      ->type_name("PATH");

  constexpr const char* kText = "Text";
  CLI::Option* prompt =
      app->add_option("--prompt", command->prompt, "Text to continue; without it, standard input")
          ->group(kText);
  app->add_option("--prompt-file", command->prompt_file, "File with the text to continue")
      ->type_name("FILE")
      ->excludes(prompt)
      ->group(kText);
  app->add_option("--max-tokens", command->max_tokens, "Tokens to generate")
      ->check(CLI::NonNegativeNumber)
      ->type_name("INT")
      ->capture_default_str()
      ->group(kText);
  app->add_option("--stop", command->stop, "Text before which to end; may be given several times")
      ->expected(1)
      ->take_all()
      ->type_name("TEXT")
      ->group(kText);
  app->add_flag("--echo", command->echo, "Print the prompt first")->group(kText);

  constexpr const char* kSampling = "Sampling";
  SamplingOptions& sampling = command->sampling;
  app->add_flag("--greedy", sampling.greedy, "Take the likeliest token each time")
      ->group(kSampling);
  app->add_option("--temperature", sampling.temperature, "Below 1: surer; above 1: more varied")
      ->check(CLI::Range(1e-3, 1e3))
      ->type_name("NUMBER")
      ->capture_default_str()
      ->group(kSampling);
  app->add_option("--top-k", sampling.top_k, "Draw among the k likeliest; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->type_name("INT")
      ->capture_default_str()
      ->group(kSampling);
  app->add_option("--top-p", sampling.top_p,
                  "Draw among the fewest that hold this probability; 1: all")
      ->check(CLI::Range(1e-6, 1.0))
      ->type_name("NUMBER")
      ->capture_default_str()
      ->group(kSampling);
  app->add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Above 1: tokens that were there before are less likely")
      ->check(CLI::Range(1e-3, 1e3))
      ->type_name("NUMBER")
      ->capture_default_str()
      ->group(kSampling);
  app->add_option("--seed", sampling.seed, "Seed of the draws")
      ->type_name("INT")
      ->capture_default_str()
      ->group(kSampling);
  app->add_option("--threads", command->threads,
                  "Threads; more than one pays in large models; 0: one a core")
      ->check(CLI::NonNegativeNumber)
      ->type_name("INT")
      ->capture_default_str();
  add_config_option(*app);
  app->footer("Example: gma generate runs/lm --prompt 'The ' --temperature 0.8 --top-p 0.95");
  app->callback([command] { run(*command); });
}

}  // namespace gma::app
