// SPDX-License-Identifier: Apache-2.0

// What has happened: to hardware, as the API remembers it, and sessions that
// did not end well.

import * as api from "./api.js";
import { brief, make, setAgo, setLink, setText, Table } from "./dom.js";

const MOST = 200;
const BAD = ["FAILED", "LOST", "EXPIRED", "REJECTED"];
const PERIODS = [[15, "15 minutes"], [30, "30 minutes"], [60, "hour"],
  [120, "2 hours"]];

function ofSession(one) {
  return { key: one.id, at: one.updated_at, kind: "session",
    what: `${one.accelerator} session ${brief(one.id)}`,
    place: ["sessions", one.id],
    text: [one.state, one.reason, one.message].filter(Boolean).join(": ") };
}

function ofHardware(one) {
  return { key: `${one.at} ${one.kind} ${one.what} ${one.text}`,
    at: new Date(one.at * 1000).toISOString(), kind: one.kind,
    what: one.what || "the pool",
    place: one.place ? one.place.split("/") : null, text: one.text };
}

export class View {
  constructor(memory, scope) {
    this.title = "Events";
    this.memory = memory;
    this.scope = scope;
    this.period = make("select", { id: "event-period" },
      ...PERIODS.map(([minutes, label]) => make("option",
        { value: String(minutes), selected: minutes === 60 }, label)));
    this.period.addEventListener("change", () => this.reload());
    this.note = make("p", { role: "status" });
    this.from = make("p", { class: "empty" });
    this.table = new Table("Events", [
      { label: "When", isShort: true,
        set: (cell, one) => setAgo(cell, one.at) },
      { label: "Kind", short: (one) => one.kind },
      { label: "What",
        set: (cell, one) => setLink(cell, one.place, one.what) },
      { label: "Event", text: (one) => one.text },
    ], (one) => one.key, "No events.");
    this.element = make("div", {}, make("h2", {}, "Events"),
      make("p", { class: "filters" },
        make("label", {}, "In the last ", this.period)),
      this.note, this.table.element, this.from);
  }

  async reload() {
    try {
      await this.refresh();
      setText(this.note, "");
    } catch (error) {
      setText(this.note, error.message);
    }
  }

  async refresh() {
    const fromMs = api.now() - Number(this.period.value) * 60e3;
    const found = await api.pages("sessions", { ...this.scope(), state: BAD,
      "changes-since": new Date(fromMs).toISOString(),
      sort_key: "updated_at", sort_dir: "desc", limit: MOST }, MOST);
    const all = [...found.items.map(ofSession),
      ...this.memory.events.filter((one) => one.at * 1000 >= fromMs)
        .map(ofHardware)];
    all.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
    this.table.show(all.slice(0, MOST));
    const first = this.memory.samples[0];
    setText(this.from, [
      all.length > MOST || found.isCut
        ? `Only the newest ${MOST} events are shown.` : "",
      first ? "Hardware events are recorded since"
        + ` ${new Date(first.at * 1000).toLocaleTimeString()}.` : "",
    ].filter(Boolean).join(" "));
  }
}
