// charts.js - SVG charts: lines over time, curves, ranges of rates, bars for shares, and a heat map of a filter. CSS
// classes in the style sheet determine the colors. A chart responds to the pointer and, when it has focus, to the
// arrow keys; the values shown are also available as text.

import { h } from "./vdom.js";
import * as format from "./format.js";

let redraw = () => {};
const widths = new Map(); // chart widths by id, known after layout
const pointed = new Map(); // selected points by chart id

export function onRedraw(callback) {
  redraw = callback;
}

function widthOf(id, fallback) {
  return widths.get(id) || fallback;
}

function measured(id) {
  return (width) => {
    if (width > 0 && widths.get(id) !== width) {
      widths.set(id, width);
      redraw();
    }
  };
}

// The time ranges of the history, in seconds.
export const SPANS = [[600, "10 min"], [3600, "1 h"], [21600, "6 h"], [86400, "24 h"]];

// ---- Scales --------------------------------------------------------------------------------

// Returns about n round numbers from 0 (or `low`) to at least `high`.
export function ticks(low, high, n = 4) {
  const span = high - low || 1;
  const rough = span / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let i = Math.floor(low / step + 1e-9); found.length < 50; i++) {
    found.push(Number((i * step).toPrecision(12)));
    if (i * step >= high - step * 1e-9) {
      break;
    }
  }
  return found;
}

// Returns ticks for bytes: round numbers of KiB, MiB, ..., and at least 0 to 4 bytes
function byteTicks(high) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(1, high)) / Math.log(1024)));
  return ticks(0, Math.max(high, 4) / unit).map((mark) => mark * unit);
}

// Returns the approximate width of a label, in pixels.
export const labelWidth = (text) => 6.7 * text.length + 4 * (text.match(/[%mM]/g) || []).length;

// Returns the width that the axis labels need.
const roomFor = (texts) => Math.max(40, 12 + Math.max(0, ...texts.map(labelWidth)));

function decades(low, high) {
  const found = [];
  for (let e = Math.ceil(Math.log10(low) - 1e-9); e <= Math.log10(high) + 1e-9; e++) {
    found.push(10 ** e);
  }
  return found;
}

const STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

// Returns the ticks for a time axis: whole minutes or hours in the browser's time zone.
export function timeTicks(from, to, most) {
  const step = STEPS.find((s) => (to - from) / s <= most) || 86400;
  const zone = -new Date(from * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let t = Math.ceil((from + zone) / step) * step - zone; t <= to; t += step) {
    found.push(t);
  }
  return { found, withSeconds: step < 60 };
}

// Places the labels of a horizontal axis: each is centered on its mark, or moved so that it ends within the chart.
// Labels that would touch the next one are left out, starting from the right.
export function placed(marks, x, show, width) {
  const kept = [];
  let limit = Infinity;
  for (const mark of [...marks].reverse()) {
    const text = show(mark);
    const room = labelWidth(text);
    const left = Math.max(0, Math.min(width - room, x(mark) - room / 2));
    if (left + room <= limit) {
      kept.push({ mark, text, x: round(left + room / 2) });
      limit = left - 8;
    }
  }
  return kept.reverse();
}

// ---- Lines over time -----------------------------------------------------------------------

const round = (x) => Math.round(x * 10) / 10;

// Returns the SVG path of a line, with gaps where values are missing. A value between two gaps is a dot.
export function linePath(values, x, y) {
  let text = "";
  let down = false;
  values.forEach((value, i) => {
    if (value === null || value === undefined) {
      down = false;
      return;
    }
    const alone = !down && (values[i + 1] ?? null) === null;
    text += `${down ? "L" : "M"}${round(x(i))} ${round(y(value))}${alone ? "h0" : ""}`;
    down = true;
  });
  return text;
}

// Returns the SVG path of the area between two lines, or between a line and the bottom.
function areaPath(lows, highs, x, y) {
  let text = "";
  let from = -1;
  const close = (to) => {
    if (from < 0 || to < from) {
      return;
    }
    for (let i = from; i <= to; i++) {
      text += `${i === from ? "M" : "L"}${round(x(i))} ${round(y(highs[i]))}`;
    }
    for (let i = to; i >= from; i--) {
      text += `L${round(x(i))} ${round(y(lows ? lows[i] : 0))}`;
    }
    text += "Z";
  };
  const missing = (i) => highs[i] === null || highs[i] === undefined || (lows && (lows[i] === null || lows[i] === undefined));
  for (let i = 0; i < highs.length; i++) {
    if (missing(i)) {
      close(i - 1);
      from = -1;
    } else if (from < 0) {
      from = i;
    }
  }
  close(highs.length - 1);
  return text;
}

