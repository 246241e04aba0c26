// Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
//
// What the page computes itself, of one head: docs/math.md has the definitions.

/// Responsibilities of a routing vector.
function responsibilities(x, mixture) {
  const { components, size, means, variances, logPriors } = mixture;
  const logits = new Float64Array(components);
  let largest = -Infinity;
  for (let k = 0; k < components; ++k) {
    let sum = 0;
    for (let d = 0, at = k * size; d < size; ++d, ++at) {
      const gap = x[d] - means[at];
      sum += Math.log(variances[at]) + gap * gap / variances[at];
    }
    logits[k] = logPriors[k] - 0.5 * sum;
    largest = Math.max(largest, logits[k]);
  }
  let total = 0;
  for (let k = 0; k < components; ++k) total += logits[k] = Math.exp(logits[k] - largest);
  return logits.map((value) => value / total);
}

/// Bhattacharyya coefficient of two components.
function overlap(mixture, a, b) {
  const { size, means, variances } = mixture;
  let distance = 0, logs = 0;
  for (let d = 0; d < size; ++d) {
    const i = a * size + d, j = b * size + d;
    const mean = 0.5 * (variances[i] + variances[j]);
    const gap = means[i] - means[j];
    distance += gap * gap / mean;
    logs += Math.log(mean / Math.sqrt(variances[i] * variances[j]));
  }
  return Math.exp(-distance / 8 - logs / 2);
}

/// Gamma_Q Gamma_K^T of a window: `kind` "raw"; "read", as the weights with which queries read
/// values; or "share", these weights beside those of an even spread. Weights are of all keys that a
/// query reads: `outside` is the sum of the responsibilities of those that are not in the window.
/// null is what a query cannot see.
function affinity(queries, keys, { isCausal, eps, kind, outside }) {
  // Those of a key sum to 1.
  const others = outside.reduce((sum, value) => sum + value, 0);
  return queries.map((query, i) => {
    const row = keys.map((key, j) => {
      if (kind !== "raw" && isCausal && j > i) return null;
      let sum = 0;
      for (let k = 0; k < query.length; ++k) sum += query[k] * key[k];
      return sum;
    });
    if (kind === "raw") return row;
    const seen = row.filter((value) => value !== null);
    const read = query.reduce((sum, value, k) => sum + value * outside[k], 0);
    const total = seen.reduce((sum, value) => sum + value, read) + eps;
    const unit = kind === "share" ? total / (seen.length + others) : total;
    return row.map((value) => value === null ? null : value / unit);
  });
}

/// The two directions in which points (arrays of one length) differ most, and their share of the
/// variance: the covariance's first eigenvectors, by power iteration.
function principalPlane(points) {
  const size = points[0].length;
  const centre = new Float64Array(size);
  for (const point of points) for (let d = 0; d < size; ++d) centre[d] += point[d] / points.length;
  const covariance = Array.from({ length: size }, () => new Float64Array(size));
  for (const point of points) {
    for (let i = 0; i < size; ++i) {
      const gap = (point[i] - centre[i]) / points.length;
      for (let j = 0; j <= i; ++j) covariance[i][j] += gap * (point[j] - centre[j]);
    }
  }
  let trace = 0;
  for (let i = 0; i < size; ++i) {
    trace += covariance[i][i];
    for (let j = 0; j < i; ++j) covariance[j][i] = covariance[i][j];
  }
  const axes = [], shares = [];
  while (axes.length < 2) {
    let axis = Float64Array.from({ length: size }, (_, d) => Math.sin(d + 1 + axes.length));
    let length = 0;
    for (let step = 0; step < 100; ++step) {
      const next = covariance.map((row) => row.reduce((sum, value, j) => sum + value * axis[j], 0));
      for (const other of axes) {
        const along = other.reduce((sum, value, d) => sum + value * next[d], 0);
        other.forEach((value, d) => { next[d] -= along * value; });
      }
      length = Math.hypot(...next);
      if (!(length > 0)) break;
      axis = next.map((value) => value / length);
    }
    axes.push(axis);
    shares.push(trace > 0 ? length / trace : 0);
  }
  const project = (point) => axes.map((axis) => {
    let sum = 0;
    for (let d = 0; d < size; ++d) sum += axis[d] * (point[d] - centre[d]);
    return sum;
  });
  return { project, shares };
}

/// An order in which like components stand together: from the most used one, always the nearest of
/// those that are left.
function chain(matrix, first) {
  const left = new Set(matrix.keys());
  const order = [];
  for (let at = first; at !== undefined;) {
    order.push(at);
    left.delete(at);
    let next;
    for (const k of left) if (next === undefined || matrix[at][k] > matrix[at][next]) next = k;
    at = next;
  }
  return order;
}

/// How much more often a component is first for a token than for any: the tokens that tell it best,
/// by count times log lift.
function characteristicTokens(model, top, component) {
  const { places } = model.text();
  const all = new Uint32Array(model.pieces.length), own = new Uint32Array(model.pieces.length);
  let total = 0;
  for (let i = 0; i < model.sample; ++i) {
    ++all[places[i]];
    if (top.components[i] !== component) continue;
    ++own[places[i]];
    ++total;
  }
  const found = [];
  own.forEach((count, place) => {
    if (count === 0) return;
    const lift = (count / total) / (all[place] / model.sample);
    found.push({ place, count, lift, score: count * Math.log(lift) });
  });
  return found.sort((a, b) => b.score - a.score || b.count - a.count);
}
