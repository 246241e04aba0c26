// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Charts of the chosen head. Each is drawn when it comes into view, and again when what it shows
// has changed.

const chartOptions = { responsive: true, displayModeBar: false };
let windowIndex = 0;

function theme() {
  const style = getComputedStyle(document.body);
  return { text: style.color, line: style.getPropertyValue("--line").trim(),
           page: style.getPropertyValue("--page").trim(),
           isDark: matchMedia("(prefers-color-scheme: dark)").matches };
}
function chartLayout(extra) {
  const { text, line } = theme();
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
  return {
    margin: { t: 10, r: 10, b: 45, l: 60 }, paper_bgcolor: "transparent",
    plot_bgcolor: "transparent", font: { color: text }, showlegend: false, hovermode: "closest",
    ...extra, xaxis: { ...axis, ...extra.xaxis }, yaxis: { ...axis, ...extra.yaxis },
  };
}
/// An axis of names.
const named = (extra) => ({ type: "category", showgrid: false, ...extra });
/// From the page's own colour to a strong one.
function scale() {
  return theme().isDark ? [[0, "#151b23"], [0.5, "#2f6db5"], [1, "#cfe6ff"]]
                        : [[0, "#f6f8fa"], [0.5, "#6aa5e0"], [1, "#0b3a75"]];
}
/// Text in which plotly.js, which reads some HTML in labels, finds none.
const literal = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
const numbers = (count) => Array.from({ length: count }, (_, i) => i);

function usageChart(div) {
  const { layer } = shown;
  const both = Object.fromEntries(sides.map((side) => [side, layer.statistics(side, state.head)]));
  const order = numbers(layer.components);
  if (byId("usage-order").value === "usage") {
    const sum = (k) => both.query.usage[k] + both.key.usage[k];
    order.sort((a, b) => sum(b) - sum(a));
  }
  const labels = order.map(String);
  const traces = sides.map((side) => {
    const { usage, assigned } = both[side];
    const sign = side === "query" ? 1 : -1;
    return {
      type: "bar", name: sideNames[side], x: labels, y: order.map((k) => sign * usage[k]),
      marker: { color: order.map((k) => colour(k, state.component === null || k === state.component ? 1 : 0.35)),
                pattern: { shape: side === "key" ? "/" : "", fgcolor: theme().page, size: 5 } },
      customdata: order.map((k) => [percent(usage[k], 2), whole(assigned[k]), k]),
      hovertemplate: `component %{customdata[2]}<br>${sideNames[side].toLowerCase()}: ` +
        "%{customdata[0]}<br>first for %{customdata[1]} tokens<extra></extra>",
    };
  });
  const dead = order.filter((k) => sides.every((side) =>
    both[side].usage[k] < page.deadShare / layer.components));
  traces.push({ type: "scatter", mode: "markers", x: dead.map(String), y: dead.map(() => 0),
                marker: { symbol: "x", size: 9, color: theme().text }, hoverinfo: "skip" });
  const equal = 1 / layer.components;
  Plotly.react(div, traces, chartLayout({
    barmode: "relative", bargap: layer.components > 64 ? 0 : 0.15,
    xaxis: named({ title: { text: "component" } }),
    yaxis: { title: { text: "keys \u2193   queries \u2191" }, tickformat: ".1~%" },
    shapes: [equal, -equal].map((y) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y,
                                          line: { color: theme().text, width: 1, dash: "dot" } })),
  }), chartOptions);
  return { component: (point) => Number(point.x), caption:
    `Mean responsibility, queries upwards, keys hatched and downwards; the dotted line is an equal ` +
    `share. ${dead.length === 0 ? "None is dead." : `Dead (\u2715): ${dead.slice(0, 12).join(", ")}` +
    `${dead.length > 12 ? " and more" : ""}.`}` };
}

