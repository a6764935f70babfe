// view_filter.js - one filter: its statistics now and over time, its occupancy, its properties, and actions.

import { h } from "./vdom.js";
import { icon } from "./icons.js";
import * as format from "./format.js";
import * as charts from "./charts.js";
import { aimed, figure, nameOf, messageOf, healthPill, partOf, partKind, sizeWords, panel, facts, badge, choice, rebuildProgress, keyForm, eventList } from "./parts.js";
import { renameDialog, clearDialog, deleteDialog } from "./filter_forms.js";

const PICTURE_EVERY = 15000; // in milliseconds; the interval is long because each update reads the
                             // whole filter

export const title = ({ data }) => (data ? format.nameText(data.filter.name, 60) : "Filter");
export const heading = ({ data }) => (data ? nameOf(data.filter.name, 160) : "Filter");

export function begin() {
  return { span: 600, key: "", answer: null, verdict: null, picture: null, pictureAt: 0, scale: "spread", busy: "" };
}

const path = (route, more = "") => `api/v1/filters/${route.rest}${more}`;

export async function load({ route, local, api }) {
  const filter = await api.get(path(route));
  const which = format.parameter(filter.name, filter.name_base64);
  const wantsPicture = Date.now() - local.pictureAt > PICTURE_EVERY;
  const [past, events, picture] = await Promise.all([
    api.get("api/v1/history", { filter: which, seconds: local.span }),
    api.get("api/v1/events", { filter: which, count: 8 }),
    wantsPicture ? api.get(path(route, "/occupancy"), { cells: 1024 }).catch((error) => ({ error })) : null,
  ]);
  if (picture) {
    local.picture = picture.error && picture.error.code === "gone" ? local.picture : picture;
    local.pictureAt = Date.now();
  }
  return { filter: aimed(filter), past, events };
}

export function render(context) {
  const { data, local, change } = context;
  const { filter } = data;
  return [
    head(context),
    filter.health.reasons.length > 0 && h("ul", { class: `advice ${filter.health.status}` }, filter.health.reasons.map((reason) => h("li", { key: reason.code },
      icon(filter.health.status), messageOf(reason.text)))),
    filter.rebuild && panel(null, { class: "slim" }, rebuildProgress(filter.rebuild)),
    local.verdict && verdict(local.verdict, change),
    figures(filter),
    h("div", { class: "columns" },
      panel("False positives", { note: "for keys that are not in the filter", class: "wide" }, charts.rateRows("rates", filter)),
      tryKey(context)),
    panel("History", { actions: choice("Time range", charts.SPANS, local.span, (span) => change({ span })) }, history(data, local)),
    occupancy(context),
    h("div", { class: "columns even" }, ...factPanels(filter)),
    panel("Events", null, eventList(data.events.events)),
  ];
}

// ---- The head ------------------------------------------------------------------------------

function head(context) {
  const { data, local, info } = context;
  const { filter } = data;
  // `right` is the permission that the button needs; see openapi.yaml.
  const button = (right, text, work, kind = "") => {
    const may = info.user.can.includes(right);
    return h("button", {
      type: "button", key: right, class: `button ${kind}`, disabled: local.busy !== "" || !may,
      title: may ? undefined : "You do not have permission for this operation", onclick: work,
    }, right === "download" && icon("download"), local.busy === right ? "Working…" : text);
  };
  return h("div", { class: "filter-head" },
    h("div", { class: "filter-tags" }, healthPill(filter.health), badge(filter.kind), filter.family !== "bg" && badge(`${filter.family.toUpperCase()}.*`),
      filter.rebuilding && badge("rebuilding", "busy"), !filter.available && badge("unavailable", "act"), filter.degraded && badge("damaged", "act"), filter.overflowed && badge("overflowed", "act"),
      h("span", { class: "muted size-words" }, sizeWords(filter))),
    h("div", { class: "actions" },
      button("verify", "Verify", () => verify(context)),
      button("download", "Download", () => download(context)),
      filter.can.includes("rotate") && button("rotate", "Rotate", () => act(context, "rotate", "Rotated by one generation")),
      button("rename", "Rename…", () => renameDialog(filter, context)),
      filter.can.includes("clear") && button("clear", "Clear…", () => clearDialog(filter, context), "danger"),
      button("drop", "Delete…", () => deleteDialog(filter, context), "danger")));
}

async function act(context, name, done, work) {
  const { route, api, change, notify, refresh } = context;
  change({ busy: name }, -1);
  try {
    await (work || (() => api.post(path(route, `/${name}`))))();
    if (done) {
      notify(done);
    }
    refresh();
  } catch (error) {
    notify(error.message, "error");
  } finally {
    change({ busy: "" }, -1);
  }
}

