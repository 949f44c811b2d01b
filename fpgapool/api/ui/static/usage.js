// SPDX-License-Identifier: Apache-2.0

// What projects have used, their budgets and reservations, and the limits of
// the user's project.

import * as api from "./api.js";
import { brief, bytes, make, seconds, setAgo, setBar, setText, Table, whole }
  from "./dom.js";
import { setAccelerator, setProject } from "./sessions.js";

const MOST = 200;
const DAYS = 30;
const DAY_MS = 86400e3;

const PERIODS = {
  month: ["this month", () => `${today().slice(0, 8)}01`],
  days: [`last ${DAYS} days`, () => day(api.now() - DAYS * DAY_MS)],
};

function day(atMs) {
  return new Date(atMs).toISOString().slice(0, 10);
}

function today() {
  return day(api.now());
}

function energy(joules) {
  if (joules === null) {
    return "not measured";
  }
  return joules < 3.6e5 ? `${Math.round(joules)} J`
    : `${(joules / 3.6e6).toFixed(2)} kWh`;
}

const COLUMNS = [
  { label: "Sessions", short: (one) => String(one.sessions) },
  { label: "Slot time", short: (one) => seconds(one.slot_s) },
  { label: "Input", short: (one) => bytes(one.input_bytes) },
  { label: "Output", short: (one) => bytes(one.output_bytes) },
  { label: "Energy", short: (one) => energy(one.energy_j) },
];

function usageTable(caption, ...first) {
  return new Table(caption, [...first, ...COLUMNS], (one) => one.id,
    "No usage in this period.");
}

function amount(resource, value) {
  return resource.endsWith("_bytes") ? bytes(value) : String(value);
}

function limit({ name, limit: value }) {
  if (value === null) {
    return "unknown";
  }
  return value === -1 ? "unlimited" : amount(name, value);
}

function limitTable() {
  return new Table("Limits of the project", [
    { label: "Resource", text: (one) => one.name.replaceAll("_", " ") },
    { label: "In use", short: (one) => amount(one.name, one.in_use) },
    { label: "Limit", short: limit },
    { label: "Set by", short: (one) => one.source },
  ], (one) => one.name, "There are no limits.");
}

function limits({ quota }) {
  return Object.entries(quota)
    .filter(([, one]) => one !== null && typeof one === "object"
      && "in_use" in one)
    .map(([name, one]) => ({ name, ...one }));
}

// What budgets limit: its name for people, and how they read an amount.
const RESOURCES = {
  slot_s: ["Slot time", seconds],
  bytes: ["Bytes", bytes],
  energy_j: ["Energy", energy],
};

function budgetRow(budget, name) {
  const [resource, text] = RESOURCES[name];
  const { limit: amount, carried, left } = budget[name];
  return { budget, resource, text, left: Math.max(left, 0),
    whole: amount + carried, id: `${budget.project_id} ${name}` };
}

function setUsed(cell, one) {
  const used = one.whole - one.left;
  setBar(cell, used, one.whole,
    `${one.text(used)} of ${one.text(one.whole)}`);
}

function budgetTable() {
  return new Table("Budgets", [
    { label: "Project", set: (cell, one) =>
      setProject(cell, one.budget.project_id) },
    { label: "Resource", short: (one) => one.resource },
    { label: "Used", set: setUsed },
    { label: "Left", short: (one) => one.text(one.left) },
    { label: "State", short: (one) => one.budget.state },
    { label: "Refills (UTC)", short: (one) => one.budget.refills },
  ], (one) => one.id, "There is no budget.");
}

// Return a row for each resource that a budget limits.
function budgetRows({ items }) {
  return items.flatMap((budget) => Object.keys(RESOURCES)
    .filter((name) => budget[name] !== null)
    .map((name) => budgetRow(budget, name)));
}

function recurs({ repeat, times }) {
  return times > 1 ? `every ${repeat}, ${times} times` : "once";
}

function reservationTable() {
  return new Table("Reservations", [
    { label: "Reservation", short: (one) => one.name ?? brief(one.id) },
    { label: "Project", set: (cell, one) => setProject(cell, one.project_id) },
    { label: "Accelerator",
      set: (cell, one) => setAccelerator(cell, one.accelerator) },
    { label: "Slots", short: (one) => one.working_slots < one.slots
      && one.state !== "ended" && one.state !== "released"
      ? `${one.working_slots} of ${one.slots} work` : String(one.slots) },
    { label: "Starts", isShort: true,
      set: (cell, one) => setAgo(cell, one.start_at) },
    { label: "Lasts", short: (one) => whole(
      (Date.parse(one.end_at) - Date.parse(one.start_at)) / 1000) },
    { label: "Recurs", short: recurs },
    { label: "State", short: (one) => one.state.replaceAll("_", " ") },
  ], (one) => one.id, "There are no reservations.");
}

