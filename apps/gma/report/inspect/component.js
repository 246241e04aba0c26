// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Everything about one component.

/// Name, and figures of queries and keys, or one of both.
function factRows(component) {
  const { layer, mixture } = shown;
  const { size } = mixture;
  const own = (values) => values.subarray(component * size, (component + 1) * size);
  const variances = own(mixture.variances);
  const logs = variances.reduce((sum, value) => sum + Math.log(value), 0);
  const equal = 1 / layer.components;
  const both = (name, value) =>
    [name, ...sides.map((side) => value(layer.statistics(side, state.head)))];
  return [
    ["", "queries", "keys"],
    both("mean responsibility", (s) => percent(s.usage[component], 2)),
    both("beside an equal share", (s) => `${(s.usage[component] / equal).toFixed(2)}\u00d7`),
    both("first for tokens", (s) => whole(s.assigned[component])),
    both("mean share of these", (s) => s.assigned[component] > 0 ? percent(s.sharpness[component]) : "none"),
    ["prior", "", percent(Math.exp(mixture.logPriors[component]), 2)],
    ["variance, geometric mean", "", Math.exp(logs / size).toPrecision(3)],
    ["variance, least to greatest", "",
     `${Math.min(...variances).toPrecision(3)} to ${Math.max(...variances).toPrecision(3)}`],
    ["norm of its mean", "", Math.hypot(...own(mixture.means)).toPrecision(3)],
  ];
}

function categoryRows(component) {
  const count = page.categories.length;
  const { table, assigned } = shown.statistics;
  const totals = new Float64Array(count);
  table.forEach((value, i) => { totals[i % count] += value; });
  const total = totals.reduce((sum, value) => sum + value, 0);
  const rows = page.categories.map((name, c) => {
    const share = table[component * count + c] / Math.max(1, assigned[component]);
    return { name, share, lift: totals[c] > 0 ? share / (totals[c] / total) : 0 };
  });
  return rows.filter(({ share }) => share > 0).sort((a, b) => b.share - a.share);
}

function barRow(name, share, ...numbers) {
  const fill = element("i");
  fill.style.width = `${100 * share}%`;
  return element("div", { className: "row" }, name, element("div", { className: "bar" }, fill),
                 ...numbers.map((text) => element("span", { textContent: text })));
}

/// Tokens of the sample that the component is surest of, apart from each other.
function surestTokens(component, most) {
  const { top, model } = shown;
  const found = [];
  for (let i = 0; i < model.sample; ++i) {
    if (top.components[i] === component) found.push(i);
  }
  found.sort((a, b) => top.shares[b] - top.shares[a] || a - b);
  const kept = [], pieces = new Map();
  const { places } = model.text();
  for (const i of found) {
    // Some of each token, so that one that is frequent does not take all the room.
    const seen = pieces.get(places[i]) ?? 0;
    if (seen >= 2 && found.length > 2 * most) continue;
    pieces.set(places[i], seen + 1);
    kept.push(i);
    if (kept.length === most) break;
  }
  return kept.sort((a, b) => a - b);
}

function contextRow(token) {
  const { model } = shown;
  const around = 7;
  const first = Math.max(0, token - around), end = Math.min(model.sample, token + around + 1);
  const labels = model.labels(first, end).map((label) => label.replace(/\s*\n/g, "\u21b5"));
  const mark = element("mark", { textContent: labels[token - first] || "\u2205" });
  mark.style.setProperty("--mark", colour(state.component, strongest));
  const button = element("button", { type: "button", className: "link" },
    element("span", { textContent: labels.slice(0, token - first).join("").slice(-28) }), mark,
    element("span", { textContent: labels.slice(token - first + 1).join("").slice(0, 28) }));
  button.title = `Token ${whole(token)}, ${percent(shareOf(token))}: go there`;
  button.addEventListener("click", () => goTo(token));
  return element("li", {}, button);
}

function neighbours(component, most) {
  const { mixture } = shown;
  const all = [];
  for (let k = 0; k < mixture.components; ++k) {
    if (k !== component) all.push({ k, value: overlap(mixture, component, k) });
  }
  return all.sort((a, b) => b.value - a.value).slice(0, most);
}

