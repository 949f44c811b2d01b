// SPDX-License-Identifier: Apache-2.0

// What the API remembers: samples of the pool, and what happened to hardware.

import * as api from "./api.js";

// The API keeps less.
const MOST_S = 2 * 3600;

export class Memory {
  constructor() {
    this.clear();
  }

  clear() {
    this.samples = [];
    this.events = [];
    this.intervalMs = 10000;
  }

  // Request what is new.
  async follow() {
    const since = this.samples.at(-1)?.at ?? 0;
    const found = await api.memory(since);
    this.intervalMs = found.interval_s * 1000;
    // Another process of the API may have answered the last time; it samples
    // at other moments.
    const after = Math.max(since, this.samples.at(-1)?.at ?? 0);
    this.samples.push(...found.samples.filter((one) => one.at > after));
    this.events.push(...found.events.filter((one) => one.at > after));
    const oldest = api.now() / 1000 - MOST_S;
    this.samples = this.samples.filter((one) => one.at >= oldest);
    this.events = this.events.filter((one) => one.at >= oldest);
  }
}
