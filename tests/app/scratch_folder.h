// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace gma::app {

/// A folder of a test's own that goes away with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gma_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  std::string string() const { return path_.string(); }
  const std::filesystem::path& path() const { return path_; }

  /// Writes a file, making its folders.
  std::string write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace gma::app

/// Expects `statement` to throw `Exception` with a message that contains `text`.
#define EXPECT_REFUSED(statement, Exception, text)                      \
  try {                                                                 \
    statement;                                                          \
    ADD_FAILURE() << "expected " #Exception;                            \
  } catch (const Exception& error) {                                    \
    EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(text)); \
  }
