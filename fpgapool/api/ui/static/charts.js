// SPDX-License-Identifier: Apache-2.0

// Line charts over time, drawn as SVG.

import { draw, make, setText } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 110;
const LEFT = 4;
const TOP = 18;
const BOTTOM = 16;

export class Chart {
  // text(value) returns a value with its unit; valueOf(sample) can be null.
  constructor(title, text, valueOf) {
    this.text = text;
    this.valueOf = valueOf;
    this.line = draw("path", { class: "line" });
    this.dots = draw("path", { class: "dots" });
    this.most = draw("text", { x: LEFT, y: TOP - 6, class: "tick" });
    this.span = draw("text", { x: LEFT, y: HEIGHT - 4, class: "tick" });
    this.now = make("strong", {}, "–");
    this.picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img", "aria-label": title },
    draw("path", { class: "axis",
      d: `M0 ${HEIGHT - BOTTOM}H${WIDTH}` }),
    this.line, this.dots, this.most, this.span);
    this.element = make("figure", {},
      make("figcaption", {}, `${title} `, this.now), this.picture);
  }

  show(samples) {
    const values = samples.map(this.valueOf);
    const known = values.filter((one) => one !== null);
    const latest = known.at(-1);
    setText(this.now, latest === undefined ? "–" : this.text(latest));
    const most = Math.max(...known, 0) || 1;
    setText(this.most, known.length ? this.text(most) : "");
    const first = samples[0]?.atMs ?? 0;
    const spanMs = Math.max((samples.at(-1)?.atMs ?? 0) - first, 1);
    setText(this.span, samples.length > 1
      ? `the last ${Math.max(1, Math.round(spanMs / 1000))} s` : "");
    const height = HEIGHT - TOP - BOTTOM;
    let line = "";
    let dots = "";
    values.forEach((value, number) => {
      if (value === null) {
        return;
      }
      const x = (samples[number].atMs - first) / spanMs * WIDTH;
      const y = TOP + height * (1 - value / most);
      const at = `${x.toFixed(1)} ${y.toFixed(1)}`;
      line += `${line ? "L" : "M"}${at}`;
      dots += `M${at}h0`;
    });
    this.line.setAttribute("d", line);
    this.dots.setAttribute("d", samples.length < 80 ? dots : "");
  }
}
