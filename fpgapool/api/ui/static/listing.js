// SPDX-License-Identifier: Apache-2.0

import * as api from "./api.js";
import { Pager } from "./dom.js";

// A list that is shown page by page; each page has its own marker.
export class Listing {
  constructor(label, name, rows, onChange, key = "id") {
    this.name = name;
    this.rows = rows;
    this.key = key;
    this.markers = [null];
    this.next = null;
    this.pager = new Pager(label, (step) => {
      if (step > 0) {
        this.markers.push(this.next);
      } else {
        this.markers.pop();
      }
      onChange();
    });
  }

  reset() {
    this.markers = [null];
  }

  // Return the members on the page.
  async load(query) {
    const marker = this.markers.at(-1);
    const asked = marker === null ? query : { ...query, marker };
    const found = await api.page(this.name, { ...asked, limit: this.rows },
      this.key);
    this.next = found.next;
    if (found.items.length === 0 && this.markers.length > 1) {
      this.reset();
      return this.load(query);
    }
    const total = found.total === undefined ? ""
      : `: ${found.items.length} of ${found.total} ${found.member}`;
    this.pager.show(`Page ${this.markers.length}${total}`,
      this.markers.length > 1, this.next !== null);
    return found.items;
  }
}
