// view_events.js - events: rebuilds, reloads, refused files, configuration changes.

import { h } from "./vdom.js";
import { icon } from "./icons.js";
import * as format from "./format.js";
import { gateLink } from "./gate_parts.js";
import { filterLink, messageOf, panel, choice, emptyNote } from "./parts.js";

export const title = () => "Events";

export function begin(route) {
  return { level: ["warning", "error"].includes(route.query.level) ? route.query.level : "info", search: "" };
}

export const address = (local) => (local.level === "info" ? "#/events" : `#/events?level=${local.level}`);

export async function load({ local, api }) {
  return api.get("api/v1/events", { level: local.level, count: 500 });
}

const dayOf = (time) => format.moment(time).slice(0, 10);

export function render({ data, local, info, change }) {
  const wanted = local.search.toLowerCase();
  const events = [...data.events].reverse().filter((event) => !wanted
    || `${event.type} ${event.filter ?? event.gate ?? ""} ${event.message}`.toLowerCase().includes(wanted));
  let day = "";
  return panel(null, { class: "table-panel" },
    h("div", { class: "tools" },
      h("div", { class: "search" }, icon("search"), h("input", {
        id: "search", type: "search", value: local.search, placeholder: "Search events", "aria-label": "Search events", autocomplete: "off",
        oninput: (event) => change({ search: event.target.value }, -1),
      }), h("kbd", { "aria-hidden": "true" }, "/")),
      choice("Level", [["info", "All"], ["warning", "Warnings"], ["error", "Errors"]], local.level, (level) => change({ level })),
      h("span", { class: "matched muted", role: "status" }, format.plural(events.length, "event"), data.missed && "; older events are not kept")),
    events.length === 0 ? emptyNote("No events", "No matching events since the service started.")
      : h("ul", { class: "events" }, events.map((event) => {
        const first = dayOf(event.time) !== day;
        day = dayOf(event.time);
        return [first && h("li", { class: "day", key: `d${day}` }, day === dayOf(info.now) ? "Today" : day), item(event, info.now)];
      })));
}

function item(event, now) {
  return h("li", { key: event.id, class: event.level, "data-event": event.id },
    h("span", { class: "event-icon" }, icon(event.level), h("span", { class: "visually-hidden" }, event.level)),
    h("time", { datetime: new Date(event.time * 1000).toISOString(), title: format.moment(event.time) }, format.clock(event.time, true)),
    h("b", null, event.type.replace(/_/g, " ")),
    h("span", { class: "event-text" }, event.filter !== undefined && [filterLink({ name: event.filter, name_base64: event.filter_base64 }, 48), " "],
      event.gate !== undefined && [gateLink(event.gate, 48), " "],
      messageOf(event.message)),
    h("span", { class: "event-age muted" }, format.ago(Math.max(0, now - event.time))));
}

export function key(event) {
  if (event.key === "/") {
    document.getElementById("search").focus();
    return true;
  }
  return false;
}
