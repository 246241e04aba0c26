// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gma_torch/attention.h>
#include <gma_torch/nn/gaussian_mixture_attention.h>
#include <gma_torch/nn/models.h>
#include <gma_torch/nn/readouts.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "data/utf8.h"
#include "gma/error.h"
#include "infer/saved_model.h"
#include "inspect/inspection.h"
#include "inspect/token_source.h"
#include "train/task.h"

namespace gma::app {
namespace {

using gma_torch::nn::GaussianMixtureAttentionImpl;
using torch::Tensor;

constexpr std::int64_t kMostComponentsInPage = 5;
constexpr std::int64_t kMostWindows = 8;
/// What the routing vectors of the windows may take, in bytes.
constexpr std::int64_t kWindowBytes = std::int64_t{24} << 20;

Tensor on_cpu(const Tensor& x) { return x.detach().to(torch::kCPU, torch::kFloat32).contiguous(); }

std::span<const float> values_of(const Tensor& x) {
  return {x.const_data_ptr<float>(), static_cast<std::size_t>(x.numel())};
}

std::vector<float> copy_of(const Tensor& x) {
  const Tensor values = on_cpu(x);
  const std::span<const float> span = values_of(values);
  return {span.begin(), span.end()};
}

SideInspection empty_side(std::int64_t heads, std::int64_t components, std::int64_t top) {
  const auto count = static_cast<std::size_t>(heads);
  const auto k = static_cast<std::size_t>(components);
  return {.statistics = std::vector(count, HeadStatistics(k)),
          .top = std::vector(count, TopComponents(k, static_cast<std::size_t>(top))),
          .window_vectors = {},
          .radius = std::vector<double>(count)};
}

/// Reads a text through the blocks of a model and gathers what their mixtures do.
class Inspector {
 public:
  Inspector(Inspection& result, gma_torch::nn::Transformer& transformer) : result_(result) {
    const auto& blocks = transformer->blocks();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      gma_torch::nn::Block block = blocks[i];
      auto* const mixer = dynamic_cast<GaussianMixtureAttentionImpl*>(&block->mixer());
      if (mixer == nullptr) continue;
      mixers_.push_back(mixer);
      result.layers.emplace_back().number = static_cast<std::int64_t>(i);
    }
  }
  ~Inspector() {
    for (GaussianMixtureAttentionImpl* mixer : mixers_) mixer->set_observer({});
  }
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  bool is_empty() const { return mixers_.empty(); }

  /// Throws InvalidArgument, naming `file`, for a mixture that routes nothing.
  void check_mixtures(const std::string& file) const {
    for (std::size_t i = 0; i < mixers_.size(); ++i) {
      const GaussianMixtureAttentionImpl& mixer = *mixers_[i];
      const Tensor logits = mixer.prior_logits();
      const Tensor priors = logits.log_softmax(-1).exp();
      for (const auto& [name, values] : {std::pair("means", mixer.means()),
                                         {"variances", mixer.variances()},
                                         {"priors", priors}}) {
        const Tensor odd = values.masked_select(values.isfinite().logical_not());
        if (odd.numel() == 0) continue;
        throw InvalidArgument(fmt::format("{}: {} of layer {}: expected finite numbers, got {}",
                                          file, name, result_.layers[i].number,
                                          odd[0].item<double>()));
      }
    }
  }

