// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The list of options of `gma train`, kept apart from config.h because it is long.
#pragma once

#include "train/config.h"

namespace gma::app {

template <class Config, class Visitor>
void visit_options(Config& c, Visitor&& visit) {
  const bool is_lm = c.task == Task::lm;

  constexpr const char* kData = "Data";
  visit("data", c.data,
        {kData, is_lm ? "Text to train on: files, plain or .gz, or folders, read recursively"
                      : "Files of label<TAB>text lines, plain or .gz; labels are numbers from 0"});
  visit("valid-data", c.valid_data,
        {kData, "Held-out data; without it a part of --data is held out"});
  visit("test-data", c.test_data,
        {kData, "Data that the best model is tested on, once, at the end"});
  visit("test", c.test,
        {kData, "Test at the end, where there is test data; off: for runs that choose options"});
  visit("valid-fraction", c.valid_fraction,
        {kData,
         is_lm ? "Part of each file, from its end, that is held out"
               : "Part of the lines, at random, that is held out",
         kFraction, false});
  visit("tokenizer", c.tokenizer,
        {kData,
         is_lm ? "bytes, sentencepiece (trained on the data) or words (between spaces)"
               : "bytes, sentencepiece (trained on the data) or listops (expression<TAB>label)",
         {},
         false});
  visit("vocab-size", c.vocab_size,
        {kData, "Pieces of the SentencePiece vocabulary", {.min = 257, .max = 65536}, false});
  visit("tokenizer-model", c.tokenizer_model,
        {kData, "A trained SentencePiece model (lossless, with byte fallback) to use", {}, false});
  visit("context", c.context,
        {kData,
         is_lm ? "Tokens that one training sequence holds" : "Tokens that are read of each text",
         kSize, false});
  if (!is_lm) {
    visit("num-classes", c.num_classes,
          {kData, "Labels run from 0 to this less one; 0: found in the data", kSizeOr0, false});
  }

  constexpr const char* kModel = "Model";
  visit("mixer", c.mixer, {kModel, "What mixes tokens", {}, false});
  visit("layers", c.layers, {kModel, "Transformer blocks", kSize, false});
  visit("hidden-size", c.hidden_size, {kModel, "Width of the model", kSize, false});
  visit("heads", c.heads, {kModel, "Heads; they must divide the width", kSize, false});
  visit("key-value-heads", c.key_value_heads,
        {kModel, "Heads of keys and values, for grouped heads; 0: as many as heads", kSizeOr0,
         false});
  visit("components", c.components, {kModel, "Gaussian components a head (K)", kSize, false});
  visit("mlp-size", c.mlp_size,
        {kModel, "Width inside the MLP; 0: 4 x hidden-size", kSizeOr0, false});
  visit("parameters", c.parameters,
        {kModel, "Parameters of the model, which set the width inside the MLP; 0: as it says",
         kCountOr0, false});
  visit("use-short-conv", c.use_short_conv,
        {kModel, "Short convolution on query, key and value", {}, false});
  visit("short-conv-width", c.short_conv_width, {kModel, "Taps of that convolution", kSize, false});
  visit("rotary", c.rotary, {kModel, "Rotary positions on query and key", {}, false});
  visit("rotary-base", c.rotary_base, {kModel, "Base of their wavelengths", kAbove1, false});
  visit("learned-positions", c.learned_positions,
        {kModel, "Learned positions, up to --context", {}, false});
  visit("sinusoidal-positions", c.sinusoidal_positions,
        {kModel, "Sines and cosines of the position, added to embeddings", {}, false});
  if (!is_lm) {
    visit("pooling", c.pooling,
          {kModel, "What is classified: the mean of all tokens, or the first", {}, false});
  }
  visit("tie-embeddings", c.tie_embeddings,
        {kModel, "One matrix for embedding and output", {}, false});
  visit("covariance-type", c.covariance_type,
        {kModel, "Variances by component and channel, by channel, or by component", {}, false});
  visit(
      "initial-means", c.initial_means,
      {kModel,
       "Means at the start: normal, N(0, 1), or data, spread over what a first batch is routed by",
       {},
       false});
  visit(
      "initial-variance", c.initial_variance,
      {kModel, "Variance of every component at the start; 0: 4 sqrt(head size)", kAtLeast0, false});
  visit("variance-floor", c.variance_floor, {kModel, "Least variance", kAbove0, false});
  visit("num-features", c.num_features,
        {kModel, "Random features a head (performer); 0: D log(D)", kSizeOr0, false});
  visit("feature-redraw-interval", c.feature_redraw_interval,
        {kModel, "Batches between new random features (performer); 0: never", kCountOr0, false});
  visit("projection-rank", c.projection_rank,
        {kModel, "Projected keys a head (linformer)", kSize, false});
  visit("state-size", c.state_size,
        {kModel, "mamba: numbers that each channel carries on", kSize, false});
  visit("inner-size", c.inner_size,
        {kModel, "mamba: channels; 0: as many parameters as an attention layer", kSizeOr0, false});
  visit(
      "dt-rank", c.dt_rank,
      {kModel, "mamba: rank of the step sizes; 0: hidden-size / 16, rounded up", kSizeOr0, false});
  visit("dropout", c.dropout,
        {kModel, "Dropout on embeddings and residual branches", kProbability});
  visit("attention-dropout", c.attention_dropout,
        {kModel, "Dropout on responsibilities, features or attention weights", kProbability});

  constexpr const char* kTraining = "Training";
  visit("steps", c.steps, {kTraining, "Optimiser steps", kCount});
  visit("max-minutes", c.max_minutes,
        {kTraining, "Time budget in minutes that shortens the run and its schedule; 0: none",
         kAtLeast0});
  visit("batch-size", c.batch_size, {kTraining, "Sequences a batch", kSize, false});
  visit("grad-accum", c.grad_accum, {kTraining, "Batches a step", kSize, false});
  visit("lr", c.lr, {kTraining, "Peak learning rate", kAbove0});
  visit("min-lr", c.min_lr, {kTraining, "Learning rate at the end of the cosine", kAtLeast0});
  visit("warmup", c.warmup, {kTraining, "Steps of linear warm-up", kCountOr0});
  visit("weight-decay", c.weight_decay, {kTraining, "Decay of matrices (AdamW)", kAtLeast0});
  visit("beta1", c.beta1, {kTraining, "Decay of the gradient's mean (AdamW)", kProbability});
  visit("beta2", c.beta2, {kTraining, "Decay of the gradient's square (AdamW)", kProbability});
  visit("clip", c.clip, {kTraining, "Greatest norm of the gradient; 0: no clipping", kAtLeast0});
  visit(
      "mixture-lr-scale", c.mixture_lr_scale,
      {kTraining,
       "Factor on the learning rate of means, variances and priors; mamba: of A, D and step sizes",
       kAbove0});
  visit("seed", c.seed, {kTraining, "Seed of weights, data order and dropout", kCountOr0, false});

  constexpr const char* kRun = "Run";
  visit("out", c.out, {kRun, "Folder for checkpoints and log"});
  visit("valid-every", c.valid_every, {kRun, "Steps between validations", kCount});
  visit("valid-tokens", c.valid_tokens,
        {kRun, "Most tokens a validation during training reads; 0: all", kCountOr0});
  visit("save-every", c.save_every, {kRun, "Steps between saves of last.safetensors", kCount});
  visit("log-every", c.log_every, {kRun, "Steps between log records", kCount});
  visit("patience", c.patience,
        {kRun, "Stop after so many validations without a new best; 0: never", kCountOr0});
  visit("threads", c.threads, {kRun, "Threads; 0: one a core", kThreads});
}

}  // namespace gma::app
