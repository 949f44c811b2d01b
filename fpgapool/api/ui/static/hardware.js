// SPDX-License-Identifier: Apache-2.0

// One host, board or slot.

import * as api from "./api.js";
import { bytes, Facts, make, setAgo, setLink, setText, Table, when }
  from "./dom.js";
import * as sessions from "./sessions.js";

const MOST = 200;

export function setHost(element, one) {
  setLink(element, ["hosts", one.host_uuid], one.host_name);
}

export function setDevice(element, one) {
  setLink(element, ["devices", one.device_id], one.device_name);
}

function setSlot(element, one) {
  setLink(element, ["slots", one.id], String(one.number));
}

export function slotTable(caption) {
  return new Table(caption, [
    { label: "Host", set: setHost },
    { label: "Board", set: setDevice },
    { label: "Slot", isShort: true, set: setSlot },
    { label: "State", short: (one) => one.state },
    { label: "Accelerator",
      set: (cell, one) => sessions.setAccelerator(cell, one.accelerator) },
    { label: "Programmed",
      set: (cell, one) => sessions.setAccelerator(cell, one.programmed) },
    { label: "Session", isShort: true,
      set: (cell, one) => sessions.setSession(cell, one.session_id) },
    { label: "Fault", text: (one) => one.fault_reason || "–" },
    { label: "Next self-test", text: (one) => when(one.next_self_test_at) },
  ], (one) => one.id, "There are no slots.");
}

function setting(one) {
  return one.admin_reason ? `${one.admin_state}: ${one.admin_reason}`
    : one.admin_state;
}

function fault(one) {
  return [
    { label: "Fault", text: one.fault_reason || "none" },
    { label: "Last self-test", text: one.last_self_test || "–" },
    { label: "Next self-test",
      set: (cell) => setAgo(cell, one.next_self_test_at) },
  ];
}

// What the views of this module have in common.
class View {
  constructor(title) {
    this.title = title;
    this.parent = "pool";
    this.heading = make("h2", { tabindex: "-1" });
    this.facts = new Facts();
    this.note = make("p", { class: "empty" });
    this.element = make("div", {}, this.heading, this.facts.element);
  }

  open(...address) {
    this.address = address;
    setText(this.heading, `${this.title} ${address.join(", ")}`);
    this.facts.show([]);
  }

  // Request the slots that a query names.
  async listSlots(query) {
    const found = await api.pages("slots", { ...query,
      limit: MOST, sort_key: ["host_name", "device_name", "number"] }, MOST);
    setText(this.note, found.isCut
      ? `Only the first ${MOST} slots are shown.` : "");
    return found.items;
  }
}

export class Host extends View {
  constructor() {
    super("Host");
    this.slots = slotTable("Slots of the host");
    this.element.append(make("h3", {}, "Slots"), this.slots.element,
      this.note);
  }

  async refresh() {
    const [uuid] = this.address;
    const [{ host }, slots] = await Promise.all([
      api.get(`hosts/${encodeURIComponent(uuid)}`),
      this.listSlots({ host: uuid })]);
    if (uuid !== this.address[0]) {
      return;
    }
    setText(this.heading, `Host ${host.name}`);
    this.facts.show([
      { label: "State", text: host.up ? "up" : "down" },
      { label: "Setting", text: setting(host) },
      { label: "Boards", text: host.devices },
      { label: "Slots", text: host.slots },
      { label: "Sessions", text: host.sessions },
      { label: "Network card", text: `${bytes(host.nic_bytes_per_s)}/s` },
      { label: "Accelerators out of service",
        text: host.faulty_accelerators.map((one) =>
          `${one.accelerator}: ${one.reason}`).join("; ") || "none" },
      { label: "ID", text: host.uuid },
    ]);
    this.slots.show(slots);
  }
}

export class Device extends View {
  constructor() {
    super("Board");
    this.slots = slotTable("Slots of the board");
    this.element.append(make("h3", {}, "Slots"), this.slots.element,
      this.note);
  }

  async refresh() {
    const [id] = this.address;
    const [{ device }, slots] = await Promise.all([
      api.get(`devices/${encodeURIComponent(id)}`),
      this.listSlots({ device: id })]);
    if (id !== this.address[0]) {
      return;
    }
    setText(this.heading, `Board ${device.name} of ${device.host_name}`);
    this.facts.show([
      { label: "State", text: device.state },
      { label: "Setting", text: setting(device) },
      { label: "Model", text: device.model || "–" },
      { label: "Host", set: (cell) => setHost(cell, device) },
      { label: "Sessions", text: device.sessions },
      { label: "Reserved slots", text: `${device.reserved_slots} of ${
        device.reservable_slots} reservable` },
      ...fault(device),
      { label: "ID", text: device.id },
    ]);
    this.slots.show(slots);
  }
}

// Its address is its ID, or its host, board and number.
export class Slot extends View {
  constructor() {
    super("Slot");
    this.holder = make("p", { id: "holder", class: "answer" });
    this.session = make("span");
    this.what = make("span");
    this.holder.append(this.what, this.session);
    this.element.insertBefore(this.holder, this.facts.element);
  }

  open(...address) {
    super.open(...address);
    setText(this.what, "");
    setText(this.session, "");
  }

  async find() {
    const [first, board, number] = this.address;
    if (board === undefined) {
      return (await api.get(`slots/${encodeURIComponent(first)}`)).slot;
    }
    const found = (await this.listSlots({ host: first })).find((one) =>
      one.device_name === board && String(one.number) === number);
    if (found === undefined) {
      throw new api.Failure("SLOT_NOT_FOUND",
        `the host has no slot ${number} on a board ${board}`, 404);
    }
    return found;
  }

  async refresh() {
    const asked = this.address;
    const slot = await this.find();
    const session = slot.session_id
      ? await api.findSession(slot.session_id) : null;
    if (asked !== this.address) {
      return;
    }
    setText(this.heading, `Slot ${slot.number} of ${slot.host_name}, ${
      slot.device_name}`);
    this.showHolder(slot, session);
    this.facts.show([
      { label: "State", text: slot.state },
      { label: "Accelerator",
        set: (cell) => sessions.setAccelerator(cell, slot.accelerator) },
      { label: "Programmed",
        set: (cell) => sessions.setAccelerator(cell, slot.programmed) },
      { label: "Shape", text: slot.shape },
      { label: "Host", set: (cell) => setHost(cell, slot) },
      { label: "Board", set: (cell) => setDevice(cell, slot) },
      { label: "Reserved for", text: slot.reserved_for ?? "–" },
      ...fault(slot),
      { label: "ID", text: slot.id },
    ]);
  }

  showHolder(slot, session) {
    if (session) {
      setText(this.what, `${session.accelerator}, opened by ${
        sessions.opener(session)}, project ${session.project_id}: session `);
      setLink(this.session, ["sessions", session.id], session.id);
      return;
    }
    setText(this.session, "");
    setText(this.what, slot.session_id
      ? `Session ${slot.session_id} is on it.`
      : slot.accelerator ? "No session, but a group or a self-test is on it."
        : "No session is on it.");
  }
}
