// Tests the dashboard's functions that need no browser: numbers, names, user input and chart
// scales.
// usage: node check_format.mjs

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

// Node treats .js files as modules only if a package.json declares the module type, so the files
// are copied next to a package.json that does so.
const place = fs.mkdtempSync(path.join(os.tmpdir(), "bloomgate-format-"));
process.on("exit", () => fs.rmSync(place, { recursive: true }));
const web = fileURLToPath(new URL("../../../server/web/", import.meta.url));
for (const file of fs.readdirSync(web).filter((name) => name.endsWith(".js"))) {
  fs.copyFileSync(path.join(web, file), path.join(place, file));
}
fs.writeFileSync(path.join(place, "package.json"), '{"type": "module"}');
process.env.TZ = "UTC";
const load = (file) => import(pathToFileURL(path.join(place, file)));
const f = await load("format.js");
const charts = await load("charts.js");
const parts = await load("parts.js");
const forms = await load("filter_forms.js");
const { h } = await load("vdom.js");

let passed = 0;
let failed = 0;

function check(name, work) {
  try {
    work();
    passed++;
  } catch (error) {
    failed++;
    console.log(`FAILED: ${name}: ${error.message}`);
  }
}

// Checks each value against the text that must be shown for it.
function table(name, show, rows) {
  for (const [value, text] of rows) {
    check(`${name}(${JSON.stringify(value)})`, () => assert.equal(show(value), text));
  }
}

const nothing = [[null, "–"], [undefined, "–"], [NaN, "–"], [Infinity, "–"]];

// ---- Numbers, with the rows of the command line's own test --------------------------------------

table("count", f.count, [[0, "0"], [999, "999"], [1000, "1,000"], [1234567, "1,234,567"], [934210.4, "934,210"], [2 ** 53, "9,007,199,254,740,992"], [-1234, "−1,234"], ...nothing]);
table("bytes", f.bytes, [[0, "0 B"], [999, "999 B"], [1000, "1.0 KiB"], [12 * 2 ** 20, "12.0 MiB"], [500 * 2 ** 30, "500 GiB"], [2 ** 64, "16.0 EiB"],
  [1241280, "1.2 MiB"], ...nothing]);
table("rate", f.rate, [[0.001, "0.1%"], [0, "0%"], [1, "100%"], [1e-9, "0.0000001%"], [1.4e-13, "< 0.0000001%"], [1e-7, "0.00001%"], [2.345e-8, "0.00000234%"], [0.00999777, "1%"], [0.00751, "0.751%"], [0.123354, "12.3%"],
  [0.985832, "98.6%"], [1e-6, "0.0001%"], [2.5e-6, "0.00025%"], [0.5, "50%"], ...nothing]);
table("target", f.target, [[0.01, "1%"], [0.00990006, "1%"], [0.000990006, "0.1%"], [0.0148, "1.5%"], [0.0078, "0.78%"], [0.5, "50%"], [0, "0%"], ...nothing]);
table("rateUnder", f.rateUnder(0.01), [[1.4e-13, "< 0.001%"], [0.00002, "0.002%"], [0, "0%"], [0.0075, "0.75%"], ...nothing]);
table("rateUnder without a target", f.rateUnder(null), [[0.0001, "0.01%"], ...nothing]);
table("oneIn", f.oneIn, [[0.01, "1 in 100"], [0.00751, "1 in 133"], [0, "none"], [0.9, "90%"], [1e-6, "1 in 1.00 M"], ...nothing]);
table("share", f.share, [[0, "0%"], [1, "100%"], [0.4313, "43.1%"], [0.00001, "< 0.1%"], [0.9999, "99.99%"], [0.999999, "99.999%"], [0.9994, "99.9%"],
  [1.25, "125.0%"], ...nothing]);
table("compact", f.compact, [[0, "0"], [17, "17"], [9999, "9,999"], [10000, "10.0 k"], [12345, "12.3 k"], [999499, "999 k"], [999500, "1.00 M"], [80000000, "80.0 M"],
  [1.5, "1.5"], [0.0199, "0.0199"], [123.456, "123"], [9999.6, "10.0 k"], ...nothing]);
table("round", f.round, [[0, "0"], [50000, "50 k"], [1500000, "1.5 M"], [1250000000, "1.25 G"], [100000, "100 k"], [1000, "1,000"], [0.05, "0.05"], [2e7, "20 M"]]);
table("seconds", f.seconds, [[0.5, "500 ms"], [12.7, "12 s"], [200, "3m 20s"], [7260, "2h 01m"], [90000, "1d 1h"], [4.2e-4, "420 µs"], [1.93, "1.9 s"], [0, "0 s"],
  [400 * 86400, "1y 35d"], [-1, "–"], ...nothing]);
