// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "support/implementation.h"

namespace gma::test {

/// What every implementation must survive, one named test each.
class Cases : public ImplementationTest {};

/// Calls `body(T{})` for each type that attention takes.
template <class Body>
void for_each_type(Body body) {
  {
    SCOPED_TRACE("float");
    body(float{});
  }
  {
    SCOPED_TRACE("double");
    body(double{});
  }
}

}  // namespace gma::test