  /// Makes room for a text and begins to watch.
  void prepare(const TokenSurvey& survey, const InspectOptions& options, std::int64_t heads,
               std::int64_t key_heads) {
    const std::int64_t sample = std::min(options.sample, survey.tokens);
    if (options.window >= sample) {
      throw InvalidArgument(
          fmt::format("--window {}: expected a token of the sample, which has {}: at most {}",
                      options.window, sample, sample - 1));
    }
    const std::int64_t components = mixers_.front()->means().size(1);
    const auto all_heads = static_cast<std::int64_t>(mixers_.size()) * (heads + key_heads);
    const std::int64_t bytes_of_one = components > 65536 ? 6 : components > 256 ? 4 : 3;
    result_.page_components = std::clamp(
        options.page_bytes / std::max<std::int64_t>(1, sample * all_heads * bytes_of_one),
        std::int64_t{1}, kMostComponentsInPage);
    const std::int64_t top = std::max(result_.page_components, options.top);
    for (std::size_t i = 0; i < mixers_.size(); ++i) {
      LayerInspection& layer = result_.layers[i];
      const GaussianMixtureAttentionImpl& mixer = *mixers_[i];
      layer.heads = heads;
      layer.key_heads = key_heads;
      layer.components = mixer.means().size(1);
      layer.head_size = mixer.means().size(2);
      layer.means = copy_of(mixer.means());
      layer.variances = copy_of(mixer.variances().expand_as(mixer.means()));
      layer.log_priors = copy_of(mixer.prior_logits().log_softmax(-1));
      layer.query = empty_side(heads, layer.components, top);
      layer.key = empty_side(key_heads, layer.components, top);
    }
    const std::int64_t window_bytes = kWindowTokens * all_heads * result_.layers.front().head_size *
                                      static_cast<std::int64_t>(sizeof(float));
    result_.windows = spread_windows(
        survey.starts, sample,
        std::clamp(kWindowBytes / window_bytes, std::int64_t{1}, kMostWindows), options.window);
    sample_ = sample;
    std::int64_t in_windows = 0;
    for (const Window& window : result_.windows) {
      in_windows += window.length;
      sequences_.push_back(*std::prev(std::ranges::upper_bound(survey.starts, window.start)));
    }
    for (std::size_t i = 0; i < mixers_.size(); ++i) {
      LayerInspection& layer = result_.layers[i];
      const auto size = static_cast<std::size_t>(in_windows * layer.head_size);
      layer.query.window_vectors.resize(size * static_cast<std::size_t>(heads));
      layer.key.window_vectors.resize(size * static_cast<std::size_t>(key_heads));
      layer.keys_outside.resize(result_.windows.size() *
                                static_cast<std::size_t>(key_heads * layer.components));
      mixers_[i]->set_observer([this, i](const Tensor& query, const Tensor& key,
                                         const std::optional<Tensor>&) { see(i, query, key); });
    }
  }

  /// Says of which tokens the next pass is.
  void begin(std::int64_t first, bool begins_sequence, std::span<const TokenCategory> categories) {
    first_ = first;
    if (begins_sequence) sequence_ = first;
    categories_ = categories;
  }

  /// Ranks of the affinities in the windows.
  void finish() {
    std::int64_t first = 0;
    for (const Window& window : result_.windows) {
      for (std::size_t i = 0; i < mixers_.size(); ++i) add_ranks(i, first, window.length);
      first += window.length;
    }
  }

 private:
  void see(std::size_t layer, const Tensor& query, const Tensor& key) {
    const auto [of_queries, of_keys] = mixers_[layer]->responsibilities_of(query, key);
    for (const Tensor& gamma : {of_queries, of_keys}) {
      if (gamma.isfinite().all().item<bool>()) continue;
      throw InvalidArgument(fmt::format(
          "{}: layer {} makes routing vectors of tokens {} to {} that are not finite", result_.name,
          result_.layers[layer].number, first_, first_ + gamma.size(1) - 1));
    }
    add(result_.layers[layer].query, on_cpu(of_queries), on_cpu(query));
    const Tensor keys = on_cpu(of_keys);
    add(result_.layers[layer].key, keys, on_cpu(key));
    add_outside(result_.layers[layer], keys);
  }

  /// Responsibilities (1, T, Hk, K) of the keys from first_ on.
  void add_outside(LayerInspection& layer, const Tensor& responsibilities) {
    const std::int64_t end_of_pass = first_ + responsibilities.size(1);
    double* sums = layer.keys_outside.data();
    const std::int64_t size = layer.key_heads * layer.components;
    for (std::size_t w = 0; w < result_.windows.size(); ++w, sums += size) {
      if (sequences_[w] != sequence_) continue;
      const auto add_keys = [&](std::int64_t begin, std::int64_t end) {
        if (begin >= end) return;
        const Tensor sum = responsibilities.select(0, 0)
                               .narrow(0, begin - first_, end - begin)
                               .sum(0, /*keepdim=*/false, torch::kFloat64)
                               .contiguous();
        const double* const values = sum.const_data_ptr<double>();
        std::transform(values, values + size, sums, sums, std::plus<>());
      };
      const Window& window = result_.windows[w];
      add_keys(first_, std::min(window.start, end_of_pass));
      if (!result_.is_causal) add_keys(std::max(window.start + window.length, first_), end_of_pass);
    }
  }

