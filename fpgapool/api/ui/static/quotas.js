// SPDX-License-Identifier: Apache-2.0

// The limits of the user's project, and how much of each it uses.

import * as api from "./api.js";
import { bytes, make, Table } from "./dom.js";

function amount(resource, value) {
  return resource.endsWith("_bytes") ? bytes(value) : String(value);
}

function limit({ name, limit: value }) {
  if (value === null) {
    return "unknown";
  }
  return value === -1 ? "unlimited" : amount(name, value);
}

export class View {
  constructor() {
    this.title = "Quotas";
    this.table = new Table("Limits of the project", [
      { label: "Resource", text: (one) => one.name.replaceAll("_", " ") },
      { label: "In use", short: (one) => amount(one.name, one.in_use) },
      { label: "Limit", short: limit },
      { label: "Set by", short: (one) => one.source },
    ], (one) => one.name, "There are no limits.");
    this.element = make("div", {}, make("h2", {}, "Quotas"),
      this.table.element);
  }

  async refresh() {
    const { quota } = await api.get("quotas");
    const found = Object.entries(quota)
      .filter(([, one]) => one !== null && typeof one === "object"
        && "in_use" in one)
      .map(([name, one]) => ({ name, ...one }));
    this.table.show(found);
  }
}
