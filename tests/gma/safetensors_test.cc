// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "gma/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gma/error.h"

namespace gma::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Tensors = std::map<std::string, TensorBytes>;

class Safetensors : public testing::Test {
 protected:
  Safetensors() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Safetensors() override { fs::remove_all(folder_); }

  fs::path path() const { return folder_ / "model.safetensors"; }
  const fs::path& folder() const { return folder_; }

  /// A file of that header and so many bytes of data.
  void write_raw(const std::string& header, std::size_t data_bytes) const {
    std::string bytes;
    for (std::size_t i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
    write_bytes(bytes + header + std::string(data_bytes, '\1'));
  }

  void write_bytes(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
  }

  std::string read_bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string refusal() const {
    try {
      const SafetensorsFile file(path());
    } catch (const IoError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  std::vector<std::string> names_in_folder() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

 private:
  fs::path folder_ =
      fs::temp_directory_path() /
      ("gma_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
       std::to_string(::getpid()));
};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST_F(Safetensors, RoundTrip) {
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> steps = {-7};
  const std::vector<std::uint8_t> flags = {1, 0, 1};
  const Tensors tensors = {{"weights", {DType::float32, {2, 3}, bytes_of(weights)}},
                           {"step", {DType::int64, {}, bytes_of(steps)}},
                           {"flags", {DType::boolean, {3}, bytes_of(flags)}},
                           {"nothing", {DType::float64, {0, 4}, {}}}};
  const std::map<std::string, std::string> metadata = {{"config", "{\"K\": 64}"}, {"ü", "\n\""}};
  write_safetensors(path(), tensors, metadata);

  const SafetensorsFile file(path());
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const TensorBytes& read = file.tensors().at(name);
    EXPECT_EQ(read.dtype, tensor.dtype) << name;
    EXPECT_EQ(read.shape, tensor.shape) << name;
    ASSERT_EQ(read.bytes.size(), tensor.bytes.size()) << name;
    if (!read.bytes.empty()) {
      EXPECT_EQ(std::memcmp(read.bytes.data(), tensor.bytes.data(), read.bytes.size()), 0) << name;
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.bytes.data()) % size_of(read.dtype), 0U)
        << name;
  }
  EXPECT_EQ(names_in_folder(), std::vector<std::string>{"model.safetensors"});
}

TEST_F(Safetensors, EmptyFileRoundTrip) {
  write_safetensors(path(), {});
  const SafetensorsFile file(path());
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_TRUE(file.metadata().empty());
}

TEST_F(Safetensors, EveryDTypeHasItsNameAndSize) {
  const std::vector<std::pair<std::string, std::size_t>> expected = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},   {"I16", 2}, {"I32", 4},
      {"I64", 8},  {"F16", 2}, {"BF16", 2}, {"F32", 4}, {"F64", 8}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(name_of(dtype), expected[i].first);
    EXPECT_EQ(size_of(dtype), expected[i].second);
    write_raw(R"({"x":{"dtype":")" + expected[i].first + R"(","shape":[3],"data_offsets":[0,)" +
                  std::to_string(3 * expected[i].second) + "]}}",
              3 * expected[i].second);
    EXPECT_EQ(SafetensorsFile(path()).tensors().at("x").dtype, dtype);
  }
}

/// The header as the Python package pads it, and tensors in an order of their own.
TEST_F(Safetensors, ReadsPaddedHeadersInAnyOrder) {
  write_raw(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
            R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}      )",
            6);
  const SafetensorsFile file(path());
  EXPECT_EQ(file.tensors().at("a").bytes.size(), 4U);
  EXPECT_EQ(file.tensors().at("b").bytes.data(), file.tensors().at("a").bytes.data() + 4);
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

