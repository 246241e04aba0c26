// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <stdexcept>

#include "gma/error.h"

namespace gma::app {
namespace {

namespace fs = std::filesystem;

torch::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const torch::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

std::string describe(const Metrics& metrics) {
  std::string text = fmt::format("loss {:.4f}", metrics.loss);
  if (metrics.bits_per_byte) text += fmt::format("  {:.4f} bits per byte", *metrics.bits_per_byte);
  if (metrics.accuracy) text += fmt::format("  accuracy {:.2f}%", 100.0 * *metrics.accuracy);
  return text;
}

}  // namespace

void to_json(nlohmann::json& json, const Progress& progress) {
  json = {{"step", progress.step},
          {"tokens", progress.tokens},
          {"seconds", progress.seconds},
          {"validated_step", progress.validated_step},
          {"stale_validations", progress.stale_validations},
          {"best_step", progress.best_step},
          {"data_checksum", progress.data_checksum},
          {"threads", progress.threads}};
  if (progress.best) json["best"] = *progress.best;
}

Progress progress_from_json(const nlohmann::json& json) {
  try {
    Progress progress;
    json.at("step").get_to(progress.step);
    json.at("tokens").get_to(progress.tokens);
    json.at("seconds").get_to(progress.seconds);
    json.at("validated_step").get_to(progress.validated_step);
    json.at("stale_validations").get_to(progress.stale_validations);
    json.at("best_step").get_to(progress.best_step);
    json.at("data_checksum").get_to(progress.data_checksum);
    progress.threads = json.value("threads", progress.threads);
    if (json.contains("best")) progress.best = json.at("best").get<Metrics>();
    if (progress.step < 0) throw InvalidArgument("metadata 'progress' has a negative step");
    return progress;
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument("metadata 'progress' is not that of a training run");
  }
}

Trainer::Trainer(const TrainConfig& config, TrainTask& task, Console& console, RunLog& log,
                 std::uint32_t data_checksum)
    : config_(config),
      task_(task),
      console_(console),
      log_(log),
      optimizer_(task.model(), config),
      monitor_(task.model()) {
  progress_.data_checksum = data_checksum;
  progress_.threads = at::get_num_threads();
}

void Trainer::resume(const gma_torch::nn::Checkpoint& checkpoint, const fs::path& folder) {
  const SavedModel saved = from_checkpoint(checkpoint);
  const Progress now = progress_;
  if (!is_resumable(checkpoint)) {
    throw InvalidArgument(
        "the checkpoint holds a model but no optimizer: resume from last.safetensors");
  }
  progress_ = progress_from_json(saved.progress);
  if (progress_.data_checksum != now.data_checksum) {
    console_.line(
        "note: the data is not what it was, so the run goes on but not with the same bits, and the "
        "next validation decides anew which model is best");
  }
  if (progress_.threads != 0 && progress_.threads != now.threads) {
    console_.line(
        fmt::format("note: {} threads instead of {}, so the run goes on but not with the same bits",
                    now.threads, progress_.threads));
  }
  optimizer_.load_state(with_prefix(checkpoint, kOptimizerPrefix), progress_.step);
  gma_torch::nn::load_state_dict(task_.model(), saved.weights);
  set_generator_state(checkpoint.tensors.at(kGeneratorTensor));

  std::error_code ignored;
  const bool is_elsewhere = !fs::equivalent(folder, config_.out, ignored);
  owns_folder_ = is_saved_ = !is_elsewhere;
  if (owns_folder_) saved_step_ = progress_.step;
  find_best(folder, saved, is_elsewhere);
  if (progress_.data_checksum != now.data_checksum) forget_best();
  progress_.data_checksum = now.data_checksum;
  progress_.threads = now.threads;
  seconds_before_ = progress_.seconds;
}

/// The best model may be missing, damaged, or have been left by another run. One that is later than
/// `last` is this run's as well: a kill came between the two saves.
void Trainer::find_best(const fs::path& folder, const SavedModel& last, bool is_elsewhere) {
  const fs::path file = folder / kBestCheckpoint;
  std::string reason = "is another run's";
  try {
    gma_torch::nn::Checkpoint best = open_checkpoint(file);
    const SavedModel model = from_checkpoint(best);
    const Progress theirs = progress_from_json(model.progress);
    const bool is_noted = progress_.best && theirs.best && theirs.step == progress_.best_step &&
                          theirs.best->loss == progress_.best->loss;
    const bool is_later =
        theirs.step > progress_.step && theirs.data_checksum == progress_.data_checksum;
    if ((is_noted || is_later) && model.config.to_json() == last.config.to_json()) {
      if (is_elsewhere) best_from_elsewhere_ = std::move(best);
      return;
    }
  } catch (const InvalidArgument& error) {
    reason = "cannot be used";
  }
  if (fs::exists(file)) {
    owns_folder_ = false;
  } else {
    if (!progress_.best) return;
    reason = "is not there";
  }
  console_.line(fmt::format("note: {} {}: the next validation decides anew which model is best",
                            file.string(), reason));
  forget_best();
}

void Trainer::forget_best() {
  progress_.best.reset();
  progress_.best_step = progress_.validated_step = -1;
  progress_.stale_validations = 0;
  is_saved_ = false;
}

Outcome Trainer::run(const StopRequest& stop) {
  started_ = Clock::now();
  fraction_before_ = fraction();
  task_.model().train();
  take_folder();
  while (true) {
    const bool is_finished = fraction() >= 1.0;
    const std::int64_t step = progress_.step;
    const bool is_due = step > 0 && (step % config_.valid_every == 0 || is_finished);
    const bool was_stopped =
        (stop && stop()) || (is_due && progress_.validated_step != step && !validate(stop));
    const bool is_stale = config_.patience > 0 && progress_.stale_validations >= config_.patience;
    if (was_stopped || is_finished || is_stale || step % config_.save_every == 0) {
      if (!is_saved_) save_last();
    }
    if (was_stopped) return Outcome::interrupted;
    if (is_finished) return Outcome::finished;
    if (is_stale) return Outcome::no_improvement;
    train_step(stop);
  }
}

/// Saves before the first step, so that a run can be taken up again from its first moment; only
/// then does the best model of a run that this one replaces go.
void Trainer::take_folder() {
  if (owns_folder_) return;
  save_last();
  const fs::path best = fs::path(config_.out) / kBestCheckpoint;
  if (best_from_elsewhere_) {
    gma_torch::nn::save_checkpoint(best, *best_from_elsewhere_);
    best_from_elsewhere_.reset();
  } else {
    fs::remove(best);
  }
  owns_folder_ = true;
}

double Trainer::tokens_per_second() const {
  if (session_tokens_ == 0) {  // of the sittings before, with their validations
    return static_cast<double>(progress_.tokens) / std::max(seconds_before_, 1e-9);
  }
  return static_cast<double>(session_tokens_) / std::max(training_seconds_, 1e-9);
}

double Trainer::seconds() const {
  return seconds_before_ + std::chrono::duration<double>(Clock::now() - started_).count();
}

double Trainer::fraction() const {
  const double of_steps = static_cast<double>(progress_.step) / static_cast<double>(config_.steps);
  const double of_time = config_.max_minutes > 0 ? seconds() / (60.0 * config_.max_minutes) : 0.0;
  return std::max(of_steps, of_time);
}

bool Trainer::is_logged(std::int64_t step) const {
  return step % config_.log_every == 0 || step == 1;
}

void Trainer::train_step(const StopRequest& stop) {
  const Clock::time_point begin = Clock::now();
  const double rate = learning_rate(config_, progress_.step, fraction());
  const torch::Tensor generator = generator_state();
  double loss = 0.0;
  std::int64_t tokens = 0;
  for (std::int64_t part = 0; part < config_.grad_accum; ++part) {
    if (part > 0 && ((stop && stop()) || fraction() >= 1.0)) {
      // As if the step had not begun, so that it can be taken with the same bits later.
      optimizer_.drop_gradients();
      set_generator_state(generator);
      return;
    }
    const bool is_watched = part == 0 && is_logged(progress_.step + 1);
    if (is_watched) monitor_.watch();
    const TrainTask::BatchLoss batch = task_.loss(progress_.step * config_.grad_accum + part);
    if (is_watched) health_ = monitor_.health();
    const torch::Tensor scaled = batch.loss / static_cast<double>(config_.grad_accum);
    scaled.backward();
    loss += scaled.item<double>();
    tokens += batch.tokens;
  }
  if (!std::isfinite(loss)) fail_diverged("the loss", loss, progress_.step + 1);
  const double norm = optimizer_.step(rate);
  if (!std::isfinite(norm)) fail_diverged("the norm of the gradient", norm, progress_.step + 1);
  ++progress_.step;
  is_saved_ = false;
  progress_.tokens += tokens;
  session_tokens_ += tokens;
  training_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  report(loss, rate, norm);
}

void Trainer::fail_diverged(const std::string& what, double value, std::int64_t step) const {
  std::string message =
      fmt::format("{} became {} at step {}: try a lower --lr or more --warmup", what, value, step);
  if (saved_step_ >= 0) {
    message += fmt::format("; {} holds step {}", (fs::path(config_.out) / kLastCheckpoint).string(),
                           saved_step_);
  }
  throw std::runtime_error(message);
}

void Trainer::report(double loss, double learning_rate, double gradient_norm) {
  const bool is_logged_now = is_logged(progress_.step);
  if (!is_logged_now && !console_.is_terminal()) return;
  const double done = fraction();
  const double session = seconds() - seconds_before_;
  const StepReport report = {
      .step = progress_.step,
      .steps = config_.steps,
      .fraction = done,
      .loss = loss,
      .learning_rate = learning_rate,
      .tokens_per_second = tokens_per_second(),
      .seconds_left = session * (1.0 - done) / std::max(done - fraction_before_, 1e-9),
      .routing = health_};
  console_.status(progress_bar(report));
  if (!is_logged_now) return;
  if (!console_.is_terminal()) console_.line(progress_line(report));
  nlohmann::ordered_json record = {
      {"step", progress_.step},     {"loss", loss},
      {"lr", learning_rate},        {"grad_norm", gradient_norm},
      {"tokens", progress_.tokens}, {"tokens_per_second", report.tokens_per_second},
      {"seconds", seconds()}};
  if (health_) {
    record["usage_entropy"] = health_->usage_entropy;
    record["routing_information"] = health_->routing_information;
    record["dead_components"] = health_->dead_components;
    record["variance_min"] = health_->variance_min;
    record["variance_max"] = health_->variance_max;
  }
  log_.write("train", record);
}

bool Trainer::validate(const StopRequest& stop) {
  console_.status(fmt::format("step {}  validating", progress_.step));
  const std::optional<Metrics> metrics = task_.validate(config_.valid_tokens, stop);
  if (!metrics) return false;
  if (!metrics->is_finite()) fail_diverged("the validation loss", metrics->loss, progress_.step);
  progress_.validated_step = progress_.step;
  is_saved_ = false;
  const bool is_best = !progress_.best || metrics->is_better_than(*progress_.best);
  progress_.stale_validations = is_best ? 0 : progress_.stale_validations + 1;
  console_.line(fmt::format("step {}/{}  validation: {}{}", progress_.step, config_.steps,
                            describe(*metrics), is_best ? "  (best so far)" : ""));
  nlohmann::ordered_json record = {{"step", progress_.step}};
  record.update(nlohmann::ordered_json(nlohmann::json(*metrics)));
  record["is_best"] = is_best;
  record["seconds"] = seconds();
  log_.write("valid", record);
  if (is_best) save_best(*metrics);
  return true;
}

void Trainer::save_best(const Metrics& metrics) {
  progress_.best = metrics;
  progress_.best_step = progress_.step;
  gma_torch::nn::save_checkpoint(fs::path(config_.out) / kBestCheckpoint,
                                 to_checkpoint(saved_model()));
}

void Trainer::save_last() {
  gma_torch::nn::Checkpoint checkpoint = to_checkpoint(saved_model());
  add_with_prefix(optimizer_.state(), kOptimizerPrefix, checkpoint);
  checkpoint.tensors.emplace(kGeneratorTensor, generator_state());
  gma_torch::nn::save_checkpoint(fs::path(config_.out) / kLastCheckpoint, checkpoint);
  is_saved_ = true;
  saved_step_ = progress_.step;
}

SavedModel Trainer::saved_model() {
  progress_.seconds = seconds();
  SavedModel saved = task_.saved();
  saved.training_config = to_json(config_);
  saved.progress = progress_;
  for (const auto& [name, tensor] : saved.weights) {
    if (const double sum = tensor.abs().sum(torch::kFloat64).item<double>(); !std::isfinite(sum)) {
      fail_diverged(fmt::format("'{}'", name), sum, progress_.step);
    }
  }
  return saved;
}

}  // namespace gma::app
