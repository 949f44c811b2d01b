// SPDX-License-Identifier: Apache-2.0

// Signs in, shows the view that the page's address names, and refreshes it.

import * as api from "./api.js";
import { address, make, setText } from "./dom.js";
import * as events from "./events.js";
import * as groups from "./groups.js";
import * as hardware from "./hardware.js";
import * as library from "./library.js";
import { Memory } from "./memory.js";
import * as operations from "./operations.js";
import * as pool from "./pool.js";
import * as search from "./search.js";
import * as session from "./session.js";
import * as sessions from "./sessions.js";
import * as signin from "./signin.js";
import * as usage from "./usage.js";

const SHORTEST_MS = 2000;
const SHARE = 10;
const LONGEST_MS = 60000;
// Views whose data rarely changes.
const SLOW = new Set(["library", "usage", "operations", "accelerators",
  "projects", "events"]);
const SLOW_MS = 10000;
// The API forgets a sign-in that is not renewed for 15 minutes.
const KEEP_MS = 5 * 60e3;

const at = (id) => document.getElementById(id);

class Page {
  constructor(settings) {
    this.settings = settings;
    this.memory = new Memory();
    this.views = {};
    this.details = {};
    this.timer = null;
    this.turn = 0;
    this.keptMs = 0;
    window.addEventListener("hashchange", () => this.go());
    document.addEventListener("visibilitychange", () => this.wake());
    at("sign-out").addEventListener("click", () => this.signOut(""));
    at("scope").addEventListener("change", () => {
      this.views.sessions.reset();
      this.wake();
    });
    at("search").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = at("search-text").value.trim();
      if (text) {
        location.hash = address(["search", text]);
      }
    });
  }

  // Take up the sign-in from before a reload, or ask for one.
  async begin() {
    try {
      const who = await signin.takeUp(this.settings);
      if (who !== null) {
        await this.enter(who);
        return;
      }
    } catch (error) {
      if (error.status === 0 || error.status >= 500) {
        // It may be valid: loading the page again may help.
        this.ask(error.message);
        return;
      }
    }
    this.ask("");
  }

  signOut(why) {
    api.forgetSignIn().catch(() => {});
    this.ask(why);
  }

  // Ask who the user is.
  ask(why) {
    api.setToken(null);
    this.turn += 1;
    clearTimeout(this.timer);
    this.memory.clear();
    this.views = {};
    this.details = {};
    for (const id of ["navigation", "who", "scope-label", "search"]) {
      at(id).hidden = true;
    }
    setText(at("status"), "");
    complain(why);
    signin.show(at("main-content"), this.settings,
      (who) => this.enter(who), complain);
  }

  async enter({ name, isAdmin }) {
    // The audit log gets a line for each refusal, so this is not tried for
    // users who are not administrators.
    const may = async (path, query) => isAdmin && api.may(path, query);
    const [seesMap, seesHosts, seesAll, seesBitstreams] = await Promise.all([
      may("pool/hosts", { limit: 1 }),
      may("hosts", { limit: 1 }),
      may("sessions", { limit: 1, all_projects: true }),
      may("bitstreams", { limit: 1, all_projects: true }),
    ]);
    const scope = () => seesAll && at("scope").value === "all"
      ? { all_projects: true } : {};
    this.views = {
      pool: new pool.View(this.memory, seesMap),
      sessions: new sessions.View(scope, seesHosts),
      groups: new groups.View(scope),
      library: new library.View(seesBitstreams),
      usage: new usage.Usage(scope),
      events: new events.View(this.memory, scope),
      ...(seesHosts ? { operations: new operations.View() } : {}),
    };
    this.details = {
      sessions: new session.View(seesHosts),
      groups: new groups.Group(seesHosts),
      accelerators: new library.Accelerator(scope, seesHosts),
      projects: new usage.Project(seesAll),
      search: new search.View(scope, seesHosts),
      ...(seesHosts ? {
        hosts: new hardware.Host(),
        devices: new hardware.Device(),
        slots: new hardware.Slot(),
      } : {}),
    };
    const links = Object.entries(this.views).map(([key, view]) =>
      make("a", { href: address([key]) }, view.title));
    at("navigation").replaceChildren(...links);
    at("scope").value = "own";
    at("scope-label").hidden = !seesAll;
    for (const id of ["navigation", "who", "search"]) {
      at(id).hidden = false;
    }
    setText(at("user"), name);
    this.keptMs = 0;
    this.go();
  }

  // Show the view that the page's address names.
  go() {
    if (!api.isSignedIn() || Object.keys(this.views).length === 0) {
      return;
    }
    if (location.hash === "#main-content") {
      at("main-content").focus();
      return;
    }
    const [name, ...rest] = parts(location.hash);
    const own = (views) => Object.hasOwn(views, name) ? views[name] : null;
    const detail = rest.length ? own(this.details) : null;
    const view = detail ?? own(this.views) ?? this.views.pool;
    this.name = detail || own(this.views) ? name : "pool";
    this.view = view;
    const parent = address([detail ? view.parent ?? "" : this.name]);
    for (const link of at("navigation").children) {
      link.setAttribute("aria-current", link.hash !== parent ? "false"
        : detail ? "true" : "page");
    }
    complain("");
    document.title = detail
      ? `${view.title} ${rest.join(", ")} – fpgapool`
      : `${view.title} – fpgapool`;
    if (detail) {
      view.open(...rest);
    }
    at("main-content").replaceChildren(view.element);
    if (detail) {
      view.heading.focus();
    }
    this.wake();
  }

  wake() {
    clearTimeout(this.timer);
    this.turn += 1;
    if (!document.hidden && api.isSignedIn()) {
      this.refresh(this.turn);
    }
  }

  async refresh(turn) {
    const startedMs = performance.now();
    let pauseMs = SLOW.has(this.name) ? SLOW_MS : SHORTEST_MS;
    try {
      await this.update();
      if (turn !== this.turn) {
        return;
      }
      complain("");
      const time = api.origin.at.toLocaleTimeString();
      setText(at("status"), api.origin.isDatabase
        ? `${time}: no conductor answers; this data is from the database.`
        : `Live: ${time}`);
    } catch (error) {
      if (turn !== this.turn) {
        return;
      }
      if (error.status === 401) {
        this.signOut(error.message);
        return;
      }
      complain(error.message);
      setText(at("status"), "Showing the last data received.");
      pauseMs = Math.max(pauseMs, (error.retryAfterS ?? 0) * 1000);
    }
    const takenMs = performance.now() - startedMs;
    // What takes long costs the service more, so it is requested less often.
    pauseMs = Math.min(Math.max(pauseMs, takenMs * SHARE), LONGEST_MS);
    this.timer = setTimeout(() => this.wake(), pauseMs);
  }

  async update() {
    const { view } = this;
    const [document_] = await Promise.all([
      api.get("pool"), this.memory.follow(), this.keep()]);
    await view.refresh(document_.pool);
  }

  // Have the browser keep the sign-in for a reload.
  async keep() {
    if (performance.now() - this.keptMs > KEEP_MS || this.keptMs === 0) {
      this.keptMs = performance.now();
      await api.keepSignIn();
    }
  }
}

// The parts of an address such as #/sessions/ID.
function parts(hash) {
  try {
    return hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return [""];
  }
}

function complain(text) {
  setText(at("problem"), text);
  at("problem").hidden = !text;
}

try {
  await new Page(await api.settings()).begin();
} catch (error) {
  complain(error.message);
}
