// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "support/implementation.h"

#include <hwy/targets.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

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
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // The sanitized kernels are compiled for one set: see src/CMakeLists.txt.
  return {{Backend::cpu, hwy::SupportedAndGeneratedTargets().front()}};
#endif
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    list.push_back({Backend::cpu, target});
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
