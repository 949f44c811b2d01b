// SPDX-License-Identifier: Apache-2.0

// Elements, tables and formatted values. Text from other users is only ever
// inserted as text: nothing here parses markup.

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

// A table. Columns are {label, text(item)} or {label, cell(item)}; cell makes
// an element when the row is created. With short(item) instead of text, values
// never wrap: they are short, and no user chose their text.
export class Table {
  constructor(caption, columns, keyOf, empty) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.body = make("tbody");
    this.empty = make("p", { class: "empty" }, empty);
    const heads = columns.map((one) =>
      make("th", { scope: "col" }, one.label));
    this.table = make("table", {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...heads)),
      this.body);
    this.element = make("div", { class: "table" }, this.table, this.empty);
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
        class: column.short ? "short" : null });
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
    return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  }
  if (value < 3600) {
    return `${Math.round(value / 60)} min`;
  }
  return `${(value / 3600).toFixed(1)} h`;
}

export function when(text) {
  return text ? new Date(text).toLocaleString() : "–";
}
