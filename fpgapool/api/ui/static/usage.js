// SPDX-License-Identifier: Apache-2.0

// What projects have used, and the limits of the user's project.

import * as api from "./api.js";
import { bytes, make, seconds, setText, Table } from "./dom.js";
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
    this.limits = limitTable();
    this.element = make("div", {}, make("h2", {}, "Usage"), this.form,
      this.note, this.projects.element,
      make("h2", {}, "Quotas of your project"),
      this.limits.element);
  }

  async refresh() {
    const [usage, quotas] = await Promise.all([
      api.pages("usage", { ...this.scope(), group_by: "project",
        start: this.start(), limit: MOST }, MOST),
      api.get("quotas")]);
    this.projects.show(usage.items);
    this.limits.show(limits(quotas));
    setText(this.note, usage.isCut
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
    this.limits = limitTable();
    this.element = make("div", {}, this.heading, this.form, this.note,
      make("h3", {}, "By accelerator"), this.accelerators.element,
      make("h3", {}, "By day"), this.days.element,
      make("h3", {}, "Quotas"), this.limits.element);
  }

  open(id) {
    this.id = id;
    setText(this.heading, `Project ${id}`);
    this.accelerators.show([]);
    this.days.show([]);
    this.limits.show([]);
  }

  async refresh() {
    const id = this.id;
    const query = { project_id: id, start: this.start(), limit: MOST,
      ...(this.seesAll ? { all_projects: true } : {}) };
    const [accelerators, days, quotas] = await Promise.all([
      api.pages("usage", { ...query, group_by: "accelerator" }, MOST),
      api.pages("usage", { ...query, group_by: "day" }, MOST),
      api.get(`quotas/${encodeURIComponent(id)}`)]);
    if (id !== this.id) {
      return;
    }
    this.accelerators.show(accelerators.items);
    this.days.show(days.items.reverse());
    this.limits.show(limits(quotas));
  }
}
