// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "data/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

#include "data/utf8.h"
#include "gma/error.h"

namespace gma::app {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, a space inside a piece
constexpr std::size_t kMaxLine = 4096;                   // of what the trainer sees at once
constexpr std::size_t kMaxTrainingBytes = std::size_t{64} << 20;

std::string with_spaces(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool is_space = piece.starts_with(kSpaceMark);
    text += is_space ? ' ' : piece.front();
    piece.remove_prefix(is_space ? kSpaceMark.size() : 1);
  }
  return text;
}

/// Lines of the texts, without their ends, cut where they are overlong. Of more text than the
/// trainer can use, every n-th line is taken.
class LineIterator final : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(const std::vector<std::string_view>& texts) {
    std::size_t total = 0;
    for (const std::string_view text : texts) total += text.size();
    const std::size_t every = 1 + total / kMaxTrainingBytes;
    std::size_t count = 0;
    for (std::string_view text : texts) {
      while (!text.empty()) {
        const std::size_t end = std::min({text.find('\n'), text.size(), kMaxLine});
        if (end > 0 && count++ % every == 0) lines_.push_back(text.substr(0, end));
        text.remove_prefix(std::min(text.size(), end + (end < text.size() && text[end] == '\n')));
      }
    }
    if (!done()) current_ = lines_[0];
  }

  bool done() const override { return next_ >= lines_.size(); }
  void Next() override {
    if (++next_ < lines_.size()) current_ = lines_[next_];
  }
  const std::string& value() const override { return current_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string_view> lines_;
  std::size_t next_ = 0;
  std::string current_;
};

/// The reason inside "Internal: ./src/file.cc(12) [(condition)] Reason."
std::string reason(const sentencepiece::util::Status& status) {
  const std::string text = status.ToString();
  const std::size_t end = text.rfind("] ");
  return end != std::string::npos && end + 2 < text.size() ? text.substr(end + 2) : text;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string model) : model_(std::move(model)) {
  if (!processor_.LoadFromSerializedProto(model_).ok()) {
    throw InvalidArgument("tokenizer: not a SentencePiece model");
  }
  const int size = processor_.GetPieceSize();
  if (size > kMaxPieces) {
    throw InvalidArgument(
        fmt::format("tokenizer: expected at most {} pieces, got {}", kMaxPieces, size));
  }
  int byte_pieces = 0;
  for (int id = 0; id < size; ++id) {
    const std::string& piece = processor_.IdToPiece(id);
    if (processor_.IsByte(id)) {
      const auto byte = static_cast<unsigned char>(std::stoi(piece.substr(3, 2), nullptr, 16));
      byte_tokens_[byte] = static_cast<Token>(id);
      bytes_.emplace_back(1, static_cast<char>(byte));
      ++byte_pieces;
    } else if (processor_.IsControl(id) || processor_.IsUnknown(id)) {
      bytes_.emplace_back();
    } else {
      bytes_.push_back(with_spaces(piece));
    }
  }
  if (byte_pieces != 256) {
    throw InvalidArgument(
        "tokenizer: the SentencePiece model has no byte fallback (train it with --byte_fallback)");
  }
  check_lossless();
}

std::vector<Token> SentencePieceTokenizer::encode(std::string_view text) const {
  std::vector<Token> tokens;
  tokens.reserve(text.size() / 3);
  // Line ends are byte tokens, so lines are independent; so is what lies between odd bytes.
  std::size_t start = 0;
  std::size_t at = 0;
  const auto flush = [&](std::size_t skip) {
    append_pieces(text.substr(start, at - start), tokens);
    append_bytes(text.substr(at, skip), tokens);
    at += skip;
    start = at;
  };
  while (at < text.size()) {
    const std::size_t length = utf8_length(text.substr(at, 4));
    if (length == 0 || text[at] == '\n') {
      flush(1);
    } else if (text.substr(at, length) == kSpaceMark) {
      flush(length);
    } else {
      at += length;
    }
  }
  flush(0);
  return tokens;
}

std::string_view SentencePieceTokenizer::bytes_of(Token token) const {
  if (token >= bytes_.size()) {
    throw InvalidArgument(
        fmt::format("token {} is outside the vocabulary of {}", token, bytes_.size()));
  }
  return bytes_[token];
}

void SentencePieceTokenizer::append_pieces(std::string_view text,
                                           std::vector<Token>& tokens) const {
  if (text.empty()) return;
  std::vector<int> ids;
  if (const auto status = processor_.Encode(text, &ids); !status.ok()) {
    throw InvalidArgument(fmt::format("tokenizer: {}", reason(status)));
  }
  tokens.insert(tokens.end(), ids.begin(), ids.end());
}

void SentencePieceTokenizer::append_bytes(std::string_view bytes,
                                          std::vector<Token>& tokens) const {
  for (const char byte : bytes) tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
}

void SentencePieceTokenizer::check_lossless() const {
  constexpr std::string_view kProbe =
      "  A  tab\t\xEF\xAC\x81 \xC2\xBD \xEF\xBC\xA1 e\xCC\x81 \n\n z  ";
  if (decode(encode(kProbe)) != kProbe) {
    throw InvalidArgument(
        "tokenizer: the SentencePiece model changes its text (train it with "
        "--normalization_rule_name=identity --add_dummy_prefix=false "
        "--remove_extra_whitespaces=false)");
  }
}

std::unique_ptr<Tokenizer> train_sentencepiece(const std::vector<std::string_view>& texts,
                                               std::int64_t vocab_size) {
  if (vocab_size > kMaxPieces) {
    throw InvalidArgument(
        fmt::format("vocab-size: expected at most {}, got {}", kMaxPieces, vocab_size));
  }
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab_size)},
      {"hard_vocab_limit", "false"},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9995"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"unk_piece", "<|unknown|>"},  // "<unk>" is a word of WikiText
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"pad_id", "-1"},
      {"minloglevel", "4"},
  };
  LineIterator lines(texts);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &model);
  if (!status.ok()) {
    throw InvalidArgument(fmt::format("vocab-size {}: {}", vocab_size, reason(status)));
  }
  return std::make_unique<SentencePieceTokenizer>(std::move(model));
}

}  // namespace gma::app