const lastKnown = (values) => {
  for (let i = values.length - 1; i >= 0; i--) {
    if (values[i] !== null && values[i] !== undefined) {
      return values[i];
    }
  }
  return null;
};

// Returns the index of the first point that any series has, or -1.
export function firstKnown(series) {
  const found = series.map((s) => (s.values || []).findIndex((v) => v !== null && v !== undefined)).filter((i) => i >= 0);
  return found.length > 0 ? Math.min(...found) : -1;
}

// Explains the part of a chart before its first point, if there is room.
export function gapWords(first, o, room) {
  const text = first < 0 ? o.nothing || `Collecting data: first point in about ${format.seconds(2 * o.step)}` : `No data before ${format.clock(o.from + o.step * first, true)}`;
  return first < 0 || room > labelWidth(text) + 16 ? text : "";
}

/*
 * Returns a chart over time. `o` contains: id, title, from, step (seconds), show (formats a value),
 * height, least (minimum upper end of the axis), most (largest possible value), tick (formats a number
 * on the axis), binary (bytes), and series: [{ name, kind (class of its color), values, band: [lows,
 * highs], fill: true, level: number (a dashed line instead of values) }]. A band does not extend the
 * axis: after a few lookups, it covers almost all rates, and would flatten the lines.
 */
export function timeChart(o) {
  const n = Math.max(0, ...o.series.map((s) => (s.values || []).length));
  const width = widthOf(o.id, 480);
  const height = o.height || 168;
  const highest = Math.max(o.least || 0, ...o.series.flatMap((s) => [s.level ?? 0, ...(s.values || []).map((v) => v ?? 0)]));
  const end = highest > 0 ? Math.min(highest * 1.04, o.most ?? Infinity) : 1;
  const marks = o.binary ? byteTicks(end) : ticks(0, end);
  const tick = o.tick || o.show;
  const space = { left: roomFor(marks.map(tick)), right: 10, top: 8, bottom: 22 };
  const top = marks[marks.length - 1];
  const to = o.from + o.step * Math.max(1, n - 1);
  const x = (i) => space.left + ((width - space.left - space.right) * i) / Math.max(1, n - 1);
  const y = (value) => space.top + (height - space.top - space.bottom) * (1 - Math.min(1, value / top));
  const at = pointed.has(o.id) ? Math.min(n - 1, pointed.get(o.id)) : -1;
  const times = timeTicks(o.from, to, Math.max(2, Math.floor(width / 90)));
  const first = firstKnown(o.series);
  const blank = first < 0 ? Math.max(1, n - 1) : first;
  return h("figure", { class: "chart", "data-chart": o.id },
    chartCaption(o, at, n),
    h("div", { class: "chart-box", measure: measured(o.id) },
      h("svg", {
        width, height, viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0",
        "aria-label": chartWords(o),
        ...chartPointer(o.id, n, (px) => Math.round(((px - space.left) / (width - space.left - space.right)) * (n - 1))),
      },
      marks.map((mark) => h("g", { class: "grid", key: `y${mark}` },
        h("line", { x1: space.left, x2: width - space.right, y1: round(y(mark)), y2: round(y(mark)) }),
        h("text", { x: space.left - 8, y: round(y(mark)) + 4, "text-anchor": "end" }, tick(mark)))),
      placed(times.found, (t) => x((t - o.from) / o.step), (t) => format.clock(t, times.withSeconds), width)
        .map((label) => h("text", { class: "time", key: `x${label.mark}`, x: label.x, y: height - 6, "text-anchor": "middle" }, label.text)),
      o.series.map((s) => seriesOf(s, x, y, width, space)),
      at >= 0 && h("g", { class: "cross" },
        h("line", { x1: round(x(at)), x2: round(x(at)), y1: space.top, y2: height - space.bottom }),
        o.series.map((s) => s.values && s.values[at] !== null && s.values[at] !== undefined
          && h("circle", { class: `dot ${s.kind}`, cx: round(x(at)), cy: round(y(s.values[at])), r: 3.5 }))),
      h("text", { class: "nothing", x: round((space.left + x(blank)) / 2), y: height / 2, "text-anchor": "middle" },
        gapWords(first, o, x(blank) - space.left)))));
}

