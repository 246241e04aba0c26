// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What is shown, small helpers for elements, and the first lines of the page: the figures in words.

/// What the reader looks at. `component` is a number or null, `here` the token that keys move from.
const state = { model: 0, layer: 0, head: 0, side: "query", component: null, first: 0, here: null };
const shown = {
  get model() { return models[state.model]; },
  get layer() { return this.model.layers[state.layer]; },
  get statistics() { return this.layer.statistics(state.side, state.head); },
  get top() { return this.layer.top(state.side, state.head); },
  get mixture() { return this.layer.mixture(state.head); },
};

const byId = (id) => document.getElementById(id);
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
const whole = (value) => value.toLocaleString("en");
const percent = (share, digits = share < 0.1 ? 1 : 0) => `${(100 * share).toFixed(digits)}%`;
const fixed = (value, digits = 3) => value === null ? "none" : value.toFixed(digits);

/// Text with its white space made visible.
const visible = (piece) => typeof piece === "string"
  ? piece.replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5").replace(/ /g, "\u2423") || "\u2205"
  : piece.map((byte) => `\u27e8${byte.toString(16).toUpperCase()}\u27e9`).join("");

/// A colour that tells a component from its neighbours; its number stands beside it everywhere.
function colour(component, alpha = 1) {
  const hue = (component * 137.508) % 360;
  const lightness = 46 + 9 * (Math.floor(component / 12) % 3);
  return `hsl(${hue.toFixed(1)} 62% ${lightness}% / ${alpha})`;
}
const swatch = (component) => {
  const made = element("span", { className: "swatch" });
  made.style.background = colour(component);
  return made;
};

const nicknames = new Map();
/// Tokens that tell the component best, most telling first.
function tokensOf(component) {
  const name = `${shown.layer.name} ${state.side} ${state.head} ${component}`;
  if (!nicknames.has(name)) {
    nicknames.set(name, characteristicTokens(shown.model, shown.top, component).slice(0, 24));
  }
  return nicknames.get(name);
}
const nickname = (component) =>
  tokensOf(component).slice(0, 3).map(({ place }) => visible(shown.model.pieces[place])).join(" ");

const describeHead = (layer, head, side) =>
  `layer ${layer.number}, head ${layer.place(side, head)}, ${side === "query" ? "queries" : "keys"}`;

/// The component, among all, whose tokens are most of one category; at least `least` tokens.
function mostSpecialised(model, least) {
  let best;
  const categories = page.categories.length;
  const total = Object.values(model.metrics.token_categories).reduce((sum, n) => sum + n, 0);
  const expected = Object.values(model.metrics.token_categories).map((n) => n / total);
  model.layers.forEach((layer, index) => {
    for (const side of sides) {
      for (let head = 0; head < layer.headsOf(side); ++head) {
        const { table, assigned } = layer.statisticsOf()[side][head];
        for (let k = 0; k < layer.components; ++k) {
          if (assigned[k] < least) continue;
          for (let c = 0; c < categories; ++c) {
            const share = table[k * categories + c] / assigned[k];
            const gain = share - expected[c];
            if (!best || gain > best.gain) {
              const query = side === "query" ? head : head * (layer.heads / layer.keyHeads);
              best = { gain, share, usual: expected[c], category: c, index, side, head: query, k };
            }
          }
        }
      }
    }
  });
  return best;
}

/// Below this, what a token is tells next to nothing of its component.
const noInformation = 0.01;

/// How a model's tokens are routed, as the only sign of collapse that an even use cannot hide.
function informationInWords(model) {
  const m = model.metrics;
  const heads = sides.flatMap((side) => model.layers.flatMap((layer) =>
    numbers(layer.headsOf(side)).map((head) =>
      layer.metrics.heads[side === "query" ? head : head * (layer.heads / layer.keyHeads)][side])));
  const alike = heads.filter((head) => head.routing_information < noInformation).length;
  const figure = `routing information ${fixed(m.routing_information)} of the greatest`;
  if (m.routing_information < noInformation) {
    return `All tokens are routed alike: which token it is tells next to nothing of its component ` +
      `(${figure}), however evenly components are used.`;
  }
  const degree = m.routing_information < 0.1 ? "little" : m.routing_information < 0.4 ? "in part"
    : "well";
  return `Routing tells tokens apart ${degree} (${figure})` + (alike === 0 ? "." :
    `; in ${whole(alike)} of ${whole(heads.length)} heads, queries and keys counted apart, all ` +
    `tokens are routed alike.`);
}

