// SPDX-License-Identifier: Apache-2.0

// Elements, tables, links and formatted values. Text from other users is only
// ever inserted as text: nothing here parses markup.

import { now } from "./api.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children);
  return element;
}

// Return a new element; its children are elements or strings.
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

// Replace a parent's children by elements for the items. Elements of items
// that stay are kept, so that focus and clicks are not lost.
// create(item) returns an element, update(element, item) refreshes it.
export function keyed(parent, items, keyOf, create, update) {
  const old = new Map();
  for (const child of parent.children) {
    old.set(child.dataset.key, child);
  }
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let element = old.get(key);
    if (element === undefined) {
      element = create(item);
      element.dataset.key = key;
    }
    old.delete(key);
    update(element, item);
    if (element === place) {
      place = place.nextElementSibling;
    } else {
      parent.insertBefore(element, place);
    }
  }
  for (const element of old.values()) {
    element.remove();
  }
}

// Make an element a link within the page, or plain text if path is null.
export function setLink(element, path, text, title = "") {
  let link = element.firstElementChild;
  if (path === null) {
    if (link !== null || element.textContent !== text) {
      element.replaceChildren(text);
    }
    return;
  }
  if (link?.tagName !== "A") {
    link = make("a");
    element.replaceChildren(link);
  }
  const href = address(path);
  if (link.getAttribute("href") !== href) {
    link.setAttribute("href", href);
  }
  if (link.title !== title) {
    link.title = title;
  }
  setText(link, text);
}

// The address of a view: parts are its name and what it shows.
export function address(parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

// A time as a distance from now; the time itself is shown on hover.
export function setAgo(element, text) {
  setText(element, text ? ago(text) : "–");
  const title = text ? when(text) : "";
  if (element.title !== title) {
    element.title = title;
  }
}

// Show a part of a whole as a bar with text.
export function setBar(element, part, whole, text) {
  if (element.firstElementChild === null) {
    element.append(make("span", {}, make("progress",
      { "aria-label": "Progress" }), make("span")));
  }
  const [bar, words] = element.firstElementChild.children;
  bar.max = Math.max(whole, 1);
  bar.value = Math.min(part, bar.max);
  setText(words, text);
}

// A list of names and values: rows are {label, text | set(element)}.
export class Facts {
  constructor() {
    this.element = make("dl", { class: "facts" });
  }

  show(rows) {
    keyed(this.element, rows, (one) => one.label,
      (one) => make("div", {}, make("dt", {}, one.label), make("dd")),
      (element, one) => {
        if (one.set) {
          one.set(element.lastChild);
        } else {
          setText(element.lastChild, String(one.text));
        }
      });
  }
}

// Tables with more columns become cards on wider screens, too.
const MANY_COLUMNS = 9;

// A table. Columns are {label} with one of
// - text(item): its text,
// - short(item): likewise; it never wraps, as no user chose it,
// - set(element, item): fills the cell at each refresh,
// - cell(item): makes an element when the row is created.
export class Table {
  constructor(caption, columns, keyOf, empty) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.body = make("tbody");
    this.empty = make("p", { class: "empty" }, empty);
    const heads = columns.map((one) =>
      make("th", { scope: "col", class: one.isOfAll ? "of-all" : null },
        one.label));
    this.table = make("table", {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...heads)),
      this.body);
    const many = columns.length > MANY_COLUMNS ? " wide" : "";
    this.element = make("div", { class: `table${many}` }, this.table,
      this.empty);
    this.show([]);
  }

  show(items) {
    this.empty.hidden = items.length > 0;
    this.body.parentElement.classList.toggle("bare", items.length === 0);
    keyed(this.body, items, this.keyOf, (item) => this.create(item),
      (row, item) => this.update(row, item));
  }

  create(item) {
    const cells = this.columns.map((column) => {
      const cell = make("td", { "data-label": column.label,
        class: [column.short || column.isShort ? "short" : "",
          column.isOfAll ? "of-all" : ""].join(" ").trim() || null });
      if (column.cell) {
        cell.append(column.cell(item));
      }
      return cell;
    });
    return make("tr", {}, ...cells);
  }

  update(row, item) {
    this.columns.forEach((column, number) => {
      const text = column.text ?? column.short;
      if (text) {
        setText(row.children[number], text(item));
      } else if (column.set) {
        column.set(row.children[number], item);
      }
    });
  }
}

// Buttons for paging through a list.
export class Pager {
  constructor(label, onChange) {
    this.at = make("span");
    this.back = make("button", { type: "button" }, "Previous");
    this.on = make("button", { type: "button" }, "Next");
    this.back.addEventListener("click", () => onChange(-1));
    this.on.addEventListener("click", () => onChange(1));
    this.element = make("div", { class: "pager", role: "group",
      "aria-label": label }, this.back, this.at, this.on);
  }

  show(text, hasBack, hasOn) {
    setText(this.at, text);
    this.back.disabled = !hasBack;
    this.on.disabled = !hasOn;
    this.element.hidden = !hasBack && !hasOn;
  }
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

export function bytes(count) {
  if (count === null || count === undefined) {
    return "–";
  }
  let unit = 0;
  let value = count;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  // A no-break space keeps the number with its unit.
  return `${value.toFixed(digits)}\u00a0${UNITS[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) {
    return "unknown";
  }
  if (value < 60) {
    return `${value < 10 ? value.toFixed(1) : Math.round(value)}\u00a0s`;
  }
  if (value < 3600) {
    return `${Math.round(value / 60)}\u00a0min`;
  }
  return value < 2 * 86400 ? `${(value / 3600).toFixed(1)}\u00a0h`
    : `${Math.round(value / 86400)}\u00a0days`;
}

// Seconds from one time to another, or until now.
export function between(from, until = null) {
  const endMs = until ? Date.parse(until) : now();
  return Math.max(0, (endMs - Date.parse(from)) / 1000);
}

export function ago(text) {
  const passed = (now() - Date.parse(text)) / 1000;
  if (passed < -1) {
    return `in ${whole(-passed)}`;
  }
  return passed < 1 ? "now" : `${whole(passed)} ago`;
}

// Seconds without decimal places.
export function whole(value) {
  return seconds(value < 10 ? Math.round(value) : value).replace(".0", "");
}

// The beginning of an identifier, which is enough to recognize it.
export function brief(id) {
  return id ? id.slice(0, 8) : "–";
}

export function when(text) {
  return text ? new Date(text).toLocaleString() : "–";
}