table("age", f.age, [[0.4, "now"], [12.9, "12 s"], [200, "3 min"], [7260, "2 h"], [90000, "1 d"], [1000 * 86400, "2 y"], [-1, "–"], ...nothing]);
table("ago", f.ago, [[0.4, "now"], [59.9, "59 s ago"], [200, "3 min ago"], [null, "–"]]);
table("keys", f.keys, [[412000.4, "412,000"], [1e6, "1,000,000"], [9999999, "9,999,999"], [12345678, "12.3 M"], ...nothing]);
table("perSecond", f.perSecond, [[0, "0/s"], [1840.25, "1,840/s"], [193000, "193 k/s"], [0.15623, "0.156/s"], [99.99, "100/s"], ...nothing]);
check("bitsOfKey", () => assert.deepEqual([["blocked", 6], ["classic", 1], ["cuckoo", 12], ["ribbon", 1], ["counting", 7]].map(([kind, k]) => f.bitsOfKey(kind, k)),
  ["6 bits set per key", "1 bit set per key", "12 bits per fingerprint", "1 bit per fingerprint", "7 counters per key"]));
table("times", f.times, [[1, "1×"], [2.5, "2.5×"], [12.345, "12×"], ...nothing]);
table("moment", f.moment, [[1790000000.5, "2026-09-21 14:13:20"], ...nothing]);
table("clock", (t) => f.clock(t), [[1790000000, "14:13"]]);
check("interval", () => assert.equal(f.interval({ value: 0.5, low: 0.0071, high: 0.0083 }, f.rate), "0.71% – 0.83%"));
check("no interval", () => assert.equal(f.interval(null, f.rate), "–"));
check("plural", () => assert.deepEqual([f.plural(1, "filter"), f.plural(0, "filter"), f.plural(1200, "entry", "entries")], ["1 filter", "0 filters", "1,200 entries"]));
check("significant as %.3g", () => assert.deepEqual([0.1, 9.93024, 100, 123456, 1.0, 99.96, 1e-7].map((x) => f.significant(x)),
  ["0.1", "9.93", "100", "123000", "1", "100", "1e-7"]));

// ---- Health -------------------------------------------------------------------------------------

const filled = (value, low, ...codes) => ({ items: { value, low, high: value }, capacity: 1000, health: { status: "act", reasons: codes.map((code) => ({ code, text: "" })) } });
for (const [filter, kind, words] of [[filled(800, 790), "fine", ""], [filled(950, 940, "fill"), "watch", "nearly full"], [filled(1010, 990, "fill"), "watch", "over capacity"],
  [filled(1100, 1080, "fill", "predicted"), "act", "over capacity, rate above target"], [filled(990, 980, "full"), "act", "full: rejects keys"]]) {
  check(`fill of ${JSON.stringify(filter)}`, () => assert.deepEqual([parts.partKind(filter), parts.healthWords(filter.health, parts.partOf(filter))], [kind, words]));
}

check("size in words", () => assert.deepEqual([{ items: { value: 412000.4 }, capacity: 1e6, target: 0.01 }, { items: { value: 1 }, capacity: 1, target: null },
  { items: { value: 1 }, capacity: null, target: 0.01 }, { items: null, capacity: 1e6, target: 0.01 }, { items: null, capacity: null, target: null }].map(parts.sizeWords),
["412,000 of 1,000,000 keys, 1% target", "1 of 1 key", "1 key, 1% target", "1,000,000 keys planned, 1% target", ""]));

// ---- Creating a filter --------------------------------------------------------------------------

const form = { name: "a", kind: "auto", capacity: "1M", rate: "1%", memory: "" };
check("a request for a filter", () => assert.deepEqual(forms.creation(form), { name: "a", kind: "auto", capacity: 1e6, error: 0.01 }));
check("memory replaces the rate", () => assert.deepEqual(forms.creation({ ...form, memory: "64Mi" }), { name: "a", kind: "auto", capacity: 1e6, memory: 2 ** 26 }));
check("invalid numbers are explained", () => {
  assert.throws(() => forms.creation({ ...form, capacity: "many" }), /keys: found "many", expected a number such as/);
  assert.throws(() => forms.creation({ ...form, rate: " " }), /false-positive rate: found nothing, expected a rate/);
  assert.throws(() => forms.creation({ ...form, rate: "150%" }), /false-positive rate: found "150%", expected a rate/);
  assert.throws(() => forms.creation({ ...form, memory: "big" }), /memory: found "big", expected a size/);
});

