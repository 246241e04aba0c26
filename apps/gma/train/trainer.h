// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "infer/saved_model.h"
#include "train/config.h"
#include "train/console.h"
#include "train/optimizer.h"
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

  /// Takes over weights, optimiser and generator of a checkpoint that save_last() wrote. Throws
  /// InvalidArgument if it holds no such thing.
  void resume(const gma_torch::nn::Checkpoint& checkpoint);

  /// Trains until the end, until validations stop improving, or until `stop` asks for it; in each
  /// case last.safetensors is up to date afterwards. Throws std::runtime_error if the loss is not
  /// finite.
  Outcome run(const StopRequest& stop);

  const Progress& progress() const { return progress_; }
  /// Tokens trained on per second of this sitting, validations left out.
  double tokens_per_second() const;

 private:
  using Clock = std::chrono::steady_clock;

  double seconds() const;
  double fraction() const;
  void train_step();
  void report(double loss, double learning_rate, double gradient_norm);
  bool validate(const StopRequest& stop);
  void save_best(const Metrics& metrics);
  void save_last();

  const TrainConfig& config_;
  TrainTask& task_;
  Console& console_;
  RunLog& log_;
  Optimizer optimizer_;
  Progress progress_;
  std::int64_t saved_step_ = -1;
  Clock::time_point started_ = Clock::now();
  double seconds_before_ = 0.0;  ///< of the sittings before this one
  double fraction_before_ = 0.0;
  double training_seconds_ = 0.0;  ///< of this sitting
  std::int64_t session_tokens_ = 0;
};

}  // namespace gma::app
