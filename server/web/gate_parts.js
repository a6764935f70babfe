// gate_parts.js - elements shared by the list of gates and the page of a gate: badges, numbers, outcomes, and the
// confirmation before a rebuild.

import { h } from "./vdom.js";
import { icon } from "./icons.js";
import * as format from "./format.js";
import * as charts from "./charts.js";
import { figure, nameOf, messageOf, healthPill, badge } from "./parts.js";

export const idOf = (gate) => format.segment(gate.name, gate.name_base64);

export function gateLink(name, most = 80) {
  return h("a", { class: "filter-link", href: `#/gate/${format.segment(name)}` }, nameOf(name, most));
}

const SOURCE = { up: ["source up", "fine"], down: ["source down", "act"], connecting: ["connecting", "watch"] };
const BREAKER = { closed: ["breaker closed", "fine"], open: ["breaker open", "act"], trying: ["breaker half-open", "watch"] };
const COMPLETE = {
  complete: ["complete", "fine"], catching_up: ["catching up", "watch"], building: ["building", "busy"], unknown: ["completeness unknown", "watch"],
};

export function badges(gate) {
  return [healthPill(gate.health), badge(...(SOURCE[gate.source.state] || [gate.source.state, ""])),
    BREAKER[gate.breaker.state] && badge(...BREAKER[gate.breaker.state]), badge(...(COMPLETE[gate.complete.state] || [gate.complete.state, ""]))];
}

export const databaseName = (source) => ({ sqlite: "SQLite", postgresql: "PostgreSQL" })[source.type] ?? source.type;

export function sourceLine(gate) {
  return h("p", { class: "gate-line muted" }, `${gate.filter ? `A ${gate.filter.kind} filter` : "No filter yet"} in front of ${databaseName(gate.source)}`,
    gate.source.description ? [": ", messageOf(gate.source.description)] : "",
    gate.source.follows ? [", ", h("code", null, `follow=${gate.source.follows}`)] : "");
}

export function problems(gate) {
  const { reasons, status } = gate.health;
  const error = (gate.source.error ?? "").replace(/^source: /, "");
  return [
    reasons.length > 0 && h("ul", { class: `advice ${status}`, key: "reasons" }, reasons.map((reason) => h("li", { key: reason.code }, icon(status), messageOf(reason.text)))),
    error && !reasons.some((reason) => reason.text.includes(error.slice(0, 140))) && h("p", { class: "advice act", key: "error" }, icon("act"), messageOf(error)),
  ];
}

export function numbers(gate) {
  const part = (x) => (gate.lookups > 0 ? `${format.share(x / gate.lookups)} of lookups` : "no lookups yet");
  const cell = (name, value, below, kind = "") => h("div", { class: `number-cell ${kind}`, key: name }, h("h3", null, name), h("div", { class: "tile-value" }, value), h("small", null, below));
  return h("div", { class: "numbers" },
    cell("Lookups", figure("lookups", gate.lookups, format.compact, format.count(gate.lookups)), `${format.compact(gate.truth.calls)} sent to the source`),
    cell("Calls avoided", figure("avoided", gate.avoided, format.compact, format.count(gate.avoided)), part(gate.avoided)),
    cell("Calls wasted", figure("wasted", gate.wasted, format.compact, format.count(gate.wasted)), part(gate.wasted)),
    cell("False positives", figure("observed", gate.observed && gate.observed.value, format.rateUnder(gate.target)),
      gate.predicted === null ? `${format.rate(gate.target)} target` : [figure("predicted", gate.predicted, format.rateUnder(gate.target)), " predicted"]),
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

export function outcomes(gate) {
  const parts = OUTCOMES.map(([name, words, kind]) => ({ value: gate.outcomes[name], name: words, kind, id: name }));
  return h("div", { class: "outcomes" }, charts.stack(parts, parts.map((p) => `${p.name} ${format.count(p.value)}`).join(", ")),
    h("ul", { class: "outcome-list" }, parts.filter((p) => p.value > 0 || p.id === "absent_by_filter").map((p) => h("li", { key: p.kind },
      h("i", { class: `swatch ${p.kind}` }), p.name, " ", figure(p.id, p.value, format.count)))));
}

export function rebuildButton(gate, context) {
  const may = context.info.user.can.includes("rebuild");
  return h("button", {
    type: "button", class: "button", disabled: !may || gate.rebuild !== null,
    title: may ? gate.rebuild && "The filter is being rebuilt" : "You do not have permission to rebuild filters",
    onclick: () => rebuildDialog(gate, context),
  }, "Rebuild…");
}

function rebuildDialog(gate, { showDialog, api, notify, refresh }) {
  showDialog({
    title: "Rebuild this filter?", button: "Rebuild", plain: true,
    text: ["All keys of ", nameOf(gate.name, 60), " will be read from the source. The current filter stays in use until the new one is ready; if the rebuild fails, nothing is lost."],
    act: async () => {
      await api.post(`api/v1/gates/${idOf(gate)}/rebuild`);
      notify("Rebuild started");
      refresh();
    },
  });
}
