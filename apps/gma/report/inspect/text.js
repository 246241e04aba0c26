// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The text, coloured by component, a page of it at a time; what a token's components are; and a map
// of where in the text a component is used.

const pageTokens = 400;

function shareOf(token, rank = 0) {
  return shown.top.shares[rank * shown.model.sample + token] * shown.top.unit;
}
function componentOf(token, rank = 0) {
  return shown.top.components[rank * shown.model.sample + token];
}
function categoryOf(token) { return page.categories[shown.model.text().categories[token]]; }

const usualShares = new Map();
/// What the first components of most tokens of the head reach, 0 to 1: a colour is strong beside
/// it, so that a soft head can be read as well as a sharp one.
function usualShare() {
  const { top, model, layer } = shown;
  const name = `${layer.name} ${state.side} ${state.head}`;
  if (!usualShares.has(name)) {
    const sorted = top.shares.slice(0, model.sample).sort();
    usualShares.set(name, Math.max(1, sorted[Math.floor(0.95 * (sorted.length - 1))]) * top.unit);
  }
  return usualShares.get(name);
}

/// How strong the colour behind text may be, in which the text is read easily on either page.
const strongest = 0.35;

function paint(made, component, strength) {
  const alpha = 0.06 + (strongest - 0.06) * strength;
  made.style.setProperty("--fill", colour(component, alpha));
  made.style.setProperty("--pale", colour(component, 0.3 * alpha));
}

function tokenElement(token, label, usual) {
  const k = componentOf(token), strength = Math.min(1, shareOf(token) / usual);
  const breaks = label.includes("\n");
  const text = breaks ? label.replace(/ *\n/g, "\u21b5") : label || "\u2205";
  const made = element("span", { className: "t" }, text, element("small", { textContent: k }));
  made.dataset.token = token;
  paint(made, k, strength);
  if (k === state.component) made.classList.add("chosen");
  if (token === state.here) made.classList.add("here");
  return breaks ? [made, element("br")] : [made];
}

function drawText() {
  const { model } = shown;
  const end = Math.min(state.first + pageTokens, model.sample);
  const labels = model.labels(state.first, end);
  const starts = new Map(model.starts.map((start, i) => [start, i]));
  const parts = [], usual = usualShare();
  labels.forEach((label, i) => {
    const token = state.first + i;
    if (starts.has(token)) {
      parts.push(element("span", { className: "sequence",
                                   textContent: `text ${whole(starts.get(token) + 1)}` }));
    }
    parts.push(...tokenElement(token, label, usual));
  });
  const holder = byId("text");
  holder.replaceChildren(...parts);
  holder.classList.toggle("faded", state.component !== null);
  holder.classList.toggle("plain-numbers", !byId("numbers").checked);
  byId("text-about").textContent =
    `Tokens ${whole(state.first)} to ${whole(end - 1)} of ${whole(model.sample)}, each in the ` +
    `colour and with the number of its first component in ` +
    `${describeHead(shown.layer, state.head, state.side)}; the stronger, the surer (up to ` +
    `${percent(usual)}).`;
  byId("position").max = Math.max(0, model.sample - 1);
  byId("position").value = state.first;
  drawMap();
}

/// Where the chosen component is used; without one, which is used most.
function drawMap() {
  const canvas = byId("map");
  const { sample } = shown.model;
  const width = canvas.width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
  const height = canvas.height = Math.round(44 * devicePixelRatio);
  const context = canvas.getContext("2d");
  const text = getComputedStyle(document.body).color;
  const bins = Math.min(sample, Math.max(1, Math.floor(width / (2 * devicePixelRatio))));
  const { components } = shown.top;
  const counts = new Uint32Array(shown.layer.components);
  const density = [];
  for (let bin = 0; bin < bins; ++bin) {
    const begin = Math.floor(bin * sample / bins), end = Math.floor((bin + 1) * sample / bins);
    if (state.component !== null) {
      let hits = 0;
      for (let i = begin; i < end; ++i) hits += components[i] === state.component;
      density.push({ share: hits / (end - begin), k: state.component });
      continue;
    }
    counts.fill(0);
    let k = components[begin];
    for (let i = begin; i < end; ++i) if (++counts[components[i]] > counts[k]) k = components[i];
    density.push({ share: counts[k] / (end - begin), k });
  }
  const largest = Math.max(...density.map(({ share }) => share), 1e-9);
  density.forEach(({ share, k }, bin) => {
    const bar = share / largest * (height - 8 * devicePixelRatio);
    context.fillStyle = colour(k, 0.9);
    context.fillRect(bin * width / bins, height - bar, Math.ceil(width / bins), bar);
  });
  context.strokeStyle = text;
  context.lineWidth = devicePixelRatio;
  context.strokeRect(state.first / sample * width + 0.5, 0.5,
                     Math.max(3, Math.min(pageTokens / sample, 1) * width - 1), height - 1);
  canvas.setAttribute("aria-label", state.component === null
    ? "Map of the text: the component that is used most at each place"
    : `Map of the text: where component ${state.component} is first`);
}

