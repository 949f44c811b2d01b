// SPDX-License-Identifier: Apache-2.0

// The search box: finds things by ID, the beginning of an ID, or name.

import * as api from "./api.js";
import { address, make, setLink, setText, Table } from "./dom.js";

const MOST = 20;
// How many of the newest sessions are compared with the beginning of an ID.
const RECENT = 200;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const START = /^[0-9a-f]{6,}[0-9a-f-]*$/i;

function hit(kind, place, name) {
  return { kind, place, name };
}

function session(one) {
  return hit("session", ["sessions", one.id], one.request_id);
}

// Kinds of things with an ID: [kind, path, member, name].
const GROUP = ["group", "groups", "group", (one) => one.name];
const HARDWARE = [
  ["host", "hosts", "host", (one) => one.name],
  ["board", "devices", "device", (one) => `${one.host_name}, ${one.name}`],
  ["slot", "slots", "slot", (one) => `${one.host_name}, ${
    one.device_name}, slot ${one.number}`],
];

async function byId(id, seesHosts) {
  const kinds = seesHosts ? [GROUP, ...HARDWARE] : [GROUP];
  const found = await Promise.all([
    api.findSession(id).then((one) => one ? [session(one)] : []),
    ...kinds.map(async ([kind, path, member, name]) => {
      const one = (await api.find(`${path}/${id}`))?.[member];
      return one ? [hit(kind, [path, id], name(one))] : [];
    })]);
  return found.flat();
}

async function byName(text, scope, seesHosts) {
  const lower = text.toLowerCase();
  const list = async (path, query, toHit) =>
    ((await api.find(path, query))?.[path.split("/").at(-1)] ?? []).map(toHit);
  return (await Promise.all([
    seesHosts ? list("pool/hosts", { name_part: text, limit: MOST },
      (one) => hit("host", ["hosts", one.uuid], one.name)) : [],
    /^[\w.:-]{1,64}$/.test(text) ? list("sessions",
      { ...scope, request_id: text, limit: MOST }, session) : [],
    START.test(text) ? api.page("sessions", { ...scope, limit: RECENT })
      .then(({ items }) => items.filter((one) => one.id.startsWith(lower))
        .map(session)) : [],
    list("accelerators", { limit: RECENT }, (one) => hit("accelerator",
      ["accelerators", one.name], one.name)).then((all) =>
      all.filter((one) => one.name.toLowerCase().includes(lower))),
    list("groups", { ...scope, limit: RECENT }, (one) => hit("group",
      ["groups", one.id], one.name)).then((all) =>
      all.filter((one) => one.name.toLowerCase().includes(lower))),
  ])).flat();
}

export class View {
  constructor(scope, seesHosts) {
    this.title = "Search";
    this.scope = scope;
    this.seesHosts = seesHosts;
    this.heading = make("h2", { tabindex: "-1" });
    this.table = new Table("Found", [
      { label: "Kind", short: (one) => one.kind },
      { label: "Name",
        set: (cell, one) => setLink(cell, one.place, one.name) },
      { label: "ID", text: (one) => one.place[1] },
    ], (one) => one.place.join("/"), "Nothing matches this ID or name.");
    this.element = make("div", {}, this.heading, this.table.element);
  }

  open(text) {
    this.text = text;
    this.found = null;
    setText(this.heading, `Search for ${text}`);
    this.table.show([]);
  }

  // It searches once. If there is one thing, the page shows that.
  async refresh() {
    const text = this.text;
    if (this.found === text) {
      return;
    }
    const found = ID.test(text)
      ? await byId(text.toLowerCase(), this.seesHosts)
      : await byName(text, this.scope(), this.seesHosts);
    if (text !== this.text) {
      return;
    }
    this.found = text;
    const unique = [...new Map(found.map((one) =>
      [one.place.join("/"), one])).values()];
    this.table.show(unique.slice(0, MOST));
    if (unique.length === 1) {
      location.replace(address(unique[0].place));
    }
  }
}
