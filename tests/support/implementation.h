// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What tests run over: the oracle, and the kernels on every instruction set of this machine.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "gma/attention.h"

namespace gma::test {

struct Implementation {
  Backend backend = Backend::reference;
  std::int64_t target = 0;  ///< Highway's bit of the instruction set, for Backend::cpu
};

/// "reference", "cpu_AVX2", ...
std::string name_of(const Implementation& implementation);

void PrintTo(const Implementation& implementation, std::ostream* stream);

/// The kernels on each instruction set that this machine supports and the library was built for.
std::vector<Implementation> kernels();

/// The oracle and the kernels.
std::vector<Implementation> implementations();

/// Lets the kernels run on one instruction set alone for as long as it lives.
class ScopedTarget {
 public:
  explicit ScopedTarget(const Implementation& implementation);
  ScopedTarget(const ScopedTarget&) = delete;
  ScopedTarget& operator=(const ScopedTarget&) = delete;
  ~ScopedTarget();
};

/// A test for each implementation.
class ImplementationTest : public testing::TestWithParam<Implementation> {
 protected:
  const Implementation& implementation() const { return GetParam(); }
  Backend backend() const { return GetParam().backend; }

 private:
  ScopedTarget target_{GetParam()};
};

inline std::string test_name(const testing::TestParamInfo<Implementation>& info) {
  return name_of(info.param);
}

}  // namespace gma::test
