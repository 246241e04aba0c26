// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Pages that are whole in themselves: a template that the program carries, plotly.js, and data.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace gma::app {

std::string_view runs_template();
std::string_view profile_template();
std::string_view inspect_template();

/// The template with plotly.js and the data, to which "version" is added, in their places. Nothing
/// in the data can end or begin an element.
std::string make_page(std::string_view page, nlohmann::ordered_json data);

}  // namespace gma::app
