// SPDX-License-Identifier: Apache-2.0

// What operators monitor: drains, faults and services.

import * as api from "./api.js";
import { make, setAgo, setLink, setText, Table } from "./dom.js";

const PAGE = 1000;
// Reading more would burden the service. 2,000 hosts have fewer devices.
const MOST_EXAMINED = 10000;
const MOST_SHOWN = 100;

function drains(hosts, devices) {
  const kinds = [["host", hosts], ["board", devices]];
  return kinds.flatMap(([kind, found]) => found
    .filter((one) => one.admin_state !== "enabled")
    .map((one) => ({ ...one, kind, key: one.uuid ?? one.id,
      place: kind === "host" ? ["hosts", one.uuid] : ["devices", one.id],
      label: kind === "host" ? one.name : `${one.host_name}, ${one.name}` })));
}

function faults(hosts, devices, slots, services) {
  const found = [];
  const add = (key, what, why, place = null, fault = {}, isNotice = false) =>
    found.push({ key, what, why, place, isNotice,
      last: fault.last_self_test || "–", next: fault.next_self_test_at });
  for (const one of services) {
    // A conductor's message only says that it leads; it is not a fault.
    const message = one.binary === "fpgapool-agent" ? one.message : "";
    if (!one.up || message) {
      add(`service-${one.id}`, `${one.binary} on ${one.host}`,
        [one.up ? "" : "does not report", message].filter(Boolean)
          .join(": "), null, {}, one.up);
    }
  }
  for (const host of hosts) {
    for (const one of host.faulty_accelerators) {
      add(`${host.uuid}-${one.accelerator}`,
        `${one.accelerator} on ${host.name}`, one.reason,
        ["hosts", host.uuid], one);
    }
  }
  for (const one of devices) {
    if (one.state === "faulty" || one.fault_reason) {
      add(one.id, `${one.host_name}, ${one.name}`, one.fault_reason || "–",
        ["devices", one.id], one);
    }
  }
  for (const one of slots) {
    add(one.id, `${one.host_name}, ${one.device_name}, slot ${one.number}`,
      one.fault_reason || "–", ["slots", one.id], one);
  }
  // Faults take slots away; services with a message go on.
  return found.sort((a, b) => a.isNotice - b.isNotice
    || a.what.localeCompare(b.what, undefined, { numeric: true }));
}

export class View {
  constructor() {
    this.title = "Operations";
    this.drains = new Table("Drains", [
      { label: "Kind", short: (one) => one.kind },
      { label: "Name",
        set: (cell, one) => setLink(cell, one.place, one.label) },
      { label: "Setting", short: (one) => one.admin_state },
      { label: "Reason", text: (one) => one.admin_reason || "–" },
      { label: "Sessions", short: (one) => String(one.sessions) },
      { label: "Deadline", isShort: true,
        set: (cell, one) => setAgo(cell, one.drain_deadline_at) },
    ], (one) => one.key, "All hosts and boards are enabled.");
    this.faults = new Table("Faults", [
      { label: "Where",
        set: (cell, one) => setLink(cell, one.place, one.what) },
      { label: "Why", text: (one) => one.why },
      { label: "Last self-test", text: (one) => one.last },
      { label: "Next self-test", isShort: true,
        set: (cell, one) => setAgo(cell, one.next) },
    ], (one) => one.key, "No faults.");
    this.note = make("p", { class: "empty" });
    this.element = make("div", {}, this.note,
      make("h2", {}, "Drains"), this.drains.element,
      make("h2", {}, "Faults"), this.faults.element);
  }

  async refresh() {
    const query = { limit: PAGE };
    const [hosts, devices, slots, services] = await Promise.all([
      api.pages("hosts", query, MOST_EXAMINED, "uuid"),
      api.pages("devices", query, MOST_EXAMINED),
      api.pages("slots", { ...query, state: "faulty" }, MOST_SHOWN),
      api.pages("services", query, MOST_EXAMINED),
    ]);
    const drained = drains(hosts.items, devices.items);
    const faulty = faults(hosts.items, devices.items, slots.items,
      services.items);
    this.drains.show(drained.slice(0, MOST_SHOWN));
    this.faults.show(faulty.slice(0, MOST_SHOWN));
    setText(this.note, drained.length > MOST_SHOWN
      || faulty.length > MOST_SHOWN || slots.isCut
      ? `Each list shows at most ${MOST_SHOWN} entries.` : "");
  }
}