TEST_F(Safetensors, DamagedHeadersAreRefused) {
  struct Damage {
    std::string header;
    std::size_t data_bytes;
    std::string message;
  };
  const std::string x = tensor("x", "F32", "[2]", "[0,8]");
  const std::vector<Damage> damages = {
      {"", 0, "JSON"},
      {"{", 0, "JSON"},
      {"{" + x, 8, "JSON"},
      {"{" + x + "}}", 8, "JSON"},
      {"{\"\xff\":1}", 0, "JSON"},
      {"[]", 0, "not a JSON object"},
      {"7", 0, "not a JSON object"},
      {"{" + x + "," + x + "}", 8, "'x' twice"},
      {R"({"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8,
       "'dtype' twice"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "'a' twice"},
      {R"({"__metadata__":{"a":1}})", 0, "value of 'a' is not a string"},
      {R"({"__metadata__":[]})", 0, "__metadata__ is not an object"},
      {R"({"x":[]})", 0, "'x' is not described by an object"},
      {R"({"x":{"shape":[2],"data_offsets":[0,8]}})", 8, "'x' has no dtype"},
      {R"({"x":{"dtype":"F32","data_offsets":[0,8]}})", 8, "'x' has no shape"},
      {R"({"x":{"dtype":"F32","shape":[2]}})", 8, "'x' has no data_offsets"},
      {R"({"x":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", 8, "unknown dtype 4"},
      {"{" + tensor("x", "F33", "[2]", "[0,8]") + "}", 8, "unknown dtype \"F33\""},
      {"{" + tensor("x", "F32", "2", "[0,8]") + "}", 8, "shape is not an array"},
      {"{" + tensor("x", "F32", "[-2]", "[0,8]") + "}", 8, "shape holds -2"},
      {"{" + tensor("x", "F32", "[2.0]", "[0,8]") + "}", 8, "shape holds 2.0"},
      {"{" + tensor("x", "F32", "[\"2\"]", "[0,8]") + "}", 8, "shape holds \"2\""},
      {"{" + tensor("x", "F32", "[9223372036854775808]", "[0,8]") + "}", 8, "shape holds"},
      {"{" + tensor("x", "F32", "[4294967296,4294967296]", "[0,8]") + "}", 8, "overflows"},
      {"{" + tensor("x", "F32", "[4611686018427387904]", "[0,0]") + "}", 0, "overflows"},
      {"{" + tensor("x", "F32", "[2]", "8") + "}", 8, "data_offsets is not an array"},
      {"{" + tensor("x", "F32", "[2]", "[8]") + "}", 8, "a begin and an end"},
      {"{" + tensor("x", "F32", "[2]", "[0,8,8]") + "}", 8, "a begin and an end"},
      {"{" + tensor("x", "F32", "[2]", "[8,0]") + "}", 8, "a begin and an end"},
      {"{" + tensor("x", "F32", "[2]", "[-8,0]") + "}", 8, "data_offsets holds -8"},
      {"{" + tensor("x", "F32", "[2]", "[0,18446744073709551615]") + "}", 8, "data_offsets holds"},
      {"{" + tensor("x", "F32", "[2]", "[0,8]") + "}", 7, "truncated: tensor 'x' ends at byte 8"},
      {"{" + tensor("x", "F32", "[2]", "[0,4]") + "}", 4, "takes 8 bytes, its data_offsets span 4"},
      {"{" + x + "}", 9, "1 bytes after the last tensor"},
      {"{}", 3, "3 bytes after the last tensor"},
      {"{" + x + "," + tensor("y", "F32", "[2]", "[4,12]") + "}", 12, "'y' overlaps"},
      {"{" + x + "," + tensor("y", "F32", "[2]", "[0,8]") + "}", 8, "'y' overlaps"},
      {"{" + x + "," + tensor("y", "F32", "[2]", "[12,20]") + "}", 20, "4 unused bytes before"},
      {"{" + tensor("x", "F32", "[2]", "[4,12]") + "}", 12, "4 unused bytes before"},
      {R"({"x":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8, "nested too deeply"},
      {std::string(1'000'000, '['), 0, "nested too deeply"},
  };
  for (const Damage& damage : damages) {
    write_raw(damage.header, damage.data_bytes);
    EXPECT_THAT(refusal(), HasSubstr(damage.message)) << damage.header.substr(0, 200);
    EXPECT_THAT(refusal(), HasSubstr(path().string() + ": "));
  }
}

TEST_F(Safetensors, ForeignFilesAreRefused) {
  write_bytes("");
  EXPECT_THAT(refusal(), HasSubstr("0 bytes, too short"));
  write_bytes("1234567");
  EXPECT_THAT(refusal(), HasSubstr("7 bytes, too short"));
  write_bytes(std::string("\x10\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(refusal(), HasSubstr("header of 16 bytes, 2 bytes follow"));
  write_bytes(std::string(4096, '\xff'));
  EXPECT_THAT(refusal(), HasSubstr("header of 18446744073709551615 bytes, the limit is"));
  write_bytes("Once upon a time there was a text file.");
  EXPECT_THAT(refusal(), HasSubstr("not a safetensors file"));
  fs::remove(path());
  EXPECT_THAT(refusal(), HasSubstr("No such file or directory"));
  fs::create_directory(path());
  EXPECT_THAT(refusal(), HasSubstr("not a regular file"));
}

/// Cut at every byte and flipped in every bit, a file is refused or still whole.
TEST_F(Safetensors, NoCutAndNoFlippedBitEscapes) {
  const std::vector<float> values = {1, 2, 3};
  write_safetensors(path(), {{"x", {DType::float32, {3}, bytes_of(values)}}}, {{"a", "b"}});
  const std::string whole = read_bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_bytes(whole.substr(0, length));
    EXPECT_THAT(refusal(), HasSubstr(path().string())) << length;
  }
  const std::size_t header_bits = 8 * (whole.size() - 12);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write_bytes(flipped);
    if (bit >= header_bits) {
      EXPECT_THAT(refusal(), HasSubstr("damaged: the tensor data has the CRC-32")) << bit;
      continue;
    }
    try {
      const SafetensorsFile file(path());
      for (const auto& [name, read] : file.tensors()) EXPECT_EQ(read.bytes.size(), 12U) << bit;
    } catch (const IoError&) {
      continue;
    }
  }
}

TEST_F(Safetensors, WriterRefusesTensorsThatDoNotFitTheirShape) {
  const std::vector<float> values = {1, 2, 3};
  const auto message_of = [&](const std::string& name, std::vector<std::int64_t> shape) {
    try {
      write_safetensors(path(), {{name, {DType::float32, std::move(shape), bytes_of(values)}}});
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(message_of("x", {2}),
              HasSubstr("'x' of type F32 and shape (2) takes 8 bytes, got 12"));
  EXPECT_THAT(message_of("x", {-3}), HasSubstr("impossible shape (-3)"));
  EXPECT_THAT(message_of("__metadata__", {3}), HasSubstr("reserved"));
  EXPECT_THAT(message_of("\xff", {3}), HasSubstr("UTF-8"));
  EXPECT_THROW(write_safetensors(path(), {}, {{"crc32", "x"}}), InvalidArgument);
  EXPECT_TRUE(names_in_folder().empty());
}

TEST_F(Safetensors, FailedWriteLeavesTheOldFileAndNoOther) {
  write_bytes("old");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{4096, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::vector<float> values(10'000);
  std::string message = "nothing was thrown";
  try {
    write_safetensors(path(), {{"x", {DType::float32, {10'000}, bytes_of(values)}}});
  } catch (const IoError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_THAT(message, HasSubstr(path().string() + ": cannot write: File too large"));
  EXPECT_EQ(read_bytes(), "old");
  EXPECT_EQ(names_in_folder(), std::vector<std::string>{"model.safetensors"});
}

TEST_F(Safetensors, UnwritablePlacesAreNamed) {
  const auto message_of = [](const fs::path& where) {
    try {
      write_safetensors(where, {});
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(message_of(folder() / "missing" / "x"), HasSubstr("No such file or directory"));
  write_bytes("a file, not a folder");
  EXPECT_THAT(message_of(path() / "x"), HasSubstr("Not a directory"));
  fs::create_directory(folder() / "taken");
  EXPECT_THAT(message_of(folder() / "taken"), HasSubstr("cannot replace"));
}

TEST_F(Safetensors, LeftoverOfAKilledWriterDoesNoHarm) {
  std::ofstream(folder() / ".model.safetensors.tmp") << std::string(10'000, 'x');
  const std::vector<float> values = {1};
  write_safetensors(path(), {{"x", {DType::float32, {1}, bytes_of(values)}}});
  EXPECT_EQ(SafetensorsFile(path()).tensors().size(), 1U);
  EXPECT_EQ(names_in_folder(), std::vector<std::string>{"model.safetensors"});
}

TEST_F(Safetensors, ConcurrentWritersTakeTurns) {
  const auto write_many = [&](float value) {
    const std::vector<float> values(5'000, value);
    for (int i = 0; i < 20; ++i) {
      write_safetensors(path(), {{"x", {DType::float32, {5'000}, bytes_of(values)}}});
      const SafetensorsFile file(path());
      const std::span<const std::byte> bytes = file.tensors().at("x").bytes;
      EXPECT_EQ(std::memcmp(bytes.data(), bytes.data() + 4, bytes.size() - 4), 0);
    }
  };
  std::thread other(write_many, 1.0F);
  write_many(2.0F);
  other.join();
}

}  // namespace
}  // namespace gma::test
