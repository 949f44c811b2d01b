// SPDX-License-Identifier: Apache-2.0

// The forms for signing in: without Keystone, with an application credential,
// or with a password.

import * as api from "./api.js";
import { make } from "./dom.js";

function field(label, name, options = {}) {
  const { optional, ...attributes } = options;
  const input = make("input", { name, id: `field-${name}`, type: "text",
    autocomplete: "off", required: !optional, spellcheck: "false",
    autocapitalize: "none", ...attributes });
  return make("p", {}, make("label", { for: input.id }, label), input);
}

// Without Keystone, the token tells who the user is.
async function enterOpen(token) {
  const [user, project] = token.split(":");
  api.setToken(token);
  await api.get("quotas");
  return { name: `${user}, project ${project}`, isAdmin: user === "admin" };
}

// Take up what was kept; return {name, isAdmin} of the user, or null if
// nothing was.
export async function takeUp(settings) {
  const token = await api.keptToken();
  if (token === null) {
    return null;
  }
  return settings.authentication === "noauth" ? enterOpen(token)
    : api.takeUp(settings.keystone_url, token);
}

const FORMS = {
  open: {
    title: "Without Keystone",
    fields: () => [
      field("User", "user", { value: "admin" }),
      field("Project", "project", { value: "default" }),
    ],
    // The token consists of the user and the project: see NoAuth in the API.
    async enter(values) {
      for (const name of ["user", "project"]) {
        // A header can contain only these characters, and a colon separates
        // the names.
        if (!/^[\x21-\x39\x3b-\x7e]+$/.test(values[name])) {
          throw new api.Failure("INVALID_NAME",
            `the ${name} must be ASCII, without spaces or colons`);
        }
      }
      return enterOpen(`${values.user}:${values.project}`);
    },
  },
  credential: {
    title: "Application credential",
    fields: () => [
      field("Identifier", "id"),
      field("Secret", "secret", { type: "password" }),
    ],
    enter(values, url) {
      return api.signIn(url, { methods: ["application_credential"],
        application_credential: { id: values.id, secret: values.secret } });
    },
  },
  password: {
    title: "Password",
    fields: () => [
      field("User", "user", { autocomplete: "username" }),
      field("Password", "password",
        { type: "password", autocomplete: "current-password" }),
      field("Project", "project"),
      field("Domain of the user", "user_domain", { value: "Default" }),
      field("Domain of the project", "project_domain", { value: "Default" }),
    ],
    enter(values, url) {
      const user = { name: values.user, password: values.password,
        domain: { name: values.user_domain } };
      const project = { name: values.project,
        domain: { name: values.project_domain } };
      return api.signIn(url, { methods: ["password"], password: { user } },
        { project });
    },
  },
};

function form(kind, settings, onDone, complain) {
  const { title, fields, enter } = FORMS[kind];
  const button = make("button", { type: "submit" }, "Sign in");
  const element = make("form", { id: `sign-in-${kind}` },
    make("h2", {}, title), ...fields(), button);
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(element));
    button.disabled = true;
    complain("");
    try {
      await onDone(await enter(values, settings.keystone_url));
    } catch (error) {
      api.setToken(null);
      complain(error.message);
    } finally {
      button.disabled = false;
    }
  });
  return element;
}

// Show the forms that the API's authentication needs; onDone gets
// {name, isAdmin}.
export function show(main, settings, onDone, complain) {
  let kinds = ["credential", "password"];
  if (settings.authentication === "noauth") {
    kinds = ["open"];
  } else if (!settings.keystone_url) {
    complain("NO_KEYSTONE: the API's configuration has no usable URL of"
      + " Keystone: set [keystone_authtoken] www_authenticate_uri");
    kinds = [];
  }
  const forms = kinds.map((kind) => form(kind, settings, onDone, complain));
  main.replaceChildren(make("div", { class: "forms" }, ...forms));
  forms[0]?.querySelector("input").focus();
}