function verify(context) {
  return act(context, "verify", null, async () => {
    const found = await context.api.post(path(context.route, "/verify"));
    context.change({ verdict: { ...found, at: Date.now() / 1000 } }, -1);
  });
}

function download(context) {
  const { route, api, data } = context;
  const safe = data.filter.name.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^\.+/, "").slice(0, 80) || "filter";
  return act(context, "download", null, () => api.download(path(route, "/file"), `${safe}.bg`));
}

function verdict(found, change) {
  return h("div", { class: `verdict ${found.ok ? "fine" : "act"}`, role: "status" }, icon(found.ok ? "fine" : "act"),
    h("div", null, h("b", null, found.ok ? "Verified: no problems found. " : "Verified: problems found. "),
      found.problems.map((problem) => h("p", null, messageOf(problem))),
      h("span", { class: "muted" }, `Measured ${found.measured ? format.rate(found.measured.value) : format.UNKNOWN}, predicted ${format.rate(found.predicted)}; took ${format.seconds(found.seconds)}. `,
        found.digest && ["Digest ", h("code", null, found.digest)])),
    h("button", { type: "button", class: "button plain", "aria-label": "Dismiss", onclick: () => change({ verdict: null }, -1) }, icon("close")));
}

// ---- Figures -------------------------------------------------------------------------------

function figures(filter) {
  const part = partOf(filter);
  const { counters } = filter;
  return h("div", { class: "tiles" },
    h("div", { class: "tile", key: "items" }, h("h3", { class: "tile-name" }, "Estimated keys"),
      h("div", { class: "tile-value" }, figure("items", filter.items && filter.items.value, format.count)),
      part !== null && charts.bar(part, partKind(filter)),
      h("div", { class: "tile-below" }, filter.capacity === null ? "grows automatically" : [part === null ? "capacity " : `${format.share(part)} of `, figure("capacity", filter.capacity, format.count)],
        filter.items && h("span", { class: "line" }, `95% interval: ${format.interval(filter.items, format.count)}`))),
    h("div", { class: "tile", key: "fill" }, h("h3", { class: "tile-name" }, "Fill"),
      h("div", { class: "tile-value" }, figure("fill", filter.fill, format.share)), charts.bar(filter.fill, "fine"),
      h("div", { class: "tile-below" }, filter.ones === null || filter.geometry === null ? "not examined yet" : [figure("ones", filter.ones, format.compact), ` of ${format.compact(filter.geometry.bits)} bits`])),
    h("div", { class: "tile", key: "queries" }, h("h3", { class: "tile-name" }, "Lookups"),
      h("div", { class: "tile-value" }, figure("queries", counters.queries, format.compact, format.count(counters.queries))),
      h("div", { class: "tile-below" }, counters.queries > 0 ? `${format.share(counters.maybes / counters.queries)} answered maybe, the rest no` : "none yet")),
    h("div", { class: "tile", key: "avoided" }, h("h3", { class: "tile-name" }, "Calls avoided"),
      h("div", { class: "tile-value" }, figure("avoided", filter.avoided, format.compact, format.count(filter.avoided))),
      h("div", { class: "tile-below" }, filter.wasted === null ? "no reports of wasted calls" : [figure("wasted", filter.wasted, format.count), " wasted on false positives"])),
    h("div", { class: "tile", key: "bytes" }, h("h3", { class: "tile-name" }, "Memory"),
      h("div", { class: "tile-value" }, figure("bytes", filter.bytes, format.bytes, `${format.count(filter.bytes)} bytes`)),
      h("div", { class: "tile-below" }, filter.bits_per_key ? `${format.significant(filter.bits_per_key)} bits per key` : " ")));
}

function tryKey(context) {
  const { local, change, route, api, info, notify, refresh } = context;
  const body = () => ({ keys: [local.key] });
  const run = async (what) => {
    change({ busy: what }, -1);
    try {
      const found = await api.post(path(route, `/${what}`), body());
      change({ answer: { what, key: local.key, yes: found.results[0] } }, -1);
      if (what === "add") {
        refresh();
      }
    } catch (error) {
      notify(error.message, "error");
    } finally {
      change({ busy: "" }, -1);
    }
  };
  const { answer } = local;
  const words = answer && (answer.what === "check"
    ? (answer.yes ? ["maybe", "Maybe: the filter may contain this key."] : ["no", "No: the filter definitely does not contain this key."])
    : (answer.yes ? ["no", "Added. The key was definitely new."] : ["maybe", "Added. The key may already have been in the filter."]));
  return panel("Test a key", null, keyForm({
    id: "try-key", label: "Is this key in the filter?", button: "Check", value: local.key, busy: local.busy !== "",
    oninput: (value) => change({ key: value, answer: null }, -1), onsubmit: () => run("check"),
    extra: info.user.can.includes("add") && context.data.filter.can.includes("add")
      && h("button", { type: "button", class: "button plain", disabled: local.busy !== "", onclick: () => run("add") }, "Add"),
    result: answer && h("span", { class: `answer ${words[0]}` }, words[1]),
  }));
}

