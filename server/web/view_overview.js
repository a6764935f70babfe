// view_overview.js - all filters: their keys, rates and avoided calls. The service sorts, searches
// and paginates, so the page is as fast with ten thousand filters as with ten.

import { h } from "./vdom.js";
import { icon } from "./icons.js";
import * as format from "./format.js";
import * as charts from "./charts.js";
import { aimed, figure, filterLink, healthPill, healthWords, partOf, partKind, HEALTH, tile, emptyNote, badge } from "./parts.js";
import { createDialog } from "./filter_forms.js";

export const title = () => "Filters";

const SIZES = [25, 50, 100, 200];
const KINDS = ["classic", "partitioned", "blocked", "split", "register", "counting", "cuckoo", "quotient",
  "fuse", "ribbon", "scalable", "window"];

export function begin(route) {
  const number = (text, fallback) => (/^\d{1,9}$/.test(text || "") ? Number(text) : fallback);
  return {
    search: (route.query.search || "").slice(0, 1024), kind: KINDS.includes(route.query.kind) ? route.query.kind : "",
    health: route.query.health in HEALTH ? route.query.health : "",
    sort: COLUMNS.some((column) => column.sort === route.query.sort) ? route.query.sort : "name", order: route.query.order === "desc" ? "desc" : "asc",
    page: Math.max(1, number(route.query.page, 1)), size: SIZES.includes(number(route.query.size, 50)) ? number(route.query.size, 50) : 50,
    row: -1,
  };
}

export async function load({ local, api }) {
  const read = () => api.get("api/v1/filters", {
    search: local.search, kind: local.kind, health: local.health, sort: local.sort, order: local.order,
    count: local.size, offset: (local.page - 1) * local.size,
  });
  const [first, past] = await Promise.all([
    read(), api.get("api/v1/history", { metric: "queries_per_second,maybes_per_second,adds_per_second", seconds: 300 }),
  ]);
  let list = first;
  if (local.page > lastPage(local, list)) { // for example, after filters have been deleted
    local.page = lastPage(local, list);
    list = await read();
  }
  return { list: { ...list, filters: list.filters.map(aimed) }, past };
}

const lastPage = (local, list) => Math.max(1, Math.ceil(list.matched / local.size));

export function render(context) {
  const { local, data, info, change, goto } = context;
  const { list, past } = data;
  return [
    tiles(info, past),
    h("section", { class: "panel table-panel" },
      tools(local, list, context),
      list.filters.length > 0 ? table(local, list.filters, change, goto)
        : list.total === 0
          ? emptyNote("No filters yet", "Create one here, or with the command BG.CREATE users CAPACITY 1M ERROR 1%.", createButton(context))
          : emptyNote("No matching filters", "Change the search or the options above."),
      pages(local, list, change)),
  ];
}

// ---- Totals --------------------------------------------------------------------------------

function tiles(info, past) {
  const counts = info.filters;
  const now = (metric) => [...(past.series[metric] || [])].reverse().find((v) => v !== null) ?? null;
  const queries = now("queries_per_second");
  const denied = info.counters.queries - info.counters.maybes;
  return h("div", { class: "tiles" },
    tile("Filters", figure("filters", counts.count, format.count),
      h("span", { class: "counts" }, ["fine", "watch", "act", "unknown"].filter((status) => counts[status] > 0 || status === "fine")
        .map((status) => h("span", { class: `count-${status}`, key: status }, `${format.count(counts[status])} ${status === "unknown" ? "not examined" : status}`)))),
    tile("Keys", figure("items", counts.items, format.keys, counts.items === null ? "" : format.count(counts.items)), counts.unknown > 0 ? "estimated, in examined filters" : "estimated, in all filters"),
    tile("Memory", figure("filter_bytes", info.memory.filter_bytes, format.bytes),
      info.memory.limit_bytes === null ? `in filters; process ${format.bytes(info.memory.rss_bytes)}`
        : `${format.share(info.memory.filter_bytes / info.memory.limit_bytes)} of ${format.bytes(info.memory.limit_bytes)}`),
    tile("Lookups", figure("queries_per_second", queries, format.perSecond), `${format.compact(info.counters.queries)} total`,
      charts.sparkline("spark-queries", past.series.queries_per_second || [], "s1")),
    tile("Calls avoided", figure("avoided", info.avoided, format.compact, format.count(info.avoided)),
      info.counters.queries > 0 ? `${format.share(denied / info.counters.queries)} of lookups answered no` : "no lookups yet"),
    tile("Adds", figure("adds_per_second", now("adds_per_second"), format.perSecond), `${format.compact(info.counters.adds)} total`,
      charts.sparkline("spark-adds", past.series.adds_per_second || [], "s2")));
}

// ---- Search and options --------------------------------------------------------------------