// Returns a chart of false-positive rates over time. The axis starts with a range whose labels differ: rates that are
// shown as a limit, such as "< 0.001%", are drawn at its lower end.
export function rateChart(o) {
  return timeChart({ ...o, show: format.rateUnder(o.target), tick: format.rate, least: Math.max(4e-9, (o.target ?? 0) / 1000), most: 1 });
}

function seriesOf(s, x, y, width, space) {
  if (s.level !== undefined) {
    return s.level === null ? null : h("line", {
      class: `level ${s.kind}`, x1: space.left, x2: width - space.right, y1: round(y(s.level)), y2: round(y(s.level)),
    });
  }
  return h("g", { key: s.name },
    s.band && h("path", { class: `band ${s.kind}`, d: areaPath(s.band[0], s.band[1], x, y) }),
    s.fill && h("path", { class: `under ${s.kind}`, d: areaPath(null, s.values, x, y) }),
    h("path", { class: `line ${s.kind}`, d: linePath(s.values, x, y) }));
}

function valueAt(s, at) {
  return s.level !== undefined ? s.level : at >= 0 ? s.values[at] ?? null : lastKnown(s.values);
}

function chartCaption(o, at, n) {
  return h("figcaption", null,
    h("span", { class: "chart-title" }, o.title),
    h("span", { class: "legend" },
      at >= 0 && n > 0 && h("span", { class: "legend-time" }, format.clock(o.from + o.step * at, true)),
      o.series.map((s) => h("span", { class: "legend-item" },
        h("i", { class: `swatch ${s.kind}${s.level !== undefined ? " dashed" : ""}` }),
        h("span", { class: "legend-name" }, s.name), " ",
        h("b", null, o.show(valueAt(s, at)))))));
}

function chartWords(o) {
  const words = o.series.map((s) => `${s.name} ${o.show(valueAt(s, -1))}`);
  return `${o.title}. Now: ${words.join(", ")}. Use the left and right arrow keys to step through the points.`;
}

// Returns a chart's event handlers for the pointer and the arrow keys.
function chartPointer(id, n, indexAt) {
  const look = (i) => {
    const now = Math.max(0, Math.min(n - 1, i));
    if (n > 0 && pointed.get(id) !== now) {
      pointed.set(id, now);
      redraw();
    }
  };
  const leave = () => {
    if (pointed.delete(id)) {
      redraw();
    }
  };
  return {
    onpointermove: (event) => look(indexAt(event.clientX - event.currentTarget.getBoundingClientRect().left)),
    onpointerleave: leave,
    onblur: leave,
    onkeydown: (event) => {
      const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 };
      if (event.key in moves && !event.altKey && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        look((pointed.has(id) ? pointed.get(id) : n - 1) + moves[event.key]);
      } else if (event.key === "Escape" && pointed.has(id)) {
        event.stopPropagation();
        leave();
      }
    },
  };
}

// Returns a line without axes that fills the available width. The line is decorative, because a number next to it
// shows the same information.
export function sparkline(id, values, kind) {
  const width = widthOf(id, 180);
  const height = 26;
  const top = Math.max(1e-9, ...values.map((v) => v ?? 0));
  const x = (i) => (width * i) / Math.max(1, values.length - 1);
  const y = (value) => 2 + (height - 4) * (1 - value / top);
  return h("div", { class: "spark", measure: measured(id), "aria-hidden": "true" },
    h("svg", { width, height, viewBox: `0 0 ${width} ${height}` },
      h("path", { class: `under ${kind}`, d: areaPath(null, values, x, (v) => (v === 0 ? height : y(v))) }),
      h("path", { class: `line ${kind}`, d: linePath(values, x, y) })));
}

// ---- Shares --------------------------------------------------------------------------------

export function bar(value, kind = "", label = undefined) {
  const part = value === null || value === undefined ? 0 : Math.max(0, Math.min(1, value));
  return h("span", { class: `bar ${kind}`, role: label ? "img" : undefined, "aria-label": label, "aria-hidden": label ? undefined : "true" },
    h("span", { class: "bar-in", style: { width: `${round(part * 1000) / 10}%` } }));
}

