// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <vector>

#include "data/download.h"
#include "gma/error.h"

namespace gma::app {
namespace {

constexpr std::size_t kBlock = 1U << 20;
constexpr std::size_t kDigits = 64;  ///< of a digest, in hexadecimal

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

void check(int code) {
  if (code != 1) throw std::runtime_error("OpenSSL cannot compute SHA-256");
}

std::string sha256_of(const std::filesystem::path& path, const Watch& watch) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InvalidArgument(fmt::format("{}: cannot be read", path.string()));
  const std::unique_ptr<EVP_MD_CTX, FreeDigest> context(EVP_MD_CTX_new());
  if (!context) throw std::bad_alloc();
  check(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr));
  std::vector<char> block(kBlock);
  while (file) {
    watch.check();
    file.read(block.data(), std::ssize(block));
    check(EVP_DigestUpdate(context.get(), block.data(), static_cast<std::size_t>(file.gcount())));
  }
  if (file.bad()) throw InvalidArgument(fmt::format("{}: cannot be read", path.string()));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  check(EVP_DigestFinal_ex(context.get(), digest.data(), &size));
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

}  // namespace

void check_sha256_option(const std::string& sha256) {
  if (sha256.size() == kDigits &&
      std::ranges::all_of(sha256, [](unsigned char c) { return std::isxdigit(c) != 0; })) {
    return;
  }
  throw InvalidArgument(
      fmt::format("--sha256: expected {} hexadecimal digits, got '{}'", kDigits, sha256));
}

void check_sha256(const std::filesystem::path& path, const std::string& sha256,
                  const Watch& watch) {
  std::string expected = sha256;
  std::ranges::transform(expected, expected.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  watch.status("checking the checksum");
  if (const std::string got = sha256_of(path, watch); got != expected) {
    throw InvalidArgument(
        fmt::format("{}: expected the SHA-256 {}, got {}", path.string(), expected, got));
  }
}

}  // namespace gma::app
