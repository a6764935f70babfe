// view_planner.js - the planner: the memory that each kind of filter needs for a given number of keys and
// false-positive rate, and the resulting rate if more keys than planned are added. The service computes the plan.
// The URL contains all parameters, so a plan can be shared as a link.

import { h } from "./vdom.js";
import * as format from "./format.js";
import * as charts from "./charts.js";
import { figure, panel, badge } from "./parts.js";

export const title = () => "Planner";
export const still = true; // changes only when the user enters something

const FIELDS = {
  items: { label: "Keys", hint: "number of distinct keys", low: 1e3, high: 1e11, show: format.compact, parse: format.parseNumber, initial: 1e6, whole: true },
  error: { label: "False-positive rate", hint: "for keys that are not in the filter", low: 1e-7, high: 0.3, show: format.rate, parse: format.parseRate, initial: 0.01, down: true },
  growth: { label: "Growth", hint: "expected growth before a rebuild", low: 1, high: 100, show: format.times, parse: (text) => format.parseNumber(String(text).replace(/[×x]\s*$/, "")), initial: 1 },
};
const COSTS = {
  queries_per_second: { label: "Lookups per second", hint: "" },
  absent_share: { label: "Share of absent keys", hint: "0 to 1" },
  call_cost: { label: "Cost of a wasted call", hint: "in any unit" },
  memory_cost: { label: "Cost of 1 GiB per second", hint: "in the same unit" },
};

export function begin(route) {
  const local = { texts: {}, shown: "", problem: null };
  for (const [name, field] of Object.entries(FIELDS)) {
    const given = field.parse(route.query[name] ?? "");
    local[name] = given >= field.low * 0.999 && given <= field.high * 1.001 ? given : field.initial;
  }
  for (const name of Object.keys(COSTS)) {
    local[name] = /^[\d.e+-]{1,20}$/i.test(route.query[name] || "") ? route.query[name] : "";
  }
  return local;
}

export function address(local) {
  const query = new URLSearchParams();
  for (const [name, field] of Object.entries(FIELDS)) {
    if (local[name] !== field.initial) {
      query.set(name, String(local[name]));
    }
  }
  for (const name of Object.keys(COSTS)) {
    if (local[name] !== "") {
      query.set(name, local[name]);
    }
  }
  return query.size > 0 ? `#/planner?${query}` : "#/planner";
}

export async function load({ local, api }) {
  const costs = Object.fromEntries(Object.keys(COSTS).map((name) => [name, local[name]]));
  return api.get("api/v1/plan", { items: local.items, error: local.error, growth: local.growth, points: 48, ...costs });
}

export function render(context) {
  const { data, local } = context;
  const chosen = local.shown || (data.recommended ? data.recommended.kind : "blocked");
  return [
    h("div", { class: "planner" },
      panel("Requirements", { class: "knobs" }, Object.keys(FIELDS).map((name) => knob(name, context)), costs(context)),
      answer(context, chosen)),
    panel("All kinds", { note: "select a row to see its curves" }, table(context, chosen)),
    h("div", { class: "columns even" },
      panel(null, { key: "memory" }, memoryChart(data, local, chosen)),
      panel(null, { key: "load" }, loadChart(data, chosen))),
    data.hints.length > 0 && panel("Alternatives", null, h("ul", { class: "hints" }, data.hints.map((hint) => h("li", { key: hint }, hint)))),
  ];
}

// ---- Requirements --------------------------------------------------------------------------

const STEPS = 240; // steps of a slider

function knob(name, { local, change }) {
  const field = FIELDS[name];
  const span = Math.log(field.high / field.low);
  const place = Math.round((STEPS * Math.log(local[name] / field.low)) / span);
  const fromPlace = (p) => {
    const value = Number((field.low * Math.exp((span * p) / STEPS)).toPrecision(2));
    return Math.max(field.low, Math.min(field.high, field.whole ? Math.round(value) : value));
  };
  const text = local.texts[name];
  const typed = (value) => {
    const number = field.parse(value);
    const good = number >= field.low && number <= field.high;
    change({ texts: { ...local.texts, [name]: value }, ...(good ? { [name]: field.whole ? Math.round(number) : number } : {}) }, good ? 150 : -1);
  };
  const bad = text !== undefined && !(field.parse(text) >= field.low && field.parse(text) <= field.high);
  return h("div", { class: "knob", key: name },
    h("label", { for: `knob-${name}` }, field.label, h("small", null, field.hint)),
    h("input", {
      id: `knob-${name}`, type: "text", inputmode: "decimal", autocomplete: "off", class: "knob-text", value: text ?? field.show(local[name]),
      "aria-invalid": bad ? "true" : undefined, oninput: (event) => typed(event.target.value),
      onblur: () => change({ texts: { ...local.texts, [name]: undefined } }, -1),
    }),
    h("input", {
      type: "range", min: "0", max: String(STEPS), value: String(place), "aria-label": field.label, "aria-valuetext": field.show(local[name]),
      oninput: (event) => change({ [name]: fromPlace(Number(event.target.value)), texts: { ...local.texts, [name]: undefined } }, 120),
    }),
    bad && h("small", { class: "knob-bad", role: "alert" }, `from ${field.show(field.low)} to ${field.show(field.high)}`));
}