// Returns a bar that shows the parts of a whole side by side: [{ value, kind, name }]
export function stack(parts, label) {
  const all = parts.reduce((sum, part) => sum + part.value, 0);
  return h("span", { class: "stack", role: "img", "aria-label": label },
    all > 0 && parts.filter((part) => part.value > 0).map((part) => h("span", {
      key: part.kind, class: `stack-part ${part.kind}`, title: `${part.name}: ${format.count(part.value)}`,
      style: { "flex-grow": String(part.value / all) },
    })));
}

// ---- Ranges of rates -----------------------------------------------------------------------

const REACH = 1; // decades on each side of the target

/*
 * Returns a small chart of a filter's rates. The target is the line in the middle; the left end is ten times
 * better, and the right end is ten times worse. A dot shows the predicted rate, a bar with end marks shows the
 * observed rate, and a thin bar shows the measured rate.
 */
export function rateRange(rates) {
  const width = 116;
  const height = 22;
  const reference = rates.target || rates.predicted;
  if (!reference) {
    return null;
  }
  const x = (rate) => {
    const place = rate > 0 ? Math.log10(rate / reference) / REACH : -1;
    return round(6 + ((width - 12) * (Math.max(-1, Math.min(1, place)) + 1)) / 2);
  };
  const middle = height / 2;
  return h("svg", { class: "range", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": rateWords(rates) },
    h("line", { class: "axis", x1: 6, x2: width - 6, y1: middle, y2: middle }),
    h("rect", { class: "bad", x: width / 2, y: 3, width: width / 2 - 4, height: height - 6, rx: 2 }),
    h("line", { class: "target", x1: width / 2, x2: width / 2, y1: 2, y2: height - 2 }),
    rates.measured && whisker("measured", rates.measured, x, middle + 5, 0),
    rates.observed && whisker("observed", rates.observed, x, middle - (rates.measured ? 3 : 0), 3.5),
    rates.predicted !== null && h("circle", { class: "dot predicted", cx: x(rates.predicted), cy: middle, r: 3.5 }));
}

function whisker(kind, estimate, x, y, half) {
  const low = x(estimate.low);
  const high = Math.max(x(estimate.high), low + 1);
  return h("g", { class: `whisker ${kind}` },
    h("line", { x1: low, x2: high, y1: y, y2: y }),
    half > 0 && h("line", { x1: low, x2: low, y1: y - half, y2: y + half }),
    half > 0 && h("line", { x1: high, x2: high, y1: y - half, y2: y + half }),
    h("circle", { cx: x(estimate.value), cy: y, r: half > 0 ? 2.4 : 1.6 }));
}

export function rateWords(rates) {
  const parts = [];
  if (rates.target) {
    parts.push(`target ${format.target(rates.target)}`);
  }
  if (rates.predicted !== null && rates.predicted !== undefined) {
    parts.push(`predicted ${format.rate(rates.predicted)}`);
  }
  for (const name of ["measured", "observed"]) {
    if (rates[name]) {
      parts.push(`${name} ${format.rate(rates[name].value)} (${format.interval(rates[name], format.rate)})`);
    }
  }
  return parts.join(", ");
}

// Formats a power of ten as a rate, such as 0.01%.
const powerOfTen = (mark) => format.rate(Number(mark.toPrecision(1)));

/* Returns a large chart of a filter's rates: one row per rate, on a logarithmic axis. */
export function rateRows(id, rates) {
  const rows = [
    ["target", "Target", "as configured", rates.target],
    ["predicted", "Predicted", "from the current fill", rates.predicted],
    ["measured", "Measured", "with random keys", rates.measured],
    ["observed", "Observed", "from lookups so far", rates.observed],
  ].filter(([, , , value]) => value !== undefined);
  const values = rows.flatMap(([, , , v]) => (v === null || v === undefined ? []
    : typeof v === "number" ? [v] : [v.value, v.low, v.high])).filter((v) => v > 0);
  // The tiny rate of an almost empty filter is drawn at the left end, so that it does not compress the other rates.
  const least = (rates.target || Math.max(...values, 0.01)) / 1000;
  const low = 10 ** Math.floor(Math.log10(Math.max(least, Math.min(...values, 0.01))) - 0.15);
  const high = Math.min(1, 10 ** Math.ceil(Math.log10(Math.max(...values, low * 10)) + 0.15));
  const width = widthOf(id, 420);
  const height = 26;
  const x = (v) => round(4 + ((width - 8) * (Math.log10(Math.max(v, low)) - Math.log10(low))) / (Math.log10(high) - Math.log10(low)));
  const marks = decades(low, high);
  const show = format.rateUnder(rates.target);
  return h("div", { class: "rate-rows" },
    rows.map(([kind, name, from, value]) => h("div", { class: "rate-row", key: kind },
      h("div", { class: "rate-name" }, h("b", null, name), h("small", null, from)),
      h("div", { class: "rate-plot", measure: kind === "target" ? measured(id) : undefined },
        h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
          marks.map((mark) => h("line", { class: "grid-line", x1: x(mark), x2: x(mark), y1: 0, y2: height })),
          rates.target && h("line", { class: "target", x1: x(rates.target), x2: x(rates.target), y1: 0, y2: height }),
          value !== null && value !== undefined && (typeof value === "number"
            ? h("circle", { class: `dot ${kind}`, cx: x(value), cy: height / 2, r: 4.5 })
            : whisker(kind, value, x, height / 2, 5)))),
      h("div", { class: "rate-value" },
        value === null || value === undefined ? h("span", { class: "muted" }, kind === "observed" ? "nothing reported yet" : format.UNKNOWN)
          : typeof value === "number"
            ? [h("data", { value: String(value), "data-figure": kind }, kind === "target" ? format.target(value) : show(value)), h("small", null, format.oneIn(value))]
            : [h("data", { value: String(value.value), "data-figure": kind }, show(value.value)),
              h("small", null, format.interval(value, show))]))),
    h("div", { class: "rate-row rate-axis" }, h("div"),
      h("div", { class: "rate-plot" }, h("svg", { width, height: 16, viewBox: `0 0 ${width} 16`, "aria-hidden": "true" },
        placed(marks, x, powerOfTen, width).map((label) => h("text", { x: label.x, y: 11, "text-anchor": "middle" }, label.text)))),
      h("div")));
}