  /// Responsibilities (1, T, H, K) and routing vectors (1, T, H, D) of the tokens from first_ on.
  void add(SideInspection& side, const Tensor& responsibilities, const Tensor& vectors) {
    const auto heads = static_cast<std::size_t>(responsibilities.size(2));
    const auto components = static_cast<std::size_t>(responsibilities.size(3));
    std::span<const float> rest = values_of(responsibilities);
    for (std::size_t token = 0; token < categories_.size(); ++token) {
      const bool is_sampled = first_ + static_cast<std::int64_t>(token) < sample_;
      for (std::size_t head = 0; head < heads; ++head) {
        side.statistics[head].add(rest.first(components), categories_[token]);
        if (is_sampled) side.top[head].add(rest.first(components));
        rest = rest.subspan(components);
      }
    }
    const Tensor norms = vectors.norm(2, {-1}).amax(1).contiguous();
    for (std::size_t head = 0; head < heads; ++head) {
      side.radius[head] = std::max(side.radius[head], static_cast<double>(values_of(norms)[head]));
    }
    const std::int64_t row = vectors.size(2) * vectors.size(3);
    std::int64_t first_of_window = 0;
    for (const Window& window : result_.windows) {
      const std::int64_t begin = std::max(window.start, first_);
      const std::int64_t end =
          std::min(window.start + window.length, first_ + std::ssize(categories_));
      if (begin < end) {
        std::copy_n(values_of(vectors).begin() + (begin - first_) * row, (end - begin) * row,
                    side.window_vectors.begin() + (first_of_window + begin - window.start) * row);
      }
      first_of_window += window.length;
    }
  }

  void add_ranks(std::size_t index, std::int64_t first, std::int64_t length) {
    LayerInspection& layer = result_.layers[index];
    const GaussianMixtureAttentionImpl& mixer = *mixers_[index];
    // In double, so that rounding does not count as rank.
    const auto in_double = [](const Tensor& x) { return x.to(torch::kFloat64); };
    const std::int64_t group = layer.heads / layer.key_heads;
    const auto responsibilities = [&](std::vector<float>& vectors, std::int64_t heads,
                                      std::int64_t repeats) {
      const std::int64_t row = heads * layer.head_size;
      const Tensor x = in_double(
          torch::from_blob(vectors.data() + first * row, {1, length, heads, layer.head_size}));
      const auto grouped = [&](const Tensor& p) {
        return in_double(p).repeat_interleave(repeats, 0);
      };
      return gma_torch::responsibilities(x, grouped(mixer.means()), grouped(mixer.variances()),
                                         grouped(mixer.prior_logits()));
    };
    const Tensor affinity =
        gma_torch::nn::affinity(responsibilities(layer.query.window_vectors, layer.heads, group),
                                responsibilities(layer.key.window_vectors, layer.key_heads, 1));
    const Tensor values = torch::linalg_svdvals(affinity.squeeze(0));
    const double rounding = static_cast<double>(length) * std::numeric_limits<double>::epsilon();
    for (std::int64_t head = 0; head < layer.heads; ++head) {
      const Tensor row = values[head].contiguous();
      const std::span<const double> singular{row.const_data_ptr<double>(),
                                             static_cast<std::size_t>(row.numel())};
      const double least = singular.front() * rounding;
      layer.ranks.push_back(
          {std::ranges::count_if(singular, [&](double value) { return value > least; }),
           std::exp(entropy(singular))});
    }
  }

