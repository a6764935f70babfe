// view_gates.js - gates: avoided and wasted calls to the source, and whether the filter is
// trusted. Users can look up a key and rebuild a filter.

import { h } from "./vdom.js";
import { icon } from "./icons.js";
import * as format from "./format.js";
import * as charts from "./charts.js";
import { figure, nameOf, said, healthPill, panel, facts, badge, rebuildProgress, emptyNote, keyForm } from "./parts.js";

export const title = () => "Gates";

export function begin() {
  return { keys: {}, answers: {}, busy: "" };
}

export async function load({ api }) {
  return api.get("api/v1/gates");
}

export function render(context) {
  const { gates } = context.data;
  return gates.length === 0
    ? panel(null, null, emptyNote("No gates", "A gate puts a filter in front of a SQLite or PostgreSQL table. Define gates in the configuration."))
    : gates.map((gate) => card(gate, context));
}

const idOf = (gate) => format.segment(gate.name, gate.name_base64);

function card(gate, context) {
  const { local, info } = context;
  return h("section", { class: "panel gate", key: idOf(gate), "data-gate": gate.name },
    h("div", { class: "gate-head" },
      h("h2", null, nameOf(gate.name, 80)), healthPill(gate.health), sourceBadge(gate.source), breakerBadge(gate.breaker), completeBadge(gate.complete),
      h("div", { class: "actions" },
        h("button", {
          type: "button", class: "button", disabled: !info.user.write || gate.rebuild !== null || local.busy !== "",
          onclick: () => askRebuild(gate, context),
        }, "Rebuild…"))),
    h("p", { class: "gate-line muted" }, `${gate.filter ? `A ${gate.filter.kind} filter` : "No filter yet"} in front of ${gate.source.type}`,
      gate.source.description ? [": ", said(gate.source.description)] : "",
      gate.source.follows ? `; changes: ${gate.source.follows}` : ""),
    gate.health.reasons.length > 0 && h("ul", { class: `advice ${gate.health.status}` }, gate.health.reasons.map((reason) => h("li", { key: reason.code }, icon(gate.health.status), said(reason.text)))),
    gate.source.error && !gate.health.reasons.some((reason) => reason.text.includes(gate.source.error)) && h("p", { class: "advice act" }, icon("act"), said(gate.source.error)),
    gate.rebuild && rebuildProgress(gate.rebuild),
    numbers(gate),
    outcomes(gate),
    h("div", { class: "columns" },
      h("div", { class: "wide" }, h("h3", null, "False positives"), charts.rateRows(`rates-${idOf(gate)}`, { ...gate, measured: gate.filter && gate.filter.measured })),
      tryKey(gate, context)),
    details(gate));
}

function sourceBadge(source) {
  const words = { up: ["source up", "fine"], down: ["source down", "act"], connecting: ["connecting", "watch"] }[source.state] || [source.state, ""];
  return badge(words[0], words[1]);
}

function breakerBadge(breaker) {
  const words = { closed: ["breaker closed", "fine"], open: ["breaker open", "act"], trying: ["breaker half-open", "watch"] }[breaker.state];
  return words && badge(words[0], words[1]);
}

function completeBadge(complete) {
  const words = {
    complete: ["complete", "fine"], catching_up: ["catching up", "watch"], building: ["building", "busy"], unknown: ["completeness unknown", "watch"],
  }[complete.state] || [complete.state, ""];
  return badge(words[0], words[1]);
}

function numbers(gate) {
  const part = (x) => (gate.lookups > 0 ? `${format.share(x / gate.lookups)} of lookups` : "no lookups yet");
  const cell = (name, value, below, kind = "") => h("div", { class: `number-cell ${kind}`, key: name }, h("h3", null, name), h("div", { class: "tile-value" }, value), h("small", null, below));
  return h("div", { class: "numbers" },
    cell("Lookups", figure("lookups", gate.lookups, format.compact, format.count(gate.lookups)), `${format.compact(gate.truth.calls)} sent to the source`),
    cell("Calls avoided", figure("avoided", gate.avoided, format.compact, format.count(gate.avoided)), part(gate.avoided)),
    cell("Calls wasted", figure("wasted", gate.wasted, format.compact, format.count(gate.wasted)), part(gate.wasted)),
    cell("Source latency", figure("truth_mean", gate.truth.calls > 0 ? gate.truth.seconds / gate.truth.calls : null, format.seconds),
      `${format.plural(gate.truth.errors, "error")}; ${format.seconds((gate.avoided * gate.truth.seconds) / Math.max(1, gate.truth.calls))} saved`),
    cell("False negatives", figure("false_negatives", gate.false_negatives, format.count),
      gate.audits > 0 ? `in ${format.plural(gate.audits, "audit")}; should be 0` : "no audits yet; should be 0", gate.false_negatives > 0 ? "act" : ""));
}

const OUTCOMES = [
  ["absent_by_filter", "absent (filter)", "o-filter"], ["absent_by_cache", "absent (negative cache)", "o-cache"],
  ["absent_by_truth", "false positives", "o-wasted"], ["present", "present", "o-present"],
  ["unknown", "unknown", "o-unknown"], ["failed", "failed", "o-failed"],
];

