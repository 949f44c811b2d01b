// SPDX-License-Identifier: Apache-2.0

// The map of the pool, which shows one page of hosts at a time.

import * as api from "./api.js";
import { bytes, keyed, make, Pager, seconds, setText, Table, when }
  from "./dom.js";
import { Chart } from "./charts.js";

const HOSTS_ON_PAGE = 24;
const SLOTS_DRAWN = 32;
const DETAIL_SLOTS = 100;

// The sign that is drawn in a slot, by the slot's state.
const SIGNS = {
  idle: "·", preparing: "p", ready: "r", active: "A", detached: "d",
  faulty: "!", disabled: "×", down: "?",
};
const BUSY = new Set(["preparing", "ready", "active", "detached"]);

function slotsOf(host) {
  return host.devices.flatMap((device) => device.slots);
}

export function countStates(hosts) {
  const counts = Object.fromEntries(Object.keys(SIGNS).map((k) => [k, 0]));
  for (const slot of hosts.flatMap(slotsOf)) {
    counts[slot.state] = (counts[slot.state] ?? 0) + 1;
  }
  return counts;
}

export function busy(counts) {
  return [...BUSY].reduce((sum, state) => sum + counts[state], 0);
}

function showSlot(element, slot) {
  const what = slot.accelerator ?? slot.programmed ?? "nothing";
  const text = `slot ${slot.slot}: ${slot.state}, ${what}`;
  if (element.getAttribute("aria-label") !== text) {
    element.setAttribute("aria-label", text);
    element.title = text;
    element.dataset.state = slot.state;
    setText(element, SIGNS[slot.state] ?? "*");
  }
}

function showDevice(element, device) {
  const [name, slots, rest] = element.children;
  setText(name, device.healthy ? device.name : `${device.name} (faulty)`);
  keyed(slots, device.slots.slice(0, SLOTS_DRAWN), (slot) => slot.slot,
    () => make("span", { role: "img", class: "slot" }), showSlot);
  const left = device.slots.length - SLOTS_DRAWN;
  setText(rest, left > 0 ? `and ${left} more` : "");
}

export class View {
  constructor(history) {
    this.history = history;
    this.title = "Pool";
    this.page = 0;
    this.hosts = [];
    this.chosen = null;
    this.detail = null;
    this.charts = [
      new Chart("Throughput", (v) => `${bytes(v)}/s`, (s) => s.bytesPerS),
      new Chart("Wait for a slot", seconds, (s) => s.waitS),
      new Chart("Slots in use", String, (s) => s.busy),
      new Chart("Waiting sessions", String, (s) => s.waiting),
    ];
    this.tiles = make("dl", { class: "tiles", id: "tiles" });
    this.name = make("input", { type: "search", id: "host-name",
      maxlength: 255 });
    this.state = make("select", { id: "slot-state" },
      make("option", { value: "" }, "any"),
      ...Object.keys(SIGNS).map((one) => make("option", {}, one)));
    for (const control of [this.name, this.state]) {
      control.addEventListener("input", () => {
        this.page = 0;
        this.show();
      });
    }
    this.cards = make("ul", { class: "hosts", id: "hosts" });
    this.pager = new Pager("Pages of hosts", (step) => {
      this.page += step;
      this.show();
    });
    this.slots = this.slotTable();
    this.heading = make("h3", { tabindex: "-1" });
    this.note = make("p", { class: "empty" });
    const close = make("button", { type: "button" }, "Hide");
    close.addEventListener("click", () => this.choose(null));
    this.panel = make("section", { id: "host", hidden: true,
      "aria-label": "Host" }, this.heading, close, this.slots.element,
    this.note);
    this.element = make("div", {},
      this.tiles,
      make("section", { "aria-label": "Over time", class: "charts" },
        ...this.charts.map((one) => one.element)),
      make("h2", {}, "Hosts"),
      make("form", { class: "filters", role: "search" },
        make("label", {}, "Name contains ", this.name),
        make("label", {}, "Slot state ", this.state)),
      this.legend(), this.panel, this.cards, this.pager.element);
    this.element.querySelector("form").addEventListener("submit",
      (event) => event.preventDefault());
  }

  legend() {
    const signs = Object.entries(SIGNS).map(([state, sign]) =>
      make("span", {}, make("span", { class: "slot", "data-state": state,
        "aria-hidden": "true" }, sign), ` ${state}`));
    return make("p", { class: "legend" }, ...signs);
  }

