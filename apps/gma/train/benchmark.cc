// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/benchmark.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>

#include "gma/error.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

// The sizes that Long Range Arena's own configurations have (google-research/long-range-arena,
// lra_benchmarks/{listops,text_classification}/configs), with their first and last learning rates.
// The schedule between the two is this program's cosine, and padding is masked for every mixer.
// Positions are added to embeddings as there; the first token stands in for its CLS vector. No
// paper preset has the short convolution, which is of no published mixer here but mamba.
constexpr Preset kListOpsPaper{"paper", "Long Range Arena's configuration: 9 M parameters",
                               R"(
hidden-size = 512
layers = 4
heads = 8
components = 64
parameters = 8950000
use-short-conv = false
rotary = false
sinusoidal-positions = true
pooling = "first"
context = 2000
dropout = 0.1
batch-size = 32
steps = 5000
lr = 1.6e-3
min-lr = 7e-4
warmup = 1000
valid-every = 250
valid-tokens = 0
)"};
constexpr Preset kTextPaper{"paper", "Long Range Arena's configuration: 3.5 M parameters",
                            R"(
hidden-size = 256
layers = 4
heads = 4
components = 64
parameters = 3490000
use-short-conv = false
rotary = false
sinusoidal-positions = true
pooling = "first"
context = 4000
dropout = 0.1
batch-size = 32
steps = 20000
lr = 5.6e-4
min-lr = 3.5e-4
warmup = 8000
valid-every = 500
valid-tokens = 0
valid-fraction = 0.1
)"};

constexpr Preset kListOpsSmall{"small", "15 minutes on two cores with gma: 0.2 M parameters",
                               R"(
hidden-size = 64
layers = 4
heads = 4
components = 32
parameters = 210000
projection-rank = 8
rotary = false
sinusoidal-positions = true
pooling = "first"
context = 2000
batch-size = 32
steps = 600
lr = 2e-3
warmup = 100
valid-every = 150
valid-tokens = 0
)"};
constexpr Preset kTextSmall{"small", "25 minutes on two cores with gma: 0.2 M parameters",
                            R"(
hidden-size = 64
layers = 2
heads = 4
components = 32
parameters = 160000
projection-rank = 8
rotary = false
sinusoidal-positions = true
context = 4000
dropout = 0.1
batch-size = 32
steps = 1000
lr = 2e-3
warmup = 100
valid-every = 100
valid-tokens = 500000
valid-fraction = 0.1
)"};

constexpr Preset kListOpsNano{"nano", "a minute: to see that all works",
                              R"(
hidden-size = 32
layers = 2
heads = 2
components = 16
parameters = 40000
projection-rank = 4
rotary = false
sinusoidal-positions = true
pooling = "first"
context = 2000
batch-size = 8
steps = 20
warmup = 5
valid-every = 10
valid-tokens = 20000
)"};
constexpr Preset kTextNano{"nano", "a minute: to see that all works",
                           R"(
hidden-size = 32
layers = 2
heads = 2
components = 16
parameters = 40000
projection-rank = 4
rotary = false
sinusoidal-positions = true
context = 1000
batch-size = 8
steps = 20
warmup = 5
valid-every = 10
valid-tokens = 20000
valid-fraction = 0.1
)"};

// The paper names the corpus, WikiText-103, and K alone; the rest is a usual size for it. Logits of
// 267,735 words are what a batch is limited by.
constexpr Preset kWikitextPaper{"paper", "WikiText-103 by words, K = 256, 160 M parameters",
                                R"(
tokenizer = "words"
hidden-size = 512
layers = 8
heads = 8
components = 256
parameters = 160000000
use-short-conv = false
context = 512
dropout = 0.1
batch-size = 4
grad-accum = 8
steps = 100000
lr = 5e-4
min-lr = 5e-5
warmup = 2000
valid-every = 2000
valid-tokens = 0
)"};
constexpr Preset kWikitextSmall{"small",
                                "25 minutes on two cores with gma: 4,096 pieces, 3 M parameters",
                                R"(
tokenizer = "sentencepiece"
vocab-size = 4096
hidden-size = 192
layers = 5
heads = 6
components = 64
parameters = 3100000
context = 512
dropout = 0.1
batch-size = 8
steps = 800
lr = 4e-3
warmup = 100
valid-every = 200
valid-tokens = 65536
)"};
constexpr Preset kWikitextNano{"nano", "a minute: to see that all works",
                               R"(
tokenizer = "sentencepiece"
vocab-size = 512
hidden-size = 32
layers = 2
heads = 2
components = 16
parameters = 50000
context = 128
batch-size = 8
steps = 20
warmup = 5
valid-every = 10
valid-tokens = 8192
)"};

