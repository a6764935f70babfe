// Tests the dashboard in a real browser: every page, with the mouse and with the keyboard alone, in
// light and dark mode. Also tests hostile names, a server that becomes unavailable, a server that
// requires a password, and different numbers of filters. The pages must show what the API and /metrics
// report. Any violation of the content security policy, any console error and any request to
// another origin is a failure. See also browse_manage.mjs and browse_looks.mjs.
//
// usage: node browse.mjs PLAYWRIGHT CHROMIUM SHOTS PLAIN [OPTION=VALUE ...]
//   PLAYWRIGHT  directory in which npm has installed playwright-core and, optionally, axe-core
//   SHOTS       directory for screenshots
//   PLAIN       address of a service
//   login=NAME:PASSWORD   a user of PLAIN, which otherwise has no users
//   users= loading= large= empty= one=   addresses of more services: one with user admin:secret, one that is
//               always loading, and ones with many filters, none, and one
//   only=A,B    run only these tests
// Creates filters whose names begin with browse:, and drops them at the end.

import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { tryManage, tryPages, tryReader } from "./browse_manage.mjs";
import { tryLooks, tryFew, tryLarge, tryStates } from "./browse_looks.mjs";

const [playwright, chromiumPath, shots, plain, ...more] = process.argv.slice(2);
const { chromium } = createRequire(path.join(path.resolve(playwright), "/"))("playwright-core");
const options = Object.fromEntries(more.map((option) => [option.slice(0, option.indexOf("=")), option.slice(option.indexOf("=") + 1)]));
const { users, loading, login: credentials = null } = options;

// Imports the dashboard's own formatting code, to compute the texts that the page must show.
const place = fs.mkdtempSync(path.join(os.tmpdir(), "bloomgate-browse-"));
process.on("exit", () => fs.rmSync(place, { recursive: true }));
fs.copyFileSync(fileURLToPath(new URL("../../../server/web/format.js", import.meta.url)), path.join(place, "format.mjs"));
const format = await import(pathToFileURL(path.join(place, "format.mjs")));

let passed = 0;
let failed = 0;
let lastCheck = "none";

function check(what, good, found = "") {
  lastCheck = what;
  if (good) {
    passed++;
  } else {
    failed++;
    console.log(`FAILED: ${what}: ${typeof found === "string" ? found : JSON.stringify(found)}`.slice(0, 600));
  }
  return good;
}

