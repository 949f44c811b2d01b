// SPDX-License-Identifier: Apache-2.0

// Requests to the REST API and to Keystone. Only this module has the token.

const ROOT = new URL("../", document.baseURI);
const VERSION = "fpgapool 1.3";

let token = null;

// An error with a code that users can look up.
export class Failure extends Error {
  constructor(code, detail, status = 0, requestId = "") {
    super(requestId ? `${code}: ${detail} (${requestId})`
      : `${code}: ${detail}`);
    this.code = code;
    this.status = status;
    this.retryAfterS = 0;
  }
}

export function setToken(value) {
  token = value;
}

export function isSignedIn() {
  return token !== null;
}

// Whether the last response came from the database, and its server's time.
export const origin = { isDatabase: false, at: null };

// How far this machine's clock is behind the server's.
let behindMs = 0;

// The server's time now, in milliseconds since 1970.
export function now() {
  return Date.now() + behindMs;
}

async function send(url, options, whom) {
  try {
    return await fetch(url, { cache: "no-store", credentials: "omit",
      redirect: "error", referrerPolicy: "no-referrer", ...options });
  } catch {
    throw new Failure("NO_ANSWER", whom);
  }
}

async function parsed(answer) {
  try {
    return await answer.json();
  } catch {
    return null;
  }
}

export async function settings() {
  const url = new URL("ui/settings.json", ROOT);
  const answer = await send(url, {}, "the API does not answer");
  if (!answer.ok) {
    throw new Failure(`HTTP_${answer.status}`,
      "the API does not return the page's settings");
  }
  return answer.json();
}

async function call(method, path, query = {}) {
  return request(method, `v1/${path}`, query);
}

async function request(method, path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) {
      url.searchParams.append(name, one);
    }
  }
  const answer = await send(url, { method, headers: {
    "OpenStack-API-Version": VERSION, "X-Auth-Token": token ?? "" } },
  "the API does not answer");
  const document = answer.status === 204 ? null : await parsed(answer);
  if (!answer.ok) {
    const error = document?.errors?.[0];
    const failure = error
      ? new Failure(error.code, error.detail, answer.status, error.request_id)
      : new Failure(`HTTP_${answer.status}`, answer.statusText, answer.status);
    failure.retryAfterS = Number(answer.headers.get("Retry-After")) || 0;
    throw failure;
  }
  origin.isDatabase =
    answer.headers.get("OpenStack-fpgapool-Source") === "database";
  const date = Date.parse(answer.headers.get("Date") ?? "");
  origin.at = Number.isNaN(date) ? new Date() : new Date(date);
  behindMs = origin.at - Date.now();
  return document;
}

export function get(path, query) {
  return call("GET", path, query);
}

export function remove(path) {
  return call("DELETE", path);
}

// Return what the API remembers since a time, in seconds since 1970.
export function memory(since) {
  return request("GET", "ui/memory.json", { since });
}

// The browser keeps the token for a short time, where scripts cannot read it,
// so that it can be taken up again after a reload.
async function reentry(method, headers = {}) {
  const answer = await send(new URL("ui/reentry", ROOT), { method,
    credentials: "same-origin",
    headers: { "X-Fpgapool-Page": "1", ...headers } },
  "the API does not answer");
  return answer.status === 200 ? parsed(answer) : null;
}

export async function keepSignIn() {
  if (token !== null) {
    await reentry("PUT", { "X-Auth-Token": token });
  }
}

export async function forgetSignIn() {
  setToken(null);
  await reentry("DELETE");
}

// Return the token that was kept, or null.
export async function keptToken() {
  return (await reentry("GET"))?.token ?? null;
}

// Return a document, or null if there is none or the user may not see it.
export function find(path, query) {
  return orNull(get(path, query));
}

async function orNull(answer) {
  try {
    return await answer;
  } catch (error) {
    if ([403, 404].includes(error.status)) {
      return null;
    }
    throw error;
  }
}

// Return a session, without what its client connects with: the page never
// connects.
export async function session(id) {
  return (await get(`sessions/${encodeURIComponent(id)}`,
    { connection: false })).session;
}

// Likewise, or null if there is none or the user may not see it.
export function findSession(id) {
  return orNull(session(id));
}

// Return a page of a list, {items, next, total, member}; next is the marker of
// the next page, or null; total is undefined if the service does not count
// them; member is the last part of the path.
export async function page(path, query = {}, key = "id") {
  const document = await get(path, query);
  const member = path.split("/").at(-1);
  const items = document[member];
  const hasNext = Boolean(document[`${member}_links`]) && items.length > 0;
  return { items, next: hasNext ? items.at(-1)[key] : null,
    total: document.total, member };
}

// Return up to most members of a list, and whether it has more.
export async function pages(name, query, most, key = "id") {
  const found = [];
  let marker = null;
  do {
    const asked = marker === null ? query : { ...query, marker };
    const one = await page(name, asked, key);
    found.push(...one.items);
    marker = one.next;
  } while (marker !== null && found.length < most);
  return { items: found.slice(0, most), isCut: marker !== null };
}

// Whether the user's roles allow a GET request.
export async function may(path, query) {
  try {
    await get(path, query);
    return true;
  } catch (error) {
    if (error.status === 403) {
      return false;
    }
    throw error;
  }
}

// Get a token from Keystone; return {name, isAdmin} of the user.
export async function signIn(keystoneUrl, identity, scope) {
  const auth = scope ? { identity, scope } : { identity };
  const answer = await send(`${keystoneUrl}/v3/auth/tokens?nocatalog`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ auth }),
  }, "Keystone does not answer or does not allow requests from this page: see"
    + " [cors] allowed_origin in keystone.conf");
  const document = await parsed(answer);
  if (!answer.ok) {
    const error = document?.error;
    throw new Failure(`KEYSTONE_${answer.status}`,
      error?.message ?? answer.statusText, answer.status);
  }
  const given = answer.headers.get("X-Subject-Token");
  if (!given) {
    throw new Failure("NO_TOKEN", "Keystone does not allow this page to read"
      + " the token: see [cors] expose_headers in keystone.conf");
  }
  setToken(given);
  return described(document.token);
}

// Take up a token that was kept; return {name, isAdmin} of the user.
export async function takeUp(keystoneUrl, kept) {
  const answer = await send(`${keystoneUrl}/v3/auth/tokens?nocatalog`,
    { headers: { "X-Auth-Token": kept, "X-Subject-Token": kept } },
    "Keystone does not answer");
  const document = answer.ok ? await parsed(answer) : null;
  if (!document?.token) {
    throw new Failure(`KEYSTONE_${answer.status}`, answer.statusText,
      answer.status);
  }
  setToken(kept);
  return described(document.token);
}

function described({ user, project, roles }) {
  return {
    name: project ? `${user.name}, project ${project.name}` : user.name,
    isAdmin: (roles ?? []).some((one) => one.name === "admin"),
  };
}