function categoryChart(div) {
  const { layer, statistics } = shown;
  const count = page.categories.length;
  const used = numbers(layer.components).filter((k) => statistics.assigned[k] > 0);
  const main = (k) => {
    let best = 0;
    for (let c = 1; c < count; ++c) {
      if (statistics.table[k * count + c] > statistics.table[k * count + best]) best = c;
    }
    return best;
  };
  used.sort((a, b) => main(a) - main(b) || statistics.assigned[b] - statistics.assigned[a]);
  const z = page.categories.map((_, c) =>
    used.map((k) => statistics.table[k * count + c] / statistics.assigned[k]));
  Plotly.react(div, [{
    type: "heatmap", x: used.map(String), y: page.categories, z, zmin: 0, zmax: 1,
    colorscale: scale(), colorbar: { tickformat: ".0%", thickness: 12 },
    hovertemplate: "component %{x}<br>%{y}: %{z:.1%} of its tokens<extra></extra>",
  }], chartLayout({ xaxis: named({ title: { text: "component" } }),
                    yaxis: named({ autorange: "reversed" }) }), chartOptions);
  const { nmi, nmi_by_chance } = headMetrics(layer, state.side, state.head);
  return { component: (point) => Number(point.x), caption:
    `What the tokens are that each component is first for, sorted by the most frequent category. ` +
    `Normalised mutual information ${fixed(nmi)}, by chance ${fixed(nmi_by_chance)}.` };
}

function overlapChart(div) {
  const { mixture, statistics, layer } = shown;
  const all = numbers(mixture.components);
  const matrix = all.map(() => new Float64Array(all.length));
  for (const a of all) {
    matrix[a][a] = 1;
    for (let b = 0; b < a; ++b) matrix[a][b] = matrix[b][a] = overlap(mixture, a, b);
  }
  const order = chain(matrix, statistics.usage.indexOf(Math.max(...statistics.usage)));
  const labels = order.map(String);
  Plotly.react(div, [{
    type: "heatmap", x: labels, y: labels, z: order.map((a) => order.map((b) => matrix[a][b])),
    zmin: 0, zmax: 1, colorscale: scale(), colorbar: { thickness: 12 },
    hovertemplate: "components %{x} and %{y}: %{z:.3f}<extra></extra>",
  }], chartLayout({ xaxis: named({}), yaxis: named({ autorange: "reversed", scaleanchor: "x" }) }),
               chartOptions);
  const { overlap_mean: mean, overlap_max: largest } = layer.metrics.heads[state.head];
  return { component: (point) => Number(point.y), caption:
    `Bhattacharyya coefficient: 1 the same, 0 apart; on average ${fixed(mean)}, at most ` +
    `${fixed(largest)}. From the most used component on, each beside the one most like it.` };
}

/// Responsibilities of both sides in a window.
function windowResponsibilities(window) {
  const { layer, mixture } = shown;
  return sides.map((side) => layer.windowVectors(side, state.head, window)
    .map((x) => responsibilities(x, mixture)));
}