const same = (what, found, expected) => check(what, JSON.stringify(found) === JSON.stringify(expected), `found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);

// The timeout for each wait, in milliseconds. Only failing tests should reach it, even on a busy machine.
const PATIENCE = 1000 * Number(process.env.BG_TEST_PATIENCE || 300);

// Waits until `look` returns a value, records the result as a check, and returns the value.
async function until(what, look, limit = PATIENCE) {
  const end = Date.now() + limit;
  let last;
  let problem = "";
  do {
    try {
      last = await look();
      if (last) {
        check(what, true);
        return last;
      }
    } catch (error) {
      problem = error.message;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  } while (Date.now() < end);
  check(what, false, `not within ${limit / 1000} s ${problem}`);
  return last;
}

// Waits until something of the browser has closed. Chromium sometimes does not close on a busy machine. That is
// no error of the dashboard, and the browser is killed when this process exits.
const CLOSING = Math.min(PATIENCE, 30000);

async function closed(what, closing) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve(`not within ${CLOSING / 1000} s`), CLOSING);
  });
  const problem = await Promise.race([closing.then(() => "", (error) => error.message), late]);
  clearTimeout(timer);
  if (problem) {
    console.log(`note: ${what} did not close: ${problem}`);
  }
}

// ---- A window ------------------------------------------------------------------------------

// Opens a page, and records problems and the last response for each path.
async function open(browser, base, options = {}) {
  const { allow = [], ...rest } = options;
  const known = credentials ? [...allow, "status of 401"] : allow; // before login
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light", acceptDownloads: true, ...rest });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const wrong = [];
  const answers = new Map();
  const state = { waiting: 0, asked: 0 };
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !known.some((part) => message.text().includes(part))) {
      wrong.push(message.text());
    }
  });
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("dialog", (dialog) => {
    wrong.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    state.waiting++;
    state.asked++;
    if (!request.url().startsWith(base) && !request.url().startsWith("data:") && !request.url().startsWith("blob:")) {
      wrong.push(`another origin: ${request.url()}`);
    }
  });
  page.on("requestfailed", () => state.waiting--);
  page.on("requestfinished", async (request) => {
    const response = await request.response().catch(() => null);
    if (response && (response.headers()["content-type"] || "").includes("json")) {
      const json = await response.json().catch(() => null);
      answers.set(new URL(request.url()).pathname, { json, query: new URL(request.url()).searchParams });
    }
    state.waiting--;
  });
  return { page, context, wrong, answers, state, base, close: async (name) => {
    same(`${name}: no errors and no policy violations`, wrong, []);
    await closed(name, context.close());
  } };
}

async function go(window, hash) {
  await window.page.goto(`${window.base}${hash}`);
  await until(`${hash} is there`, () => window.page.locator("main .page[aria-busy=false]").count());
}

// Pauses the page's updates, and waits until all responses have arrived and have been rendered.
async function settle(window) {
  const { page } = window;
  const button = page.locator("#pause[aria-pressed=false]");
  for (let i = 0; i < 60 && await button.count(); i++) { // the button may belong to the previous page, which is still shown
    await button.click({ timeout: 1000 }).catch(() => null);
    await painted(page); // before that, the button still looks as if it had not been clicked
  }
  await until("all requests are answered", () => window.state.waiting === 0);
  await painted(page);
}

// Waits until the page has been painted. A page that the browser considers hidden is not painted.
async function painted(page) {
  await page.evaluate(() => new Promise((resolve) => {
    setTimeout(resolve, 2000);
    requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  }));
}

async function shoot(window, name, full = false) {
  await window.page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: full });
}

// Returns the value and the text of the first element with the given data-figure, or null.
async function figure(scope, name) {
  const found = scope.locator(`data[data-figure="${name}"]`).first();
  return (await found.count()) ? [await found.getAttribute("value"), (await found.textContent()).trim()] : null;
}

async function sameFigure(what, scope, name, value, show) {
  const found = await figure(scope, name);
  if (value === null || value === undefined) {
    same(`${what}: ${name} is not known`, found, null);
  } else {
    same(`${what}: ${name}`, found, [String(value), show(value)]);
  }
}

const auth = credentials ? { Authorization: `Basic ${Buffer.from(credentials).toString("base64")}` } : {};

async function ask(method, where, body, type = "application/json") {
  const response = await fetch(new URL(where, plain), {
    method, headers: { ...auth, "X-Bloomgate": "test", ...(body === undefined ? {} : { "Content-Type": type }) },
    body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, json: (response.headers.get("content-type") || "").includes("json") && text ? JSON.parse(text) : null, text };
}

async function signIn(window) {
  if (credentials) {
    const [user, ...rest] = credentials.split(":");
    await window.page.goto(window.base);
    await window.page.getByLabel("User").fill(user);
    await window.page.getByLabel("Password or token").fill(rest.join(":"));
    await window.page.getByLabel(/Stay signed in/).check();
    await window.page.getByRole("button", { name: "Sign in" }).click();
    await until("signed in", () => window.page.locator("table.filters, .empty").count());
  }
}

// ---- The pages -----------------------------------------------------------------------------

async function readMetrics() {
  const { text } = await ask("GET", "metrics");
  const found = new Map();
  for (const line of text.split("\n")) {
    const parts = /^(\w+)\{filter="((?:[^"\\]|\\.)*)"(?:,(\w+)="([^"]*)")?\} (\S+)/.exec(line);
    if (parts) {
      found.set(`${parts[1]} ${parts[2]}${parts[4] ? ` ${parts[4]}` : ""}`, Number(parts[5]));
    }
  }
  return found;
}

async function tryOverview(browser) {
  const window = await open(browser, plain);
  const { page } = window;
  await signIn(window);
  await go(window, "#/?search=browse%3A");
  await settle(window);
  const { json } = window.answers.get("/api/v1/filters");
  const info = window.answers.get("/api/v1/info").json;
  const rows = page.locator("table.filters tbody tr");
  same("there is one row for each filter that the API reports", await rows.count(), json.filters.length);
  const metrics = await readMetrics();
  for (const [i, f] of json.filters.entries()) {
    await sameRow(rows.nth(i), f, metrics);
  }
  const tiles = page.locator(".tiles");
  await sameFigure("totals", tiles, "filters", info.filters.count, format.count);
  await sameFigure("totals", tiles, "items", info.filters.items, format.keys);
  check("totals: keys are those of examined filters", (await tiles.innerText()).includes(info.filters.unknown > 0 ? "in examined filters" : "in all filters"), await tiles.innerText());
  await sameFigure("totals", tiles, "filter_bytes", info.memory.filter_bytes, format.bytes);
  await sameFigure("totals", tiles, "avoided", info.avoided, format.compact);
  await go(window, "#/?search=browse%3A&page=9");
  await until("a page after the last one shows the last one", async () => (await page.locator(".page-number").textContent()) === "1 / 1" && (await rows.count()) === json.filters.length);
  await go(window, "#/");
  await shoot(window, "overview-light");
  await trySorting(window);
  await trySearch(window);
  await window.close("overview");
}

async function sameRow(row, f, metrics) {
  const wanted = f.requested ?? f.target;
  const what = `row of ${f.name.slice(0, 30)}`;
  same(`${what}: name`, await row.locator(".filter-link").textContent(), format.nameText(f.name, 64));
  await sameFigure(what, row, "fill", f.fill, format.share);
  await sameFigure(what, row, "items", f.items && f.items.value, format.keys);
  await sameFigure(what, row, "capacity", f.capacity, format.keys);
  same(`${what}: an unlimited capacity is not shown`, (await row.locator(".items-line").textContent()).includes(" of "), f.capacity !== null);
  await sameFigure(what, row, "predicted", f.predicted, format.rateUnder(wanted));
  await sameFigure(what, row, "avoided", f.avoided, format.compact);
  await sameFigure(what, row, "bytes", f.bytes, format.bytes);
  await sameFigure(what, row, f.observed ? "observed" : "target", f.observed ? f.observed.value : wanted, f.observed ? format.rateUnder(wanted) : format.target);
  same(`${what}: health`, (await row.locator(".health").textContent()).trim(), { fine: "Fine", watch: "Watch", act: "Act", unknown: "Not examined" }[f.health.status]);
  const label = f.name.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n");
  const pairs = [["size_bytes", f.bytes], ["capacity_items", f.capacity], ["target_fpr_ratio", f.target], ["fill_ratio", f.fill], ["items", f.items && f.items.value], ["predicted_fpr_ratio", f.predicted]];
  for (const [name, value] of pairs) {
    if (value !== null && f.name_base64 === undefined) {
      const told = metrics.get(`bloomgate_filter_${name} ${label}`);
      check(`${what}: ${name} as in /metrics`, told !== undefined && Math.abs(told - value) <= 1e-9 * Math.abs(value), [told, value]);
    }
  }
}

async function trySorting(window) {
  const { page } = window;
  const heading = page.getByRole("columnheader", { name: "Memory" });
  await heading.getByRole("button").click();
  await until("largest first", async () => {
    const values = await page.locator('td.c-bytes data[data-figure="bytes"]').evaluateAll((all) => all.map((one) => Number(one.value)));
    return values.length > 0 && values.every((v, i) => i === 0 || values[i - 1] >= v) && (await heading.getAttribute("aria-sort")) === "descending";
  });
  await heading.getByRole("button").click();
  await until("smallest first", async () => {
    const values = await page.locator('td.c-bytes data[data-figure="bytes"]').evaluateAll((all) => all.map((one) => Number(one.value)));
    return values.every((v, i) => i === 0 || values[i - 1] <= v) && (await heading.getAttribute("aria-sort")) === "ascending";
  });
  check("the URL contains the sort order", page.url().includes("sort=bytes"), page.url());
}

async function trySearch(window) {
  const { page } = window;
  await page.locator("#search").fill("browse:ma");
  await until("only one filter matches", async () => (await page.locator("table.filters tbody tr").count()) === 1 && (await page.locator(".matched").textContent()).startsWith("1 of "));
  await page.reload();
  await until("the search survives a reload", async () => (await page.locator("#search").inputValue()) === "browse:ma" && (await page.locator("table.filters tbody tr").count()) === 1);
  await page.locator("#search").fill("no such filter anywhere");
  await until("the page reports that nothing matches", () => page.getByText("No matching filters").count());
}

async function tryFilter(browser) {
  const window = await open(browser, plain);
  const { page } = window;
  await signIn(window);
  await go(window, "#/?search=browse%3Amain");
  await page.locator("table.filters tbody tr .c-fill").first().click(); // any cell in the row works
  await until("clicking a row opens its filter", async () => (await page.locator("h1").textContent()) === "browse:main");
  await until("the page title contains the filter's name", async () => (await page.title()) === "browse:main · Bloomgate");
  await settle(window);
  const f = window.answers.get("/api/v1/filters/browse%3Amain").json;
  f.target = f.requested ?? f.target;
  const main = page.locator("main");
  await sameFigure("filter", main, "items", f.items && f.items.value, format.count);
  await sameFigure("filter", main, "capacity", f.capacity, format.count);
  await sameFigure("filter", main, "fill", f.fill, format.share);
  await sameFigure("filter", main, "queries", f.counters.queries, format.compact);
  await sameFigure("filter", main, "avoided", f.avoided, format.compact);
  await sameFigure("filter", main, "bytes", f.bytes, format.bytes);
  await sameFigure("filter", main, "target", f.target, format.target);
  await sameFigure("filter", main, "predicted", f.predicted, format.rateUnder(f.target));
  await sameFigure("filter", main, "measured", f.measured && f.measured.value, format.rateUnder(f.target));
  await sameFigure("filter", main, "observed", f.observed && f.observed.value, format.rateUnder(f.target));
  for (const name of ["units", "bits", "shards"]) {
    await sameFigure("filter", main, name, f.geometry[name], format.count);
  }
  await sameFigure("filter", main, "k", f.geometry.k, (k) => format.bitsOfKey(f.kind, k));
  for (const name of ["maybes", "adds", "news", "refused"]) {
    await sameFigure("filter", main, name, f.counters[name], format.count);
  }
  await tryKeys(window);
  await tryCharts(window);
  await tryActions(window);
  await window.close("filter");
}

async function tryKeys(window) {
  const { page } = window;
  await page.getByLabel("Is this key in the filter?").fill("key-17");
  await page.getByRole("button", { name: "Check" }).click();
  await until("an added key is reported as possibly present", () => page.locator(".answer.maybe", { hasText: "Maybe" }).count());
  await page.getByLabel("Is this key in the filter?").fill("browse: absent");
  await page.keyboard.press("Enter");
  await until("an absent key is reported as absent", () => page.locator(".answer.no", { hasText: "definitely does not contain" }).count());
  await page.getByRole("button", { name: "Add" }).click();
  await until("the key can be added", () => page.locator(".answer", { hasText: "definitely new" }).count());
  await page.getByRole("button", { name: "Check" }).click();
  await until("the newly added key is reported as possibly present", () => page.locator(".answer.maybe", { hasText: "Maybe" }).count());
}

async function tryCharts(window) {
  const { page } = window;
  const past = window.answers.get("/api/v1/history").json;
  check("there are charts", (await page.locator("figure.chart svg").count()) >= 4, await page.locator("figure.chart svg").count());
  const cells = await page.locator(".heat svg rect:not(.heat-at)").count();
  same("the heat map has as many parts as the API reports", cells, window.answers.get("/api/v1/filters/browse%3Amain/occupancy").json.shares.length);
  await page.locator(".heat svg").hover({ position: { x: 3, y: 3 } });
  await until("the heat map describes the part under the pointer", () => page.locator(".heat-words", { hasText: "Part 1 of" }).count());
  const chart = page.locator('[data-chart="h-queries"] svg');
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  if (past.kept && past.points > 1) {
    await until("arrow keys move through a chart", () => page.locator('[data-chart="h-queries"] .legend-time').count());
    await page.keyboard.press("Escape");
    await until("Escape clears the selection", async () => (await page.locator('[data-chart="h-queries"] .legend-time').count()) === 0 && page.url().includes("browse%3Amain"));
  }
  await page.getByRole("button", { name: "1 h", exact: true }).click();
  await until("the page requests one hour of history", () => window.answers.get("/api/v1/history").query.get("seconds") === "3600");
  await page.getByRole("button", { name: "0 – 100%" }).click();
  await shoot(window, "filter-light", true);
}

async function tryActions(window) {
  const { page } = window;
  await page.getByRole("button", { name: "Verify" }).click();
  await until("verify reports its result", () => page.locator(".verdict", { hasText: "Verified" }).count());
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  same("the name of the downloaded file ends with .bg", download.suggestedFilename().endsWith(".bg"), true);
  check("the downloaded file is not empty", fs.statSync(await download.path()).size > 0);
  await page.getByRole("button", { name: "Clear…" }).click();
  await until("clearing asks for confirmation", () => page.getByRole("dialog").getByText("Clear this filter?").count());
  await shoot(window, "confirm-light");
  await page.getByRole("button", { name: "Cancel" }).click();
  await until("canceling closes the dialog", async () => (await page.getByRole("dialog").count()) === 0);
  same("nothing was cleared", (await ask("POST", "api/v1/filters/browse%3Amain/check", { keys: ["key-17"] })).json.results, [true]);
  await page.getByRole("button", { name: "Clear…" }).click();
  await page.getByRole("button", { name: "Clear filter" }).click();
  await until("the filter is cleared", async () => (await ask("POST", "api/v1/filters/browse%3Amain/check", { keys: ["key-17"] })).json.results[0] === false);
  await page.getByRole("button", { name: "Delete…" }).click();
  const remove = page.getByRole("button", { name: "Delete filter" });
  same("deleting needs confirmation", await remove.isDisabled(), true);
  await page.locator("#confirm").fill("delete");
  await remove.click();
  await until("the filter is deleted, and the list of filters is shown", async () => page.url().endsWith("#/") && (await ask("GET", "api/v1/filters/browse%3Amain")).status === 404);
  await go(window, "#/filter/browse%3Amain");
  await until("a missing filter is reported", () => page.getByText("Filter not found").count());
  for (const place of ["nonsense/x", "gates/x", "filter", "gate"]) {
    await go(window, `#/${place}`);
    await until(`${place} is reported as missing`, () => page.getByRole("heading", { name: "Page not found" }).count());
  }
  window.wrong.splice(0, window.wrong.length, ...window.wrong.filter((text) => !text.includes("404")));
}

