// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "inspect/inspection.h"

namespace gma::app {

/// Hands on a page that is whole in itself, piece by piece: one model, or two beside each other.
/// Numbers that a reader asks for one head at a time are blocks of base64 in elements of their own,
/// which the page decodes when it needs them.
void write_inspect_page(const std::string& title, std::span<const Inspection> models,
                        const std::function<void(std::string_view)>& sink);

}  // namespace gma::app
