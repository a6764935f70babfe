// view_server.js - the server process: state, connections, persistence, limits and cluster filters.

import { h } from "./vdom.js";
import { icon } from "./icons.js";
import * as format from "./format.js";
import * as charts from "./charts.js";
import { figure, nameOf, messageOf, panel, facts, choice, badge } from "./parts.js";

export const title = () => "Server";

export function begin() {
  return { span: 600 };
}

export async function load({ local, api }) {
  const [past, { fronts }] = await Promise.all([
    api.get("api/v1/history", { seconds: local.span }),
    api.get("api/v1/fronts").catch(() => ({ fronts: [] })), // requires a permission that the user may not
                                                            // have
  ]);
  return { past, fronts };
}

export function render({ data, info, local, change }) {
  return [
    tiles(info),
    panel("History", { actions: choice("Time range", charts.SPANS, local.span, (span) => change({ span })) }, history(data.past, info)),
    data.fronts.map(front),
    h("div", { class: "columns three" }, service(info), durability(info), limits(info)),
  ];
}

function tiles(info) {
  const { memory, connections } = info;
  const open = connections.resp + connections.http;
  return h("div", { class: "tiles" },
    h("div", { class: "tile", key: "state" }, h("h3", { class: "tile-name" }, "State"),
      h("div", { class: "tile-value state" }, badge(info.state, info.state === "ready" ? "fine" : "watch")),
      h("div", { class: "tile-below" }, "up for ", figure("uptime_seconds", info.uptime_seconds, format.seconds))),
    h("div", { class: "tile", key: "memory" }, h("h3", { class: "tile-name" }, "Memory"),
      h("div", { class: "tile-value" }, figure("rss_bytes", memory.rss_bytes, format.bytes)),
      memory.limit_bytes !== null && charts.bar(memory.filter_bytes / memory.limit_bytes, memory.filter_bytes > 0.9 * memory.limit_bytes ? "watch" : "fine"),
      h("div", { class: "tile-below" }, figure("filter_bytes", memory.filter_bytes, format.bytes), " in filters",
        memory.limit_bytes !== null && `; limit ${format.bytes(memory.limit_bytes)}`)),
    h("div", { class: "tile", key: "connections" }, h("h3", { class: "tile-name" }, "Connections"),
      h("div", { class: "tile-value" }, figure("connections", open, format.count)),
      h("div", { class: "tile-below" }, figure("resp", connections.resp, format.count), " RESP, ", figure("http", connections.http, format.count), ` HTTP; limit ${format.count(connections.limit)}`)),
    h("div", { class: "tile", key: "commands" }, h("h3", { class: "tile-name" }, "Commands"),
      h("div", { class: "tile-value" }, figure("commands", info.commands, format.compact, format.count(info.commands))),
      h("div", { class: "tile-below" }, "since startup")),
    h("div", { class: "tile", key: "network" }, h("h3", { class: "tile-name" }, "Network"),
      h("div", { class: "tile-value" }, figure("received_bytes", info.network.received_bytes, format.bytes)),
      h("div", { class: "tile-below" }, "received; ", figure("sent_bytes", info.network.sent_bytes, format.bytes), " sent")));
}

function history(past) {
  const of = (name) => past.series[name] || [];
  const common = { from: past.from, step: past.step };
  return h("div", { class: "charts" },
    charts.timeChart({ ...common, id: "s-commands", title: "Commands per second", show: format.compact, tick: format.round, series: [{ name: "commands", kind: "s1", values: of("commands_per_second"), fill: true }] }),
    charts.timeChart({ ...common, id: "s-keys", title: "Keys per second", show: format.compact, tick: format.round, series: [
      { name: "looked up", kind: "s1", values: of("queries_per_second"), fill: true }, { name: "added", kind: "s2", values: of("adds_per_second") }] }),
    charts.timeChart({ ...common, id: "s-memory", title: "Memory", show: format.bytes, binary: true, series: [
      { name: "process", kind: "s1", values: of("rss_bytes"), fill: true }, { name: "filters", kind: "s4", values: of("filter_bytes") }] }),
    charts.timeChart({ ...common, id: "s-connections", title: "Connections", show: format.compact, tick: format.round, series: [{ name: "open", kind: "s3", values: of("connections"), fill: true }] }),
    charts.timeChart({ ...common, id: "s-network", title: "Network", show: format.bytesPerSecond, binary: true, series: [
      { name: "received", kind: "s1", values: of("received_bytes_per_second"), fill: true }, { name: "sent", kind: "s4", values: of("sent_bytes_per_second") }] }),
    charts.timeChart({ ...common, id: "s-share", title: "Share of lookups answered maybe", show: format.share, most: 1, nothing: of("queries_per_second").some((q) => q !== null) ? "No lookups in this period" : undefined, series: [{ name: "maybe", kind: "s3", fill: true,
      values: of("queries_per_second").map((q, i) => (q ? (of("maybes_per_second")[i] ?? 0) / q : null)) }] }));
}