  Inspection& result_;
  std::vector<GaussianMixtureAttentionImpl*> mixers_;
  std::vector<std::int64_t> sequences_;  ///< first tokens of those that hold the windows
  std::int64_t sample_ = 0, first_ = 0, sequence_ = 0;
  std::span<const TokenCategory> categories_;
};

std::int64_t context_of(const InspectOptions& options, const SavedModel& saved) {
  const std::int64_t trained = saved.training_config.value("context", std::int64_t{0});
  const std::int64_t context = options.context > 0 ? options.context : trained;
  const std::int64_t most = saved.config.max_length > 0 ? saved.config.max_length
                                                        : std::numeric_limits<std::int64_t>::max();
  if (context > most) {
    throw InvalidArgument(
        fmt::format("--context {}: the model reads at most {} tokens", context, most));
  }
  if (context < 1) {
    throw InvalidArgument(fmt::format("{}: names no context: give --context", saved.file));
  }
  return context;
}

/// Hands a pass over the text to `read`, a chunk at a time, with the chunk's categories.
template <class Read>
void read_through(const TokenSource& source, const TokenSurvey& survey, const Tokenizer& tokenizer,
                  Inspection& result, Inspector& inspector, std::int64_t sample,
                  const InspectProgress& progress, const Read& read) {
  std::int64_t done = 0;
  bool begins_word = true;
  std::vector<TokenCategory> categories;
  source([&](const Chunk& chunk) {
    // A language model's text goes on where its state does not.
    if (chunk.begins_sequence && result.task != name_of(Task::lm)) begins_word = true;
    categories.clear();
    for (const Token token : chunk.tokens) {
      const std::string_view piece = tokenizer.bytes_of(token);
      categories.push_back(categorise(piece, begins_word, survey.counts[token]));
      begins_word = ends_word(piece, begins_word);
      ++result.category_counts[static_cast<std::size_t>(categories.back())];
      if (std::ssize(result.sample) < sample) {
        result.sample.push_back(token);
        result.categories.push_back(categories.back());
        result.pieces.try_emplace(token, piece);
      }
    }
    inspector.begin(done, chunk.begins_sequence, categories);
    const Tensor tokens =
        torch::tensor(std::vector<std::int64_t>(chunk.tokens.begin(), chunk.tokens.end()),
                      torch::kInt64)
            .unsqueeze(0);
    read(tokens, chunk.begins_sequence);
    done += std::ssize(chunk.tokens);
    if (progress) progress(done, survey.tokens);
  });
}

template <class Model, class Read>
void inspect(Model& model, const SavedModel& saved, const InspectOptions& options,
             const TokenSource& source, const InspectProgress& progress, Inspection& result,
             const Read& read) {
  const c10::InferenceMode no_gradients;
  Inspector inspector(result, model->transformer());
  if (inspector.is_empty()) {
    throw InvalidArgument(
        fmt::format("{}: its mixer is {}: expected a model with layers of "
                    "Gaussian mixture attention (--mixer gma)",
                    saved.file, saved.config.mixer));
  }
  inspector.check_mixtures(saved.file);
  const TokenSurvey text = survey(source, saved.config.vocab_size, options.sample);
  result.tokens = text.tokens;
  result.sequences = text.sequences;
  result.starts = text.starts;
  const gma_torch::nn::MixerConfig& mixer = saved.config.mixer_config;
  inspector.prepare(text, options, mixer.num_heads, mixer.key_value_heads());
  read_through(source, text, *saved.tokenizer, result, inspector,
               std::min(options.sample, text.tokens), progress, read);
  inspector.finish();
}

}  // namespace

Inspection inspect_checkpoint(const std::string& checkpoint, const InspectOptions& options,
                              const InspectProgress& progress) {
  const SavedModel saved = load_model(checkpoint);
  const gma_torch::nn::MixerConfig& mixer = saved.config.mixer_config;
  Inspection result;
  Utf8Stream name;
  result.name = name.push(checkpoint);
  result.name += name.finish();
  result.task = name_of(saved.task);
  result.tokenizer = saved.tokenizer->kind();
  result.covariance_type = mixer.covariance_type;
  result.step = saved.progress.value("step", std::int64_t{0});
  result.layers_of_model = saved.config.num_layers;
  result.is_causal = mixer.is_causal;
  result.eps = mixer.eps;
  result.context = context_of(options, saved);
  result.category_counts.resize(kTokenCategories);
  if (saved.task == Task::lm) {
    gma_torch::nn::CausalLm model = make_lm(saved);
    result.parameters = gma_torch::nn::count_parameters(*model);
    gma_torch::nn::ModelState state;
    inspect(model, saved, options, text_source(options, *saved.tokenizer, result.context), progress,
            result, [&](const Tensor& tokens, bool begins) {
              if (begins) state = model->initial_state(1);
              model->features(tokens, &state);
            });
  } else {
    gma_torch::nn::SequenceClassifier model = make_classifier(saved);
    result.parameters = gma_torch::nn::count_parameters(*model);
    inspect(model, saved, options,
            labelled_source(options, *saved.tokenizer, saved.config.num_classes, result.context),
            progress, result,
            [&](const Tensor& tokens, bool) { model->transformer()->forward(tokens); });
  }
  return result;
}

}  // namespace gma::app
