// view_tenants.js - users, their usage of the service, and their refused requests.

import { h } from "./vdom.js";
import * as format from "./format.js";
import * as charts from "./charts.js";
import { figure, nameOf, panel, badge, emptyNote } from "./parts.js";

export const title = () => "Tenants";

export function begin() {
  return {};
}

export async function load({ api }) {
  return api.get("api/v1/tenants");
}

export function render({ data, info }) {
  const { tenants } = data;
  if (tenants.length === 0) {
    return panel(null, null, emptyNote("No users", info.users ? "You do not have permission to see users." : "Anyone who can reach the service has full access. Define users in the configuration."));
  }
  return panel(null, { class: "table-panel" }, h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Users" }, h("table", { class: "tenants" },
    h("thead", null, h("tr", null, [["User", ""], ["Permissions", ""], ["Filters", "number"], ["Memory", "number"], ["Keys", "number"], ["Lookups", "number"], ["Adds", "number"], ["Connections", "number"], ["Refused", ""]]
      .map(([name, kind]) => h("th", { key: name, scope: "col", class: kind }, name)))),
    h("tbody", null, tenants.map(row)))));
}

// Returns a table cell with a value, and a bar below it if the value has a limit.
function limited(name, value, limit, show) {
  const part = limit ? value / limit : null;
  return h("td", { class: "number with-bar" }, figure(name, value, show),
    limit !== null && h("small", null, `of ${show(limit)}`),
    part !== null && charts.bar(part, part >= 1 ? "act" : part > 0.9 ? "watch" : "quiet"));
}

const REFUSED = [["rate", "over the rate limit"], ["rights", "not allowed"], ["quota", "over a quota"]];

function row(tenant) {
  const refused = REFUSED.filter(([reason]) => tenant.refused[reason] > 0);
  return h("tr", { key: tenant.name, "data-tenant": tenant.name },
    h("th", { scope: "row" }, nameOf(tenant.name, 40), h("small", null, !tenant.enabled && badge("disabled", "watch"), tenant.admin && badge("admin", "accent"))),
    h("td", null, h("code", { class: "rules" }, tenant.rules.map((rule, i) => [i > 0 && " ", h("span", { class: "rule" }, rule)])), h("small", null, tenant.patterns.map((pattern, i) => [i > 0 && ", ", nameOf(pattern, 60)]))),
    limited("filters", tenant.charged.filters ?? tenant.filters, tenant.limits.filters, format.count),
    limited("bytes", tenant.charged.bytes ?? tenant.bytes, tenant.limits.bytes, format.bytes),
    h("td", { class: "number" }, figure("items", tenant.items, format.keys)),
    h("td", { class: "number" }, figure("queries_per_second", tenant.per_second.queries, format.perSecond), h("small", null, figure("queries", tenant.counters.queries, format.compact), " total")),
    limited("adds_per_second", tenant.per_second.adds, tenant.limits.inserts_per_second, format.perSecond),
    h("td", { class: "number" }, figure("connections", tenant.connections, format.count)),
    h("td", null, refused.length === 0 ? h("span", { class: "muted" }, "none")
      : h("ul", { class: "refused" }, refused.map(([reason, words]) => h("li", { key: reason }, figure(`refused_${reason}`, tenant.refused[reason], format.count), ` ${words}`)))));
}