function affinityChart(div) {
  const { model, layer } = shown;
  const select = byId("window");
  select.replaceChildren(...model.windows.map(([start, length], i) => element("option", {
    value: i, textContent: `tokens ${whole(start)} to ${whole(start + length - 1)}` })));
  windowIndex = Math.min(windowIndex, model.windows.length - 1);
  select.value = windowIndex;
  const [start, length] = model.windows[windowIndex];
  const kind = byId("affinity-kind").value;
  const [queries, keys] = windowResponsibilities(windowIndex);
  const outside = layer.keysOutside(state.head, windowIndex);
  const z = affinity(queries, keys, { isCausal: model.isCausal, eps: model.eps, kind, outside });
  const labels = model.labels(start, start + length).map(visible).map(literal);
  const ticks = { tickmode: "array", tickvals: numbers(length), ticktext: labels, showgrid: false,
                  zeroline: false, tickfont: { size: 9 } };
  // Few cells are far above the rest, and would leave it pale.
  const values = z.flat().filter((value) => value !== null).sort((a, b) => a - b);
  const zmax = values[Math.floor(0.97 * (values.length - 1))];
  const zmin = kind === "share" ? values[Math.floor(0.03 * (values.length - 1))] : 0;
  Plotly.react(div, [{
    type: "heatmap", z, colorscale: scale(), zmin, zmax, colorbar: { thickness: 12 },
    customdata: labels.map((query) => labels.map((key) => [query, key])),
    hovertemplate: `%{customdata[0]} reads %{customdata[1]}: %{z:.${kind === "share" ? 2 : 4}f}` +
      "<extra></extra>",
  }], chartLayout({ xaxis: { ...ticks, title: { text: "keys" }, tickangle: -90 },
                    yaxis: { ...ticks, title: { text: "queries" }, autorange: "reversed" } }),
               chartOptions);
  const [rank, effective] = layer.ranks[windowIndex * layer.heads + state.head];
  const seen = model.isCausal
    ? " up to itself; each query reads all keys before the window too"
    : "; each query reads the keys of its text that are not in the window too";
  const meaning = {
    share: `How much each query reads of each key, beside an even share of all that it reads${seen}`,
    read: `The weight with which each query reads the value of each key${seen}`,
    raw: "Gamma_Q Gamma_K\u1d40, which the model never forms",
  };
  return { caption:
    `${meaning[kind]}. The product has rank ${rank} of at most ` +
    `${Math.min(length, layer.components)} (${length} tokens, ${layer.components} components); by ` +
    `how its singular values spread, ${effective.toFixed(1)}.` };
}

