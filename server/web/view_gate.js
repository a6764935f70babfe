// view_gate.js - one gate: its state and source, current and past lookups and errors, its filter, and actions. The page
// also works for a gate whose source cannot be used, and which therefore has no filter and no lookups.

import { h } from "./vdom.js";
import * as format from "./format.js";
import * as charts from "./charts.js";
import { figure, nameOf, messageOf, panel, facts, choice, rebuildProgress, keyForm, eventList } from "./parts.js";
import { idOf, badges, databaseName, sourceLine, problems, numbers, outcomes, rebuildButton } from "./gate_parts.js";

export const title = ({ data }) => (data ? format.nameText(data.gate.name, 60) : "Gate");
export const heading = ({ data }) => (data ? nameOf(data.gate.name, 160) : "Gate");

export function begin() {
  return { span: 600, key: "", answer: null, busy: false };
}

export async function load({ route, local, api }) {
  const gate = await api.get(`api/v1/gates/${route.rest}`);
  const [past, events] = await Promise.all([
    api.get("api/v1/history", { gate: gate.name, seconds: local.span }),
    api.get("api/v1/events", { filter: gate.name, count: 50 }),
  ]);
  return { gate, past, events: events.events.filter((event) => event.gate === gate.name).slice(-8) };
}

export function render(context) {
  const { data, local, change, info } = context;
  const { gate } = data;
  return [
    h("div", { class: "filter-head" }, h("div", { class: "filter-tags" }, badges(gate)), h("div", { class: "actions" }, rebuildButton(gate, context))),
    sourceLine(gate),
    problems(gate),
    gate.rebuild && panel(null, { class: "slim" }, rebuildProgress(gate.rebuild)),
    panel("Lookups", { key: "lookups", class: "gate" }, numbers(gate), outcomes(gate)),
    h("div", { class: "columns" },
      panel("False positives", { note: "for keys that are not in the source", class: "wide" }, charts.rateRows("gate-rates", { ...gate, measured: gate.filter && gate.filter.measured })),
      tryKey(context)),
    panel("History", { actions: choice("Time range", charts.SPANS, local.span, (span) => change({ span })) }, history(data)),
    h("div", { class: "columns even" }, ...factPanels(gate, info.now)),
    panel("Events", null, eventList(data.events)),
  ];
}

const ANSWERS = {
  absent_by_filter: ["no", "Absent. Answered by the filter, without a query to the source."],
  absent_by_cache: ["no", "Absent. Answered by the negative cache, based on a recent query to the source."],
  absent_by_truth: ["wasted", "Absent. The filter answered maybe, but the source does not have the key: a false positive."],
  present: ["maybe", "Present. The source has the key."],
  unknown: ["wasted", "Unknown: the source is not responding. The key may exist."],
  failed: ["wasted", "Failed: the source is not responding."],
};

function tryKey({ local, data, api, change, notify }) {
  const run = async () => {
    change({ busy: true }, -1);
    try {
      const found = await api.post(`api/v1/gates/${idOf(data.gate)}/lookup`, { keys: [local.key] });
      change({ answer: { ...found.results[0], seconds: found.seconds } }, -1);
    } catch (error) {
      notify(error.message, "error");
    } finally {
      change({ busy: false }, -1);
    }
  };
  const { answer } = local;
  const words = answer && (ANSWERS[answer.outcome] || ["wasted", answer.outcome]);
  return panel("Test a key", null, keyForm({
    id: "try-key", label: "Look up a key through the gate", button: "Look up", value: local.key, busy: local.busy,
    oninput: (value) => change({ key: value, answer: null }, -1), onsubmit: run,
    result: answer && h("span", { class: `answer ${words[0]}` }, words[1], h("small", null, ` ${format.seconds(answer.seconds)}`)),
  }));
}

// ---- History -------------------------------------------------------------------------------

