// SPDX-License-Identifier: Apache-2.0

// Signs in, shows the view that the page's address names, and refreshes it.

import * as api from "./api.js";
import { make, setText } from "./dom.js";
import { History } from "./history.js";
import * as library from "./library.js";
import * as operations from "./operations.js";
import * as pool from "./pool.js";
import * as quotas from "./quotas.js";
import * as sessions from "./sessions.js";
import * as signin from "./signin.js";

const SHORTEST_MS = 2000;
const SHARE = 10;
const LONGEST_MS = 60000;
// Views whose data rarely changes.
const SLOW = new Set(["library", "quotas", "operations"]);
const SLOW_MS = 10000;

const at = (id) => document.getElementById(id);

class Page {
  constructor(settings) {
    this.settings = settings;
    this.history = new History();
    this.views = {};
    this.timer = null;
    this.turn = 0;
    window.addEventListener("hashchange", () => this.go());
    document.addEventListener("visibilitychange", () => this.wake());
    at("sign-out").addEventListener("click", () => this.signOut(""));
    at("scope").addEventListener("change", () => {
      this.history.clear();
      this.views.sessions.reset();
      this.wake();
    });
  }

  signOut(why) {
    api.setToken(null);
    this.turn += 1;
    clearTimeout(this.timer);
    this.history.clear();
    this.views = {};
    for (const id of ["navigation", "who", "scope-label"]) {
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
    this.scope = scope;
    this.views = {
      pool: new pool.View(this.history, seesMap),
      sessions: new sessions.View(this.history, scope),
      library: new library.View(seesBitstreams),
      quotas: new quotas.View(),
      ...(seesHosts ? { operations: new operations.View() } : {}),
    };
    const links = Object.entries(this.views).map(([key, view]) =>
      make("a", { href: `#${key}` }, view.title));
    at("navigation").replaceChildren(...links);
    at("scope").value = "own";
    at("scope-label").hidden = !seesAll;
    at("navigation").hidden = false;
    at("who").hidden = false;
    setText(at("user"), name);
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
    const wanted = location.hash.slice(1);
    this.shown = Object.hasOwn(this.views, wanted) ? wanted : "pool";
    for (const link of at("navigation").children) {
      link.setAttribute("aria-current",
        link.hash === `#${this.shown}` ? "page" : "false");
    }
    document.title = `${this.views[this.shown].title} – fpgapool`;
    at("main-content").replaceChildren(this.views[this.shown].element);
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
    let pauseMs = SLOW.has(this.shown) ? SLOW_MS : SHORTEST_MS;
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
      setText(at("status"), "This page shows the last data that it received.");
      pauseMs = Math.max(pauseMs, (error.retryAfterS ?? 0) * 1000);
    }
    const takenMs = performance.now() - startedMs;
    // What takes long costs the service more, so it is requested less often.
    pauseMs = Math.min(Math.max(pauseMs, takenMs * SHARE), LONGEST_MS);
    this.timer = setTimeout(() => this.wake(), pauseMs);
  }

  async update() {
    const view = this.views[this.shown];
    const [document_] = await Promise.all([
      api.get("pool"), this.history.follow(this.scope())]);
    const now = document_.pool;
    this.history.sample(Date.now(), pool.busy(pool.countStates(now.counts)),
      now.waiting);
    await view.refresh(now);
  }
}

function complain(text) {
  setText(at("problem"), text);
  at("problem").hidden = !text;
}

try {
  new Page(await api.settings()).signOut("");
} catch (error) {
  complain(error.message);
}
