// SPDX-License-Identifier: Apache-2.0

// The map of the pool, which shows one page of hosts at a time.

import * as api from "./api.js";
import { address, bytes, keyed, make, seconds, setLink, setText }
  from "./dom.js";
import { Chart } from "./charts.js";
import { Listing } from "./listing.js";

const HOSTS_ON_PAGE = 24;
const SLOTS_DRAWN = 32;

// The sign that is drawn in a slot, by the slot's state.
const SIGNS = {
  idle: "·", preparing: "p", ready: "r", active: "A", detached: "d",
  faulty: "!", disabled: "×", down: "?",
};
const BUSY = new Set(["preparing", "ready", "active", "detached"]);

// Return the numbers of slots by state, from those by shape and state.
function countStates({ slots }) {
  const counts = Object.fromEntries(Object.keys(SIGNS).map((k) => [k, 0]));
  for (const [state, count] of Object.values(slots).flatMap(Object.entries)) {
    counts[state] = (counts[state] ?? 0) + count;
  }
  return counts;
}

function sum(counts, states) {
  return [...states].reduce((all, one) => all + (counts[one] ?? 0), 0);
}

// A slot is a link to its view, and names its accelerator.
function showSlot(element, { slot, place }) {
  const what = slot.accelerator ?? slot.programmed ?? "nothing";
  const text = `slot ${slot.slot}: ${slot.state}, ${what}`;
  if (element.title !== text) {
    const [seen, heard] = element.children;
    element.title = text;
    element.dataset.state = slot.state;
    const sign = SIGNS[slot.state] ?? "*";
    setText(seen, what === "nothing" ? sign : `${sign}\u00a0${what}`);
    setText(heard, text);
  }
  const href = address(place);
  if (element.getAttribute("href") !== href) {
    element.setAttribute("href", href);
  }
}

function showDevice(element, { device, host }) {
  const [name, slots, rest] = element.children;
  setText(name, device.healthy ? device.name : `${device.name} (faulty)`);
  keyed(slots, device.slots.slice(0, SLOTS_DRAWN).map((slot) => ({ slot,
    place: ["slots", host.uuid, device.name, String(slot.slot)] })),
  (one) => one.slot.slot, () => make("a", { class: "slot" },
    make("span", { "aria-hidden": "true" }), make("span", { class: "heard" })),
  showSlot);
  const left = device.slots.length - SLOTS_DRAWN;
  setText(rest, left > 0 ? `and ${left} more` : "");
}

export class View {
  // Users whom the policy does not show hosts see the pool in numbers only.
  constructor(memory, seesHosts) {
    this.memory = memory;
    this.seesHosts = seesHosts;
    this.title = "Pool";
    this.hosts = [];
    this.loads = 0;
    this.charts = [
      ...(seesHosts ? [
        new Chart("Throughput", (v) => `${bytes(v)}/s`,
          (s) => s.bytes_per_s),
        new Chart("Wait for a slot", seconds, (s) => s.wait_s),
      ] : []),
      new Chart("Slots in use", String, (s) => sum(s.slots, BUSY)),
      new Chart("Waiting sessions", String, (s) => s.waiting),
    ];
    this.since = make("p", { class: "empty", id: "since" });
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
    this.empty = make("p", { class: "empty" });
    this.listing = new Listing("Pages of hosts", "pool/hosts", HOSTS_ON_PAGE,
      () => this.reload(), "uuid");
    this.problem = make("p", { role: "status" });
    this.element = make("div", {},
      this.tiles,
      make("section", { "aria-label": "Over time", class: "charts" },
        ...this.charts.map((one) => one.element)), this.since,
      make("h2", {}, "Hosts"), ...(seesHosts ? this.map() : [
        make("p", { class: "empty" },
          "The policy does not show hosts to you."),
      ]));
  }

  map() {
    const form = make("form", { class: "filters", role: "search",
      "aria-label": "Hosts" },
      make("label", {}, "Name contains ", this.name),
      make("label", {}, "Slot state ", this.state));
    form.addEventListener("submit", (event) => event.preventDefault());
    return [form, this.legend(), this.problem, this.cards,
      this.empty, this.listing.pager.element];
  }

  legend() {
    const signs = Object.entries(SIGNS).map(([state, sign]) =>
      make("span", {}, make("span", { class: "slot", "data-state": state,
        "aria-hidden": "true" }, sign), ` ${state}`));
    return make("p", { class: "legend" }, ...signs);
  }

  card() {
    return make("li", { class: "host" },
      make("span", { class: "name" }), make("span"), make("ul"));
  }

  showCard(element, host) {
    const [name, state, devices] = element.children;
    setLink(name, ["hosts", host.uuid], host.name);
    setText(state, host.devices.length ? host.up ? "" : "down"
      : host.up ? "no boards" : "down, no boards");
    element.classList.toggle("is-down", !host.up);
    keyed(devices, host.devices.map((device) => ({ device, host })),
      (one) => one.device.name,
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

  // The caller has already requested the pool.
  async refresh(pool) {
    this.pool = pool;
    await this.loadHosts();
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
    const { samples, intervalMs } = this.memory;
    this.charts.forEach((one) => one.show(samples, intervalMs));
    setText(this.since, samples.length ? "Recorded by the API every"
      + ` ${Math.round(intervalMs / 1000)} seconds since ${
        new Date(samples[0].at * 1000).toLocaleTimeString()}; kept for two`
      + " hours." : "Nothing recorded yet.");
    setText(this.empty, this.hosts.length ? "" : this.pool.counts.hosts
      ? "No host has this name and such a slot." : "There are no hosts.");
    keyed(this.cards, this.hosts, (host) => host.uuid,
      () => this.card(), (element, host) => this.showCard(element, host));
  }
}
