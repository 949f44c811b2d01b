// SPDX-License-Identifier: Apache-2.0

// What operators monitor: drains, faults, services and usage.

import * as api from "./api.js";
import { bytes, make, seconds, setText, Table, when } from "./dom.js";

const PAGE = 1000;
// Reading more would burden the service. 2,000 hosts have fewer devices.
const MOST_EXAMINED = 10000;
const MOST_SHOWN = 100;
const USAGE_DAYS = 30;
const DAY_MS = 86400e3;

function drains(hosts, devices) {
  const kinds = [["host", hosts], ["board", devices]];
  return kinds.flatMap(([kind, found]) => found
    .filter((one) => one.admin_state !== "enabled")
    .map((one) => ({ ...one, kind, key: one.uuid ?? one.id,
      label: kind === "host" ? one.name : `${one.host_name}, ${one.name}` })));
}

function faults(hosts, devices, slots, services) {
  const found = [];
  const add = (key, what, why, fault, isNotice = false) => found.push({ key,
    what, why, isNotice, last: fault?.last_self_test || "–",
    next: fault?.next_self_test_at });
  for (const one of services) {
    // A conductor's message only says that it leads; it is not a fault.
    const message = one.binary === "fpgapool-agent" ? one.message : "";
    if (!one.up || message) {
      add(`service-${one.id}`, `${one.binary} on ${one.host}`,
        [one.up ? "" : "does not report", message].filter(Boolean)
          .join(": "), undefined, one.up);
    }
  }
  for (const host of hosts) {
    for (const one of host.faulty_accelerators) {
      add(`${host.uuid}-${one.accelerator}`,
        `${one.accelerator} on ${host.name}`, one.reason, one);
    }
  }
  for (const one of devices) {
    if (one.state === "faulty" || one.fault_reason) {
      add(one.id, `${one.host_name}, ${one.name}`, one.fault_reason || "–",
        one);
    }
  }
  for (const one of slots) {
    add(one.id, `${one.host_name}, ${one.device_name}, slot ${one.number}`,
      one.fault_reason || "–", one);
  }
  // Faults take slots away; services with a message go on.
  return found.sort((a, b) => a.isNotice - b.isNotice);
}

export class View {
  constructor() {
    this.title = "Operations";
    this.drains = new Table("Drains", [
      { label: "Kind", short: (one) => one.kind },
      { label: "Name", text: (one) => one.label },
      { label: "Setting", short: (one) => one.admin_state },
      { label: "Reason", text: (one) => one.admin_reason || "–" },
      { label: "Sessions", short: (one) => String(one.sessions) },
      { label: "Deadline", text: (one) => when(one.drain_deadline_at) },
    ], (one) => one.key, "All hosts and boards are enabled.");
    this.faults = new Table("Faults", [
      { label: "Where", text: (one) => one.what },
      { label: "Why", text: (one) => one.why },
      { label: "Last self-test", text: (one) => one.last },
      { label: "Next self-test", text: (one) => when(one.next) },
    ], (one) => one.key, "Nothing is faulty.");
    this.usage = new Table(`Usage of projects, last ${USAGE_DAYS} days`, [
      { label: "Project", text: (one) => one.project_id },
      { label: "Sessions", short: (one) => String(one.sessions) },
      { label: "Slot time", short: (one) => seconds(one.slot_s) },
      { label: "Input", short: (one) => bytes(one.input_bytes) },
      { label: "Output", short: (one) => bytes(one.output_bytes) },
      { label: "Energy", short: (one) => one.energy_j === null
        ? "not measured" : `${Math.round(one.energy_j)} J` },
    ], (one) => one.id, `No usage in the last ${USAGE_DAYS} days.`);
    this.note = make("p", { class: "empty" });
    this.element = make("div", {}, this.note,
      make("h2", {}, "Drains"), this.drains.element,
      make("h2", {}, "Faults"), this.faults.element,
      make("h2", {}, `Usage, last ${USAGE_DAYS} days`), this.usage.element);
  }

  async refresh() {
    const start = new Date(Date.now() - USAGE_DAYS * DAY_MS).toISOString()
      .slice(0, 10);
    const query = { limit: PAGE };
    const [hosts, devices, slots, services, usage] = await Promise.all([
      api.pages("hosts", query, MOST_EXAMINED, "uuid"),
      api.pages("devices", query, MOST_EXAMINED),
      api.pages("slots", { ...query, state: "faulty" }, MOST_SHOWN),
      api.pages("services", query, MOST_EXAMINED),
      api.pages("usage", { all_projects: true, group_by: "project", start,
        limit: MOST_SHOWN }, MOST_SHOWN),
    ]);
    const drained = drains(hosts.items, devices.items);
    const faulty = faults(hosts.items, devices.items, slots.items,
      services.items);
    this.drains.show(drained.slice(0, MOST_SHOWN));
    this.faults.show(faulty.slice(0, MOST_SHOWN));
    this.usage.show(usage.items);
    setText(this.note, drained.length > MOST_SHOWN
      || faulty.length > MOST_SHOWN || usage.isCut || slots.isCut
      ? `Each list shows at most ${MOST_SHOWN} entries.` : "");
  }
}
