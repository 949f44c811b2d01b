// SPDX-License-Identifier: Apache-2.0

// What the page has received so far: one sample for each refresh, and the
// bytes and waits of sessions.

import * as api from "./api.js";

const MOST_SAMPLES = 600;
const PAGE = 200;
const MOST_SESSIONS = 2000;
// A change may be written to the database after a later one.
const OVERLAP_MS = 2000;
const MOST_KNOWN = 20000;
// Rates over shorter times mean little. Switching the view refreshes at once.
const SHORTEST_MS = 1000;

function milliseconds(text) {
  return text ? Date.parse(text) : 0;
}

export class History {
  constructor() {
    this.samples = [];
    this.known = new Map();
    this.sinceMs = null;
    this.clear();
  }

  // Forget everything that was counted; the next sample will be the first.
  clear() {
    this.samples.length = 0;
    this.known.clear();
    this.sinceMs = null;
    this.startedMs = null;
    this.movedBytes = 0;
    this.waits = [];
  }

  // Request the sessions that have changed since the last time. All times are
  // from the service's database, because other machines' clocks may be wrong.
  async follow(query) {
    if (this.sinceMs === null) {
      const { items } = await api.page("sessions",
        { ...query, limit: 1, sort_key: "updated_at", sort_dir: "desc" });
      this.sinceMs = milliseconds(items[0]?.updated_at);
      this.startedMs = this.sinceMs;
      return;
    }
    const from = new Date(Math.max(this.sinceMs - OVERLAP_MS, 0));
    const found = await api.pages("sessions", { ...query,
      "changes-since": from.toISOString(), limit: PAGE }, MOST_SESSIONS);
    for (const one of found.items) {
      this.sinceMs = Math.max(this.sinceMs, milliseconds(one.updated_at));
      this.note(one);
    }
  }

  // Count what is new in a session.
  note(session) {
    const isNew = Date.parse(session.queued_at) >= this.startedMs - OVERLAP_MS;
    const old = this.known.get(session.id);
    const moved = session.input_bytes + session.output_bytes;
    if (old !== undefined) {
      this.movedBytes += Math.max(0, moved - old.moved);
    } else if (isNew) {
      this.movedBytes += moved;
    }
    const isGiven = Boolean(session.ready_at);
    if (isGiven && !old?.isGiven
        && Date.parse(session.ready_at) >= this.startedMs) {
      this.waits.push((Date.parse(session.ready_at)
        - Date.parse(session.queued_at)) / 1000);
    }
    this.known.set(session.id, { isGiven: isGiven || Boolean(old?.isGiven),
      moved: Math.max(moved, old?.moved ?? 0) });
    if (this.known.size > MOST_KNOWN) {
      this.known.delete(this.known.keys().next().value);
    }
  }

  // End an interval, and add its sample.
  sample(atMs, busy, waiting) {
    const last = this.samples.at(-1);
    if (last && atMs - last.atMs < SHORTEST_MS) {
      return;
    }
    const takenS = last ? (atMs - last.atMs) / 1000 : 0;
    this.samples.push({
      atMs, busy, waiting,
      bytesPerS: takenS > 0 ? this.movedBytes / takenS : null,
      waitS: this.waits.length
        ? this.waits.reduce((sum, one) => sum + one, 0) / this.waits.length
        : null,
    });
    this.movedBytes = 0;
    this.waits = [];
    if (this.samples.length > MOST_SAMPLES) {
      this.samples.shift();
    }
  }
}