const FRONT_STATES = { up: "fine", starting: "watch", partly: "act", down: "act" };

function front(f) {
  const failed = f.added.rejected + f.added.unknown;
  return panel(["Cluster filter: ", nameOf(f.name, 64)], { key: `front-${f.name}`, "data-front": f.name, actions: badge(f.state, FRONT_STATES[f.state]) },
    f.error !== null && h("p", { class: "advice act" }, icon("act"), messageOf(f.error)),
    facts([
      ["Shards up", figure("shards_up", f.shards.up, format.count), `of ${format.count(f.shards.count)}${f.shards.missing ? `; ${format.count(f.shards.missing)} missing` : ""}`],
      ["Nodes reached", figure("nodes_reached", f.nodes.reached, format.count), `of ${format.count(f.nodes.count)}`],
      ["Keys looked up", figure("front_answered", f.checked.maybe + f.checked.no, format.count)],
      ["Shard unreachable", figure("front_unreachable", f.checked.unreachable, format.count)],
      ["Keys added", figure("front_added", f.added.new + f.added.maybe_present, format.count)],
      ["Failed adds", figure("front_failed", failed, format.count), f.added.unknown > 0 && `${format.count(f.added.unknown)} of them may have been added`],
    ]));
}

function service(info) {
  return panel("Service", { key: "service" }, facts([
    ["Version", info.version],
    ["CPU instructions", info.cpu],
    ["Workers", figure("workers", info.workers, format.count)],
    ["Started", format.moment(info.started)],
    ["TLS", info.tls ? "yes" : "no"],
    ["Users", info.users ? "yes, login required" : "none: anyone who can reach the service has full access"],
    ["You", info.user.name === null ? "not signed in" : nameOf(info.user.name, 40), [info.user.admin && "administrator", !info.user.write && "read-only"].filter(Boolean).join(", ")],
    ["Connections accepted", figure("accepted", info.connections.accepted, format.count)],
    ["Connections refused", figure("connections_refused", info.connections.refused, format.count)],
  ]));
}

const PROMISES = {
  always: "every acknowledged add is on disk",
  everysec: "a system crash may lose the last second of adds",
  no: "the OS decides when adds reach the disk",
};

function durability(info) {
  const p = info.persistence;
  if (!p.enabled) {
    return panel("Persistence", { key: "persistence" }, h("p", null, "Off: filters are kept in memory only and are lost when the service stops."));
  }
  const since = (t) => (t === null ? "never" : format.ago(Math.max(0, info.now - t)));
  const problem = p.log.error || p.snapshot.error;
  return panel("Persistence", { key: "persistence" },
    problem && h("p", { class: "advice act" }, icon("act"), messageOf(problem)),
    p.loading && h("p", { class: "advice watch" }, icon("watch"), h("span", null, `Loading: ${format.count(p.loading.filters)} of ${p.loading.expected === null ? "?" : format.count(p.loading.expected)} filters`)),
    facts([
      ["Journal flush", h("code", null, p.appendfsync), PROMISES[p.appendfsync]],
      ["Journal size", figure("log_bytes", p.log.bytes, format.bytes), p.log.unsynced > 0 ? `${format.plural(p.log.unsynced, "record")} not on disk yet` : "all on disk"],
      ["Flushes to disk", figure("log_syncs", p.log.syncs, format.count), "since startup"],
      ["Journal", p.log.failed ? "not writable: changes are refused" : "writable"],
      ["Last snapshot", p.snapshot.running ? "running now" : since(p.snapshot.last_success), p.snapshot.last_seconds !== null && `took ${format.seconds(p.snapshot.last_seconds)}`],
      ["Failed snapshots", figure("snapshot_failures", p.snapshot.failures, format.count)],
      p.dir && ["Directory", h("code", null, messageOf(p.dir))],
    ]));
}

function limits(info) {
  const l = info.limits;
  const orUnlimited = (value, show) => (value === null || value === undefined ? "no limit" : show(value));
  return panel("Limits", { key: "limits" }, facts([
    ["Request body", format.bytes(l.max_body_bytes)],
    ["Uploaded file", orUnlimited(l.max_upload_bytes, format.bytes)],
    ["Keys per request", format.count(l.max_keys)],
    ["Key length", format.bytes(l.max_key_bytes)],
    ["Name length", format.bytes(l.max_name_bytes)],
    ["Memory per filter", orUnlimited(l.max_filter_bytes, format.bytes)],
    ["Memory for all filters", orUnlimited(info.memory.limit_bytes, format.bytes)],
    ["Number of filters", orUnlimited(l.max_filters, format.count)],
    ["Idle connections", l.idle_seconds ? `closed after ${format.seconds(l.idle_seconds)}` : "not closed"],
  ]));
}
