// SPDX-License-Identifier: Apache-2.0

// The queue and the sessions, which users can close.

import * as api from "./api.js";
import { bytes, make, seconds, setText, Table, when } from "./dom.js";
import { Listing } from "./listing.js";

const ROWS = 10;
const LIVE = ["QUEUED", "PREPARING", "READY", "ACTIVE", "DETACHED"];
const ENDED = ["CLOSED", "REJECTED", "CANCELLED", "FAILED", "EXPIRED", "LOST"];
// States in which a list does not contain everything that is known. A READY
// session is not requested: the response would contain its secret.
const SAYS_MORE = new Set(["QUEUED", "ACTIVE", "DETACHED"]);

async function load(listing, query) {
  return Promise.all((await listing.load(query)).map(detailed));
}

async function detailed(session) {
  if (!SAYS_MORE.has(session.state)) {
    return session;
  }
  try {
    return (await api.get(`sessions/${session.id}`)).session;
  } catch (error) {
    if (error.status === 404) {
      return session;
    }
    throw error;
  }
}

function reasons(session) {
  const found = (session.pending_reasons ?? [])
    .map((one) => `${one.code}: ${one.message}`);
  return found.join(" ") || "–";
}

function place(session) {
  const found = session.placement;
  return found ? `${found.host_name}, ${found.device}, slot ${found.slot}`
    : "–";
}

// Who opened a session: an instance, or a user.
function opener(session) {
  return session.instance_id ? `instance ${session.instance_id}`
    : session.user_id || "–";
}

// The filter for an opener: IDs of instances have dashes, those of users none.
function opened(text) {
  return text === "" ? {}
    : { [text.includes("-") ? "instance_id" : "user_id"]: text };
}

// The expected wait, and the range in which nine of ten waits lie.
function expectedWait(session) {
  const wait = seconds(session.expected_wait_s);
  return session.expected_wait_high_s === null
    || session.expected_wait_high_s === undefined ? wait
    : `${wait} (${seconds(session.expected_wait_low_s)} – ${
      seconds(session.expected_wait_high_s)})`;
}

function progress(session) {
  return `${bytes(session.input_bytes)} of ${bytes(session.claimed_bytes)}`;
}

function end(session) {
  const text = [session.reason, session.message].filter(Boolean).join(": ");
  return text || "–";
}

export class View {
  constructor(history, scope) {
    this.title = "Sessions";
    this.history = history;
    this.scope = scope;
    this.states = make("select", { id: "session-states" },
      make("option", { value: "live" }, "waiting or running"),
      make("option", { value: "ended" }, "ended"));
    this.opener = make("input", { type: "search", id: "session-opener",
      maxlength: 255 });
    const again = () => this.reload();
    this.queued = new Listing("Pages of the queue", "sessions", ROWS, again);
    this.listed = new Listing("Pages of sessions", "sessions", ROWS, again);
    for (const control of [this.states, this.opener]) {
      control.addEventListener("change", () => {
        this.reset();
        this.reload();
      });
    }
    const names = [
      { label: "Request", text: (one) => one.request_id },
      { label: "Project", text: (one) => one.project_id },
      { label: "Opened by", text: opener },
      { label: "Accelerator", text: (one) => one.accelerator },
    ];
    this.queue = new Table("Queue", [
      { label: "Position", short: (one) => one.queue_position === null
        || one.queue_position === undefined ? "–"
        : String(one.queue_position + 1) },
      ...names,
      { label: "Size", short: (one) => bytes(one.claimed_bytes) },
      { label: "Waiting since", text: (one) => when(one.queued_at) },
      { label: "Expected wait", short: expectedWait },
      { label: "Waiting for", text: reasons },
    ], (one) => one.id, "No sessions are waiting.");
    this.table = new Table("Sessions", [
      { label: "State", short: (one) => one.state },
      ...names,
      { label: "Input", text: progress },
      { label: "Slot", text: place },
      { label: "Queued", text: (one) => when(one.queued_at) },
      { label: "Reason", text: end },
      { label: "Action", cell: (one) => this.closer(one) },
    ], (one) => one.id, "There are no sessions.");
    this.note = make("p", { role: "status" });
    this.element = make("div", {},
      make("p", { class: "filters" },
        make("label", {}, "ID of user or instance ", this.opener)),
      make("h2", {}, "Queue"), this.queue.element, this.queued.pager.element,
      make("h2", {}, "Sessions"),
      make("p", { class: "filters" },
        make("label", {}, "Status ", this.states)),
      this.note, this.table.element, this.listed.pager.element);
  }

  closer(session) {
    const button = make("button", { type: "button", class: "danger" },
      "Close");
    button.setAttribute("aria-label", `Close session ${session.request_id}`);
    button.addEventListener("click", async () => {
      if (!await ask(`End ${session.accelerator} session`
        + ` ${session.request_id}? Work in progress is lost.`)) {
        return;
      }
      button.disabled = true;
      try {
        await api.remove(`sessions/${session.id}`);
        setText(this.note, `Session ${session.request_id} was closed.`);
        await this.refresh();
      } catch (error) {
        button.disabled = false;
        setText(this.note, error.message);
      }
    });
    return button;
  }

  async reload() {
    try {
      await this.refresh();
    } catch (error) {
      setText(this.note, error.message);
    }
  }

  reset() {
    this.queued.reset();
    this.listed.reset();
  }

  async refresh() {
    const query = { ...this.scope(), ...opened(this.opener.value.trim()) };
    const isLive = this.states.value === "live";
    const [waiting, found] = await Promise.all([
      load(this.queued, { ...query, state: "QUEUED", sort_key: "queued_at",
        sort_dir: "asc" }),
      load(this.listed, { ...query, state: isLive ? LIVE : ENDED }),
    ]);
    const last = Number.MAX_SAFE_INTEGER;
    waiting.sort((a, b) => (a.queue_position ?? last)
      - (b.queue_position ?? last));
    found.forEach((one) => this.history.note(one));
    this.queue.show(waiting);
    this.table.show(found);
    this.table.table.classList.toggle("no-action", !isLive);
  }
}

// Ask in a dialog; Escape means no.
function ask(text) {
  const dialog = document.getElementById("question");
  setText(document.getElementById("question-text"), text);
  const yes = document.getElementById("question-yes");
  const no = document.getElementById("question-no");
  return new Promise((resolve) => {
    dialog.returnValue = "";
    yes.onclick = () => dialog.close("yes");
    no.onclick = () => dialog.close("");
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
    dialog.showModal();
  });
}