const std::vector<Benchmark>& all_benchmarks() {
  static const std::vector<Benchmark> list = {
      {"listops",
       Task::classify,
       "Long Range Arena's ListOps: nested lists of up to 2,000 tokens, ten classes",
       "gma train listops --data data/listops --mixer gma --out runs/listops",
       {{{"basic_train.tsv"}, {"basic_val.tsv"}, {"basic_test.tsv"}}},
       "gma data listops",
       {kListOpsSmall, kListOpsNano, kListOpsPaper}},
      {"text",
       Task::classify,
       "Long Range Arena's Text: reviews (IMDb) as bytes, the first 4,000, two classes",
       "gma train text --data data/imdb --mixer gma --out runs/text",
       {{{"train.tsv"}, {}, {"test.tsv"}}},
       "gma data imdb",
       {kTextSmall, kTextNano, kTextPaper}},
      {"wikitext",
       Task::lm,
       "Language model on WikiText-2 or -103, by words or SentencePiece; perplexity a word",
       "gma train wikitext --data data/wikitext-2 --mixer gma --out runs/wikitext",
       {{{"wiki.train.tokens", "wiki.train.raw"},
         {"wiki.valid.tokens", "wiki.valid.raw"},
         {"wiki.test.tokens", "wiki.test.raw"}}},
       "gma data wikitext-2",
       {kWikitextSmall, kWikitextNano, kWikitextPaper}},
  };
  return list;
}

/// The first of `names` that the folder has, plain or compressed.
std::optional<std::string> find_file(const fs::path& folder,
                                     const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const char* ending : {"", ".gz"}) {
      const fs::path file = folder / (name + ending);
      if (fs::is_regular_file(file)) return file.string();
    }
  }
  return std::nullopt;
}

/// The element called `name`; throws InvalidArgument listing the names there are.
template <class Element>
const Element& find_named(std::span<const Element> list, const char* what, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Element& element : list) {
    if (element.name == name) return element;
    names.emplace_back(element.name);
  }
  throw InvalidArgument(
      fmt::format("{} {}: expected one of {}", what, name, fmt::join(names, ", ")));
}

}  // namespace

const Preset& Benchmark::preset(std::string_view name) const {
  return find_named<Preset>(presets, "--preset", name);
}

std::span<const Benchmark> benchmarks() { return all_benchmarks(); }

const Benchmark& benchmark(std::string_view name) {
  return find_named<Benchmark>(all_benchmarks(), "--task", name);
}

void locate_data(const Benchmark& benchmark, TrainConfig& config) {
  if (config.data.size() != 1) return;
  if (!fs::exists(config.data.front())) {
    throw InvalidArgument(fmt::format("--data {}: no such folder; `{} --out {}` makes it",
                                      config.data.front(), benchmark.make_data,
                                      config.data.front()));
  }
  if (!fs::is_directory(config.data.front())) return;
  const fs::path folder = config.data.front();
  std::vector<std::string>* const parts[] = {&config.data, &config.valid_data, &config.test_data};
  for (std::size_t part = 0; part < benchmark.files.size(); ++part) {
    const std::vector<std::string>& names = benchmark.files[part];
    if (names.empty() || (part > 0 && !parts[part]->empty())) continue;
    const std::optional<std::string> file = find_file(folder, names);
    if (!file) {
      throw InvalidArgument(fmt::format("--data {}: expected {} in it; `{} --out {}` makes it",
                                        folder.string(), fmt::join(names, " or "),
                                        benchmark.make_data, folder.string()));
    }
    *parts[part] = {*file};
  }
}

}  // namespace gma::app