async function tryGates(browser) {
  const window = await open(browser, plain);
  const { page } = window;
  await signIn(window);
  await go(window, "#/gates");
  await settle(window);
  const { gates } = window.answers.get("/api/v1/gates").json;
  same("there is one card for each gate", await page.locator(".gate").count(), gates.length);
  for (const [i, gate] of gates.entries()) {
    const card = page.locator(".gate").nth(i);
    await sameFigure(gate.name, card, "lookups", gate.lookups, format.compact);
    await sameFigure(gate.name, card, "avoided", gate.avoided, format.compact);
    await sameFigure(gate.name, card, "wasted", gate.wasted, format.compact);
    await sameFigure(gate.name, card, "false_negatives", gate.false_negatives, format.count);
    await sameFigure(gate.name, card, "observed", gate.observed && gate.observed.value, format.rateUnder(gate.target));
    await sameFigure(gate.name, card, "predicted", gate.predicted, format.rateUnder(gate.target));
    for (const [name, value] of Object.entries(gate.outcomes).filter(([, n]) => n > 0)) {
      await sameFigure(gate.name, card, name, value, format.count);
    }
  }
  await shoot(window, "gates-light", true);
  for (const gate of gates) {
    await tryGate(window, gate.name);
  }
  window.wrong.splice(0, window.wrong.length, ...window.wrong.filter((text) => !text.includes("404")));
  await window.close("gates");
}