// ---- Curves --------------------------------------------------------------------------------

/*
 * Returns a chart with curves of y over x. `o` contains: id, title, note; xLog, yLog (use
 * logarithmic scales); curves: [{ name, kind, strong, xs, ys, mark: [x, y] }], showX, showY, xName,
 * yName
 */
export function curveChart(o) {
  const width = widthOf(o.id, 520);
  const height = o.height || 280;
  const xs = o.curves.flatMap((c) => [...c.xs, ...(c.mark ? [c.mark[0]] : [])]);
  const ys = o.curves.flatMap((c) => [...c.ys, ...(c.mark ? [c.mark[1]] : [])]).filter((v) => v !== null && v > 0);
  const [xLow, xHigh] = o.xRange || [o.xLog ? Math.min(...xs) : 0, Math.max(...xs, 1)];
  const [yLow, yHigh] = o.yRange || [Math.min(...ys, 1), Math.max(...ys, 1e-9)];
  const across = (low, high, log) => (log
    ? (v) => (Math.log10(Math.max(v, low)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low))
    : (v) => (v - low) / (high - low));
  const yMarks = o.yLog ? decades(yLow, yHigh) : ticks(yLow, yHigh).filter((v) => v <= yHigh);
  const space = { left: roomFor(yMarks.map(o.showY)), right: 16, top: 12, bottom: 38 };
  const fx = across(xLow, xHigh, o.xLog);
  const fy = across(yLow, yHigh, o.yLog);
  const x = (v) => space.left + (width - space.left - space.right) * fx(v);
  const y = (v) => space.top + (height - space.top - space.bottom) * (1 - fy(v));
  const xMarks = o.xMarks || (o.xLog ? decades(xLow, xHigh) : ticks(xLow, xHigh, Math.floor(width / 90)).filter((v) => v <= xHigh));
  const inside = (px, py) => px <= xHigh * 1.0001 && px >= xLow * 0.9999 && py !== null && py >= yLow * 0.9999 && py <= yHigh * 1.0001;
  const path = (c) => {
    let text = "";
    let down = false;
    c.xs.forEach((value, i) => {
      if (!inside(value, c.ys[i])) {
        down = false;
        return;
      }
      text += `${down ? "L" : "M"}${round(x(value))} ${round(y(c.ys[i]))}`;
      down = true;
    });
    return text;
  };
  const order = [...o.curves].sort((a, b) => Number(a.strong || false) - Number(b.strong || false));
  return h("figure", { class: "chart curves", "data-chart": o.id },
    h("figcaption", null, h("span", { class: "chart-title" }, o.title), o.note && h("span", { class: "muted" }, o.note)),
    h("div", { class: "chart-box", measure: measured(o.id) },
      h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": o.label || o.title },
        yMarks.map((mark) => h("g", { class: "grid", key: `y${mark}` },
          h("line", { x1: space.left, x2: width - space.right, y1: round(y(mark)), y2: round(y(mark)) }),
          h("text", { x: space.left - 8, y: round(y(mark)) + 4, "text-anchor": "end" }, o.showY(mark)))),
        placed(xMarks, x, o.showX, width).map((label) => h("text", { class: "time", key: `x${label.mark}`, x: label.x, y: height - 20, "text-anchor": "middle" }, label.text)),
        h("text", { class: "axis-name", x: width - space.right, y: height - 4, "text-anchor": "end" }, o.xName),
        o.guide && h("line", { class: "guide", x1: space.left, x2: width - space.right, y1: round(y(o.guide)), y2: round(y(o.guide)) }),
        o.guideX && h("line", { class: "guide", x1: round(x(o.guideX)), x2: round(x(o.guideX)), y1: space.top, y2: height - space.bottom }),
        order.map((c) => h("path", { key: c.name, class: `line ${c.kind}${c.strong ? " strong" : " faint"}`, d: path(c) })),
        order.map((c) => c.mark && inside(c.mark[0], c.mark[1]) && h("g", { key: `m${c.name}`, class: c.strong ? "" : "faint-mark" },
          h("circle", { class: `mark ${c.kind}`, cx: round(x(c.mark[0])), cy: round(y(c.mark[1])), r: c.strong ? 5 : 3 },
            h("title", null, `${c.name}: ${o.showX(c.mark[0])}, ${o.showY(c.mark[1])}`)),
          c.labelled && h("text", { class: "mark-name", x: round(x(c.mark[0])) + 9, y: round(y(c.mark[1])) - 6 }, c.name))))));
}