// ---- History -------------------------------------------------------------------------------

function history({ past, filter }) {
  if (!past.kept || !past.points) {
    return h("p", { class: "muted" }, past.kept ? `Collecting data: first point in about ${format.seconds(2 * past.step)}`
      : "No history: the service records the history of at most 64 filters, and all 64 are in use.");
  }
  const s = past.series;
  const of = (name) => s[name] || [];
  const has = (name) => of(name).some((v) => v !== null);
  const common = { from: past.from, step: past.step };
  const instead = (words) => (has("queries_per_second") ? words : undefined); // data is collected, but not for this chart
  const highest = Math.max(0, ...["predicted", "measured", "observed"].flatMap((name) => of(name).map((v) => v ?? 0)));
  const near = filter.target !== null && filter.target < 4 * highest; // a distant target would flatten the other lines
  const shares = of("queries_per_second").map((q, i) => (q ? (of("maybes_per_second")[i] ?? 0) / q : null));
  return h("div", { class: "charts" },
    charts.rateChart({ ...common, id: "h-rates", title: "False-positive rate", target: filter.target, nothing: instead("The filter has not been examined yet"), series: [
      near && { name: "target", kind: "target", level: filter.target },
      { name: "predicted", kind: "predicted", values: of("predicted") },
      has("measured") && { name: "measured", kind: "measured", values: of("measured") },
      has("observed") && { name: "observed", kind: "observed", values: of("observed"), band: [of("observed_low"), of("observed_high")] },
    ].filter(Boolean) }),
    charts.timeChart({ ...common, id: "h-items", title: "Keys", show: format.keys, tick: format.round, nothing: instead("The filter has not been examined yet"), series: [
      filter.capacity !== null && { name: "capacity", kind: "target", level: filter.capacity },
      { name: "estimated", kind: "s1", values: of("items"), fill: true },
    ].filter(Boolean) }),
    charts.timeChart({ ...common, id: "h-queries", title: "Lookups per second", show: format.compact, tick: format.round, series: [
      { name: "lookups", kind: "s1", values: of("queries_per_second"), fill: true },
      { name: "maybe", kind: "s3", values: of("maybes_per_second") },
    ] }),
    charts.timeChart({ ...common, id: "h-share", title: "Share of lookups answered maybe", show: format.share, most: 1, nothing: instead("No lookups in this period"), series: [
      { name: "maybe", kind: "s3", values: shares, fill: true },
    ] }),
    charts.timeChart({ ...common, id: "h-adds", title: "Adds per second", show: format.compact, tick: format.round, series: [
      { name: "adds", kind: "s2", values: of("adds_per_second"), fill: true },
      has("refused_per_second") && of("refused_per_second").some((v) => v > 0) && { name: "refused", kind: "bad", values: of("refused_per_second") },
    ].filter(Boolean) }),
    (has("avoided_per_second") || has("wasted_per_second")) && charts.timeChart({ ...common, id: "h-avoided", title: "Calls per second", show: format.compact, tick: format.round, series: [
      { name: "avoided", kind: "s4", values: of("avoided_per_second"), fill: true },
      has("wasted_per_second") && { name: "wasted", kind: "observed", values: of("wasted_per_second") },
    ].filter(Boolean) }));
}

// ---- Occupancy -----------------------------------------------------------------------------

function occupancy({ local, change }) {
  const { picture, scale } = local;
  if (!picture) {
    return panel("Occupancy", null, h("p", { class: "muted" }, "Reading the filter…"));
  }
  if (picture.error) {
    return panel("Occupancy", null, h("p", { class: "muted" }, messageOf(picture.error.message)));
  }
  const [low, high] = scale === "spread" ? [picture.least, picture.most] : [0, 1];
  return panel("Occupancy", {
    note: `${format.plural(picture.cells, "part")} of about ${format.compact(Math.round(picture.cell_bits))} bits`,
    actions: choice("Shade", [["spread", "min – max"], ["whole", "0 – 100%"]], scale, (value) => change({ scale: value }, -1)),
  },
  charts.heatMap("heat", picture.shares, low, high,
    `Occupancy in ${picture.cells} parts: minimum ${format.share(picture.least)}, mean ${format.share(picture.mean)}, maximum ${format.share(picture.most)}`),
  h("p", { class: "muted heat-note" }, `Minimum ${format.share(picture.least)}, mean ${format.share(picture.mean)}, maximum ${format.share(picture.most)}. `,
    evenness(picture)));
}