// Tests the page of a gate, which is reached from the list. The gate may be misconfigured.
async function tryGate(window, name) {
  const { page } = window;
  await go(window, "#/gates");
  await page.getByRole("link", { name, exact: true }).click();
  await until(`${name}: its page opens`, async () => (await page.locator("h1").textContent()) === name && (await page.locator(".page-gate[aria-busy=false]").count()) > 0);
  await settle(window);
  const gate = window.answers.get(`/api/v1/gates/${name}`).json;
  const main = page.locator("main");
  for (const [figureName, value, show] of [["lookups", gate.lookups, format.compact], ["observed", gate.observed && gate.observed.value, format.rateUnder(gate.target)], ["target", gate.target, format.target],
    ["truth_errors", gate.truth.errors, format.count], ["rebuilds", gate.rebuilds, format.count], ["audits", gate.audits, format.count]]) {
    await sameFigure(name, main, figureName, value, show);
  }
  const text = await main.innerText();
  for (const words of [{ sqlite: "SQLite", postgresql: "PostgreSQL" }[gate.source.type], `follow=${gate.source.follows}`, gate.source.state, gate.source.description ?? "", gate.source.error ?? "", gate.last_failure ?? "", gate.breaker.state === "trying" ? "half-open" : gate.breaker.state, "Last load"]) {
    check(`${name}: shows ${words.slice(0, 60)}`, text.includes(words), text.slice(0, 300));
  }
  same(`${name}: one problem is shown once`, gate.source.error ? (await page.locator(".advice", { hasText: gate.source.error.replace(/^source: /, "").slice(0, 100) }).count()) : 1, 1);
  check(`${name}: has charts`, (await page.locator("figure.chart svg").count()) === 6);
  await page.getByLabel("Look up a key through the gate").fill("browse: no such key at all");
  await page.getByRole("button", { name: "Look up" }).click();
  await until("the result of a lookup is shown", () => page.locator(".answer").count());
  await page.getByRole("button", { name: "Rebuild…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Rebuild" }).click();
  await until("a rebuild starts, or the reason is shown", () => page.locator(".note", { hasText: "Rebuild started" }).or(page.getByRole("dialog").getByRole("alert")).count());
  await page.keyboard.press("Escape");
  await until("no dialog is open", async () => (await page.getByRole("dialog").count()) === 0);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Escape");
  await until("Escape returns to the gates", () => page.url().endsWith("#/gates"));
  await go(window, "#/gate/browse-none");
  await until("a missing gate is reported", () => page.getByText("Gate not found").count());
}

