// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// The report's numbers. A block is an element of base64 text; it is decoded when it is first
// asked for, and the figures of one head at a time.
"use strict";

const page = JSON.parse(document.getElementById("data").textContent);
const sides = ["query", "key"];
const sideNames = { query: "Queries", key: "Keys" };

function once(make) {
  let value;
  return () => (value ??= make());
}

function bytesOf(id) {
  const text = document.getElementById(id).textContent;
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < characters.length; ++i) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

// Typed arrays out of a block, one after the other.
class Reader {
  constructor(id) {
    this.buffer = bytesOf(id).buffer;
    this.at = 0;
  }
  take(Type, count) {
    // A copy, because an array may begin where its type may not.
    const end = this.at + count * Type.BYTES_PER_ELEMENT;
    const values = new Type(this.buffer.slice(this.at, end));
    this.at = end;
    return values;
  }
}

class Layer {
  constructor(model, index, data) {
    Object.assign(this, data);
    this.model = model;
    this.name = `m${model.index}-${index}`;
    this.metrics = model.metrics.layers[index];
    this.statisticsOf = once(() => this.readStatistics());
    this.mixtures = once(() => this.readMixtures());
    this.vectors = once(() => this.readVectors());
    this.tops = new Map();
  }

  headsOf(side) { return side === "query" ? this.heads : this.keyHeads; }
  keyHead(head) { return Math.floor(head / (this.heads / this.keyHeads)); }
  /// The number of a query head's side: keys are shared by a group.
  place(side, head) { return side === "query" ? head : this.keyHead(head); }

  readStatistics() {
    const reader = new Reader(`${this.name}-statistics`);
    const one = () => {
      const usage = reader.take(Float32Array, this.components);
      const sharpness = reader.take(Float32Array, this.components);
      const table = reader.take(Uint32Array, this.components * page.categories.length);
      const assigned = new Float64Array(this.components);
      table.forEach((count, i) => { assigned[Math.floor(i / page.categories.length)] += count; });
      return { usage, sharpness, table, assigned };
    };
    return Object.fromEntries(
      sides.map((side) => [side, Array.from({ length: this.headsOf(side) }, one)]));
  }
  /// Mean responsibility, sharpness, and how often each component is first for each category.
  statistics(side, head) { return this.statisticsOf()[side][this.place(side, head)]; }

  readMixtures() {
    const reader = new Reader(`${this.name}-mixture`);
    const size = this.components * this.headSize;
    const take = (count) => reader.take(Float32Array, this.keyHeads * count);
    const means = take(size), variances = take(size), logPriors = take(this.components);
    return Array.from({ length: this.keyHeads }, (_, head) => ({
      components: this.components, size: this.headSize,
      means: means.subarray(head * size, (head + 1) * size),
      variances: variances.subarray(head * size, (head + 1) * size),
      logPriors: logPriors.subarray(head * this.components, (head + 1) * this.components),
    }));
  }
  mixture(head) { return this.mixtures()[this.keyHead(head)]; }

  readVectors() {
    const reader = new Reader(`${this.name}-windows`);
    const tokens = this.model.windows.reduce((sum, [, length]) => sum + length, 0);
    const vectors = Object.fromEntries(sides.map((side) =>
      [side, reader.take(Float32Array, tokens * this.headsOf(side) * this.headSize)]));
    const outside = this.model.windows.length * this.keyHeads * this.components;
    return { ...vectors, outside: reader.take(Float32Array, outside) };
  }
  /// Sums of the responsibilities of the keys that are not in a window and that its queries read.
  keysOutside(head, window) {
    const begin = (window * this.keyHeads + this.keyHead(head)) * this.components;
    return this.vectors().outside.subarray(begin, begin + this.components);
  }
  /// Routing vectors of the tokens of a window, a row each.
  windowVectors(side, head, window) {
    const all = this.vectors()[side];
    const windows = this.model.windows;
    const before = windows.slice(0, window).reduce((sum, [, length]) => sum + length, 0);
    return Array.from({ length: windows[window][1] }, (_, i) => {
      const row = (before + i) * this.headsOf(side) + this.place(side, head);
      return all.subarray(row * this.headSize, (row + 1) * this.headSize);
    });
  }

  /// Of each token of the sample the most responsible components, the first of all tokens first,
  /// and their responsibilities in parts of `unit`.
  top(side, head) {
    const name = `${this.name}-${side}-${this.place(side, head)}`;
    if (!this.tops.has(name)) {
      const reader = new Reader(name);
      const count = this.model.sample * this.model.perToken;
      const Index = this.components <= 256 ? Uint8Array
                    : this.components <= 65536 ? Uint16Array : Uint32Array;
      const [largest] = reader.take(Float32Array, 1);
      const shares = reader.take(Uint16Array, count);
      this.tops.set(name, { components: reader.take(Index, count), shares, unit: largest / 65535 });
    }
    return this.tops.get(name);
  }
}

class Model {
  constructor(data, index) {
    Object.assign(this, data);
    this.index = index;
    this.name = this.metrics.checkpoint;
    this.layers = data.layers.map((layer, i) => new Layer(this, i, layer));
    this.text = once(() => {
      const reader = new Reader(`m${index}-text`);
      return { places: reader.take(Uint32Array, this.sample),
               categories: reader.take(Uint8Array, this.sample) };
    });
    this.decoder = new TextDecoder("utf-8", { fatal: true });
  }

  /// What a token stands for: text, or bytes that are no text by themselves.
  piece(token) { return this.pieces[this.text().places[token]]; }

  /// What to show for tokens from first to end. Bytes that make up a character are shown as that
  /// character with the first of them, and as dots with the others.
  labels(first, end) {
    const longest = 4;
    const labels = [];
    let dots = 0;
    for (let i = Math.max(0, first - longest); i < end; ++i) {
      const piece = this.piece(i);
      let label = piece;
      if (typeof piece !== "string") {
        label = dots > 0 ? "\u00b7" : undefined;
        dots = Math.max(0, dots - 1);
        let bytes = [];
        for (let j = i; label === undefined && j < Math.min(i + longest, this.sample); ++j) {
          const next = this.piece(j);
          if (typeof next === "string") break;
          bytes = bytes.concat(next);
          try {
            label = this.decoder.decode(new Uint8Array(bytes));
            dots = j - i;
          } catch { /* not yet a character */ }
        }
        label ??= piece.map((byte) => `\u27e8${byte.toString(16).toUpperCase()}\u27e9`).join("");
      } else {
        dots = 0;
      }
      if (i >= first) labels.push(label);
    }
    return labels;
  }
  label(token) { return this.labels(token, token + 1)[0]; }

  windowWith(token) {
    return this.windows.findIndex(([start, length]) => token >= start && token < start + length);
  }
}

const models = page.models.map((data, index) => new Model(data, index));
