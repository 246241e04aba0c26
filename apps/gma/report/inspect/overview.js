// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// One figure of every layer and head at a glance; a cell takes the reader there.

function headMetrics(layer, side, head) { return layer.metrics.heads[head][side]; }

/// From pale to strong, readable under dark text.
const heat = (share) => `hsl(212 85% ${(95 - 33 * share).toFixed(0)}%)`;

/// The least and the greatest value of a figure, of all models and sides.
function rangeOf(figure) {
  const values = models.flatMap((model) => model.metrics.layers.flatMap((layer) =>
    layer.heads.flatMap((head) => sides.map((side) => head[side][figure]))));
  return [Math.min(...values), Math.max(...values)];
}

function grid(model, side, figure) {
  const digits = figures[figure][2];
  const [least, largest] = rangeOf(figure);
  const heads = Math.max(...model.layers.map((layer) => layer.heads));
  const table = element("table", { className: "grid" });
  const caption = models.length > 1 ? `${model.name}, ${sideNames[side].toLowerCase()}` : sideNames[side];
  table.append(element("caption", { textContent: caption }));
  const header = element("tr", {}, element("th", { textContent: "layer" }));
  for (let head = 0; head < heads; ++head) {
    header.append(element("th", { textContent: `head ${head}` }));
  }
  table.append(header);
  model.layers.forEach((layer, index) => {
    const row = element("tr", {}, element("th", { textContent: layer.number }));
    for (let head = 0; head < layer.heads; ++head) {
      const value = headMetrics(layer, side, head)[figure];
      const button = element("button", { type: "button", textContent: fixed(value, digits) });
      button.style.background = heat(largest > least ? (value - least) / (largest - least) : 0);
      button.setAttribute("aria-label", `${figures[figure][0]} of ${describeHead(layer, head, side)}`);
      button.setAttribute("aria-pressed", model.index === state.model && index === state.layer &&
                                          head === state.head && side === state.side);
      button.addEventListener("click", () =>
        update({ model: model.index, layer: index, head, side, component: null }));
      row.append(element("td", {}, button));
    }
    table.append(row);
  });
  return table;
}

function drawOverview() {
  const figure = byId("figure").value;
  byId("figure-about").textContent = figures[figure][1];
  byId("overview").replaceChildren(
    ...models.flatMap((model) => sides.map((side) => grid(model, side, figure))));
}

function prepareOverview() {
  const select = byId("figure");
  for (const [key, [name]] of Object.entries(figures)) {
    select.append(element("option", { value: key, textContent: name }));
  }
  select.addEventListener("change", drawOverview);
}