function periods(id, onChange) {
  const element = make("select", { id },
    ...Object.entries(PERIODS).map(([value, [label]]) =>
      make("option", { value }, label)));
  element.addEventListener("change", onChange);
  return element;
}

class View {
  constructor(title, id) {
    this.title = title;
    this.period = periods(id, () => this.reload());
    this.note = make("p", { role: "status" });
    this.form = make("p", { class: "filters" },
      make("label", {}, "Period ", this.period));
  }

  start() {
    return PERIODS[this.period.value][1]();
  }

  async reload() {
    try {
      await this.refresh();
      setText(this.note, "");
    } catch (error) {
      setText(this.note, error.message);
    }
  }
}

export class Usage extends View {
  constructor(scope) {
    super("Usage", "usage-period");
    this.scope = scope;
    this.projects = usageTable("Usage by project", { label: "Project",
      set: (cell, one) => setProject(cell, one.project_id) });
    this.budgets = budgetTable();
    this.reservations = reservationTable();
    this.limits = limitTable();
    this.element = make("div", {}, make("h2", {}, "Usage"), this.form,
      this.note, this.projects.element,
      make("h2", {}, "Budgets"), this.budgets.element,
      make("h2", {}, "Reservations"), this.reservations.element,
      make("h2", {}, "Quotas of your project"),
      this.limits.element);
  }

  async refresh() {
    const scope = this.scope();
    const [usage, budgets, reservations, quotas] = await Promise.all([
      api.pages("usage", { ...scope, group_by: "project",
        start: this.start(), limit: MOST }, MOST),
      api.pages("budgets", { ...scope, limit: MOST }, MOST, "project_id"),
      api.pages("reservations", { ...scope, limit: MOST }, MOST),
      api.get("quotas")]);
    this.projects.show(usage.items);
    this.budgets.show(budgetRows(budgets));
    this.reservations.show(reservations.items);
    this.limits.show(limits(quotas));
    const isCut = [usage, budgets, reservations].some((one) => one.isCut);
    setText(this.note, isCut
      ? `Only the first ${MOST} projects are shown.` : "");
  }
}

// The usage of one project.
export class Project extends View {
  constructor(seesAll) {
    super("Project", "project-period");
    this.parent = "usage";
    this.seesAll = seesAll;
    this.heading = make("h2", { tabindex: "-1" });
    this.accelerators = usageTable("Usage by accelerator", {
      label: "Accelerator",
      set: (cell, one) => setAccelerator(cell, one.accelerator) });
    this.days = usageTable("Usage by day", { label: "Day (UTC)",
      short: (one) => one.day });
    this.budgets = budgetTable();
    this.limits = limitTable();
    this.element = make("div", {}, this.heading, this.form, this.note,
      make("h3", {}, "By accelerator"), this.accelerators.element,
      make("h3", {}, "By day"), this.days.element,
      make("h3", {}, "Budget"), this.budgets.element,
      make("h3", {}, "Quotas"), this.limits.element);
  }

  open(id) {
    this.id = id;
    setText(this.heading, `Project ${id}`);
    this.accelerators.show([]);
    this.days.show([]);
    this.budgets.show([]);
    this.limits.show([]);
  }

  async refresh() {
    const id = this.id;
    const scope = { project_id: id, limit: MOST,
      ...(this.seesAll ? { all_projects: true } : {}) };
    const query = { ...scope, start: this.start() };
    const [accelerators, days, budgets, quotas] = await Promise.all([
      api.pages("usage", { ...query, group_by: "accelerator" }, MOST),
      api.pages("usage", { ...query, group_by: "day" }, MOST),
      api.pages("budgets", scope, MOST, "project_id"),
      api.get(`quotas/${encodeURIComponent(id)}`)]);
    if (id !== this.id) {
      return;
    }
    this.accelerators.show(accelerators.items);
    this.days.show(days.items.reverse());
    this.budgets.show(budgetRows(budgets));
    this.limits.show(limits(quotas));
  }
}
