// SPDX-License-Identifier: Apache-2.0

// Sessions: those that run, wait or have ended. Users can close theirs.

import * as api from "./api.js";
import { between, brief, bytes, make, seconds, setAgo, setBar, setLink,
  setText, Table, whole } from "./dom.js";
import { Listing } from "./listing.js";

const ROWS = 10;
export const RUNNING = ["ACTIVE", "DETACHED", "READY", "PREPARING"];
export const WAITING = ["QUEUED"];
export const FINISHED = ["CLOSED", "REJECTED", "CANCELLED", "FAILED",
  "EXPIRED", "LOST"];
const CHOICES = {
  live: ["running and waiting", ["running", "waiting"]],
  running: ["running", ["running"]],
  waiting: ["waiting", ["waiting"]],
  finished: ["finished", ["finished"]],
};
// States in which a list does not contain everything that is known.
const SAYS_MORE = new Set(["QUEUED", "ACTIVE", "DETACHED"]);

async function detailed(session) {
  if (!SAYS_MORE.has(session.state)) {
    return session;
  }
  return await api.findSession(session.id) ?? session;
}

export function reasons(session) {
  const found = (session.pending_reasons ?? [])
    .map((one) => `${one.code}: ${one.message}`);
  return found.join(" ") || "–";
}

export function place(session) {
  const found = session.placement;
  return found ? `${found.host_name}, ${found.device}, slot ${found.slot}`
    : "–";
}

// The address of a session's slot, which leads to the slot with its ID.
export function setPlace(element, session, seesHosts) {
  const found = session.placement;
  setLink(element, found && seesHosts
    ? ["slots", found.host_uuid, found.device, String(found.slot)] : null,
  place(session));
}

export function setSession(element, id) {
  setLink(element, id ? ["sessions", id] : null, brief(id), id ?? "");
}

export function setAccelerator(element, name) {
  setLink(element, name ? ["accelerators", name] : null, name ?? "–");
}

export function setProject(element, id) {
  setLink(element, id ? ["projects", id] : null, id ?? "–");
}

// Who opened a session: an instance, or a user.
export function opener(session) {
  return session.instance_id ? `instance ${session.instance_id}`
    : session.user_id || "–";
}

// The filter for an opener: IDs of instances have dashes, those of users none.
function opened(text) {
  return text === "" ? {}
    : { [text.includes("-") ? "instance_id" : "user_id"]: text };
}

// The expected wait, and the range in which nine of ten waits lie.
export function expectedWait(session) {
  const wait = seconds(session.expected_wait_s);
  return session.expected_wait_high_s === null
    || session.expected_wait_high_s === undefined ? wait
    : `${wait} (${seconds(session.expected_wait_low_s)} – ${
      seconds(session.expected_wait_high_s)})`;
}

export function setProgress(element, session) {
  setBar(element, session.input_bytes, session.claimed_bytes,
    `${bytes(session.input_bytes)} of ${bytes(session.claimed_bytes)}`);
}

// How long a session has run and, at its mean rate, will run altogether.
export function runTime(session) {
  if (!session.started_at) {
    return "–";
  }
  const taken = between(session.started_at, session.finished_at);
  const text = whole(taken);
  if (session.finished_at || !(session.input_bytes > 0)) {
    return text;
  }
  const all = taken * session.claimed_bytes / session.input_bytes;
  return all > taken ? `${text} of about ${whole(all)}` : text;
}

export function end(session) {
  const text = [session.reason, session.message].filter(Boolean).join(": ");
  return text || "–";
}

const NAMES = [
  { label: "Session", isShort: true,
    set: (cell, one) => setSession(cell, one.id) },
  { label: "Request", text: (one) => one.request_id },
  { label: "Project", isOfAll: true,
    set: (cell, one) => setProject(cell, one.project_id) },
  { label: "Opened by", text: opener },
  { label: "Application", text: (one) => one.application ?? "–" },
  { label: "Accelerator",
    set: (cell, one) => setAccelerator(cell, one.accelerator) },
];

// A part of the view: the sessions in some states.
class Part {
  constructor(view, kind, caption, states, order, columns) {
    this.states = states;
    this.order = order;
    this.rows = new Table(caption, columns, (one) => one.id,
      `No sessions are ${kind}.`);
    this.listing = new Listing(`Pages of ${caption.toLowerCase()}`,
      "sessions", ROWS, () => view.reload());
    this.element = make("section", { "aria-label": caption },
      make("h2", {}, caption), this.rows.element, this.listing.pager.element);
  }