function outcomes(gate) {
  const parts = OUTCOMES.map(([name, words, kind]) => ({ value: gate.outcomes[name], name: words, kind, id: name }));
  return h("div", { class: "outcomes" }, charts.stack(parts, parts.map((p) => `${p.name} ${format.count(p.value)}`).join(", ")),
    h("ul", { class: "outcome-list" }, parts.filter((p) => p.value > 0 || p.id === "absent_by_filter").map((p) => h("li", { key: p.kind },
      h("i", { class: `swatch ${p.kind}` }), p.name, " ", figure(p.id, p.value, format.count)))));
}

const ANSWERS = {
  absent_by_filter: ["no", "Absent. Answered by the filter, without a query to the source."],
  absent_by_cache: ["no", "Absent. Answered by the negative cache, based on a recent query to the source."],
  absent_by_truth: ["wasted", "Absent. The filter answered maybe, but the source does not have the key: a false positive."],
  present: ["maybe", "Present. The source has the key."],
  unknown: ["wasted", "Unknown: the source is not responding. The key may exist."],
  failed: ["wasted", "Failed: the source is not responding."],
};

function tryKey(gate, { local, api, change, tell }) {
  const id = idOf(gate);
  const run = async () => {
    change({ busy: id }, -1);
    try {
      const found = await api.post(`api/v1/gates/${id}/lookup`, { keys: [local.keys[id] || ""] });
      change({ answers: { ...local.answers, [id]: { ...found.results[0], seconds: found.seconds } } }, -1);
    } catch (error) {
      tell(error.message, "error");
    } finally {
      change({ busy: "" }, -1);
    }
  };
  const answer = local.answers[id];
  const words = answer && (ANSWERS[answer.outcome] || ["wasted", answer.outcome]);
  return h("div", null, h("h3", null, "Test a key"), keyForm({
    id: `try-${id}`, label: "Look up a key through the gate", button: "Look up", value: local.keys[id] || "", busy: local.busy === id,
    oninput: (value) => change({ keys: { ...local.keys, [id]: value }, answers: { ...local.answers, [id]: undefined } }, -1),
    onsubmit: run,
    result: answer && h("span", { class: `answer ${words[0]}` }, words[1], answer.seconds !== undefined && h("small", null, ` ${format.seconds(answer.seconds)}`)),
  }));
}

function details(gate) {
  return h("details", { class: "more" }, h("summary", null, "All facts"), facts([
    ["Complete up to", figure("sequence", gate.complete.sequence, format.count),
      gate.complete.lag_seconds !== null && gate.complete.lag_seconds !== undefined && `${format.seconds(gate.complete.lag_seconds)} ago`],
    gate.filter && ["Keys in the filter", figure("items", gate.filter.items && gate.filter.items.value, format.count), gate.filter.capacity !== null && `capacity ${format.count(gate.filter.capacity)}`],
    gate.filter && ["Fill", figure("fill", gate.filter.fill, format.share), gate.filter.overflowed && "overflowed: answers maybe for every key"],
    gate.filter && ["Memory", figure("bytes", gate.filter.bytes, format.bytes), format.plural(gate.filter.layers, "filter")],
    ["Keys in the source", figure("source_keys", gate.complete.keys ?? null, format.count)],
    ["Queries to the source", figure("truth_calls", gate.truth.calls, format.count), `${format.seconds(gate.truth.seconds)} in total`],
    ["Source errors", figure("truth_errors", gate.truth.errors, format.count)],
    ["Breaker opened", format.plural(gate.breaker.opened, "time"), `${format.plural(gate.breaker.spared, "query", "queries")} skipped while open`],
    ["Shared queries", figure("shared", gate.shared, format.count)],
    ["Results reported by callers", figure("reported", gate.reported, format.count)],
    ["Negative cache", format.plural(gate.negative_cache.entries, "entry", "entries"), format.plural(gate.negative_cache.hits, "hit")],
    ["Writes", figure("writes", gate.writes, format.count), format.plural(gate.write_errors, "error")],
    ["Rebuilds", figure("rebuilds", gate.rebuilds, format.count), `${format.count(gate.rebuilds_failed ?? 0)} failed`],
    gate.last_failure && ["Last failure", said(gate.last_failure)],
    ["Drifting", gate.drifting ? "yes: more false positives than the fill level explains" : "no"],
    ["Doubtful", gate.doubtful ? "yes: a written key could not be added to the filter, so every lookup queries the source" : "no"],
  ]));
}

function askRebuild(gate, { ask, api, tell, refresh }) {
  ask({
    title: "Rebuild this filter?",
    text: ["All keys of ", nameOf(gate.name, 60), " will be read from the source. The current filter stays in use until the new one is ready; if the rebuild fails, nothing is lost."],
    button: "Rebuild",
    act: async () => {
      try {
        await api.post(`api/v1/gates/${idOf(gate)}/rebuild`);
        tell("Rebuild started");
        refresh();
      } catch (error) {
        tell(error.message, "error");
      }
    },
  });
}