function projectionChart(div) {
  const { model, layer, mixture, statistics } = shown;
  const means = numbers(layer.components).map((k) =>
    mixture.means.subarray(k * mixture.size, (k + 1) * mixture.size));
  const tokens = { query: [], key: [] };
  const labels = [];
  model.windows.forEach(([start, length], window) => {
    labels.push(...model.labels(start, start + length).map(visible).map(literal));
    for (const side of sides) tokens[side].push(...layer.windowVectors(side, state.head, window));
  });
  const isOfMeans = byId("projection-of").value === "means";
  const plane = principalPlane(isOfMeans ? means : [...means, ...tokens.query, ...tokens.key]);
  const cloud = (side) => {
    const first = tokens[side].map((x) => {
      const gamma = responsibilities(x, mixture);
      return gamma.indexOf(Math.max(...gamma));
    });
    const places = tokens[side].map(plane.project);
    return {
      type: "scatter", mode: "markers", name: sideNames[side],
      x: places.map(([x]) => x), y: places.map(([, y]) => y),
      marker: { symbol: side === "query" ? "circle" : "triangle-up", size: 5,
                color: first.map((k) => colour(k, state.component === null || k === state.component ? 0.7 : 0.12)) },
      customdata: labels.map((label, i) => [label, first[i]]),
      hovertemplate: `%{customdata[0]} (${side})<br>component %{customdata[1]}<extra></extra>`,
    };
  };
  const places = means.map(plane.project);
  const largest = Math.max(...statistics.usage);
  // Tokens often lie far outside: the view is that of the means.
  const range = (d) => {
    const values = places.map((place) => place[d]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const margin = 0.1 * (high - low) + 1e-6;
    return isOfMeans ? { range: [low - margin, high + margin] } : {};
  };
  Plotly.react(div, [cloud("query"), cloud("key"), {
    type: "scatter", mode: layer.components <= 128 ? "markers+text" : "markers", name: "means",
    x: places.map(([x]) => x), y: places.map(([, y]) => y),
    text: places.map((_, k) => String(k)), textposition: "top center", textfont: { size: 10 },
    marker: { symbol: "diamond", size: Array.from(statistics.usage, (u) => 7 + 15 * Math.sqrt(u / largest)),
              color: places.map((_, k) => colour(k, state.component === null || k === state.component ? 1 : 0.35)),
              line: { color: theme().text, width: places.map((_, k) => k === state.component ? 2.5 : 0.7) } },
    customdata: places.map((_, k) => [k]),
    hovertemplate: "component %{customdata[0]}<extra></extra>",
  }], chartLayout({ showlegend: true, legend: { orientation: "h", y: 1.08 },
                    xaxis: { ...range(0), title: { text: `first axis (${percent(plane.shares[0])})` } },
                    yaxis: { ...range(1), title: { text: `second axis (${percent(plane.shares[1])})` },
                             ...(isOfMeans ? {} : { scaleanchor: "x" }) } }),
               chartOptions);
  return { component: (point) => point.customdata.at(-1), caption:
    "Means, as large as they are used, and the routed tokens of the windows, on the two axes along " +
    `which ${isOfMeans ? "the means" : "all of them"} differ most, with their part of the variance.` };
}

function selectIn(label, id, options) {
  const select = element("select", { id }, ...Object.entries(options).map(([value, textContent]) =>
    element("option", { value, textContent })));
  return element("label", {}, `${label} `, select);
}

const charts = [
  { id: "usage", title: "Usage", draw: usageChart, isWide: true, of: ["component"],
    controls: () => [selectIn("in the order of", "usage-order", { number: "numbers", usage: "usage" })] },
  { id: "categories", title: "Components and token categories", draw: categoryChart, isWide: true },
  { id: "affinity", title: "Implicit affinity", draw: affinityChart, isSquare: true,
    controls: () => [selectIn("window", "window", {}),
                     selectIn("shown as", "affinity-kind", { share: "part of an even share", read: "weights", raw: "raw product" })] },
  { id: "overlap", title: "Overlap of components", draw: overlapChart, isSquare: true },
  { id: "projection", title: "Means and routed tokens", draw: projectionChart, isWide: true,
    isSquare: true,
    of: ["component"],
    controls: () => [selectIn("axes of", "projection-of", { all: "means and tokens", means: "means" })] },
];

/// plotly.js takes longer to start than all the rest of the page, and waits for the first chart.
const startPlotly = once(() => {
  document.head.append(element("script", { textContent: byId("plotly").textContent }));
  return true;
});

function drawChart(chart) {
  startPlotly();
  chart.isStale = false;
  const { caption, component } = chart.draw(chart.div);
  chart.caption.textContent = caption;
  if (chart.hasListener || component === undefined) return;
  chart.hasListener = true;
  chart.div.on("plotly_click", ({ points: [point] }) => {
    if (point !== undefined) update({ component: component(point) });
  });
}

/// Marks charts as out of date: all, or those that show `what`.
function refreshCharts(what) {
  for (const chart of charts) {
    if (what !== undefined && !chart.of?.includes(what)) continue;
    chart.isStale = true;
    if (chart.isVisible) drawChart(chart);
  }
}

function prepareCharts() {
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const chart = charts.find(({ figure }) => figure === target);
      chart.isVisible = isIntersecting;
      if (isIntersecting && chart.isStale) drawChart(chart);
    }
  }, { rootMargin: "200px" });
  for (const chart of charts) {
    chart.div = element("div", { id: `chart-${chart.id}`,
                                 className: chart.isSquare ? "chart square" : "chart" });
    chart.caption = element("figcaption");
    chart.figure = element("figure", { className: chart.isWide ? "wide" : "" },
                           element("h3", {}, chart.title, ...(chart.controls?.() ?? [])),
                           chart.div, chart.caption);
    chart.isStale = true;
    byId("charts").append(chart.figure);
    for (const select of chart.figure.querySelectorAll("select")) {
      select.addEventListener("change", () => {
        windowIndex = Number(byId("window").value);
        drawChart(chart);
      });
    }
    watcher.observe(chart.figure);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    refreshCharts();
    drawMap();
  });
}