function costs({ local, change }) {
  return h("details", { class: "more", open: local.costs ?? Object.keys(COSTS).some((name) => local[name] !== ""), ontoggle: (event) => { local.costs = event.currentTarget.open; } },
    h("summary", null, "Costs"),
    h("div", { class: "cost-fields" }, Object.entries(COSTS).map(([name, field]) => h("label", { key: name }, field.label, h("small", null, field.hint),
      h("input", {
        type: "number", min: "0", step: "any", value: local[name], id: `cost-${name}`,
        oninput: (event) => change({ [name]: event.target.value }, 250),
      })))));
}

// ---- The plan ------------------------------------------------------------------------------

function answer({ data, local }, chosen) {
  const plan = data.kinds.find((p) => p.kind === chosen);
  const best = data.recommended && data.recommended.kind === chosen;
  if (!plan || !plan.possible) {
    return panel("Plan", { class: "answer-panel" }, h("p", null, h("b", null, chosen), ` is not possible: ${(plan && plan.problem) || "there is no plan"}`));
  }
  const line = (name, value, below) => h("div", { class: "number-cell", key: name }, h("h3", null, name), h("div", { class: "tile-value" }, value), h("small", null, below));
  return panel(best ? "Recommended" : "Plan", { class: "answer-panel", note: best ? undefined : "a different kind is recommended" },
    h("p", { class: "reason" }, badge(chosen, "accent"), " ", best ? data.recommended.reason.replace(/^\w+: /, "") : (plan.reason || "").replace(/^\w+: /, "")),
    h("div", { class: "numbers" },
      line("Memory", figure("plan_bytes", plan.bytes, format.bytes, `${format.count(plan.bytes)} bytes`), PLACES[plan.fits_into]),
      line("Bits per key", figure("plan_bits", plan.bits_per_key, (v) => format.significant(v)), format.bitsOfKey(plan.kind, plan.k)),
      line("Predicted rate", figure("plan_rate", plan.rate, format.rate), format.oneIn(plan.rate)),
      line("Lines per lookup", figure("plan_lines", plan.lines_per_lookup, format.count), "cache lines, for a key that may be present"),
      plan.calls_avoided !== null && plan.calls_avoided !== undefined && line("Calls avoided", figure("plan_avoided", plan.calls_avoided, format.perSecond), `${format.perSecond(plan.calls_wasted)} wasted`),
      plan.cost !== null && plan.cost !== undefined && line("Cost", figure("plan_cost", plan.cost, (v) => format.significant(v)), "per second, for memory and wasted calls")),
    h("pre", { class: "paste", tabindex: "0", "aria-label": "Command that creates this filter" }, h("code", null, creation(plan, local))));
}

const PLACES = {
  L1: "fits in the L1 cache", L2: "fits in the L2 cache", L3: "fits in the L3 cache", memory: "fits in main memory only",
  none: "does not fit in the machine's memory",
};

function creation(plan, local) {
  const items = Math.round(local.items * local.growth);
  return plan.kind === "fuse" || plan.kind === "ribbon"
    ? `bloomgate build --kind ${plan.kind} -p ${local.error} filter.bg < keys`
    : `BG.CREATE filter KIND ${plan.kind} CAPACITY ${items} ERROR ${local.error}`;
}