// Returns a sentence that compares the parts with those of a filter with random keys.
function evenness({ low, high, uneven, most }) {
  if (most === 0) {
    return "The filter is empty.";
  }
  if (uneven === null) {
    return "In a filter of this kind, parts may differ by design.";
  }
  return uneven > 0 ? h("b", { class: "watch" }, `${format.plural(uneven, "part deviates", "parts deviate")} by more than chance explains.`)
    : `Even: chance alone explains ${format.share(low)} to ${format.share(high)}.`;
}

// ---- Facts ---------------------------------------------------------------------------------

const yes = (value) => (value ? "yes" : "no");

function factPanels(filter) {
  const g = filter.geometry;
  const c = filter.counters;
  const p = filter.history;
  return [
    panel("Geometry", { key: "geometry" }, facts([
      ["Kind", filter.kind],
      g && ["Units", figure("units", g.units, format.count)],
      g && ["Bits", figure("bits", g.bits, format.count)],
      g && ["k", figure("k", g.k, (k) => format.bitsOfKey(filter.kind, k))],
      g && g.width > 0 && ["Width", figure("width", g.width, format.count)],
      g && ["Shards", figure("shards", g.shards, format.count)],
      ["Layers", figure("layers", filter.layers, format.count)],
      g && ["Can be halved", format.plural(g.foldable, "time")],
      ["Operations", filter.can.join(", ") || "add and look up only"],
      filter.window && ["Window", windowWords(filter.window)],
      filter.growth && ["Grows", filter.growth.expansion === null ? "no" : `${format.times(filter.growth.expansion)} each time, ${format.plural(filter.growth.expansions ?? 0, "time")} so far`],
    ])),
    panel("Content", { key: "content" }, facts([
      ["Estimated keys", figure("items_fact", filter.items && filter.items.value, format.count), filter.items && `95% interval: ${format.interval(filter.items, format.count)}`],
      ["Capacity", filter.capacity === null ? "grows automatically" : figure("capacity_fact", filter.capacity, format.count)],
      ["Bits set per add", figure("ones_per_insert", filter.ones_per_insert, (v) => format.significant(v, 4)),
        filter.honest_ones_per_insert !== null && `${format.significant(filter.honest_ones_per_insert, 4)} expected`],
      filter.saturated !== null && filter.saturated > 0 && ["Saturated", figure("saturated", filter.saturated, format.count)],
      ["Damaged", yes(filter.degraded)],
      ["Overflowed", yes(filter.overflowed)],
      ["Hash", h("code", null, filter.hash.profile), filter.hash.key_id && `secret ${filter.hash.key_id}`],
      ["Examined", filter.examined === null ? "not yet" : format.moment(filter.examined)],
    ])),
    panel("Traffic", { key: "traffic" }, facts([
      ["Lookups", figure("queries_fact", c.queries, format.count)],
      ["Answered maybe", figure("maybes", c.maybes, format.count)],
      ["Adds", figure("adds", c.adds, format.count)],
      ["Definitely new", figure("news", c.news, format.count)],
      ["Refused", figure("refused", c.refused, format.count)],
      ["Calls avoided", figure("avoided_fact", filter.avoided, format.count)],
      ["Calls wasted", figure("wasted_fact", filter.wasted, format.count)],
    ])),
    panel("Lifecycle", { key: "life" }, facts([
      ["Age of the base", format.seconds(filter.age_seconds)],
      filter.created !== null && ["Created", format.moment(filter.created)],
      ["Expires", filter.expires_in_seconds === null ? "never" : `in ${format.seconds(filter.expires_in_seconds)}`],
      ["Generation", figure("generation", filter.generation, format.count)],
      ["Complete up to", figure("complete_sequence", filter.complete_sequence, format.count)],
      ["Digest", filter.digest === null ? "not saved yet" : h("code", { class: "digest" }, filter.digest)],
      ["Base replacements", figure("swaps", p.swaps, format.count)],
      ["Reloads", `${format.count(p.reloads)} done, ${format.count(p.reloads_unchanged)} unchanged, ${format.count(p.reloads_failed)} failed`],
      ["Rebuilds", `${format.count(p.rebuilds)} done, ${format.count(p.rebuilds_failed)} failed`],
      filter.last_failure && ["Last failure", messageOf(filter.last_failure)],
    ])),
  ];
}

function windowWords(window) {
  const parts = [format.plural(window.generations, "generation")];
  if (window.seconds) {
    parts.push(`covering ${format.seconds(window.seconds)}`);
  }
  if (window.count) {
    parts.push(`covering ${format.plural(window.count, "add")}`);
  }
  return parts.join(" ");
}
