// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Files that the program carries with it. The build says where they are; it looks for those that
// are named here in report/inspect.
    .section .rodata

    .global gma_plotly_js_begin
    .global gma_plotly_js_end
gma_plotly_js_begin:
    .incbin GMA_PLOTLY_JS
gma_plotly_js_end:

    .global gma_page_css_begin
    .global gma_page_css_end
gma_page_css_begin:
    .incbin GMA_PAGE_CSS
gma_page_css_end:

    .global gma_curves_js_begin
    .global gma_curves_js_end
gma_curves_js_begin:
    .incbin GMA_CURVES_JS
gma_curves_js_end:

    .global gma_runs_page_begin
    .global gma_runs_page_end
gma_runs_page_begin:
    .incbin GMA_RUNS_PAGE
gma_runs_page_end:

    .global gma_profile_page_begin
    .global gma_profile_page_end
gma_profile_page_begin:
    .incbin GMA_PROFILE_PAGE
gma_profile_page_end:

    .global gma_inspect_page_begin
    .global gma_inspect_page_end
gma_inspect_page_begin:
    .incbin "inspect.html"
gma_inspect_page_end:

    .global gma_inspect_css_begin
    .global gma_inspect_css_end
gma_inspect_css_begin:
    .incbin "inspect.css"
gma_inspect_css_end:

// One script, in files of one idea each.
    .global gma_inspect_js_begin
    .global gma_inspect_js_end
gma_inspect_js_begin:
    .incbin "data.js"
    .incbin "mathematics.js"
    .incbin "summary.js"
    .incbin "overview.js"
    .incbin "text.js"
    .incbin "component.js"
    .incbin "charts.js"
    .incbin "controls.js"
gma_inspect_js_end:

    .section .note.GNU-stack, "", %progbits