async function tryPlanner(browser) {
  const window = await open(browser, plain);
  const { page } = window;
  await signIn(window);
  await go(window, "#/planner");
  await until("the plan is shown", async () => (await page.locator("table.kinds tbody tr").count()) === 12);
  await samePlans(window);
  await page.locator("#knob-items").fill("10M");
  await until("the plan is for ten million keys", () => window.answers.get("/api/v1/plan").json.request.items === 1e7);
  await page.locator("#knob-error").fill("0.1%");
  await page.locator("#knob-error").blur();
  await until("the plan is for the new rate", () => window.answers.get("/api/v1/plan").json.request.error === 0.001);
  await until("the field shows a readable rate", async () => (await page.locator("#knob-error").inputValue()) === "0.1%");
  await until("the address contains the plan", () => page.url().includes("items=10000000") && page.url().includes("error=0.001"));
  await samePlans(window);
  const before = window.answers.get("/api/v1/plan").json.request.items;
  await page.getByRole("slider", { name: "Keys" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await until("moving the slider updates the plan", () => window.answers.get("/api/v1/plan").json.request.items > before);
  await page.locator("#knob-items").fill("many");
  await until("invalid input is marked", async () => (await page.locator("#knob-items").getAttribute("aria-invalid")) === "true");
  await page.locator("#knob-items").blur();
  await page.getByRole("button", { name: "cuckoo", exact: true }).click();
  await until("another kind can be selected", () => page.locator(".answer-panel .reason", { hasText: "cuckoo" }).count());
  await page.getByText("Costs", { exact: true }).click();
  await page.locator("#cost-queries_per_second").fill("1000");
  await page.locator("#cost-call_cost").fill("1");
  await page.locator("#cost-memory_cost").fill("0.5");
  await until("costs appear in the table", () => page.locator('table.kinds data[data-figure="cost"]').count());
  await samePlans(window);
  await shoot(window, "planner-light", true);
  await page.reload();
  await until("a plan survives a reload", async () => (await page.locator("#cost-queries_per_second").inputValue()) === "1000" && (await page.locator("#knob-error").inputValue()) === "0.1%");
  await window.close("planner");
}

async function samePlans(window) {
  await settle(window);
  const plan = window.answers.get("/api/v1/plan").json;
  for (const kind of plan.kinds.filter((one) => one.possible)) {
    const row = window.page.locator(`tr[data-kind="${kind.kind}"]`);
    await sameFigure(`plan of ${kind.kind}`, row, "bytes", kind.bytes, format.bytes);
    await sameFigure(`plan of ${kind.kind}`, row, "bits_per_key", kind.bits_per_key, (v) => format.significant(v));
    await sameFigure(`plan of ${kind.kind}`, row, "lines_per_lookup", kind.lines_per_lookup, format.count);
    await sameFigure(`plan of ${kind.kind}`, row, "rate", kind.rate, format.rate);
    await sameFigure(`plan of ${kind.kind}`, row, "rate_2x", kind.rate_2x, format.rate);
    await sameFigure(`plan of ${kind.kind}`, row, "rate_10x", kind.rate_10x, format.rate);
  }
}

async function tryRest(browser) {
  const window = await open(browser, plain);
  const { page } = window;
  await signIn(window);
  await go(window, "#/tenants");
  await settle(window);
  const { tenants } = window.answers.get("/api/v1/tenants").json;
  same("there is one row for each tenant", await page.locator("table.tenants tbody tr").count(), tenants.length);
  for (const [i, tenant] of tenants.entries()) {
    const row = page.locator("table.tenants tbody tr").nth(i);
    await sameFigure(tenant.name, row, "filters", tenant.filters, format.count);
    await sameFigure(tenant.name, row, "bytes", tenant.bytes, format.bytes);
    await sameFigure(tenant.name, row, "items", tenant.items, format.keys);
    await sameFigure(tenant.name, row, "adds_per_second", tenant.per_second.adds, format.perSecond);
    for (const [reason, n] of Object.entries(tenant.refused).filter(([, count]) => count > 0)) {
      await sameFigure(tenant.name, row, `refused_${reason}`, n, format.count);
    }
  }
  await shoot(window, "tenants-light");
  await go(window, "#/events");
  await settle(window);
  const { events } = window.answers.get("/api/v1/events").json;
  same("every event is shown", await page.locator("li[data-event]").count(), events.length);
  same("the newest event is first", await page.locator("li[data-event]").first().getAttribute("data-event"), String(Math.max(...events.map((e) => e.id))));
  await shoot(window, "events-light");
  await page.getByRole("button", { name: "Errors" }).click();
  await until("only errors are shown", async () => (await page.locator("li[data-event].info, li[data-event].warning").count()) === 0 && page.url().includes("level=error"));
  await tryServer(window);
  await window.close("tenants, events, server");
}

async function tryServer(window) {
  const { page } = window;
  await go(window, "#/server");
  await settle(window);
  const info = window.answers.get("/api/v1/info").json;
  const main = page.locator("main");
  await sameFigure("server", main, "uptime_seconds", info.uptime_seconds, format.seconds);
  await sameFigure("server", main, "rss_bytes", info.memory.rss_bytes, format.bytes);
  await sameFigure("server", main, "connections", info.connections.resp + info.connections.http, format.count);
  await sameFigure("server", main, "commands", info.commands, format.compact);
  await sameFigure("server", main, "accepted", info.connections.accepted, format.count);
  if (info.persistence.enabled) {
    await sameFigure("server", main, "log_bytes", info.persistence.log.bytes, format.bytes);
  }
  for (const front of window.answers.get("/api/v1/fronts").json.fronts) {
    const place = page.locator(`[data-front="${front.name}"]`);
    await sameFigure(front.name, place, "shards_up", front.shards.up, format.count);
    await sameFigure(front.name, place, "front_unreachable", front.checked.unreachable, format.count);
    check(`${front.name}: the state and the reason are shown`, (await place.innerText()).toLowerCase().includes(front.state) && (await place.innerText()).includes(front.error ?? ""), await place.innerText());
  }
  await shoot(window, "server-light", true);
}

// ---- By keyboard alone ---------------------------------------------------------------------

async function tryKeyboard(browser) {
  const window = await open(browser, plain);
  const { page } = window;
  await signIn(window);
  await go(window, "#/");
  const press = (key) => page.keyboard.press(key);
  const focused = () => page.evaluate(() => `${document.activeElement.tagName} ${document.activeElement.id} ${document.activeElement.className} ${(document.activeElement.textContent || "").slice(0, 40)}`);
  if (!credentials) {
    await press("Tab");
    check("the first tab stop is the skip link", (await focused()).includes("Skip to content"), await focused());
    await press("Enter");
    check("the skip link moves the focus to the heading", (await focused()).startsWith("H1"), await focused());
  }
  let stops = 0;
  for (let i = 0; i < 12; i++) {
    await press("Tab");
    const seen = await page.evaluate(() => {
      const style = getComputedStyle(document.activeElement);
      return document.activeElement === document.body || (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1);
    });
    stops += seen;
  }
  same("the focus is visible at every tab stop", stops, 12);
  await page.evaluate(() => document.activeElement.blur());
  await press("?");
  await until("? opens the help", () => page.getByRole("dialog", { name: "Keyboard shortcuts" }).count());
  await shoot(window, "help-light");
  await press("Escape");
  await until("Escape closes the help", async () => (await page.getByRole("dialog").count()) === 0);
  await press("/");
  check("/ focuses the search", (await focused()).includes("search"), await focused());
  await page.keyboard.type("browse:");
  await until("typing searches", async () => (await page.locator("table.filters .filter-link").allTextContents()).every((name) => name.includes("browse:")));
  await press("Escape");
  await press("j");
  await press("j");
  await press("k");
  await until("j and k select a row", async () => (await page.locator("tr.chosen").count()) === 1 && (await page.locator("table.filters tbody tr").first().getAttribute("class")).includes("chosen"));
  const name = await page.locator("tr.chosen .filter-link").textContent();
  await press("Enter");
  await until("Enter opens the selected filter", async () => (await page.locator("h1").textContent()) === name);
  check("the heading has the focus", (await focused()).startsWith("H1"), await focused());
  await press("Escape");
  await until("Escape returns to the list", () => page.locator("table.filters").count());
  for (const [key, heading] of [["2", "Gates"], ["3", "Planner"], ["4", "Tenants"], ["5", "Events"], ["6", "Server"], ["1", "Filters"]]) {
    await press(key);
    await until(`${key} opens ${heading}`, async () => (await page.locator("h1").textContent()) === heading);
  }
  await press("p");
  await until("p pauses", async () => (await page.locator("#pause").getAttribute("aria-pressed")) === "true");
  await tryPause(window);
  await tryTheme(window, press);
  await window.close("keyboard");
}

// While paused, the page sends a request only if the r key is pressed.
async function tryPause(window) {
  const { page, state } = window;
  await until("all requests are answered", () => state.waiting === 0);
  const before = state.asked;
  await page.clock.install();
  await page.clock.runFor(10000);
  same("no requests are sent while paused", state.asked, before);
  await page.keyboard.press("r");
  await until("r sends a request", () => state.asked > before);
  await page.clock.resume();
  await page.keyboard.press("p");
  await until("p resumes", async () => (await page.locator("#pause").getAttribute("aria-pressed")) === "false");
}

async function tryTheme(window, press) {
  const { page } = window;
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  same("light, like the OS", await theme(), "light");
  await press("t");
  await press("t");
  await until("t: dark", async () => (await theme()) === "dark");
  await page.reload();
  await until("it stays dark", async () => (await theme()) === "dark" && (await page.locator("h1").count()) === 1);
  await press("t");
  await until("t: like the OS again", async () => (await theme()) === "light");
}

// ---- Appearance ----------------------------------------------------------------------------

// Returns the elements whose contrast between text and background is below 4.5:1, the minimum that
// WCAG requires.
function contrasts() {
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) {
        return color;
      }
    }
    return [255, 255, 255];
  };
  const bad = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const style = getComputedStyle(element);
    if (!own || element.closest("svg,.visually-hidden,noscript,:disabled,[aria-hidden=true]") || style.visibility === "hidden" || element.getClientRects().length === 0) {
      continue;
    }
    const [a, b] = [light(parse(style.color)), light(behind(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) {
      bad.add(`${element.className || element.tagName} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
    }
  }
  return [...bad];
}

// Returns accessibility problems, such as interactive elements without a name, more or fewer than
// one h1 element, and duplicate IDs.
function audit() {
  const bad = [];
  const nameOf = (e) => (e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.textContent).join(" ")) || e.textContent || e.title || "").trim();
  for (const e of document.querySelectorAll("button,a[href],input,select,[role=img]")) {
    if (!nameOf(e) && !e.closest("[aria-hidden=true]")) {
      bad.push(`no name: ${e.outerHTML.slice(0, 80)}`);
    }
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => bad.push(`duplicate ID ${id}`));
  if (document.querySelectorAll("h1").length !== 1) {
    bad.push("not exactly one h1");
  }
  document.querySelectorAll("[tabindex]").forEach((e) => Number(e.getAttribute("tabindex")) > 0 && bad.push("a tabindex above 0"));
  if (!document.querySelector("main") || !document.querySelector("nav") || document.documentElement.lang !== "en") {
    bad.push("a landmark or the language is missing");
  }
  if (document.querySelector("[style]") && [...document.querySelectorAll("[style]")].some((e) => /url\(|expression/.test(e.getAttribute("style")))) {
    bad.push("an inline style loads a resource");
  }
  return bad;
}

// ---- Hostile names -------------------------------------------------------------------------

const HOSTILE = ["<script>document.title='pwned'</script>", "\"><img src=x onerror=\"document.title='pwned'\">", "' onmouseover='alert(1)", "</td></tr></table><h1>out</h1>",
  "\u202egnp.exe\u202c", "\u2067\u05d0\u05d1\u05d2\u2069 mixed \u0627\u0644", `${"x".repeat(7000)}`, "line\nbreak\ttab\0nul", "a/b?c#d%2Fe&f=g", "=equals", "%3Cb%3E", "javascript:alert(1)",
  "__proto__", "zero\u200bwidth\ufeff", " leading and trailing ", "{{7*7}}${7*7}", "&lt;b&gt;&amp;", "..", "\u{1f468}\u200d\u{1f469}"];

async function tryHostile(browser) {
  const names = HOSTILE.map((name) => (name === ".." ? name : `browse:h ${name}`));
  const specs = [...names.map((name) => ({ name })), { name_base64: Buffer.from([0x62, 0x72, 0x6f, 0x77, 0x73, 0x65, 0x3a, 0xff, 0xfe, 0]).toString("base64") }];
  const window = await open(browser, plain, { allow: ["404"] });
  const { page } = window;
  await signIn(window);
  for (const spec of specs) {
    const made = await ask("POST", "api/v1/filters", { ...spec, capacity: 100, error: 0.01 });
    const what = JSON.stringify(spec).slice(0, 60);
    if (!check(`${what} can be made`, made.status === 201 || made.status === 409, made.text)) {
      continue;
    }
    const f = made.json.name === undefined ? { name: spec.name } : made.json;
    await go(window, `#/filter/${format.segment(f.name, f.name_base64)}`);
    await until(`${what}: the heading is exactly the filter's name`, async () => (await page.locator("h1").textContent()) === format.nameText(f.name, 160));
    same(`${what}: one heading`, await page.locator("h1").count(), 1);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await go(window, "#/?search=browse%3A&size=200");
  await settle(window);
  for (const name of names.filter((one) => one.startsWith("browse:"))) {
    const shown = format.nameText(name, 64);
    const link = page.locator("a.filter-link").filter({ has: page.locator("bdi") });
    const texts = await link.allTextContents();
    check(`${shown.slice(0, 40)} is listed as text`, texts.includes(shown), texts.slice(0, 5));
  }
  same("no name is interpreted as markup", await page.evaluate(() => [document.images.length, document.scripts.length, document.querySelectorAll("td h1, th img, th script").length, document.title]), [0, 2, 0, "Filters · Bloomgate"]);
  same("no name changes the text direction", await page.evaluate(() => [...document.querySelectorAll("bdi")].every((e) => !/[\u202a-\u202e\u2066-\u2069]/.test(e.textContent))), true);
  await shoot(window, "hostile-light", true);
  for (const hash of ["#/filter/../../../metrics", "#/filter/%ff", "#/nonsense", "#/filter/", "#/?page=-1&size=x&sort=%3Cb%3E", "#/planner?items=-1&error=x", "#/filter/x?y#z"]) {
    await page.goto(`${plain}${hash}`);
    await until(`${hash} opens a harmless page`, async () => (await page.locator("h1").count()) === 1 && (await page.locator(".page[aria-busy=false], .banner").count()) > 0);
  }
  window.wrong.splice(0, window.wrong.length, ...window.wrong.filter((text) => !/status of 40[04]/.test(text)));
  await window.close("hostile names");
  for (const spec of specs) {
    await ask("DELETE", `api/v1/filters/${format.segment(spec.name, spec.name_base64)}`);
  }
}

// ---- Failures ------------------------------------------------------------------------------

async function tryGone(browser) {
  const window = await open(browser, plain, { allow: ["ERR_INTERNET_DISCONNECTED", "Failed to load resource"] });
  const { page, context } = window;
  await signIn(window);
  await go(window, "#/");
  await until("the page is live", () => page.locator(".live-state.on").count());
  await until("filters are shown", () => page.locator("table.filters tbody tr").count());
  const rows = await page.locator("table.filters tbody tr").count();
  await context.setOffline(true);
  await until("an unreachable server is reported", () => page.getByRole("alert").getByText("The server is unreachable").count());
  same("known filters are still shown", await page.locator("table.filters tbody tr").count(), rows);
  check("the page is marked as stale", await page.locator(".page.stale").count());
  await shoot(window, "gone-light");
  await context.setOffline(false);
  await until("the page recovers by itself", async () => (await page.getByRole("alert").count()) === 0 && (await page.locator(".live-state.on").count()) === 1);
  await page.route("**/api/v1/filters?*", (route) => route.fulfill({ status: 500, contentType: "application/json", body: '{"error":{"code":"io","message":"no space left <b>on device</b>"}}' }));
  await until("the server's error message is shown as plain text", () => page.getByRole("alert").getByText("no space left <b>on device</b>").count());
  await page.unroute("**/api/v1/filters?*");
  await page.route("**/api/v1/filters?*", (route) => route.fulfill({ status: 200, contentType: "application/json", body: "{broken" }));
  await until("an invalid response is reported", () => page.getByRole("alert").getByText("not JSON").count());
  await page.unroute("**/api/v1/filters?*");
  await until("the error disappears", async () => (await page.getByRole("alert").count()) === 0);
  await window.close("gone");
}

async function trySignIn(browser) {
  const window = await open(browser, users, { allow: ["401"] });
  const { page } = window;
  await page.goto(users);
  await until("the page asks for a password", () => page.getByRole("heading", { name: "Sign in" }).count());
  await shoot(window, "sign-in-light");
  await page.getByLabel("User").fill("admin");
  await page.getByLabel("Password or token").fill("wrong");
  await page.keyboard.press("Enter");
  await until("a wrong password is refused with a message", () => page.getByText("incorrect").count());
  await page.getByLabel("User").fill("admin");
  await page.getByLabel("Password or token").fill("secret");
  await page.getByRole("button", { name: "Sign in" }).click();
  await until("the right password opens the page", () => page.locator("table.filters").count());
  await page.reload();
  await until("the password is forgotten on reload", () => page.getByRole("heading", { name: "Sign in" }).count());
  await page.getByLabel("Password or token").fill("secret");
  await page.getByLabel(/Stay signed in/).check();
  await page.getByRole("button", { name: "Sign in" }).click();
  await until("a token alone is sufficient", () => page.locator("table.filters").count());
  await page.reload();
  await until("the user stays signed in if requested", () => page.locator("table.filters").count());
  await go(window, "#/filter/users");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  check("a file can be downloaded with a password", fs.statSync(await download.path()).size > 0);
  await page.getByRole("button", { name: "Sign out" }).click();
  await until("signing out works", () => page.getByRole("heading", { name: "Sign in" }).count());
  same("no credentials are left in storage", await page.evaluate(() => [sessionStorage.length, Object.keys(localStorage).filter((k) => /auth/.test(k)).length]), [0, 0]);
  await window.close("sign-in");
}

async function tryLoading(browser) {
  const window = await open(browser, loading, { allow: ["503"] });
  await window.page.goto(loading);
  await until("a loading service reports its progress", () => window.page.getByText("12 of 40 filters are loaded").count());
  await shoot(window, "loading-light");
  await window.close("loading");
}

// ---- Main ----------------------------------------------------------------------------------

async function prepare() {
  const { json } = await ask("GET", "api/v1/filters?pattern=browse%3A*&count=1000");
  for (const f of json.filters) {
    await ask("DELETE", `api/v1/filters/${format.segment(f.name, f.name_base64)}`);
  }
  for (const [name, kind, error] of [["browse:main", "blocked", 1e-6], ["browse:other", "scalable", 0.01], ["browse:third", "cuckoo", 0.001]]) {
    const made = await ask("POST", "api/v1/filters", { name, kind, capacity: 1000, error });
    check(`${name} is made`, made.status === 201, made.text);
  }
  const keys = Array.from({ length: 500 }, (_, i) => `key-${i}`);
  await ask("POST", "api/v1/filters/browse%3Amain/add", { keys });
  await ask("POST", "api/v1/filters/browse%3Aother/add", `${keys.join("\n")}\n`, "text/plain");
  await ask("POST", "api/v1/filters/browse%3Amain/check", { keys: ["key-1", "nobody"] });
  await ask("GET", "api/v1/filters/browse%3Amain?examine=1");
}

// Runs a step, and records a failed check if it throws an error or hangs. Some calls to the browser have no timeout.
async function finishes(name, step) {
  let timer;
  const hangs = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`hangs after the check "${lastCheck}"`)), 2 * PATIENCE);
  });
  try {
    await Promise.race([step(), hangs]);
  } catch (error) {
    check(name, false, error.stack);
  }
  clearTimeout(timer);
}