  slotTable() {
    return new Table("Slots of the host", [
      { label: "Board", text: (one) => one.device_name },
      { label: "Slot", short: (one) => String(one.number) },
      { label: "State", short: (one) => one.state },
      { label: "Accelerator", text: (one) => one.accelerator ?? "–" },
      { label: "Programmed", text: (one) => one.programmed ?? "–" },
      { label: "Session", text: (one) => one.session_id ?? "–" },
      { label: "Reserved for", text: (one) => one.reserved_for ?? "–" },
      { label: "Fault", text: (one) => one.fault_reason || "–" },
      { label: "Next self-test", text: (one) => when(one.next_self_test_at) },
    ], (one) => one.id, "The host has no slots.");
  }

  card(host) {
    const button = make("button", { type: "button", class: "name" });
    button.addEventListener("click", () => this.choose(host.uuid));
    return make("li", { class: "host" }, button, make("span"), make("ul"));
  }

  showCard(element, host) {
    const [name, state, devices] = element.children;
    setText(name, host.name);
    name.setAttribute("aria-expanded", String(this.chosen === host.uuid));
    setText(state, host.up ? "" : "down");
    element.classList.toggle("is-down", !host.up);
    keyed(devices, host.devices, (device) => device.name,
      () => make("li", {}, make("span"), make("span", { class: "slots" }),
        make("span")), showDevice);
  }

  matching() {
    const name = this.name.value.toLowerCase();
    const state = this.state.value;
    return this.hosts.filter((host) =>
      host.name.toLowerCase().includes(name)
      && (!state || slotsOf(host).some((slot) => slot.state === state)));
  }

  async choose(uuid) {
    this.chosen = uuid;
    this.detail = null;
    this.show();
    if (uuid !== null) {
      try {
        await this.loadDetail();
      } catch (error) {
        setText(this.note, error.message);
      }
      this.show();
      this.heading.focus();
    }
  }

  async loadDetail() {
    const uuid = this.chosen;
    if (uuid !== null) {
      const found = await api.page("slots", { host: uuid,
        limit: DETAIL_SLOTS, sort_key: ["device_name", "number"] });
      if (uuid === this.chosen) {
        this.detail = found;
      }
    }
  }

  // The caller has already requested the pool.
  async refresh(pool) {
    this.pool = pool;
    this.hosts = pool.hosts;
    await this.loadDetail();
    this.show();
  }

  showTiles() {
    const counts = countStates(this.hosts);
    const figures = [
      ["Hosts", this.hosts.length],
      ["Hosts down", this.hosts.filter((one) => !one.up).length],
      ...Object.entries(counts).map(([k, v]) => [`Slots ${k}`, v]),
      ["Waiting sessions", this.pool.waiting],
      ["Strategy", this.pool.strategy ?? "unknown"],
    ].filter(([label, value]) => value !== 0 || !/down|faul|disa|deta/
      .test(label));
    keyed(this.tiles, figures, ([label]) => label,
      ([label]) => make("div", {}, make("dt", {}, label), make("dd")),
      (element, [, value]) => setText(element.lastChild, String(value)));
  }

  show() {
    if (!this.pool) {
      return;
    }
    this.showTiles();
    this.charts.forEach((one) => one.show(this.history.samples));
    const found = this.matching();
    const last = Math.max(Math.ceil(found.length / HOSTS_ON_PAGE) - 1, 0);
    this.page = Math.min(Math.max(this.page, 0), last);
    const start = this.page * HOSTS_ON_PAGE;
    const drawn = found.slice(start, start + HOSTS_ON_PAGE);
    keyed(this.cards, drawn, (host) => host.uuid, (host) => this.card(host),
      (element, host) => this.showCard(element, host));
    const total = `${start + Math.min(1, drawn.length)}–`
      + `${start + drawn.length} of ${found.length} hosts`;
    this.pager.show(total, this.page > 0, this.page < last);
    const host = this.hosts.find((one) => one.uuid === this.chosen);
    this.panel.hidden = host === undefined;
    if (host) {
      setText(this.heading, `Host ${host.name}`);
      this.slots.show(this.detail?.items ?? []);
      setText(this.note, this.detail?.next
        ? `Only the first ${DETAIL_SLOTS} slots are shown.` : "");
    }
  }
}