// ---- Names --------------------------------------------------------------------------------------

const shown = (name, most) => f.nameText(name, most);
table("name", shown, [["users", "users"], ["", "(empty name)"], ["<script>alert(1)</script>", "<script>alert(1)</script>"], ["a\nb\tc\0d\re", "a\\nb\\tc\\0d\\re"],
  ["\u202egnp.exe", "\\u202egnp.exe"], ["\u2066x\u2069", "\\u2066x\\u2069"], ["zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"], [" a b ", "\\x20a b\\x20"], ["  ", "\\x20\\x20"],
  ["\x7f\x9b", "\\x7f\\x9b"], ["\u00e9\u4e2d\u05d0\u{1f600}", "\u00e9\u4e2d\u05d0\u{1f600}"], ["\ud800x", "\\ud800x"], ["no\u00a0break", "no\\xa0break"]]);
check("long name", () => {
  const text = shown("x".repeat(10240), 120);
  assert.ok(text.length < 200 && text.includes("10,120 more"), text);
});
check("a long name that consists of surrogate pairs", () => assert.ok(shown("\u{1f600}".repeat(500), 10).startsWith("\u{1f600}".repeat(7))));
table("segment", (name) => f.segment(name), [["users", "users"], ["a/b?c#d%", "a%2Fb%3Fc%23d%25"], [".", "=Lg"], ["..", "=Li4"], ["", "="], ["=x", "%3Dx"], ["...", "..."],
  ["\u00e9", "%C3%A9"], [" ", "%20"]]);
check("segment of bytes", () => assert.equal(f.segment("\ufffd", "//79+/A="), "=__79-_A"));
table("parameter", (name) => f.parameter(name), [["users", "users"], ["..", ".."], ["=x", "=PXg"], ["", "="], ["a b", "a b"]]);
check("parameter of bytes", () => assert.equal(f.parameter("\ufffd", "/w=="), "=_w"));

// ---- User input ---------------------------------------------------------------------------------

for (const [text, value] of [["1000000", 1e6], ["1,000,000", 1e6], ["1e6", 1e6], ["2.5M", 2.5e6], ["1.00 M", 1e6], ["512Mi", 2 ** 29], ["10k", 1e4], ["4 GiB", 2 ** 32], ["4GiB", 2 ** 32],
  ["", NaN], ["-1", NaN], ["abc", NaN], ["1..2", NaN], ["0x10", NaN], ["Infinity", NaN], [".5", 0.5]]) {
  check(`parseNumber(${text})`, () => assert.equal(Object.is(f.parseNumber(text), value), true));
}
for (const [text, value] of [["0.01", 0.01], ["1e-3", 0.001], ["0.1%", 0.001], ["1 %", 0.01], ["1/1000", 0.001], ["1", NaN], ["0", NaN], ["100%", NaN], ["-0.1", NaN], ["x", NaN], ["1/0", NaN]]) {
  check(`parseRate(${text})`, () => assert.ok(Object.is(f.parseRate(text), value)));
}
check("displayed values can be entered again", () => {
  for (const value of [1e3, 1e6, 2.5e6, 1e11]) {
    assert.equal(f.parseNumber(f.compact(value)), value);
  }
  for (const value of [0.3, 0.01, 0.001, 1e-5, 1e-7]) {
    assert.ok(Math.abs(f.parseRate(f.rate(value)) / value - 1) < 1e-9, f.rate(value));
  }
});

// ---- Scales -------------------------------------------------------------------------------------

