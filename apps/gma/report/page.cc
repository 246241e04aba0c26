// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include "gma/version.h"

// Out of assets.S.
extern "C" {
extern const char gma_plotly_js_begin[];
extern const char gma_plotly_js_end[];
extern const char gma_page_css_begin[];
extern const char gma_page_css_end[];
extern const char gma_curves_js_begin[];
extern const char gma_curves_js_end[];
extern const char gma_runs_page_begin[];
extern const char gma_runs_page_end[];
extern const char gma_profile_page_begin[];
extern const char gma_profile_page_end[];
extern const char gma_inspect_page_begin[];
extern const char gma_inspect_page_end[];
extern const char gma_inspect_css_begin[];
extern const char gma_inspect_css_end[];
extern const char gma_inspect_js_begin[];
extern const char gma_inspect_js_end[];
}

namespace gma::app {
namespace {

/// JSON text that may stand inside a <script> element.
std::string script_json(const nlohmann::ordered_json& json) {
  const std::string text =
      json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

void replace(std::string& text, std::string_view mark, std::string_view value) {
  const std::size_t at = text.find(mark);
  if (at != std::string::npos) text.replace(at, mark.size(), value);
}

}  // namespace

std::string_view runs_template() { return {gma_runs_page_begin, gma_runs_page_end}; }
std::string_view profile_template() { return {gma_profile_page_begin, gma_profile_page_end}; }

std::string_view inspect_template() { return {gma_inspect_page_begin, gma_inspect_page_end}; }

std::string make_page(std::string_view page, nlohmann::ordered_json data) {
  data["version"] = version();
  std::string text(page);
  replace(text, "/*STYLE*/", {gma_page_css_begin, gma_page_css_end});
  replace(text, "/*INSPECT_STYLE*/", {gma_inspect_css_begin, gma_inspect_css_end});
  replace(text, "/*INSPECT_SCRIPT*/", {gma_inspect_js_begin, gma_inspect_js_end});
  replace(text, "/*CURVES*/", {gma_curves_js_begin, gma_curves_js_end});
  // The data last: it may hold anything, the marks included.
  replace(text, "/*PLOTLY*/", {gma_plotly_js_begin, gma_plotly_js_end});
  replace(text, "/*DATA*/", script_json(data));
  return text;
}

}  // namespace gma::app