async function main() {
  fs.mkdirSync(shots, { recursive: true });
  await prepare();
  const launch = (chromiumSandbox) => chromium.launch({ executablePath: chromiumPath, chromiumSandbox, timeout: PATIENCE, args: ["--disable-gpu", "--disable-dev-shm-usage"] });
  // Chromium refuses to use its sandbox as root, and cannot use it where unprivileged users may not create namespaces.
  const browser = await (process.getuid() === 0 ? launch(false) : launch(true).catch(() => launch(false)));
  console.log(`Chromium ${browser.version()}`);
  const all = [tryOverview, tryKeyboard, tryManage, tryReader, tryFilter, tryGates, tryPlanner, tryRest, tryPages, tryLooks, tryHostile, tryGone,
    ...(users ? [trySignIn] : []), ...(loading ? [tryLoading] : []), ...(users && loading ? [tryStates] : []), ...(options.empty ? [tryFew] : []), ...(options.large ? [tryLarge] : [])];
  const tries = all.filter((one) => !options.only || options.only.split(",").includes(one.name));
  let withoutAxe = false;
  const kit = { ...options, plain, folder: playwright, mocked: Boolean(users), check, same, until, open, go, settle, painted, shoot, ask, signIn, format, contrasts, audit,
    skipAxe: () => { withoutAxe = true; } };
  for (const one of tries) {
    const [before, wrong] = [passed, failed];
    await finishes(one.name, () => one(browser, kit));
    console.log(`${one.name}: ${passed - before} passed, ${failed - wrong} failed`);
  }
  await closed("the browser", browser.close());
  for (const name of ["browse:other", "browse:third", "browse:main"]) {
    await ask("DELETE", `api/v1/filters/${encodeURIComponent(name)}`);
  }
  if (withoutAxe) {
    console.log("skipped: axe-core is not installed, so its rules were not checked");
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0); // also if a step still waits for the browser, which playwright then kills
}

await main();