function history({ past, gate }) {
  const of = (name) => past.series[name] || [];
  const has = (name) => of(name).some((v) => v !== null);
  const common = (id, title, series, nothing) => ({
    id, title, from: past.from, step: past.step, series: series.filter(Boolean), nothing: has("lookups_per_second") ? nothing : undefined,
  });
  const chart = (id, title, show, series, nothing) => charts.timeChart({
    ...common(id, title, series, nothing), show, tick: [format.compact, format.keys].includes(show) ? format.round : undefined,
  });
  return h("div", { class: "charts" },
    chart("g-lookups", "Lookups per second", format.compact, [
      { name: "lookups", kind: "s1", values: of("lookups_per_second"), fill: true },
      { name: "sent to the source", kind: "s3", values: of("calls_per_second") }]),
    chart("g-avoided", "Calls per second", format.compact, [
      { name: "avoided", kind: "s4", values: of("avoided_per_second"), fill: true }, { name: "wasted", kind: "observed", values: of("wasted_per_second") }]),
    charts.rateChart({ target: gate.target, ...common("g-rates", "False-positive rate", [
      gate.target !== null && { name: "target", kind: "target", level: gate.target },
      { name: "predicted", kind: "predicted", values: of("predicted") },
      has("observed") && { name: "observed", kind: "observed", values: of("observed"), band: [of("observed_low"), of("observed_high")] }], "No filter has been examined yet") }),
    chart("g-items", "Keys in the filter", format.keys, [{ name: "estimated", kind: "s1", values: of("items"), fill: true }], "No filter has been examined yet"),
    chart("g-errors", "Source errors per second", format.compact, [{ name: "errors", kind: "bad", values: of("errors_per_second"), fill: true }]),
    chart("g-latency", "Source latency", format.seconds, [{ name: "mean", kind: "s2", values: of("call_seconds"), fill: true }], "No queries to the source in this period"));
}

// ---- Facts ---------------------------------------------------------------------------------

function factPanels(gate, now) {
  const { filter, source, complete, last_build: built } = gate;
  return [
    panel("Source", { key: "source" }, facts([
      ["Database", databaseName(source), source.url && h("code", null, messageOf(source.url))],
      source.description && ["Keys", messageOf(source.description)],
      ["State", source.state, source.error && messageOf(source.error)],
      ["Change tracking", h("code", null, `follow=${source.follows ?? "none"}`)],
      ["Keys in the source", figure("source_keys", complete.keys ?? null, format.count), "at the last count"],
      ["Complete up to", figure("sequence", complete.sequence, format.count),
        complete.lag_seconds !== null && complete.lag_seconds !== undefined && format.ago(complete.lag_seconds)],
    ])),
    panel("Filter", { key: "filter" }, facts([
      ["Last load", built === null ? "none since the service started" : format.ago(Math.max(0, now - built.time)),
        built !== null && `${format.plural(built.keys, "key")} in ${format.seconds(built.seconds)}`],
      filter && ["Keys", figure("items", filter.items && filter.items.value, format.count), filter.capacity !== null && `capacity ${format.count(filter.capacity)}`],
      filter && ["Fill", figure("fill", filter.fill, format.share), filter.overflowed && "overflowed: answers maybe for every key"],
      filter && ["Memory", figure("bytes", filter.bytes, format.bytes), format.plural(filter.layers, "filter")],
      ["Loads", figure("rebuilds", gate.rebuilds, format.count), `${format.count(gate.rebuilds_failed ?? 0)} failed`],
      gate.last_failure && ["Last failure", messageOf(gate.last_failure)],
      ["Drifting", gate.drifting ? "yes: more false positives than the fill level explains" : "no"],
      ["Doubtful", gate.doubtful ? "yes: a written key could not be added to the filter, so every lookup queries the source" : "no"],
    ])),
    panel("Errors", { key: "errors" }, facts([
      ["Breaker", { trying: "half-open", none: "off" }[gate.breaker.state] ?? gate.breaker.state, `opened ${format.plural(gate.breaker.opened, "time")}; ${format.plural(gate.breaker.spared, "query", "queries")} skipped while open`],
      ["Source errors", figure("truth_errors", gate.truth.errors, format.count)],
      ["Write errors", figure("write_errors", gate.write_errors, format.count), `of ${format.plural(gate.writes, "write")}`],
      ["Audits", figure("audits", gate.audits, format.count), format.plural(gate.false_negatives, "false negative")],
    ])),
    panel("Traffic", { key: "traffic" }, facts([
      ["Queries to the source", figure("truth_calls", gate.truth.calls, format.count), `${format.seconds(gate.truth.seconds)} in total`],
      ["Shared queries", figure("shared", gate.shared, format.count)],
      ["Results reported by callers", figure("reported", gate.reported, format.count)],
      ["Negative cache", format.plural(gate.negative_cache.entries, "entry", "entries"), format.plural(gate.negative_cache.hits, "hit")],
    ])),
  ];
}
