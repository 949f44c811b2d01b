// SPDX-License-Identifier: Apache-2.0

// Line charts over time, drawn as SVG, with axes and the value under the
// pointer.

import { draw, make, setText } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 130;
const LEFT = 4;
const TOP = 18;
const BOTTOM = 18;
const PLOT = HEIGHT - TOP - BOTTOM;
// Samples further apart have nothing between them.
const GAP = 4;

// Times that are close together differ in their seconds only.
const CLOSE_MS = 5 * 60e3;

function clock(atMs, spanMs) {
  return new Date(atMs).toLocaleTimeString([], { hour: "2-digit",
    minute: "2-digit", ...(spanMs < CLOSE_MS ? { second: "2-digit" } : {}) });
}

export class Chart {
  // text(value) returns a value with its unit; valueOf(sample) can be null.
  constructor(title, text, valueOf) {
    this.title = title;
    this.text = text;
    this.valueOf = valueOf;
    this.points = [];
    this.line = draw("path", { class: "line" });
    this.dots = draw("path", { class: "dots" });
    this.grid = draw("path", { class: "axis" });
    this.most = draw("text", { x: LEFT, y: TOP - 6, class: "tick" });
    this.half = draw("text", { x: LEFT, y: TOP + PLOT / 2 - 3,
      class: "tick" });
    this.times = [0, 1, 2].map((one) => draw("text", { class: "tick",
      x: one * WIDTH / 2, y: HEIGHT - 4,
      "text-anchor": ["start", "middle", "end"][one] }));
    this.mark = draw("path", { class: "mark" });
    this.now = make("strong", {}, "–");
    this.under = make("span", { class: "under" });
    this.picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img", "aria-label": title },
    this.grid, this.line, this.dots, this.mark, this.most, this.half,
    ...this.times);
    this.picture.addEventListener("pointermove", (event) =>
      this.hover(event.offsetX / this.picture.clientWidth * WIDTH));
    this.picture.addEventListener("pointerleave", () => this.hover(null));
    this.element = make("figure", {},
      make("figcaption", {}, `${title} `, this.now), this.picture,
      this.under);
  }

  // Show the value nearest to a place in the picture.
  hover(x) {
    const found = x === null ? null : this.points.reduce((best, one) =>
      best === null || Math.abs(one.x - x) < Math.abs(best.x - x)
        ? one : best, null);
    this.mark.setAttribute("d", found === null ? ""
      : `M${found.x} ${TOP}V${TOP + PLOT}`);
    setText(this.under, found === null ? ""
      : `${new Date(found.atMs).toLocaleTimeString()}: ${
        this.text(found.value)}`);
  }

  show(samples, intervalMs) {
    const known = samples.map((one) => ({ atMs: one.at * 1000,
      value: this.valueOf(one) })).filter((one) => one.value !== null);
    const latest = known.at(-1);
    setText(this.now, latest === undefined ? "–" : this.text(latest.value));
    const most = Math.max(...known.map((one) => one.value), 0) || 1;
    const first = samples[0]?.at * 1000 || 0;
    const last = samples.at(-1)?.at * 1000 || 0;
    const spanMs = Math.max(last - first, 1);
    const label = `${this.title}, ${known.length
      ? `now ${this.text(latest.value)}, at most ${this.text(most)}`
      : "nothing known"}`;
    if (this.picture.getAttribute("aria-label") !== label) {
      this.picture.setAttribute("aria-label", label);
    }
    setText(this.most, known.length ? this.text(most) : "");
    // There are no half sessions.
    const hasHalf = this.text === String ? most % 2 === 0 : most > 1;
    setText(this.half, known.length && hasHalf ? this.text(most / 2) : "");
    this.times.forEach((one, number) => setText(one, samples.length > 1
      ? clock(first + spanMs * number / 2, spanMs) : ""));
    this.points = known.map((one) => ({ ...one,
      x: (one.atMs - first) / spanMs * WIDTH,
      y: TOP + PLOT * (1 - one.value / most) }));
    this.trace(intervalMs, samples.length);
  }

  trace(intervalMs, count) {
    let line = "";
    let before = null;
    for (const one of this.points) {
      const goesOn = before !== null
        && one.atMs - before.atMs <= GAP * intervalMs;
      line += `${goesOn ? "L" : "M"}${one.x.toFixed(1)} ${one.y.toFixed(1)}`;
      before = one;
    }
    this.line.setAttribute("d", line);
    this.dots.setAttribute("d", count < 80 ? this.points.map((one) =>
      `M${one.x.toFixed(1)} ${one.y.toFixed(1)}h0`).join("") : "");
    this.grid.setAttribute("d",
      `M0 ${TOP}H${WIDTH}M0 ${TOP + PLOT / 2}H${WIDTH}M0 ${TOP + PLOT}H${
        WIDTH}M0.5 ${TOP}V${TOP + PLOT}`);
  }
}