  async refresh(query) {
    const found = await this.listing.load({ ...query, state: this.states,
      ...this.order });
    this.show(await Promise.all(found.map(detailed)));
  }

  show(found) {
    const last = Number.MAX_SAFE_INTEGER;
    found.sort((a, b) => (a.queue_position ?? last)
      - (b.queue_position ?? last));
    this.rows.show(found);
  }
}

export class View {
  constructor(scope, seesHosts) {
    this.title = "Sessions";
    this.scope = scope;
    const action = { label: "Action", cell: (one) => this.closer(one) };
    const parts = {
      running: new Part(this, "running", "Running sessions", RUNNING, {}, [
        ...NAMES,
        { label: "State", short: (one) => one.state },
        { label: "Progress", isShort: true, set: setProgress },
        { label: "Running for", short: runTime },
        { label: "Slot",
          set: (cell, one) => setPlace(cell, one, seesHosts) },
        action,
      ]),
      waiting: new Part(this, "waiting", "Waiting sessions", WAITING,
        { sort_key: "queued_at", sort_dir: "asc" }, [
          { label: "Position", short: (one) => one.queue_position === null
            || one.queue_position === undefined ? "–"
            : String(one.queue_position + 1) },
          ...NAMES,
          { label: "Size", short: (one) => bytes(one.claimed_bytes) },
          { label: "Waiting for", short: (one) =>
            whole(between(one.queued_at)) },
          { label: "Expected wait", short: expectedWait },
          { label: "Why", text: reasons },
          action,
        ]),
      finished: new Part(this, "finished", "Finished sessions", FINISHED,
        { sort_key: "updated_at", sort_dir: "desc" }, [
          ...NAMES,
          { label: "State", short: (one) => one.state },
          { label: "Input", short: (one) => bytes(one.input_bytes) },
          { label: "Ran for", short: runTime },
          { label: "Ended", isShort: true,
            set: (cell, one) => setAgo(cell, one.finished_at) },
          { label: "Reason", text: end },
        ]),
    };
    this.parts = parts;
    this.states = make("select", { id: "session-states" },
      ...Object.entries(CHOICES).map(([value, [label]]) =>
        make("option", { value }, label)));
    this.opener = make("input", { type: "search", id: "session-opener",
      maxlength: 255 });
    for (const control of [this.states, this.opener]) {
      control.addEventListener("change", () => {
        this.reset();
        this.reload();
      });
    }
    this.note = make("p", { role: "status" });
    this.element = make("div", {},
      make("p", { class: "filters" },
        make("label", {}, "Status ", this.states),
        make("label", {}, "Opened by (ID of user or instance) ",
          this.opener)),
      this.note, ...Object.values(parts).map((one) => one.element));
  }

  closer(session) {
    return closeButton(session, this.note, () => this.refresh());
  }

  async reload() {
    try {
      await this.refresh();
    } catch (error) {
      setText(this.note, error.message);
    }
  }

  reset() {
    Object.values(this.parts).forEach((one) => one.listing.reset());
  }

  async refresh() {
    const scope = this.scope();
    const query = { ...scope, ...opened(this.opener.value.trim()) };
    const shown = CHOICES[this.states.value][1];
    for (const [kind, part] of Object.entries(this.parts)) {
      part.element.hidden = !shown.includes(kind);
      part.rows.table.classList.toggle("one-project", !scope.all_projects);
    }
    await Promise.all(shown.map((kind) => this.parts[kind].refresh(query)));
  }
}

// A button that ends a session; note gets what became of it.
export function closeButton(session, note, onDone) {
  const button = make("button", { type: "button", class: "danger" }, "Close");
  button.setAttribute("aria-label", `Close session ${session.request_id}`);
  button.addEventListener("click", async () => {
    if (!await ask(`End ${session.accelerator} session`
      + ` ${session.request_id}? Work in progress is lost.`)) {
      return;
    }
    button.disabled = true;
    try {
      await api.remove(`sessions/${session.id}`);
      setText(note, `Session ${session.request_id} was closed.`);
      await onDone();
    } catch (error) {
      button.disabled = false;
      setText(note, error.message);
    }
  });
  return button;
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
