// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// Controls, keys and the address, and what has to be drawn again when one of them changes.

/// Changes what is shown, brings it into range, and draws what depends on it.
function update(changes, isFirst = false) {
  const before = { ...state };
  Object.assign(state, changes);
  const clamp = (value, count) => Math.max(0, Math.min(count - 1, Number.isFinite(value) ? Math.trunc(value) : 0));
  state.model = clamp(state.model, models.length);
  state.layer = clamp(state.layer, shown.model.layers.length);
  state.head = clamp(state.head, shown.layer.heads);
  state.first = clamp(state.first, shown.model.sample);
  if (state.here !== null) state.here = clamp(state.here, shown.model.sample);
  const { component } = state;
  if (!Number.isInteger(component) || component < 0 || component >= shown.layer.components) {
    state.component = null;
  }
  const differs = (...keys) => keys.some((key) => state[key] !== before[key]);
  draw({ isNewHead: isFirst || differs("model", "layer", "head", "side"),
         isNewComponent: differs("component") });
}

function draw({ isNewHead, isNewComponent }) {
  drawControls();
  drawText();
  if (isNewHead || isNewComponent) drawPanel();
  if (isNewHead) {
    drawOverview();
    const name = describeHead(shown.layer, state.head, state.side);
    byId("head-heading").textContent = name[0].toUpperCase() + name.slice(1) +
      (models.length > 1 ? ` of ${shown.model.name}` : "");
    byId("head-about").textContent = headInWords(shown.layer.metrics.heads[state.head]);
    refreshCharts();
  } else if (isNewComponent) {
    refreshCharts("component");
  }
  const { model, layer, head, side, component, first } = state;
  const parts = { model, layer, head, side, component: component ?? "", first };
  history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
}

/// How large routing vectors are, how wide components, and how far a token can move.
function headInWords({ query_radius, key_radius, variance_min, variance_max, bounds }) {
  const short = (value) => value.toPrecision(3);
  const sizes = `Routing vectors have norms up to ${short(query_radius)} (queries) and ` +
    `${short(key_radius)} (keys), components have variances from ${short(variance_min)} to ` +
    `${short(variance_max)}.`;
  return bounds === null ? sizes : `${sizes} Within that, a routing vector that moves by a length ` +
    `of 1 changes its responsibilities by at most ${short(bounds.responsibilities)} (all changes ` +
    `together, which are never more than 2), and the affinity has a rank of at most ${bounds.rank}.`;
}

function fill(select, values, chosen) {
  if (select.length !== values.length || values.some((text, i) => select[i].textContent !== text)) {
    select.replaceChildren(...values.map((textContent, value) =>
      element("option", { value, textContent })));
  }
  select.value = chosen;
}

function drawControls() {
  const { model, layer } = shown;
  fill(byId("model"), models.map((one) => one.name), state.model);
  fill(byId("layer"), model.layers.map((one) => String(one.number)), state.layer);
  fill(byId("head"), numbers(layer.heads).map(String), state.head);
  for (const radio of document.querySelectorAll("input[name=side]")) {
    radio.checked = radio.value === state.side;
  }
  byId("component").max = layer.components - 1;
  byId("component").value = state.component ?? "";
}

function fromAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const number = (key) => Number(parts.get(key) ?? 0);
  return { model: number("model"), layer: number("layer"), head: number("head"), first: number("first"),
           side: sides.includes(parts.get("side")) ? parts.get("side") : "query",
           component: parts.get("component") ? number("component") : null };
}

function prepareControls({ turn }) {
  byId("model-label").hidden = models.length === 1;
  for (const key of ["model", "layer", "head"]) {
    byId(key).addEventListener("change", (event) => update({ [key]: Number(event.target.value) }));
  }
  for (const radio of document.querySelectorAll("input[name=side]")) {
    radio.addEventListener("change", () => update({ side: radio.value }));
  }
  byId("component").addEventListener("input", (event) =>
    update({ component: event.target.value === "" ? null : Number(event.target.value) }));
  byId("numbers").addEventListener("change", drawText);
  byId("find").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.value) find(event.target.value);
  });
  byId("find").addEventListener("input", (event) => event.target.setCustomValidity(""));
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  addEventListener("hashchange", () => update(fromAddress()));

  const next = (step) => {
    if (state.component === null) return;
    const from = state.here === null ? state.first : state.here + step;
    const found = seek(from, step, (i) => componentOf(i) === state.component);
    if (found !== undefined) moveHere(found);
  };
  const from = () => state.here ?? state.first;
  // Keys that work anywhere but in fields, and those of the text alone.
  const keys = {
    "[": ["layer before", () => update({ layer: state.layer - 1 })],
    "]": ["next layer", () => update({ layer: state.layer + 1 })],
    ",": ["head before", () => update({ head: state.head - 1 })],
    ".": ["next head", () => update({ head: state.head + 1 })],
    "k": ["queries or keys", () => update({ side: state.side === "query" ? "key" : "query" })],
    "m": ["the other model", () => update({ model: (state.model + 1) % models.length })],
    "n": ["next token of the component", () => next(1)],
    "p": ["token of the component before", () => next(-1)],
    "#": ["numbers on or off", () => byId("numbers").click()],
    "/": ["find text", () => byId("find").focus()],
    "Escape": ["no component", () => { hideTip(); update({ component: null }); }],
    "?": ["these keys", () => byId("help").showModal()],
  };
  const textKeys = {
    "ArrowRight": ["next token", () => moveHere(from() + 1)],
    "ArrowLeft": ["token before", () => moveHere(from() - 1)],
    "PageDown": ["next page of the text", () => turn(1)],
    "PageUp": ["page before", () => turn(-1)],
    "Home": ["first token", () => moveHere(0)],
    "End": ["last token", () => moveHere(shown.model.sample - 1)],
    "Enter": ["choose the token's component", () => update({ component: componentOf(from()) })],
  };
  if (models.length === 1) delete keys.m;
  for (const [key, [meaning]] of [...Object.entries(textKeys), ...Object.entries(keys)]) {
    byId("keys").append(element("dt", {}, element("kbd", { textContent: key })),
                        element("dd", { textContent: meaning +
                          (key in textKeys ? " (in the text)" : "") }));
  }
  addEventListener("keydown", (event) => {
    const inField = event.target.matches("input:not([type=radio], [type=checkbox]), select") || byId("help").open;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isInText = event.target === byId("text");
    const entry = (isInText ? textKeys[event.key] : undefined) ?? (inField ? undefined : keys[event.key]);
    if (entry === undefined) return;
    event.preventDefault();
    entry[1]();
  });
}

// The figures in words at once; the rest when all blocks are there.
drawSummary();
document.addEventListener("DOMContentLoaded", () => {
  drawMostSpecialised();
  prepareOverview();
  prepareCharts();
  prepareControls(prepareText());
  update(fromAddress(), true);
  document.documentElement.dataset.ready = "true";
});
