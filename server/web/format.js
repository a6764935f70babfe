// format.js - formats numbers, times and names for display, with the same number of digits as the
// command line (common/number.c). The functions are pure and do not use the DOM, so tests can run
// them without a browser. Unknown values are shown as an en dash. The output does not depend on the
// browser's language.

export const UNKNOWN = "–";

const known = (x) => typeof x === "number" && Number.isFinite(x);

// Formats like %.{digits}g in C: significant digits without trailing zeros.
export function significant(x, digits = 3) {
  const text = x.toPrecision(digits);
  if (!text.includes("e")) {
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }
  const [front, exponent] = text.split("e");
  const e = Number(exponent);
  if (e > 0 && e < 21) {
    return Number(text).toFixed(0);
  }
  const trimmed = front.includes(".") ? front.replace(/\.?0+$/, "") : front;
  return `${trimmed}e${e}`;
}

// 1,234,567
export function count(x) {
  if (!known(x)) {
    return UNKNOWN;
  }
  const whole = Math.round(x);
  const digits = Math.abs(whole).toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
  return whole < 0 ? `−${digits}` : digits;
}

// 9,876; 12.3 k; 1.23 M
export function compact(x) {
  if (!known(x)) {
    return UNKNOWN;
  }
  if (Math.abs(x) < 9999.5) {
    return Number.isInteger(x) || Math.abs(x) >= 100 ? count(x) : significant(x);
  }
  const units = ["", "k", "M", "G", "T", "P", "E"];
  let value = x;
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value.toPrecision(3)} ${units[unit]}`;
}

// A number of keys, in full up to ten million: 412,000; 12.3 M
export function keys(x) {
  return known(x) && Math.abs(x) < 9999999.5 ? count(x) : compact(x);
}

// Formats the round numbers on an axis compactly: 50 k, 1.5 M
export function round(x) {
  const text = compact(x);
  return text.includes(",") ? text : text.replace(/\.?0+(?= |$)/, (zeros) => (zeros.startsWith(".") ? "" : zeros))
    .replace(/(\.\d*?)0+(?= |$)/, "$1");
}

// 12.4 MiB
export function bytes(x) {
  if (!known(x)) {
    return UNKNOWN;
  }
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let value = x;
  let unit = 0;
  for (; value >= 1000 && unit + 1 < units.length; unit++) {
    value /= 1024;
  }
  return `${value.toFixed(unit === 0 || value >= 100 ? 0 : 1)} ${units[unit]}`;
}

// A false-positive rate: 0.751%. Rates below 1e-9 are shown as "< 0.0000001%".
export function rate(x) {
  if (!known(x)) {
    return UNKNOWN;
  }
  if (x > 0 && x < 1e-9) {
    return "< 0.0000001%";
  }
  const text = significant(100 * x);
  return `${text.includes("e") ? Number(text).toFixed(12).replace(/0+$/, "") : text}%`;
}

// A target, rounded to the rate that was probably requested: a filter for 1% may report a target of 0.99%.
export function target(x) {
  const nice = known(x) && x > 0 ? [1, 2].map((digits) => Number(x.toPrecision(digits))).find((value) => Math.abs(value / x - 1) < 0.02) : undefined;
  return rate(nice ?? x);
}

// Returns a function that formats rates next to a target. Rates below a thousandth of the target are shown as a limit,
// such as "< 0.001%".
export function rateUnder(limit) {
  return (x) => (known(x) && limit && x > 0 && x < limit / 1000 ? `< ${target(limit / 1000)}` : rate(x));
}

// Formats a false-positive rate as a ratio: 1 in 133
export function oneIn(x) {
  if (!known(x)) {
    return UNKNOWN;
  }
  if (x <= 0) {
    return "none";
  }
  return x >= 0.5 ? rate(x) : `1 in ${compact(Math.round(1 / x))}`;
}

// A share: 43.1%. A value below 1 is never shown as 100%.
export function share(x) {
  if (!known(x)) {
    return UNKNOWN;
  }
  const percent = 100 * x;
  if (percent > 0 && percent < 0.05) {
    return "< 0.1%";
  }
  if (percent < 100 && percent >= 99.95) {
    return `${(Math.floor(percent * 1000) / 1000).toFixed(percent >= 99.995 ? 3 : 2)}%`;
  }
  return `${percent.toFixed(percent === 100 || percent === 0 ? 0 : 1)}%`;
}

export function perSecond(x) {
  return known(x) ? `${compact(x < 100 ? Number(x.toPrecision(3)) : Math.round(x))}/s` : UNKNOWN;
}

export function bytesPerSecond(x) {
  return known(x) ? `${bytes(Math.round(x))}/s` : UNKNOWN;
}

// A duration: 0 s, 400 ms, 12 s, 3m 20s, 5h 12m, 3d 4h, 2y 17d
export function seconds(x) {
  if (!known(x) || x < 0) {
    return UNKNOWN;
  }
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (x === 0) {
    return "0 s";
  }
  if (x < 1e-3) {
    return `${significant(x * 1e6, 2)} µs`;
  }
  if (x < 1) {
    return `${significant(x * 1e3, 2)} ms`;
  }
  if (x < 10) {
    return `${significant(x, 2)} s`;
  }
  if (x < 60) {
    return `${Math.floor(x)} s`;
  }
  if (x < 3600) {
    return `${Math.floor(x / 60)}m ${two(x % 60)}s`;
  }
  if (x < 86400) {
    return `${Math.floor(x / 3600)}h ${two((x / 60) % 60)}m`;
  }
  if (x < 365 * 86400) {
    return `${Math.floor(x / 86400)}d ${Math.floor((x / 3600) % 24)}h`;
  }
  return `${Math.floor(x / 31536000)}y ${Math.floor((x / 86400) % 365)}d`;
}

// Formats an age in whole units, for tables: now, 12 s, 3 min, 5 h, 3 d
export function age(x) {
  if (!known(x) || x < 0) {
    return UNKNOWN;
  }
  if (x < 1) {
    return "now";
  }
  const steps = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [730 * 86400, 86400, "d"]];
  for (const [below, unit, name] of steps) {
    if (x < below) {
      return `${Math.floor(x / unit)} ${name}`;
    }
  }
  return `${Math.floor(x / 31536000)} y`;
}

// How long ago something happened: now, 59 s ago, 3 min ago
export function ago(x) {
  return known(x) && x >= 1 ? `${age(x)} ago` : age(x);
}

const two = (n) => String(n).padStart(2, "0");

// 2026-11-16 07:18:05, in the time zone of the browser
export function moment(t) {
  if (!known(t)) {
    return UNKNOWN;
  }
  const d = new Date(t * 1000);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(t, true)}`;
}