function inWords(component) {
  const { layer, statistics } = shown;
  const rank = statistics.usage.filter((value) => value > statistics.usage[component]).length;
  const sharpness = statistics.sharpness[component];
  if (statistics.assigned[component] === 0) {
    return "It is first for no token of this text; what it takes, it takes beside others.";
  }
  const sure = sharpness > 0.8 ? "sharp" : sharpness > 0.4 ? "fairly sharp" : "soft";
  const [best] = categoryRows(component);
  const order = rank === 0 ? "The most used" : `Number ${rank + 1} in use`;
  return `${order} of ${layer.components}, and ${sure}: of the tokens that it is first for it has ` +
    `${percent(sharpness)}. ${percent(best.share)} of them are ${best.name}` +
    `${best.lift > 1.5 ? `, ${best.lift.toFixed(1)} times as many as of all tokens` : ""}.`;
}

function drawEmptyPanel() {
  const { statistics, layer } = shown;
  const order = Array.from(statistics.usage.keys())
    .sort((a, b) => statistics.usage[b] - statistics.usage[a]).slice(0, 12);
  byId("panel").replaceChildren(
    element("h2", { textContent: "Components" }),
    element("p", { textContent: "Choose a token, a bar or a number to see all about a component. " +
      `The most used in ${describeHead(layer, state.head, state.side)}:` }),
    ...order.map((k) => {
      const button = element("button", { type: "button", className: "link" }, swatch(k), ` ${k}`);
      button.addEventListener("click", () => update({ component: k }));
      return element("div", {}, barRow(button, statistics.usage[k] / statistics.usage[order[0]],
                                       percent(statistics.usage[k])),
                     element("small", { className: "hint", textContent: nickname(k) }));
    }));
}

function drawPanel() {
  const { model, statistics, layer } = shown;
  const k = state.component;
  if (k === null) return drawEmptyPanel();
  const isDead = statistics.usage[k] < page.deadShare / layer.components;
  const parts = [
    element("h2", {}, swatch(k), `Component ${k}`,
            ...(isDead ? [element("span", { className: "badge", textContent: "dead" })] : [])),
    element("p", { textContent: describeHead(layer, state.head, state.side) }),
    element("p", { textContent: inWords(k) }),
    element("div", { className: "facts" }, ...factRows(k).flatMap(([name, query, key], i) => [
      element("span", { className: "name", textContent: name }),
      element("span", { className: i ? "number" : "head", textContent: query }),
      element("span", { className: i ? "number" : "head", textContent: key })])),
  ];
  const tokens = tokensOf(k);
  if (tokens.length > 0) {
    const own = tokens.reduce((most, { count }) => Math.max(most, count), 1);
    parts.push(
      element("h3", { textContent: "Most characteristic tokens" }),
      element("div", { className: "row title" }, ...["token", "", "count", "lift"].map((text) =>
        element("span", { textContent: text }))),
      ...tokens.slice(0, 10).map(({ place, count, lift }) => barRow(
        element("span", {}, element("span", { className: "piece",
                                              textContent: visible(model.pieces[place]) })),
        count / own, whole(count), `${lift < 10 ? lift.toFixed(1) : lift.toFixed(0)}\u00d7`)),
      element("h3", { textContent: "Categories of its tokens" }),
      ...categoryRows(k).map(({ name, share, lift }) =>
        barRow(element("span", { textContent: name }), share, percent(share), `${lift.toFixed(1)}\u00d7`)),
      element("h3", { textContent: "In the text" }),
      element("ul", { className: "contexts" }, ...surestTokens(k, 10).map(contextRow)));
  }
  const near = neighbours(k, 6);
  if (near.length > 0) {
    parts.push(
      element("h3", { textContent: "Overlaps most with" }),
      element("div", { className: "neighbours" }, ...near.map(({ k: other, value }) => {
        const button = element("button", { type: "button" }, swatch(other),
                               ` ${other} (${value.toFixed(2)})`);
        button.addEventListener("click", () => update({ component: other }));
        return button;
      })));
  }
  byId("panel").replaceChildren(...parts);
  byId("panel").scrollTop = 0;
}