function sentences(model) {
  const m = model.metrics;
  const per = m.components / model.layers.reduce((sum, layer) => sum + layer.keyHeads, 0);
  const heads = model.layers.map((layer) => layer.keyHeads);
  const lines = [];
  lines.push(
    `${whole(m.components_used)} of ${whole(m.components)} components are used ` +
    `(${model.layers.length} ${model.layers.length === 1 ? "layer" : "layers"} of ${heads[0]} ` +
    `${heads[0] === 1 ? "mixture" : "mixtures"} with ${per} each)` +
    (m.components_dead > 0 ? `; ${whole(m.components_dead)} are dead: they take almost no part.`
                           : ", and none is dead."));
  if (per === 1) return [...lines, "With one component there is nothing to route."];
  if (m.tokens > 1) lines.push(informationInWords(model));
  lines.push(
    `Mean responsibilities are as even as if ${m.effective_components.toFixed(1)} of the ${per} ` +
    `components of a head had equal parts (usage entropy ${fixed(m.usage_entropy)} of the greatest).`);
  const sharp = m.responsibility_entropy < 0.2 ? "sharply" : m.responsibility_entropy < 0.6
    ? "softly" : "very softly";
  lines.push(
    `A single token is routed ${sharp}: on average its first component has ` +
    `${percent(m.top_responsibility)} of it (entropy ${fixed(m.responsibility_entropy)} of the ` +
    `greatest).`);
  const figure = `normalised mutual information ${fixed(m.nmi)}, where chance gives ` +
    `${fixed(m.nmi_by_chance)}`;
  if (m.nmi_by_chance > 0.9) {
    return [...lines, `There are too few tokens to compare components with token categories: ${figure}.`];
  }
  const excess = m.ami;
  const telling = excess > 0.9 ? "Components are token categories"
    : excess > 0.3 ? "Components follow token categories closely"
    : excess > 0.05 ? "Components follow token categories in part"
    : "Components hardly follow token categories";
  lines.push(`${telling}: ${figure}.`);
  return lines;
}

function drawSummary() {
  const [first] = models;
  document.title = byId("title").textContent = page.title;
  byId("about").textContent = models.map((model) => {
    const m = model.metrics;
    const task = m.task === "lm" ? "language model" : "classifier";
    return `${models.length > 1 ? `${model.name}: ` : ""}${task}, ${whole(m.parameters)} ` +
      `parameters, step ${whole(m.step)}; ${whole(m.tokens)} tokens read in ` +
      `${whole(m.sequences)} sequences`;
  }).join(". ") + `. The first ${whole(first.sample)} can be looked at here. Written by gma ` +
    `${page.version}.`;
  for (const model of models) {
    byId("summary").append(...sentences(model).map((line) => element("li", {
      textContent: models.length > 1 ? `${model.name}: ${line}` : line })));
  }
  if (models.length > 1) drawComparison();
}

/// A line that leads to the component that stands for its tokens' category most clearly.
function drawMostSpecialised() {
  for (const model of models) {
    const fewest = Math.max(5, model.metrics.tokens / 500);
    const best = mostSpecialised(model, fewest);
    if (best === undefined || !(best.gain > 0)) continue;
    const button = element("button", { type: "button", className: "link" }, element("u", {
      textContent: `component ${best.k} of ` +
        describeHead(model.layers[best.index], best.head, best.side) }));
    button.addEventListener("click", () => {
      update({ model: model.index, layer: best.index, head: best.head, side: best.side,
               component: best.k });
      const token = seek(0, 1, (i) => componentOf(i) === best.k);
      if (token !== undefined) goTo(token);
    });
    byId("summary").append(element("li", { id: `specialised-${model.index}` },
      `${models.length > 1 ? `${model.name}: the` : "The"} most specialised is `, button,
      `: ${percent(best.share)} of the tokens that it is first for are ` +
      `${page.categories[best.category]}, of all tokens ${percent(best.usual)}.`));
  }
}

const figures = {
  usage_entropy: ["usage entropy", "Entropy of the mean responsibilities, over its greatest value: 1 where all components are used alike.", 3],
  components_used: ["components used", "Components that are most responsible for at least one token.", 0],
  components_dead: ["components dead", `Components whose mean responsibility is below ${percent(page.deadShare, 0)} of an equal share.`, 0],
  effective_components: ["effective components", "As many components as would, used alike, have this entropy.", 1],
  assignment_entropy: ["assignment entropy", "Entropy of how often each component is most responsible, over its greatest value.", 3],
  responsibility_entropy: ["token entropy", "Mean entropy of a token's responsibilities, over its greatest value: 0 sharp, 1 spread evenly.", 3],
  routing_information: ["routing information", "Usage entropy less token entropy: how much a token tells of its component, over the greatest value; near 0 all tokens are routed alike.", 3],
  top_responsibility: ["first responsibility", "Mean of the largest responsibility of a token.", 3],
  nmi: ["NMI with categories", "Normalised mutual information of the most responsible component with the token's category.", 3],
  nmi_by_chance: ["NMI by chance", "The same where the categories are dealt out at random.", 3],
  ami: ["adjusted NMI", "NMI on a scale where chance is 0 and 1 is 1.", 3],
};

/// A table of both models' figures.
function drawComparison() {
  const row = (kind, cells) => element("tr", {}, ...cells.map((cell) =>
    element(kind, { textContent: cell })));
  const table = element("table", {}, row("th", ["", ...models.map((m) => m.name), "difference"]));
  for (const [key, [name, , digits]] of Object.entries(figures)) {
    const values = models.map((model) => model.metrics[key]);
    const gap = values[1] - values[0];
    table.append(row("td", [name, ...values.map((value) => fixed(value, digits)),
                            `${gap > 0 ? "+" : ""}${fixed(gap, digits)}`]));
  }
  byId("comparison").append(table);
}
