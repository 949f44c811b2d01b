// SPDX-License-Identifier: Apache-2.0

// Groups: their sizes, what waits, and their goals.

import * as api from "./api.js";
import { brief, Facts, make, seconds, setAgo, setLink, setText, Table, when }
  from "./dom.js";
import { setAccelerator } from "./sessions.js";

const MOST = 100;

function goal(group) {
  const one = group.goal;
  if (!one) {
    return "none";
  }
  const wanted = one.kind === "deadline"
    ? `${one.actions} tasks by ${when(one.deadline_at)}`
    : `${one.rate_per_s} tasks/s`;
  const known = one.progress === null || one.progress === undefined ? ""
    : `, at ${Math.round(one.progress * 100)} % of the rate it needs`;
  return `${wanted}; ${one.actions_done} done${known}`;
}

function size(group) {
  return group.elastic
    ? `${group.size} (${group.min_size} to ${group.max_size})`
    : String(group.size);
}

export class View {
  constructor(scope) {
    this.title = "Groups";
    this.scope = scope;
    this.table = new Table("Groups", [
      { label: "Name",
        set: (cell, one) => setLink(cell, ["groups", one.id], one.name,
          one.id) },
      { label: "Project", text: (one) => one.project_id },
      { label: "Accelerator",
        set: (cell, one) => setAccelerator(cell, one.accelerator) },
      { label: "State", short: (one) => one.state },
      { label: "Slots", short: size },
      { label: "Goal", text: goal },
      { label: "Created", isShort: true,
        set: (cell, one) => setAgo(cell, one.created_at) },
    ], (one) => one.id, "There are no groups.");
    this.note = make("p", { class: "empty" });
    this.element = make("div", {}, make("h2", {}, "Groups"),
      this.table.element, this.note);
  }

  async refresh() {
    const found = await api.pages("groups", { ...this.scope(), limit: MOST },
      MOST);
    this.table.show(found.items);
    setText(this.note, found.isCut
      ? `Only the first ${MOST} groups are shown.` : "");
  }
}

export class Group {
  constructor(seesHosts) {
    this.title = "Group";
    this.parent = "groups";
    this.heading = make("h2", { tabindex: "-1" });
    this.facts = new Facts();
    this.members = new Table("Slots of the group", [
      { label: "Slot", set: (cell, one) => setLink(cell, seesHosts
        ? ["slots", one.host_uuid, one.device, String(one.slot)] : null,
      `${one.host_name}, ${one.device}, slot ${one.slot}`) },
      { label: "State", short: (one) => one.state },
    ], (one) => `${one.host_uuid}/${one.device}/${one.slot}`,
    "No slots, or the group belongs to another project.");
    this.clients = new Table("Clients of the group", [
      { label: "Client", isShort: true, text: (one) => brief(one.id) },
      { label: "Project", text: (one) => one.project_id },
      { label: "Attached", isShort: true,
        set: (cell, one) => setAgo(cell, one.created_at) },
      { label: "Tasks done", short: (one) => String(one.tasks) },
      { label: "Slot time", short: (one) => seconds(one.slot_s) },
    ], (one) => one.id, "No client is attached.");
    this.element = make("div", {}, this.heading, this.facts.element,
      make("h3", {}, "Slots"), this.members.element,
      make("h3", {}, "Clients"), this.clients.element);
  }

  open(id) {
    this.id = id;
    setText(this.heading, `Group ${id}`);
    this.facts.show([]);
  }

  async refresh() {
    const id = this.id;
    const path = `groups/${encodeURIComponent(id)}`;
    const [{ group }, clients] = await Promise.all([
      api.get(path), api.page(`${path}/clients`, { limit: MOST })]);
    if (id !== this.id) {
      return;
    }
    setText(this.heading, `Group ${group.name}`);
    this.facts.show([
      { label: "State",
        text: [group.state, group.reason].filter(Boolean).join(": ") },
      { label: "Slots", text: `${group.members_total ?? group.members.length
      } of ${size(group)}` },
      { label: "Waiting tasks",
        text: String(group.waiting_tasks ?? "unknown") },
      { label: "Goal", text: goal(group) },
      { label: "Accelerator",
        set: (cell) => setAccelerator(cell, group.accelerator) },
      { label: "Project", text: group.project_id },
      { label: "Shared", text: group.shared ? "yes" : "no" },
      { label: "ID", text: group.id },
    ]);
    this.members.show(group.members);
    this.clients.show(clients.items);
  }
}
