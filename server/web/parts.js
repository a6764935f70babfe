// parts.js - components shared by several pages.

import { h } from "./vdom.js";
import { icon } from "./icons.js";
import * as format from "./format.js";

// Returns an element that shows a rounded number and stores the exact value in an attribute.
export function figure(name, value, show, title) {
  if (value === null || value === undefined) {
    return h("span", { class: "muted", "data-figure": name }, format.UNKNOWN);
  }
  return h("data", { value: String(value), "data-figure": name, title: title || undefined }, show(value));
}

// Returns the name of a filter or a gate, in a form that is safe to display whatever the name
// contains.
export function nameOf(name, most) {
  return h("bdi", { class: "name" }, format.namePieces(name, most).map((piece) => (piece.code
    ? h("span", { class: "name-code" }, piece.text) : piece.text)));
}

// Returns a message from the service, which may quote a name.
export function messageOf(text) {
  return nameOf(String(text), 1000);
}

export function filterLink(filter, most = 64) {
  return h("a", { class: "filter-link", href: `#/filter/${format.segment(filter.name, filter.name_base64)}` }, nameOf(filter.name, most));
}

export const HEALTH = { fine: "Fine", watch: "Watch", act: "Act", unknown: "Not examined" };

const REASONS = {
  full: "full: rejects keys", predicted: "rate above target", observed: "observed above target", age: "old",
  unavailable: "unavailable", degraded: "damaged", overflowed: "overflowed", polluted: "suspicious keys", drifting: "drifting",
  doubtful: "doubtful", incomplete: "incomplete", false_negatives: "false negatives",
};

export function healthPill(health) {
  const title = health.reasons.map((reason) => reason.text).join("\n");
  return h("span", { class: `health ${health.status}`, title: title || undefined },
    icon(health.status), h("span", null, HEALTH[health.status] || health.status));
}

// `part` is the number of keys divided by the capacity, or null.
export function healthWords(health, part = null) {
  const fill = part > 1 ? "over capacity" : "nearly full";
  return health.reasons.map((reason) => (reason.code === "fill" ? fill : REASONS[reason.code] || reason.code)).join(", ");
}

// Returns a copy of a filter whose target is the requested rate, if it is known.
export const aimed = (filter) => ({ ...filter, target: filter.requested ?? filter.target });

// Returns the number of keys as a share of the capacity, or null if one of them is unknown.
export function partOf(filter) {
  return filter.items && filter.capacity ? filter.items.value / filter.capacity : null;
}

export const keysOf = (filter) => format.plural(Math.round(filter.items.value), "key");

// Returns a sentence about the size: 412,000 of 1,000,000 keys, 1% target
export function sizeWords({ items, capacity, target }) {
  const keys = !items ? capacity === null ? "" : `${format.plural(capacity, "key")} planned`
    : capacity === null ? keysOf({ items }) : `${format.count(items.value)} of ${format.plural(capacity, "key")}`;
  return [keys, target ? `${format.target(target)} target` : ""].filter(Boolean).join(", ");
}

// Returns the color of a bar that shows this share: the status that it contributes to the filter's health.
export function partKind(filter) {
  const part = partOf(filter);
  const reasons = filter.health.reasons.map((reason) => reason.code);
  return part === null ? "" : reasons.includes("full") ? "act" : !reasons.includes("fill") ? "fine"
    : filter.items.low > 1.05 * filter.capacity ? "act" : "watch";
}

export function tile(name, value, below, extra) {
  return h("div", { class: "tile", key: name },
    h("h3", { class: "tile-name" }, name),
    h("div", { class: "tile-value" }, value),
    h("div", { class: "tile-below" }, below),
    extra);
}

export function panel(title, props, ...children) {
  const { note, actions, ...rest } = props || {};
  return h("section", { ...rest, class: `panel ${rest.class || ""}` },
    title && h("div", { class: "panel-head" }, h("h2", null, title), note && h("span", { class: "muted" }, note), actions && h("div", { class: "panel-actions" }, actions)),
    children);
}

// Returns a list of facts: [name, content] or [name, content, remark]; falsy entries are omitted.
export function facts(rows) {
  return h("dl", { class: "facts" }, rows.filter(Boolean).map(([name, content, remark]) => h("div", { key: name },
    h("dt", null, name), h("dd", null, content, remark && h("small", null, remark)))));
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

// Returns a group of buttons, one of which is selected.
export function choice(label, options, chosen, choose) {
  return h("div", { class: "choice", role: "group", "aria-label": label }, options.map(([value, text]) => h("button", {
    type: "button", key: String(value), "aria-pressed": String(value === chosen), onclick: () => choose(value),
  }, text)));
}

// Returns the progress of a rebuild.
export function rebuildProgress(rebuild) {
  const part = rebuild.expected ? Math.min(1, rebuild.keys / rebuild.expected) : null;
  return h("div", { class: "progress" },
    h("div", { class: "progress-text" },
      h("span", null, rebuild.phase === "counting" ? "Counting keys" : "Rebuilding", ": ", figure("rebuild_keys", rebuild.keys, format.count),
        rebuild.expected ? ` of ${format.plural(rebuild.expected, "key")}` : rebuild.keys === 1 ? " key" : " keys"),
      h("span", { class: "muted" }, rebuild.seconds_left === null ? "" : `${format.seconds(rebuild.seconds_left)} left`)),
    h("progress", { max: "1", ...(part === null ? {} : { value: part }), "aria-label": "Rebuild" }));
}

export function emptyNote(title, text, action) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), text && h("p", { class: "muted" }, text), action && h("p", { class: "center" }, action));
}

// Returns a short list of events, newest first.
export function eventList(events) {
  return events.length === 0 ? h("p", { class: "muted" }, "No events yet.")
    : h("ul", { class: "events small" }, [...events].reverse().map((event) => h("li", { key: event.id, class: event.level },
      icon(event.level), h("time", { title: format.moment(event.time) }, format.clock(event.time, true)), h("b", null, event.type.replace(/_/g, " ")), messageOf(event.message))));
}

// Returns a form with a field for a key, and the result of its lookup.
export function keyForm({ id, label, button, value, busy, oninput, onsubmit, result, extra }) {
  return h("form", { class: "key-form", onsubmit: (event) => { event.preventDefault(); onsubmit(); } },
    h("label", { for: id }, label),
    h("div", { class: "key-row" },
      h("input", {
        id, type: "text", value, autocomplete: "off", autocapitalize: "off", spellcheck: "false", "data-1p-ignore": true,
        placeholder: "a key", oninput: (event) => oninput(event.target.value),
      }),
      h("button", { type: "submit", class: "button", disabled: busy }, button), extra),
    h("div", { class: "key-result", role: "status" }, result || " "));
}
