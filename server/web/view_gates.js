// view_gates.js - the list of gates: avoided and wasted calls to the source, and whether the filter is trusted. Each
// gate links to its own page.

import { h } from "./vdom.js";
import { panel, rebuildProgress, emptyNote } from "./parts.js";
import { idOf, gateLink, badges, sourceLine, problems, numbers, outcomes, rebuildButton } from "./gate_parts.js";

export const title = () => "Gates";

export function begin() {
  return {};
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

function card(gate, context) {
  return h("section", { class: "panel gate", key: idOf(gate), "data-gate": gate.name },
    h("div", { class: "gate-head" },
      h("h2", null, gateLink(gate.name)), badges(gate), h("div", { class: "actions" }, rebuildButton(gate, context))),
    sourceLine(gate), problems(gate), gate.rebuild && rebuildProgress(gate.rebuild), numbers(gate), outcomes(gate));
}