function table({ data, change }, chosen) {
  const withCost = data.kinds.some((plan) => plan.cost !== null && plan.cost !== undefined);
  const most = Math.max(...data.kinds.map((plan) => plan.bytes || 0));
  return h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Kinds of filters" }, h("table", { class: "kinds" },
    h("thead", null, h("tr", null, ["Kind", "Memory", "Bits per key", "Lines per lookup", "Rate as planned", "With 2× the keys", "With 10× the keys", withCost && "Cost", "Operations"].filter(Boolean)
      .map((name, i) => h("th", { key: name, scope: "col", class: i > 0 && name !== "Operations" ? "number" : "" }, name)))),
    h("tbody", null, data.kinds.map((plan) => h("tr", {
      key: plan.kind, class: `${plan.kind === chosen ? "chosen" : ""} ${plan.possible ? "" : "impossible"}`, "data-kind": plan.kind,
      onclick: () => change({ shown: plan.kind }, -1),
    },
    h("th", { scope: "row" }, h("button", { type: "button", class: "row-button", "aria-pressed": String(plan.kind === chosen), onclick: () => change({ shown: plan.kind }, -1) }, plan.kind),
      data.recommended && data.recommended.kind === plan.kind && badge("recommended", "accent")),
    plan.possible ? [
      h("td", { class: "number with-bar" }, figure("bytes", plan.bytes, format.bytes, `${format.count(plan.bytes)} bytes`), charts.bar(plan.bytes / most, "quiet")),
      h("td", { class: "number" }, figure("bits_per_key", plan.bits_per_key, (v) => format.significant(v))),
      h("td", { class: "number" }, figure("lines_per_lookup", plan.lines_per_lookup, format.count)),
      h("td", { class: "number" }, figure("rate", plan.rate, format.rate)),
      h("td", { class: "number" }, plan.rate_2x === null ? h("span", { class: "muted" }, "does not fit") : figure("rate_2x", plan.rate_2x, format.rate)),
      h("td", { class: "number" }, plan.rate_10x === null ? h("span", { class: "muted" }, "does not fit") : figure("rate_10x", plan.rate_10x, format.rate)),
      withCost && h("td", { class: "number" }, figure("cost", plan.cost ?? null, (v) => format.significant(v))),
      h("td", { class: "can" }, (plan.can || []).join(", ")),
    ] : h("td", { colspan: withCost ? 8 : 7, class: "muted" }, plan.problem || "not possible"))))));
}

// ---- Curves --------------------------------------------------------------------------------

// kinds that are colored in addition to the selected kind
const ALWAYS = ["blocked", "classic", "cuckoo", "ribbon"];

function colourOf(kind, chosen) {
  if (kind === chosen) {
    return "s1";
  }
  const i = ALWAYS.filter((k) => k !== chosen).slice(0, 3).indexOf(kind);
  return i < 0 ? "rest" : ["s2", "s3", "s4"][i];
}

function legend(curves, chosen) {
  return h("ul", { class: "outcome-list" }, curves.filter((c) => colourOf(c.kind, chosen) !== "rest").sort((a, b) => Number(b.kind === chosen) - Number(a.kind === chosen))
    .map((c) => h("li", { key: c.kind }, h("i", { class: `swatch ${colourOf(c.kind, chosen)}` }), c.kind)), h("li", { class: "muted", key: "rest" }, h("i", { class: "swatch rest" }), "others"));
}

function memoryChart(data, local, chosen) {
  const curves = data.curves.filter((c) => c.bits_per_key.length > 0);
  const planOf = (kind) => data.kinds.find((p) => p.kind === kind && p.possible);
  return [charts.curveChart({
    id: "p-memory", title: "Rate by memory", note: "lower and further left is better",
    label: `False-positive rate by bits per key for ${curves.map((c) => c.kind).join(", ")}; the table above shows the values`,
    yLog: true, yRange: [1e-6, 1], xRange: [0, 48], showX: (v) => format.significant(v), showY: format.rate, xName: "bits per key", guide: local.error >= 1e-6 ? local.error : undefined,
    curves: curves.map((c) => ({
      name: c.kind, kind: colourOf(c.kind, chosen), strong: c.kind === chosen, xs: c.bits_per_key, ys: c.rate, labelled: c.kind === chosen,
      mark: planOf(c.kind) && [planOf(c.kind).bits_per_key, planOf(c.kind).rate],
    })),
  }), legend(curves, chosen)];
}

function loadChart(data, chosen) {
  const curves = data.curves.filter((c) => c.multiple.length > 0);
  return [charts.curveChart({
    id: "p-load", title: "With more keys than planned", note: "filter sized for the planned number of keys",
    label: "False-positive rate by number of keys, as a multiple of the planned number; the table above shows the rates at 2× and 10×",
    xLog: true, xRange: [0.1, 10], xMarks: [0.1, 0.2, 0.5, 1, 2, 5, 10], yLog: true, yRange: [1e-6, 1], showX: (v) => `${format.significant(v)}×`, showY: format.rate,
    xName: "keys, as a multiple of the planned number", guideX: 1,
    curves: curves.map((c) => ({ name: c.kind, kind: colourOf(c.kind, chosen), strong: c.kind === chosen, xs: c.multiple, ys: c.rate_at })),
  }), legend(curves, chosen)];
}
