// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "infer/saved_model.h"
#include "train/config.h"
#include "train/console.h"
#include "train/optimizer.h"
#include "train/routing_monitor.h"
#include "train/run_log.h"
#include "train/task.h"

namespace gma::app {

/// How far a run has come: what a checkpoint says of it under "progress".
struct Progress {
  std::int64_t step = 0;    ///< steps taken
  std::int64_t tokens = 0;  ///< tokens trained on
  double seconds = 0.0;     ///< spent, over all sittings
  std::int64_t validated_step = -1;
  std::int64_t stale_validations = 0;  ///< since the best one
  std::int64_t best_step = -1;
  std::optional<Metrics> best;
  std::uint32_t data_checksum = 0;
  std::int64_t threads = 0;  ///< of the last sitting; 0: not known
};

void to_json(nlohmann::json& json, const Progress& progress);
/// Throws InvalidArgument for a missing key or one of another type.
Progress progress_from_json(const nlohmann::json& json);

enum class Outcome { finished, no_improvement, interrupted };

/// The training loop: steps, validations, checkpoints in config.out, log and console.
///
/// All that a step depends on is either a function of the step's number (data order, schedule) or
/// saved in last.safetensors (weights, moments, torch's CPU generator, progress), so a resumed run
/// goes on with the same bits on the same number of threads. A time budget is the exception.
class Trainer {
 public:
  Trainer(const TrainConfig& config, TrainTask& task, Console& console, RunLog& log,
          std::uint32_t data_checksum);

  /// Takes over weights, optimiser and generator of a checkpoint that save_last() wrote, and the
  /// best model beside it in `folder`; without that one the next validation decides anew. Throws
  /// InvalidArgument if the checkpoint holds no such thing.
  void resume(const gma_torch::nn::Checkpoint& checkpoint, const std::filesystem::path& folder);

  /// Trains until the end, until validations stop improving, or until `stop` asks for it; in each
  /// case last.safetensors is up to date afterwards. Throws std::runtime_error if the loss, the
  /// gradient, a weight or a validation is not finite; such a state is never saved.
  Outcome run(const StopRequest& stop);

  const Progress& progress() const { return progress_; }
  /// Tokens trained on per second of this sitting, validations left out.
  double tokens_per_second() const;

 private:
  using Clock = std::chrono::steady_clock;

  double seconds() const;
  double fraction() const;
  bool is_logged(std::int64_t step) const;
  void find_best(const std::filesystem::path& folder, const SavedModel& last, bool is_elsewhere);
  void forget_best();
  void take_folder();
  void train_step(const StopRequest& stop);
  void report(double loss, double learning_rate, double gradient_norm);
  bool validate(const StopRequest& stop);
  void save_best(const Metrics& metrics);
  void save_last();
  SavedModel saved_model();
  [[noreturn]] void fail_diverged(const std::string& what, double value, std::int64_t step) const;

  const TrainConfig& config_;
  TrainTask& task_;
  Console& console_;
  RunLog& log_;
  Optimizer optimizer_;
  RoutingMonitor monitor_;
  std::optional<RoutingHealth> health_;  ///< at the last step that was logged
  Progress progress_;
  /// The best model of the run that goes on, until it is saved in config.out.
  std::optional<gma_torch::nn::Checkpoint> best_from_elsewhere_;
  bool owns_folder_ = false;      ///< the checkpoints in config.out are this run's
  bool is_saved_ = false;         ///< last.safetensors holds the present state
  std::int64_t saved_step_ = -1;  ///< the step that it holds
  Clock::time_point started_ = Clock::now();
  double seconds_before_ = 0.0;  ///< of the sittings before this one
  double fraction_before_ = 0.0;
  double training_seconds_ = 0.0;  ///< of this sitting
  std::int64_t session_tokens_ = 0;
};

}  // namespace gma::app
