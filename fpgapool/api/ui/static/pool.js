// SPDX-License-Identifier: Apache-2.0

// The map of the pool, which shows one page of hosts at a time.

import * as api from "./api.js";
import { bytes, keyed, make, seconds, setText, Table, when } from "./dom.js";
import { Chart } from "./charts.js";
import { Listing } from "./listing.js";

const HOSTS_ON_PAGE = 24;
const SLOTS_DRAWN = 32;
const DETAIL_SLOTS = 100;

// The sign that is drawn in a slot, by the slot's state.
const SIGNS = {
  idle: "·", preparing: "p", ready: "r", active: "A", detached: "d",
  faulty: "!", disabled: "×", down: "?",
};
const BUSY = new Set(["preparing", "ready", "active", "detached"]);

// Return the numbers of slots by state, from those by shape and state.
export function countStates({ slots }) {
  const counts = Object.fromEntries(Object.keys(SIGNS).map((k) => [k, 0]));
  for (const [state, count] of Object.values(slots).flatMap(Object.entries)) {
    counts[state] = (counts[state] ?? 0) + count;
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
  // Users whom the policy does not show hosts see the pool in numbers only.
  constructor(history, seesHosts) {
    this.history = history;
    this.seesHosts = seesHosts;
    this.title = "Pool";
    this.hosts = [];
    this.loads = 0;
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
        this.listing.reset();
        this.reload();
      });
    }
    this.cards = make("ul", { class: "hosts", id: "hosts" });
    this.listing = new Listing("Pages of hosts", "pool/hosts", HOSTS_ON_PAGE,
      () => this.reload(), "uuid");
    this.problem = make("p", { role: "status" });
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
      make("h2", {}, "Hosts"), ...(seesHosts ? this.map() : [
        make("p", { class: "empty" },
          "The policy does not show hosts to you."),
      ]));
  }

  map() {
    const form = make("form", { class: "filters", role: "search" },
      make("label", {}, "Name contains ", this.name),
      make("label", {}, "Slot state ", this.state));
    form.addEventListener("submit", (event) => event.preventDefault());
    return [form, this.legend(), this.panel, this.problem, this.cards,
      this.listing.pager.element];
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
    button.addEventListener("click", () => this.choose(host));
    return make("li", { class: "host" }, button, make("span"), make("ul"));
  }

  showCard(element, host) {
    const [name, state, devices] = element.children;
    setText(name, host.name);
    const isChosen = this.chosen?.uuid === host.uuid;
    name.setAttribute("aria-expanded", String(isChosen));
    setText(state, host.up ? "" : "down");
    element.classList.toggle("is-down", !host.up);
    keyed(devices, host.devices, (device) => device.name,
      () => make("li", {}, make("span"), make("span", { class: "slots" }),
        make("span")), showDevice);
  }

  async loadHosts() {
    if (!this.seesHosts) {
      return;
    }
    const query = {};
    if (this.name.value) {
      query.name_part = this.name.value;
    }
    if (this.state.value) {
      query.slot_state = this.state.value;
    }
    this.loads += 1;
    const load = this.loads;
    const found = await this.listing.load(query);
    // The user may have asked for others in the meantime.
    if (load === this.loads) {
      this.hosts = found;
    }
  }

  async reload() {
    try {
      await this.loadHosts();
      setText(this.problem, "");
    } catch (error) {
      setText(this.problem, error.message);
    }
    this.show();
  }

  async choose(host) {
    this.chosen = host;
    this.detail = null;
    this.show();
    if (host !== null) {
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
    const host = this.chosen;
    if (host !== null) {
      const found = await api.page("slots", { host: host.uuid,
        limit: DETAIL_SLOTS, sort_key: ["device_name", "number"] });
      if (host === this.chosen) {
        this.detail = found;
      }
    }
  }

  // The caller has already requested the pool.
  async refresh(pool) {
    this.pool = pool;
    await Promise.all([this.loadHosts(), this.loadDetail()]);
    this.show();
  }

  showTiles() {
    const counts = this.pool.counts;
    const slots = countStates(counts);
    const figures = [
      ["Hosts", counts.hosts],
      ["Hosts down", counts.hosts - counts.hosts_up],
      ...Object.entries(slots).map(([k, v]) => [`Slots ${k}`, v]),
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
    keyed(this.cards, this.hosts, (host) => host.uuid,
      (host) => this.card(host),
      (element, host) => this.showCard(element, host));
    const host = this.chosen;
    this.panel.hidden = host === null;
    if (host) {
      setText(this.heading, `Host ${host.name}`);
      this.slots.show(this.detail?.items ?? []);
      setText(this.note, this.detail?.next
        ? `Only the first ${DETAIL_SLOTS} slots are shown.` : "");
    }
  }
}
