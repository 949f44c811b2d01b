// SPDX-License-Identifier: Apache-2.0

// One session: where it is, how far it is, and what takes its time.

import * as api from "./api.js";
import { between, bytes, Facts, make, seconds, setAgo, setText,
  Table, when, whole } from "./dom.js";
import { closeButton, end, expectedWait, opener, reasons, runTime,
  setAccelerator, setPlace, setProgress, setProject } from "./sessions.js";

const LIVE = new Set(["QUEUED", "PREPARING", "READY", "ACTIVE", "DETACHED"]);
const QUESTIONS = { QUEUED: "Why it waits", PREPARING: "Why it waits",
  READY: "Why it waits", ACTIVE: "What limits it",
  DETACHED: "Why it waits" };
// A slot that reaches less of its accelerator's throughput waits for others.
const FULL_SHARE = 0.7;
// Hosts report the bytes of sessions every few seconds.
const RATE_MS = 30000;

export class View {
  constructor(seesHosts) {
    this.title = "Session";
    this.parent = "sessions";
    this.seesHosts = seesHosts;
    this.heading = make("h2", { tabindex: "-1" });
    this.question = make("h3");
    this.why = make("p", { id: "why", class: "answer" });
    this.facts = new Facts();
    this.steps = new Table("Timeline", [
      { label: "Step", text: (one) => one.step },
      { label: "When", isShort: true,
        set: (cell, one) => setAgo(cell, one.at) },
      { label: "Took", short: (one) => one.took },
    ], (one) => one.step, "Nothing yet.");
    this.action = make("p");
    this.note = make("p", { role: "status" });
    this.element = make("div", {}, this.heading,
      this.question, this.why,
      this.facts.element, this.action, this.note,
      make("h3", {}, "Timeline"), this.steps.element);
  }

  open(id) {
    this.id = id;
    this.readings = [];
    this.button = null;
    this.action.replaceChildren();
    setText(this.note, "");
    setText(this.heading, `Session ${id}`);
    this.question.hidden = true;
    setText(this.why, "");
    this.facts.show([]);
    this.steps.show([]);
  }

  async refresh() {
    const id = this.id;
    const session = await api.session(id);
    const name = encodeURIComponent(session.accelerator);
    const profile = (await api.find(`accelerators/${name}`))?.accelerator;
    if (id !== this.id) {
      return;
    }
    this.read(session);
    this.question.hidden = false;
    setText(this.question, QUESTIONS[session.state] ?? "How it ended");
    setText(this.why, this.reason(session, profile));
    this.facts.show(this.rows(session));
    this.steps.show(steps(session));
    const isLive = LIVE.has(session.state);
    if (isLive && this.button === null) {
      this.button = closeButton(session, this.note, () => this.refresh());
      this.action.replaceChildren(this.button);
    }
    this.action.hidden = !isLive;
  }

  // Keep what has moved until now.
  read(session) {
    const moved = session.input_bytes + session.output_bytes;
    const last = this.readings.at(-1);
    if (last?.moved !== moved || last.generation !== session.generation) {
      this.readings.push({ atMs: api.now(), moved,
        generation: session.generation });
    }
    this.readings = this.readings.filter((one) =>
      one.generation === session.generation).slice(-60);
  }

  // The rate now, or the mean rate; null: unknown.
  rate(session) {
    const recent = this.readings.filter((one) =>
      api.now() - one.atMs < RATE_MS);
    const first = recent[0];
    const last = recent.at(-1);
    if (first && last.atMs > first.atMs) {
      return (last.moved - first.moved) / (last.atMs - first.atMs) * 1000;
    }
    const moved = session.input_bytes + session.output_bytes;
    if (!session.started_at || moved === 0) {
      return null;
    }
    return moved / Math.max(between(session.started_at,
      session.finished_at), 0.001);
  }

  reason(session, profile) {
    switch (session.state) {
      case "QUEUED":
        return `It has waited ${whole(between(session.queued_at))} for a`
          + ` slot; expected wait: ${expectedWait(session)}. ${
            reasons(session)}`;
      case "PREPARING":
        return "Its slot is being programmed.";
      case "READY":
        return "Its slot is ready and waits for the client to connect.";
      case "DETACHED":
        return "Its client is disconnected; the slot is kept for it for a"
          + " while.";
      case "ACTIVE":
        return this.pace(session, profile);
      default:
        return `It has ended: ${end(session)}`;
    }
  }

  pace(session, profile) {
    const rate = this.rate(session);
    if (rate === null) {
      return "It has its slot, and its client has sent nothing yet.";
    }
    const peak = profile?.peak_bytes_per_s;
    const most = peak ? peak * (1 + (profile.return_ratio ?? 0)) : null;
    const text = `It moves ${bytes(rate)}/s, input and output together.`;
    if (!most) {
      return text;
    }
    const share = rate / most;
    return share >= FULL_SHARE
      ? `${text} The accelerator is the limit: it does ${bytes(most)}/s.`
      : `${text} That is ${percent(share)} of what its accelerator`
        + ` can do (${bytes(most)}/s): the client, the network or the board's`
        + " bus is the limit.";
  }

  rows(session) {
    const rate = this.rate(session);
    return [
      { label: "State", text: session.state },
      { label: "Progress", set: (cell) => setProgress(cell, session) },
      { label: session.finished_at ? "Ran for" : "Running for",
        text: runTime(session) },
      { label: "Rate", text: rate === null ? "–" : `${bytes(rate)}/s` },
      { label: "Output", text: bytes(session.output_bytes) },
      { label: "Slot",
        set: (cell) => setPlace(cell, session, this.seesHosts) },
      { label: "Local to the client",
        text: { true: "yes", false: "no" }[session.placement?.local] ?? "–" },
      { label: "Accelerator",
        set: (cell) => setAccelerator(cell, session.accelerator) },
      { label: "Application", text: session.application ?? "–" },
      { label: "Opened by", text: opener(session) },
      { label: "Project",
        set: (cell) => setProject(cell, session.project_id) },
      { label: "Request", text: session.request_id },
      { label: "Deadline", text: session.deadline_at
        ? `${when(session.deadline_at)}${{ true: ", met", false: ", missed" }[
          session.deadline_met] ?? ""}` : "–" },
      { label: "Energy", text: session.energy_j === null ? "not measured"
        : `${Math.round(session.energy_j)} J` },
      { label: "Reason", text: end(session) },
    ];
  }
}

function percent(share) {
  return share < 0.01 ? "less than 1\u00a0%"
    : `${Math.round(share * 100)}\u00a0%`;
}

function steps(session) {
  const times = [
    ["queued", session.queued_at],
    ["slot ready", session.ready_at],
    ["client connected", session.started_at],
    ["ended", session.finished_at],
  ].filter(([, at]) => at);
  return times.map(([step, at], number) => ({ step, at,
    took: number === 0 ? "–"
      : seconds(between(times[number - 1][1], at)) }));
}
