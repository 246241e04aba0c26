// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "support/implementation.h"

#include <hwy/targets.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "cpu/cpu.h"

namespace gma::test {

std::string name_of(const Implementation& implementation) {
  if (implementation.backend == Backend::reference) return "reference";
  return std::string("cpu_") + hwy::TargetName(implementation.target);
}

void PrintTo(const Implementation& implementation, std::ostream* stream) {
  *stream << name_of(implementation);
}

std::vector<Implementation> kernels() {
  std::vector<Implementation> list;
  // Highway's better sets have lower bits.
  for (std::int64_t rest = hwy::SupportedTargets() & cpu::compiled_targets(); rest != 0;
       rest &= rest - 1) {
    list.push_back({Backend::cpu, rest & -rest});
  }
  return list;
}

std::vector<Implementation> implementations() {
  std::vector<Implementation> list = kernels();
  list.insert(list.begin(), {Backend::reference, 0});
  return list;
}

ScopedTarget::ScopedTarget(const Implementation& implementation) {
  if (implementation.backend == Backend::cpu) {
    hwy::SetSupportedTargetsForTest(implementation.target);
  }
}

ScopedTarget::~ScopedTarget() { hwy::SetSupportedTargetsForTest(0); }

}  // namespace gma::test