// 07:18, or 07:18:05
export function clock(t, withSeconds = false) {
  const d = new Date(t * 1000);
  const text = `${two(d.getHours())}:${two(d.getMinutes())}`;
  return withSeconds ? `${text}:${two(d.getSeconds())}` : text;
}

// Formats the interval of an estimate: low – high
export function interval(estimate, show) {
  if (!estimate) {
    return UNKNOWN;
  }
  return estimate.high === null ? `at least ${show(estimate.low)}` : `${show(estimate.low)} – ${show(estimate.high)}`;
}

// The meaning of k: 6 bits set per key, 12 bits per fingerprint, 7 counters per key
export function bitsOfKey(kind, k) {
  if (["cuckoo", "quotient", "fuse", "ribbon"].includes(kind)) {
    return `${plural(k, "bit")} per fingerprint`;
  }
  return kind === "counting" ? `${plural(k, "counter")} per key` : `${plural(k, "bit")} set per key`;
}

export function times(x) {
  return known(x) ? `${significant(x, 2)}×` : UNKNOWN;
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// ---- Names ---------------------------------------------------------------------------------

// Characters that are invisible or change how adjacent text is shown: control characters,
// direction marks, zero-width spaces, space look-alikes, and leading and trailing spaces.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffd]|(?<=^ *) | (?= *$)|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

// Splits a name into parts: text that is shown unchanged, and codes that replace hidden characters. Long names are
// shortened in the middle. Callers put each part into a text node.
export function namePieces(name, most = 120) {
  if (name === "") {
    return [{ text: "(empty name)", code: true }];
  }
  const all = [...name];
  const cut = all.length > most;
  const head = cut ? all.slice(0, Math.ceil(most * 0.7)).join("") : name;
  const pieces = split(head);
  if (cut) {
    pieces.push({ text: `… ${count(all.length - most)} more …`, code: true });
    pieces.push(...split(all.slice(all.length - Math.floor(most * 0.3)).join("")));
  }
  return pieces;
}

function split(text) {
  const pieces = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) {
      pieces.push({ text: text.slice(from, found.index), code: false });
    }
    pieces.push({ text: escapeOf(found[0]), code: true });
    from = found.index + found[0].length;
  }
  if (from < text.length || pieces.length === 0) {
    pieces.push({ text: text.slice(from), code: false });
  }
  return pieces;
}

