// SPDX-License-Identifier: Apache-2.0

// Accelerators and bitstreams.

import * as api from "./api.js";
import { bytes, make, setText, Table, when } from "./dom.js";

const MOST = 100;

export class View {
  constructor(allBitstreams) {
    this.title = "Library";
    this.query = allBitstreams ? { all_projects: true } : {};
    this.accelerators = new Table("Accelerators", [
      { label: "Name", text: (one) => one.name },
      { label: "Description", text: (one) => one.description || "–" },
      { label: "Max throughput per slot",
        short: (one) => `${bytes(one.peak_bytes_per_s)}/s` },
      { label: "Output : input", short: (one) => String(one.return_ratio) },
      { label: "Stateless", short: (one) => one.stateless ? "yes" : "no" },
      { label: "Shapes", text: (one) => one.shapes.join(", ") || "any" },
    ], (one) => one.name, "There are no accelerators.");
    this.bitstreams = new Table("Bitstreams", [
      { label: "Name", text: (one) => one.name },
      { label: "Accelerator", text: (one) => one.accelerator },
      { label: "Version", text: (one) => one.version },
      { label: "Project", text: (one) => one.project_id },
      { label: "Format", short: (one) => one.format },
      { label: "State", short: (one) => one.state },
      { label: "Reason", text: (one) => one.reason || "–" },
      { label: "Visibility", short: (one) => one.visibility },
      { label: "Size", short: (one) => bytes(one.size_bytes) },
      { label: "Description", text: (one) => one.description || "–" },
      { label: "Created", text: (one) => when(one.created_at) },
    ], (one) => one.id, "There are no bitstreams.");
    this.note = make("p", { class: "empty" });
    this.element = make("div", {},
      make("h2", {}, "Accelerators"), this.accelerators.element,
      make("h2", {}, "Bitstreams"), this.bitstreams.element, this.note);
  }

  async refresh() {
    const [accelerators, bitstreams] = await Promise.all([
      api.pages("accelerators", { limit: MOST }, MOST, "name"),
      api.pages("bitstreams", { ...this.query, limit: MOST,
        sort_dir: "desc" }, MOST),
    ]);
    this.accelerators.show(accelerators.items);
    this.bitstreams.show(bitstreams.items);
    setText(this.note, accelerators.isCut || bitstreams.isCut
      ? `Each list shows at most ${MOST} entries: the newest bitstreams, and`
        + " accelerators by name." : "");
  }
}