function select(label, value, options, choose) {
  return h("label", { class: "select" }, h("span", { class: "visually-hidden" }, label),
    h("select", { value, onchange: (event) => choose(event.target.value) },
      options.map(([option, text]) => h("option", { value: option, key: option, selected: option === value }, text))));
}

function createButton(context) {
  const may = context.info.user.can.includes("create");
  return h("button", {
    type: "button", class: "button primary", disabled: !may, title: may ? "Create a filter (n)" : "You do not have permission to create filters", onclick: () => createDialog(context),
  }, "New filter…");
}

function tools(local, list, context) {
  const { change } = context;
  const narrowed = local.search || local.kind || local.health;
  return h("div", { class: "tools" },
    h("div", { class: "search" }, icon("search"),
      h("input", {
        id: "search", type: "search", value: local.search, placeholder: "Search names", "aria-label": "Search filter names",
        autocomplete: "off", spellcheck: "false", maxlength: "1024",
        oninput: (event) => change({ search: event.target.value, page: 1, row: -1 }, 180),
      }), h("kbd", { "aria-hidden": "true" }, "/")),
    select("Health", local.health, [["", "Any health"], ["fine", "Fine"], ["watch", "Watch"], ["act", "Act"], ["unknown", "Not examined"]],
      (health) => change({ health, page: 1, row: -1 })),
    select("Kind", local.kind, [["", "Any kind"], ...KINDS.map((kind) => [kind, kind])], (kind) => change({ kind, page: 1, row: -1 })),
    h("span", { class: "matched muted", role: "status" }, narrowed
      ? `${format.count(list.matched)} of ${format.plural(list.total, "filter")}` : format.plural(list.total, "filter")),
    rateKey(),
    list.total > 0 && createButton(context));
}

function rateKey() {
  return h("span", { class: "rate-key muted", "aria-hidden": "true" },
    h("i", { class: "key-line" }), "target", h("i", { class: "swatch predicted round" }), "predicted",
    h("i", { class: "swatch observed" }), "observed", h("i", { class: "swatch measured" }), "measured");
}

// ---- The table -----------------------------------------------------------------------------

const COLUMNS = [
  { sort: "health", name: "Health", kind: "c-health", first: "desc" },
  { sort: "name", name: "Filter", kind: "c-name", first: "asc" },
  { sort: "fill", name: "Fill", kind: "c-fill", first: "desc" },
  { sort: "items", name: "Keys / capacity", kind: "c-items", first: "desc" },
  { sort: "predicted", name: "False positives", kind: "c-rate", first: "desc" },
  { sort: "avoided", name: "Calls avoided", kind: "number c-avoided", first: "desc" },
  { sort: "bytes", name: "Memory", kind: "number c-bytes", first: "desc" },
  { sort: "age", name: "Age", kind: "number c-age", first: "desc" },
];

function table(local, filters, change, goto) {
  return h("div", { class: "table-box", tabindex: "-1" },
    h("table", { class: "filters" },
      h("caption", { class: "visually-hidden" }, "Filters. Click a column heading to sort; j and k select a row, Enter opens it."),
      h("thead", null, h("tr", null, COLUMNS.map((column) => heading(column, local, change)))),
      h("tbody", null, filters.map((filter, i) => row(filter, i === local.row, goto)))));
}

function heading(column, local, change) {
  const sorted = local.sort === column.sort;
  const turn = () => change({
    sort: column.sort, page: 1, row: -1,
    order: sorted ? (local.order === "asc" ? "desc" : "asc") : column.first,
  });
  return h("th", {
    key: column.sort, scope: "col", class: column.kind,
    "aria-sort": sorted ? (local.order === "asc" ? "ascending" : "descending") : undefined,
  }, h("button", { type: "button", class: `sort${sorted ? " sorted" : ""}`, onclick: turn }, column.name,
    sorted && icon(local.order === "asc" ? "up" : "down")));
}

function row(filter, chosen, goto) {
  const where = `#/filter/${format.segment(filter.name, filter.name_base64)}`;
  const words = healthWords(filter.health, partOf(filter));
  return h("tr", {
    key: filter.name_base64 === undefined ? `u${filter.name}` : `b${filter.name_base64}`,
    class: `${chosen ? "chosen" : ""} row-${filter.health.status}`, "data-row": chosen ? "chosen" : undefined,
    onclick: (event) => {
      if (!event.target.closest("a,button") && !String(getSelection())) {
        goto(where);
      }
    },
  },
  h("td", { class: "c-health" }, healthPill(filter.health), words && h("small", null, words)),
  h("th", { class: "c-name", scope: "row" }, filterLink(filter),
    h("small", null, filter.kind, filter.layers > 1 && ` · ${format.count(filter.layers)} layers`,
      filter.rebuilding && [" · ", badge("rebuilding", "busy")],
      filter.expires_in_seconds !== null && ` · expires in ${format.age(filter.expires_in_seconds)}`)),
  h("td", { class: "c-fill" }, charts.bar(filter.fill, "fine"), h("small", null, figure("fill", filter.fill, format.share))),
  itemsCell(filter),
  rateCell(filter),
  h("td", { class: "number c-avoided" }, figure("avoided", filter.avoided, format.compact, format.count(filter.avoided)),
    h("small", null, filter.counters.queries > 0 ? [`${format.share(filter.avoided / filter.counters.queries)} of `,
      figure("queries", filter.counters.queries, format.compact, `${format.count(filter.counters.queries)} lookups`)] : "no lookups")),
  h("td", { class: "number c-bytes" }, figure("bytes", filter.bytes, format.bytes, `${format.count(filter.bytes)} bytes`),
    h("small", null, filter.items && filter.items.value >= 1 ? `${format.significant((filter.bytes * 8) / filter.items.value)} bits/key` : " ")),
  h("td", { class: "number c-age" }, figure("age_seconds", filter.age_seconds, format.age, format.seconds(filter.age_seconds)), h("small", null, " ")));
}