// ---- A filter as a picture -----------------------------------------------------------------

/* Returns a heat map: rows of cells, each shaded according to where its share lies between `low` and `high`. */
export function heatMap(id, shares, low, high, label) {
  const width = widthOf(id, 640);
  const columns = Math.max(8, Math.min(64, Math.floor(width / 9)));
  const rows = Math.ceil(shares.length / columns);
  const side = width / columns;
  const tall = Math.min(side, 14);
  const at = pointed.has(id) ? Math.min(shares.length - 1, pointed.get(id)) : -1;
  const strength = (v) => (high > low ? Math.max(0, Math.min(1, (v - low) / (high - low))) : v);
  const index = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const column = Math.min(columns - 1, Math.floor((event.clientX - box.left) / side));
    return Math.min(rows - 1, Math.max(0, Math.floor((event.clientY - box.top) / tall))) * columns + Math.max(0, column);
  };
  const handlers = chartPointer(id, shares.length, () => 0);
  return h("div", { class: "heat", measure: measured(id) },
    h("div", { class: "heat-box" }, h("svg", {
      width, height: round(rows * tall), viewBox: `0 0 ${width} ${round(rows * tall)}`, role: "img", tabindex: "0", "aria-label": label,
      ...handlers,
      onpointermove: (event) => {
        const i = index(event);
        if (i < shares.length && pointed.get(id) !== i) {
          pointed.set(id, i);
          redraw();
        }
      },
    },
    shares.map((value, i) => h("rect", {
      x: round((i % columns) * side), y: round(Math.floor(i / columns) * tall),
      width: round(side - 1), height: round(tall - 1), rx: 1.5, "fill-opacity": round((0.05 + 0.95 * strength(value)) * 100) / 100,
    })),
    at >= 0 && h("rect", {
      class: "heat-at", x: round((at % columns) * side) - 1, y: round(Math.floor(at / columns) * tall) - 1,
      width: round(side + 1), height: round(tall + 1), rx: 2,
    }))),
    h("p", { class: "heat-words", role: "status" }, at >= 0
      ? `Part ${format.count(at + 1)} of ${format.count(shares.length)}: ${format.share(shares[at])} set` : " "));
}
