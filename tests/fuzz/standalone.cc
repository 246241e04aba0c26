// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target without libFuzzer: on the files named, or on random bytes from a seed.
//   attention_fuzzer [FILE...]
//   attention_fuzzer --random RUNS SEED
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run_random(std::uint64_t runs, std::uint64_t seed) {
  for (std::uint64_t run = seed; run < seed + runs; ++run) {
    std::mt19937_64 random(run);
    std::vector<std::uint8_t> bytes(64 + random() % 1024);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    try {
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    } catch (const std::exception& error) {
      std::cerr << "--random 1 " << run << ": " << error.what() << '\n';
      throw;
    }
  }
  std::cout << runs << " random inputs from seed " << seed << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "--random") {
    run_random(std::stoull(arguments[1]), std::stoull(arguments[2]));
    return EXIT_SUCCESS;
  }
  for (const std::string& path : arguments) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::cerr << "cannot read " << path << '\n';
      return EXIT_FAILURE;
    }
    const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  return EXIT_SUCCESS;
}
