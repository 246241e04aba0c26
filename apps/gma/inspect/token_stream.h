// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace gma::app {

/// Hands on the tokens of text files and folders, in the order of read_text_files(), a piece of the
/// text at a time until `sink` returns false: memory does not grow with the text. Lines are kept
/// whole where they have at most 1 MiB, so that pieces are encoded as the whole text would be.
/// Returns the number of files that were read. Throws InvalidArgument for a named file that is
/// missing, empty or not text, and where there is no text at all.
std::int64_t stream_tokens(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                           const std::function<bool(std::span<const Token>)>& sink);

/// Hands on the tokens of each text of files with labels until `sink` returns false: those that
/// parse_labelled() accepts with `num_classes`, in text files and folders, or, of a ListOps
/// tokenizer, those that read_listops() reads. Memory grows with the longest line alone. Throws as
/// these and stream_tokens() do.
void stream_labelled(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                     std::int64_t num_classes,
                     const std::function<bool(std::span<const Token>)>& sink);

}  // namespace gma::app