function itemsCell(filter) {
  const part = partOf(filter);
  return h("td", { class: "c-items" },
    h("div", { class: "items-line", title: filter.items ? `95% interval: ${format.interval(filter.items, format.count)}` : undefined },
      figure("items", filter.items && filter.items.value, format.keys),
      filter.capacity !== null && h("span", { class: "muted" }, " of ", figure("capacity", filter.capacity, format.keys))),
    part !== null && charts.bar(part, partKind(filter)),
    h("small", { class: "visually-hidden" }, part === null ? "" : format.share(part)));
}

function rateCell(filter) {
  return h("td", { class: "c-rate", title: charts.rateWords(filter) || undefined },
    h("div", { class: "rate-cell" }, charts.rateRange(filter),
      h("div", { class: "rate-figures" }, figure("predicted", filter.predicted, format.rateUnder(filter.target)),
        h("small", null, filter.observed ? [figure("observed", filter.observed.value, format.rateUnder(filter.target)), " observed"]
          : filter.target ? ["target ", figure("target", filter.target, format.target)] : " "))));
}

// ---- Pages ---------------------------------------------------------------------------------

function pages(local, list, change) {
  const last = lastPage(local, list);
  const from = (local.page - 1) * local.size;
  const turn = (page) => change({ page, row: -1 });
  return h("nav", { class: "pages", "aria-label": "Pages" },
    h("span", { class: "muted" }, list.matched === 0 ? " "
      : `${format.count(Math.min(from + 1, list.matched))} – ${format.count(Math.min(from + local.size, list.matched))} of ${format.count(list.matched)}`),
    select("Rows per page", String(local.size), SIZES.map((size) => [String(size), `${size} rows`]), (size) => change({ size: Number(size), page: 1, row: -1 })),
    h("button", { type: "button", class: "button small", disabled: local.page <= 1, onclick: () => turn(local.page - 1), "aria-label": "Previous page" }, icon("back")),
    h("span", { class: "page-number" }, `${format.count(local.page)} / ${format.count(last)}`),
    h("button", { type: "button", class: "button small", disabled: local.page >= last, onclick: () => turn(local.page + 1), "aria-label": "Next page" }, icon("next")));
}

// ---- Keys, and the address -----------------------------------------------------------------

export function address(local) {
  const query = new URLSearchParams();
  for (const [name, initial] of [["search", ""], ["kind", ""], ["health", ""], ["sort", "name"], ["order", "asc"], ["page", 1], ["size", 50]]) {
    if (local[name] !== initial) {
      query.set(name, local[name]);
    }
  }
  return query.size > 0 ? `#/?${query}` : "#/";
}

export function key(event, context) {
  const { local, data, info, change, goto } = context;
  const rows = data ? data.list.filters.length : 0;
  if ((event.key === "j" || event.key === "k") && rows > 0) {
    change({ row: Math.max(0, Math.min(rows - 1, local.row + (event.key === "j" ? 1 : -1))) }, -1);
    requestAnimationFrame(() => document.querySelector("tr[data-row=chosen]")?.scrollIntoView({ block: "nearest" }));
    return true;
  }
  if (event.key === "Enter" && local.row >= 0 && data.list.filters[local.row] && !event.target.closest("a,button,input,select")) {
    const filter = data.list.filters[local.row];
    goto(`#/filter/${format.segment(filter.name, filter.name_base64)}`);
    return true;
  }
  if (event.key === "n" && info && info.user.can.includes("create")) {
    createDialog(context);
    return true;
  }
  if (event.key === "/") {
    document.getElementById("search").focus();
    return true;
  }
  if (event.key === "[" && local.page > 1) {
    change({ page: local.page - 1, row: -1 });
    return true;
  }
  if (event.key === "]" && data && local.page * local.size < data.list.matched) {
    change({ page: local.page + 1, row: -1 });
    return true;
  }
  return false;
}
