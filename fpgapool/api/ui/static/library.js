// SPDX-License-Identifier: Apache-2.0

// Accelerators and bitstreams, and one accelerator.

import * as api from "./api.js";
import { bytes, Facts, make, setAgo, setLink, setText, Table }
  from "./dom.js";
import { slotTable } from "./hardware.js";
import { opener, setAccelerator, setSession } from "./sessions.js";

const MOST = 100;

// known: the keys of accelerators that the user may see.
function bitstreamTable(known) {
  return new Table("Bitstreams", [
    { label: "Name", text: (one) => one.name },
    { label: "Accelerator", set: (cell, one) => setLink(cell,
      known.has(one.key) ? ["accelerators", one.key] : null,
      one.accelerator) },
    { label: "Version", text: (one) => one.version },
    { label: "Project", text: (one) => one.project_id },
    { label: "Format", short: (one) => one.format },
    { label: "State", short: (one) => one.state },
    { label: "Reason", text: (one) => one.reason || "–" },
    { label: "Visibility", short: (one) => one.visibility },
    { label: "Size", short: (one) => bytes(one.size_bytes) },
    { label: "Description", text: (one) => one.description || "–" },
    { label: "Created", isShort: true,
      set: (cell, one) => setAgo(cell, one.created_at) },
  ], (one) => one.id, "There are no bitstreams.");
}

export class View {
  constructor(allBitstreams) {
    this.title = "Library";
    this.query = allBitstreams ? { all_projects: true } : {};
    this.accelerators = new Table("Accelerators", [
      { label: "Name", set: (cell, one) => setAccelerator(cell, one.name) },
      { label: "Description", text: (one) => one.description || "–" },
      { label: "Max throughput per slot",
        short: (one) => `${bytes(one.peak_bytes_per_s)}/s` },
      { label: "Output : input", short: (one) => String(one.return_ratio) },
      { label: "Stateless", short: (one) => one.stateless ? "yes" : "no" },
      { label: "Shapes", text: (one) => one.shapes.join(", ") || "any" },
    ], (one) => one.name, "There are no accelerators.");
    this.known = new Set();
    this.bitstreams = bitstreamTable(this.known);
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
    this.known.clear();
    accelerators.items.forEach((one) => this.known.add(one.name));
    this.bitstreams.show(bitstreams.items);
    setText(this.note, accelerators.isCut || bitstreams.isCut
      ? `Each list shows at most ${MOST} entries: the newest bitstreams, and`
        + " accelerators by name." : "");
  }
}

export class Accelerator {
  constructor(scope, seesHosts) {
    this.title = "Accelerator";
    this.parent = "library";
    this.scope = scope;
    this.seesHosts = seesHosts;
    this.heading = make("h2", { tabindex: "-1" });
    this.facts = new Facts();
    this.slots = slotTable("Slots with the accelerator");
    this.sessions = new Table("Newest sessions with the accelerator", [
      { label: "Session", isShort: true,
        set: (cell, one) => setSession(cell, one.id) },
      { label: "State", short: (one) => one.state },
      { label: "Opened by", text: opener },
      { label: "Size", short: (one) => bytes(one.claimed_bytes) },
      { label: "Queued", isShort: true,
        set: (cell, one) => setAgo(cell, one.queued_at) },
    ], (one) => one.id, "There are no sessions with it.");
    this.element = make("div", {}, this.heading, this.facts.element,
      make("h3", {}, "Newest sessions"), this.sessions.element,
      ...(seesHosts ? [make("h3", {}, "Slots"), this.slots.element] : []));
  }

  open(name) {
    this.name = name;
    setText(this.heading, `Accelerator ${name}`);
    this.facts.show([]);
  }

  async refresh() {
    const name = this.name;
    const query = { accelerator: name, limit: 20 };
    const [{ accelerator }, found, slots] = await Promise.all([
      api.get(`accelerators/${encodeURIComponent(name)}`),
      api.page("sessions", { ...this.scope(), ...query }),
      this.seesHosts ? api.page("slots", { ...query, limit: MOST })
        : { items: [] },
    ]);
    if (name !== this.name) {
      return;
    }
    this.facts.show([
      { label: "Description", text: accelerator.description || "–" },
      { label: "Max throughput per slot",
        text: `${bytes(accelerator.peak_bytes_per_s)}/s` },
      { label: "Output : input", text: accelerator.return_ratio },
      { label: "Stateless", text: accelerator.stateless ? "yes" : "no" },
      { label: "Shapes", text: accelerator.shapes.join(", ") || "any" },
    ]);
    this.sessions.show(found.items);
    this.slots.show(slots.items);
  }
}