check("ticks", () => {
  assert.deepEqual(charts.ticks(0, 10), [0, 2.5, 5, 7.5, 10]);
  assert.deepEqual(charts.ticks(0, 1), [0, 0.25, 0.5, 0.75, 1]);
  assert.deepEqual(charts.ticks(0, 3.1e6), [0, 1e6, 2e6, 3e6, 4e6]);
});
check("the last tick reaches the maximum", () => {
  for (let high = 1e-9; high < 1e12; high *= 1.37) {
    const marks = charts.ticks(0, high);
    assert.ok(marks[0] === 0 && marks[marks.length - 1] >= high * 0.999999 && marks.length >= 3 && marks.length <= 7, `${high}: ${marks}`);
  }
});
check("times on an axis", () => {
  const { found, withSeconds } = charts.timeTicks(1790000000, 1790000600, 6);
  assert.ok(found.length >= 3 && found.length <= 7 && found.every((t) => t % 60 === 0) && !withSeconds);
});
check("axis labels neither touch nor leave the chart", () => {
  for (let width = 80; width < 700; width += 7) {
    for (let decades = 1; decades < 14; decades++) {
      const marks = Array.from({ length: decades + 1 }, (_, i) => 10 ** (i - decades));
      const labels = charts.placed(marks, (v) => 4 + ((width - 8) * (Math.log10(v) + decades)) / decades, (v) => `${f.significant(100 * v, 1)}%`, width);
      const ends = labels.map((label) => [label.x - charts.labelWidth(label.text) / 2, label.x + charts.labelWidth(label.text) / 2]);
      assert.ok(labels.length >= 1 && ends.every(([left, right], i) => left >= -0.1 && right <= width + 0.1 && (i === 0 || left >= ends[i - 1][1])), `${width}: ${JSON.stringify(labels)}`);
    }
  }
});
check("lines have gaps, and single values are dots", () => assert.equal(charts.linePath([null, 5, null, 7, 8, null, 9], (i) => i, (v) => v), "M1 5h0M3 7L4 8M6 9h0"));
check("a heat map whose cells are equally full shows how full they are", () => {
  for (const [share, opacity] of [[0, 0.05], [1, 1]]) {
    assert.match(JSON.stringify(charts.heatMap("h", [share, share], share, share, "")), new RegExp(`"fill-opacity":${opacity}[,}]`));
  }
});
check("charts explain missing points", () => {
  const chart = { from: 1790000000, step: 5 };
  assert.equal(charts.firstKnown([{ values: [null, null, 0] }, { level: 3 }, { values: [null, 4, 5] }]), 1);
  assert.equal(charts.firstKnown([{ values: [null] }, { level: 3 }]), -1);
  assert.equal(charts.gapWords(-1, chart, 0), "Collecting data: first point in about 10 s");
  assert.equal(charts.gapWords(60, chart, 300), "No data before 14:18:20");
  assert.equal(charts.gapWords(2, chart, 20), "");
});
// Returns the labels of the vertical axis of a chart.
function axisLabels(chart) {
  const texts = (v) => (v.tag === null ? [v.text] : v.children.flatMap(texts));
  const find = (v) => (v.tag === null ? [] : [...(v.props.class === "grid" ? [texts(v).join("")] : []), ...v.children.flatMap(find)]);
  return find(chart);
}

check("the labels of a rate axis differ, however small the rates", () => {
  for (const target of [null, 0.01, 1e-6, 1e-9]) {
    for (const rate of [0, 1e-33, 3e-10, 2e-9, 7e-6, 0.01]) {
      const labels = axisLabels(charts.rateChart({ id: "x", title: "x", from: 0, step: 2, target, series: [{ name: "predicted", kind: "predicted", values: [0, rate] }] }));
      assert.ok(labels.length >= 2 && new Set(labels).size === labels.length && !labels.some((label) => label.startsWith("<")), `${target}, ${rate}: ${labels}`);
    }
  }
});
check("an axis of bytes has whole bytes", () => {
  const chart = (value) => axisLabels(charts.timeChart({ id: "x", title: "x", from: 0, step: 2, show: f.bytes, binary: true, series: [{ name: "sent", kind: "s1", values: [0, value] }] }));
  assert.deepEqual([chart(0), chart(3), chart(2048)], [["0 B", "1 B", "2 B", "3 B", "4 B"], ["0 B", "1 B", "2 B", "3 B", "4 B"], ["0 B", "1.0 KiB", "2.0 KiB", "3.0 KiB"]]);
});
check("a wide interval does not flatten a rate chart, and no rate is above 100%", () => {
  const chart = (values, highs) => axisLabels(charts.rateChart({ id: "x", title: "x", from: 0, step: 2, target: 0.01, series: [{ name: "observed", kind: "observed", values, band: [[0, 0], highs] }] }));
  assert.deepEqual(chart([0, 0.01], [1, 1]), ["0%", "0.5%", "1%", "1.5%"]);
  assert.deepEqual(chart([0, 1], [1, 1]), ["0%", "25%", "50%", "75%", "100%"]);
});
check("rates in words", () => assert.equal(charts.rateWords({ target: 0.01, predicted: 0.0075, measured: null, observed: { value: 0.008, low: 0.007, high: 0.009 } }),
  "target 1%, predicted 0.75%, observed 0.8% (0.7% – 0.9%)"));
check("markup is text", () => {
  const v = h("p", null, "<b>", ["&", [null, false, 3]]);
  assert.deepEqual(v.children.map((child) => [child.tag, child.text]), [[null, "<b>"], [null, "&"], [null, "3"]]);
});

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