function escapeOf(character) {
  const code = character.codePointAt(0);
  const short = { 0: "\\0", 9: "\\t", 10: "\\n", 13: "\\r" }[code];
  return short || (code < 256 ? `\\x${code.toString(16).padStart(2, "0")}`
    : `\\u${code.toString(16).padStart(4, "0")}`);
}

// Returns a name as plain text, for page titles and dialogs.
export function nameText(name, most = 120) {
  return namePieces(name, most).map((piece) => piece.text).join("");
}

export function toBase64(bytesOfIt) {
  let text = "";
  for (const byte of bytesOfIt) {
    text += String.fromCharCode(byte);
  }
  return btoa(text);
}

// Returns the path segment for a filter (see openapi.yaml).
export function segment(name, nameBase64) {
  if (nameBase64 !== undefined) {
    return `=${nameBase64.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "")}`;
  }
  if (name === "" || name === "." || name === "..") {
    return segment(name, toBase64(new TextEncoder().encode(name)));
  }
  return encodeURIComponent(name.toWellFormed ? name.toWellFormed() : name);
}

// Returns the name of a filter as a query parameter; the caller percent-encodes it.
export function parameter(name, nameBase64) {
  return nameBase64 === undefined && name !== "" && !name.startsWith("=")
    ? name : segment(name, nameBase64 ?? toBase64(new TextEncoder().encode(name)));
}

// ---- User input -----------------------------------------------------------------------------

const LETTERS = { "": 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50 };

// Parses 1000000, 1,000,000, 1e6, 2.5M or 512Mi. Returns NaN unless the text is a nonnegative number.
export function parseNumber(text) {
  const plain = String(text).trim().replace(/(\d)[,_ ](?=\d{3})/g, "$1");
  const found = /^(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?\s*([kKMGTP]i?)?B?$/i.exec(plain);
  if (!found) {
    return NaN;
  }
  const factor = LETTERS[found[3] || ""];
  return factor ? Number(found[1] + (found[2] || "")) * factor : NaN;
}

// Parses 0.01, 1e-3, 0.1% or 1/1000. Returns NaN unless the value is above 0 and below 1.
export function parseRate(text) {
  const plain = String(text).trim();
  const found = /^([\d.]+(?:e[+-]?\d+)?)\s*(?:(%)|\/\s*([\d.]+(?:e[+-]?\d+)?))?$/i.exec(plain);
  if (!found) {
    return NaN;
  }
  const value = Number(found[1]) / (found[2] ? 100 : found[3] ? Number(found[3]) : 1);
  return value > 0 && value < 1 ? value : NaN;
}