function showTip(token, x, y) {
  const { model } = shown;
  const tip = byId("tip");
  const rows = [];
  for (let rank = 0; rank < model.perToken; ++rank) {
    const k = componentOf(token, rank), share = shareOf(token, rank);
    const fill = element("i");
    const width = 100 * share / Math.max(shareOf(token), 1e-9);
    fill.style.cssText = `width:${width}%;background:${colour(k)}`;
    rows.push(element("div", { className: "row" }, element("span", {}, swatch(k), ` ${k}`),
                      element("div", { className: "bar" }, fill),
                      element("span", { textContent: percent(share) })));
  }
  tip.replaceChildren(
    element("div", {}, element("span", { className: "piece", textContent: visible(model.label(token)) }),
            ` ${categoryOf(token)}, token ${whole(token)}`),
    ...rows,
    element("div", { className: "hint", textContent: `${componentOf(token)}: ${nickname(componentOf(token))}` }));
  tip.hidden = false;
  const margin = 12;
  const left = Math.min(x + margin, innerWidth - tip.offsetWidth - margin);
  const below = y + margin + tip.offsetHeight < innerHeight;
  tip.style.left = `${Math.max(margin, left)}px`;
  tip.style.top = `${below ? y + margin : y - margin - tip.offsetHeight}px`;
}
function hideTip() { byId("tip").hidden = true; }

/// Shows the page that holds a token.
function goTo(token, { component = state.component } = {}) {
  const inside = token >= state.first && token < state.first + pageTokens;
  const first = inside ? state.first : Math.max(0, token - Math.floor(pageTokens / 4));
  update({ first, here: token, component });
  byId("text").querySelector(".here")?.scrollIntoView({ block: "nearest" });
}

/// Says what the token under the keys is, for those who do not see the page.
function speak(token) {
  const list = Array.from({ length: shown.model.perToken }, (_, rank) =>
    `component ${componentOf(token, rank)} ${percent(shareOf(token, rank))}`);
  byId("spoken").textContent =
    `${visible(shown.model.label(token))}, ${categoryOf(token)}: ${list.join(", ")}`;
}

function moveHere(token) {
  const clamped = Math.max(0, Math.min(shown.model.sample - 1, token));
  goTo(clamped);
  const box = byId("text").querySelector(".here").getBoundingClientRect();
  showTip(clamped, box.left, box.bottom);
  speak(clamped);
}

/// The next token, or with step -1 the one before, that `holds`; undefined where there is none.
function seek(from, step, holds) {
  for (let i = from; i >= 0 && i < shown.model.sample; i += step) if (holds(i)) return i;
  return undefined;
}

function find(query) {
  const { model } = shown;
  const wanted = query.toLowerCase();
  const holds = (i) => {
    const piece = model.piece(i);
    if (typeof piece !== "string") return false;
    // A match may run over several tokens, and begins in this one.
    let text = piece.toLowerCase();
    const length = text.length;
    for (let j = i + 1; text.length < length + wanted.length && j < model.sample; ++j) {
      const next = model.piece(j);
      if (typeof next !== "string") break;
      text += next.toLowerCase();
    }
    const at = text.indexOf(wanted);
    return at >= 0 && at < length;
  };
  const from = state.here === null ? state.first : state.here + 1;
  const found = seek(from, 1, holds) ?? seek(0, 1, holds);
  byId("find").setCustomValidity(found === undefined ? "not in these tokens" : "");
  byId("find").reportValidity();
  if (found !== undefined) goTo(found);
}

function prepareText() {
  const holder = byId("text");
  const tokenAt = (event) => {
    const span = event.target.closest?.(".t");
    return span === null || span === undefined ? undefined : Number(span.dataset.token);
  };
  holder.addEventListener("pointermove", (event) => {
    const token = tokenAt(event);
    if (token === undefined) hideTip();
    else showTip(token, event.clientX, event.clientY);
  });
  holder.addEventListener("pointerleave", hideTip);
  holder.addEventListener("click", (event) => {
    const token = tokenAt(event);
    if (token !== undefined) update({ component: componentOf(token), here: token });
  });
  holder.addEventListener("blur", hideTip);
  const turn = (pages) => update({ first: Math.max(0, Math.min(
    state.first + pages * pageTokens, Math.max(0, shown.model.sample - 1))) });
  byId("previous-page").addEventListener("click", () => turn(-1));
  byId("next-page").addEventListener("click", () => turn(1));
  byId("position").addEventListener("input", (event) => update({ first: Number(event.target.value) }));
  byId("map").addEventListener("click", (event) => {
    const share = event.offsetX / byId("map").clientWidth;
    update({ first: Math.floor(Math.max(0, Math.min(1, share)) * (shown.model.sample - 1)) });
  });
  addEventListener("resize", drawMap);
  return { turn };
}
