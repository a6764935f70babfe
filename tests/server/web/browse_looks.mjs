// Tests the appearance of every page, dialog and error at 400, 800 and 1400 pixels, light and dark, and with 0, 1, 40
// and many filters: no horizontal scrolling, no overlapping or cut text, sufficient contrast, and no serious finding of
// axe-core. Few and many filters are also managed by keyboard alone. browse.mjs passes its tools in `kit`.

import fs from "node:fs";
import path from "node:path";
import { fill, focused, tabTo } from "./browse_manage.mjs";

const WIDTHS = [400, 800, 1400];

// Returns texts that overlap, are cut off, or leave the page. Runs in the page.
function cramped() {
  const bad = new Set();
  const seen = (box) => box.width > 0 && box.height > 0;
  const say = (element, what) => bad.add(`${what}: "${(element.textContent || "").trim().slice(0, 30)}" in ${element.getAttribute("class") || element.tagName}`);
  if (document.documentElement.scrollWidth > innerWidth) {
    bad.add(`the page is ${document.documentElement.scrollWidth} pixels wide`);
  }
  for (const svg of document.querySelectorAll("main svg")) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((element) => [element, element.getBoundingClientRect()]).filter(([, box]) => seen(box));
    texts.forEach(([element, box], i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1) {
        say(element, "outside of its chart");
      }
      for (const [other, place] of texts.slice(i + 1)) {
        if (box.left < place.right - 1 && place.left < box.right - 1 && box.top < place.bottom - 2 && place.top < box.bottom - 2) {
          say(element, `overlaps "${other.textContent}"`);
        }
      }
    });
  }
  for (const svg of document.querySelectorAll("main .chart svg")) {
    const labels = [...svg.querySelectorAll(".grid text")].map((element) => element.textContent);
    if (new Set(labels).size < labels.length) {
      say(svg.closest(".chart"), `an axis repeats a label: ${labels}`);
    }
  }
  for (const element of document.querySelectorAll(".items-line .muted")) {
    if (element.getBoundingClientRect().height > 24) {
      say(element, "takes two lines");
    }
  }
  for (const grid of document.querySelectorAll(".gate .numbers")) {
    const columns = new Set([...grid.children].map((cell) => cell.getBoundingClientRect().left)).size;
    if (grid.children.length % columns > 0) {
      bad.add(`${grid.children.length} numbers in ${columns} columns`);
    }
  }
  for (const plot of document.querySelectorAll(".rate-plot")) {
    if (plot.clientWidth < 100) {
      bad.add(`a plot of rates is ${plot.clientWidth} pixels wide`);
    }
  }
  for (const box of document.querySelectorAll(".side, .page-overview .table-box")) {
    if (box.scrollWidth > box.clientWidth + 1) {
      bad.add(`${box.className} scrolls: ${box.scrollWidth} of ${box.clientWidth} pixels`);
    }
  }
  const scrolls = (element) => element.closest(".table-box, .paste, .side");
  for (const element of document.querySelectorAll("main *, dialog *")) {
    const own = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
    if (own.length === 0 || element.closest("svg,.visually-hidden,select,[data-clipped]") || element.getClientRects().length === 0) {
      continue;
    }
    const style = getComputedStyle(element);
    if (style.overflowX === "hidden" && element.scrollWidth > element.clientWidth + 1 && style.webkitLineClamp === "none" && style.clipPath === "none") {
      say(element, "cut off");
    }
    const range = document.createRange();
    for (const node of own) {
      range.selectNodeContents(node);
      const box = range.getBoundingClientRect();
      if (seen(box) && !scrolls(element) && (box.right > innerWidth + 1 || box.left < -1) && style.clipPath === "none") {
        say(element, "leaves the page");
      }
    }
  }
  const controls = [...document.querySelectorAll("main button, main a.button, main .badge, main .health")].map((element) => [element, element.getBoundingClientRect()]).filter(([, box]) => seen(box));
  controls.forEach(([element, box], i) => {
    for (const [other, place] of controls.slice(i + 1)) {
      if (!element.contains(other) && box.left < place.right - 1 && place.left < box.right - 1 && box.top < place.bottom - 1 && place.top < box.bottom - 1) {
        say(element, `overlaps ${other.textContent}`);
      }
    }
  });
  return [...bad].slice(0, 8);
}

// Returns the serious and critical findings of axe-core, or null if it is not installed.
async function axe(page, folder) {
  const file = path.join(folder, "node_modules", "axe-core", "axe.min.js");
  if (!fs.existsSync(file)) {
    return null;
  }
  if (!(await page.evaluate(() => "axe" in globalThis))) {
    await page.evaluate(fs.readFileSync(file, "utf8"));
  }
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`);
}

async function look(window, name, scheme, kit) {
  for (const width of WIDTHS) {
    await window.page.setViewportSize({ width, height: 900 });
    await kit.painted(window.page);
    const what = `${name}, ${width} pixels, ${scheme}`;
    kit.same(`${what}: nothing overlaps or is cut off`, await window.page.evaluate(cramped), []);
    const found = await axe(window.page, kit.folder);
    if (found === null) {
      kit.skipAxe();
    } else {
      kit.same(`${what}: axe-core`, found, []);
    }
    kit.same(`${what}: text is readable`, await window.page.evaluate(kit.contrasts), []);
    kit.same(`${what}: is accessible`, await window.page.evaluate(kit.audit), []);
    await kit.shoot(window, `${name}-${width}-${scheme}`, true);
  }
}

export async function tryLooks(browser, kit) {
  for (const scheme of ["light", "dark"]) {
    const window = await kit.open(browser, kit.plain, { colorScheme: scheme, allow: ["404"] });
    await kit.signIn(window);
    const first = (await kit.ask("GET", "api/v1/filters?count=1&sort=queries&order=desc")).json.filters[0];
    const { gates } = (await kit.ask("GET", "api/v1/gates")).json;
    const pages = [["overview", "#/"], ["filter", `#/filter/${kit.format.segment(first.name, first.name_base64)}`], ["gates", "#/gates"],
      ...gates.map((gate) => [`gate-${gate.name}`, `#/gate/${gate.name}`]), ["planner", "#/planner"], ["tenants", "#/tenants"], ["events", "#/events"], ["server", "#/server"],
      ["missing", "#/nowhere"], ["missing-filter", "#/filter/browse%3Anone"]];
    for (const [name, hash] of pages) {
      await kit.go(window, hash);
      await kit.settle(window);
      await look(window, name, scheme, kit);
    }
    kit.same("the theme follows the OS", await window.page.evaluate(() => document.documentElement.dataset.theme), scheme);
    await lookAtDialogs(window, scheme, kit);
    await window.close(`looks, ${scheme}`);
  }
}

async function lookAtDialogs(window, scheme, kit) {
  const { page } = window;
  for (const [name, hash, open] of [["dialog-create", "#/", () => page.getByRole("button", { name: "New filter…" }).click()], ["dialog-help", "#/", () => page.keyboard.press("?")],
    ["dialog-rename", "#/filter/browse%3Aother", () => page.getByRole("button", { name: "Rename…" }).click()],
    ["dialog-clear", "#/filter/browse%3Aother", () => page.getByRole("button", { name: "Clear…" }).click()],
    ["dialog-delete", "#/filter/browse%3Aother", () => page.getByRole("button", { name: "Delete…" }).click()],
    ["dialog-rebuild", "#/gates", () => page.getByRole("button", { name: "Rebuild…" }).first().click()],
    ["dialog-problem", "#/", () => createInvalid(page)]]) {
    await kit.go(window, hash);
    await kit.settle(window);
    await open();
    await kit.until(`${name} is open`, () => page.getByRole("dialog").count());
    await look(window, name, scheme, kit);
    await page.keyboard.press("Escape");
    await kit.until(`${name} is closed`, async () => (await page.getByRole("dialog").count()) === 0);
  }
}

// Submits a form that the page refuses.
async function createInvalid(page) {
  await page.getByRole("button", { name: "New filter…" }).click();
  await page.locator("#field-name").fill("x".repeat(200));
  await page.locator("#field-capacity").fill("y".repeat(200));
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
}

// Tests results, errors and empty lists. `kit.users` requires a login, and `kit.loading` never finishes loading.
export async function tryStates(browser, kit) {
  for (const scheme of ["light", "dark"]) {
    const window = await kit.open(browser, kit.plain, { colorScheme: scheme, allow: ["ERR_INTERNET_DISCONNECTED", "Failed to load resource"] });
    const { page, context } = window;
    const show = async (name, hash, step) => {
      await kit.go(window, hash);
      for (const button of await page.locator("#pause[aria-pressed=true]").all()) {
        await button.click();
      }
      await step();
      await kit.settle(window);
      await look(window, name, scheme, kit);
    };
    await show("state-no-match", "#/?search=no%20such%20filter", () => page.getByText("No matching filters").waitFor());
    await show("state-no-events", "#/events", () => page.locator("#search").fill("no such event"));
    await show("state-verified", "#/filter/browse%3Aother", async () => {
      await page.getByRole("button", { name: "Verify" }).click();
      await page.locator(".verdict").waitFor();
      await page.locator("#try-key").fill("key-1");
      await page.keyboard.press("Enter");
      await page.locator(".answer").waitFor();
    });
    await show("state-plan", "#/planner?items=1e11&error=1e-7&queries_per_second=1e6&call_cost=1&memory_cost=1", async () => {
      await page.locator("#knob-items").fill("many");
      await page.locator(".knob-bad").waitFor();
    });
    await show("state-error", "#/", async () => {
      await page.route("**/api/v1/filters?*", (route) => route.fulfill({ status: 500, contentType: "application/json", body: '{"error":{"code":"io","message":"no space left on device"}}' }));
      await page.getByRole("alert").getByText("no space left on device").waitFor();
    });
    await page.unroute("**/api/v1/filters?*");
    await show("state-gone", "#/gates", async () => {
      await context.setOffline(true);
      await page.getByRole("alert").getByText("The server is unreachable").waitFor();
    });
    await window.close(`states, ${scheme}`);
    await lookAtStart(browser, scheme, kit);
  }
}

// Tests the pages of a service that requires a login, and of one that is loading.
async function lookAtStart(browser, scheme, kit) {
  const window = await kit.open(browser, kit.users, { colorScheme: scheme, allow: ["401"] });
  await window.page.goto(kit.users);
  await window.page.getByLabel("User").fill("admin");
  await window.page.getByLabel("Password or token").fill("wrong");
  await window.page.keyboard.press("Enter");
  await window.page.getByText("incorrect").waitFor();
  await look(window, "state-sign-in", scheme, kit);
  await window.close(`sign-in, ${scheme}`);
  const waiting = await kit.open(browser, kit.loading, { colorScheme: scheme, allow: ["503"] });
  await waiting.page.goto(kit.loading);
  await waiting.page.getByText("12 of 40 filters are loaded").waitFor();
  await look(waiting, "state-loading", scheme, kit);
  await waiting.close(`loading, ${scheme}`);
}

// Tests a service without filters, and one with a single filter.
export async function tryFew(browser, kit) {
  for (const [name, base, rows] of [["empty", kit.empty, 0], ["one", kit.one, 1]]) {
    for (const scheme of ["light", "dark"]) {
      const window = await kit.open(browser, base, { colorScheme: scheme });
      await kit.go(window, "#/");
      await kit.until(`${name}: the filters are shown`, async () => (await window.page.locator("table.filters tbody tr").count()) === rows && (await window.page.locator(".matched").textContent()) === kit.format.plural(rows, "filter"));
      kit.same(`${name}: one button to create a filter`, await window.page.getByRole("button", { name: "New filter…" }).count(), 1);
      await kit.settle(window);
      await look(window, `overview-${name}`, scheme, kit);
      const first = window.answers.get("/api/v1/filters").json.filters.map((filter) => `filter/${kit.format.segment(filter.name, filter.name_base64)}`);
      for (const place of ["gates", "planner", "tenants", "events", "server", ...first]) {
        await kit.go(window, `#/${place}`);
        await kit.settle(window);
        await look(window, `${place.split("/")[0]}-${name}`, scheme, kit);
      }
      kit.same(`${name}: an empty filter is called empty`, await window.page.getByText("The filter is empty.").count(), rows);
      await window.close(`${name}, ${scheme}`);
    }
    for (const width of WIDTHS) {
      await createByKeyboard(browser, base, rows, width, kit);
    }
  }
}

// Creates a filter, opens it from the list and deletes it, by keyboard alone.
async function createByKeyboard(browser, base, rows, width, kit) {
  const window = await kit.open(browser, base, { viewport: { width, height: 900 } });
  const { page } = window;
  const count = (n) => kit.until(`${n} filters are listed`, async () => (await page.locator(".matched").textContent()) === kit.format.plural(n, "filter"));
  await kit.go(window, "#/");
  await tabTo(page, "New filter…", kit);
  await page.keyboard.press("Enter");
  await fill(page, "field-name", "zzz", kit);
  await page.keyboard.press("Enter");
  await kit.until("the filter is created", async () => (await page.locator("h1").textContent()) === "zzz");
  await page.keyboard.press("Escape");
  await count(rows + 1);
  for (let i = 0; i <= rows; i++) {
    await page.keyboard.press("j");
  }
  await page.keyboard.press("Enter");
  await kit.until("Enter opens the last filter", async () => (await page.locator("h1").textContent()) === "zzz" && (await page.locator(".page[aria-busy=false]").count()) > 0);
  await tabTo(page, "Delete…", kit);
  await page.keyboard.press("Enter");
  await kit.until("the confirmation has the focus", async () => (await focused(page)) === "confirm");
  await page.keyboard.type("delete");
  await page.keyboard.press("Enter");
  await count(rows);
  await window.close(`${rows} filters, by keyboard, ${width} pixels`);
}

// Tests a service with many filters: the dashboard requests one page of rows at a time. Prints the time until the first
// rows, and the memory used.
export async function tryLarge(browser, kit) {
  const window = await kit.open(browser, kit.large);
  const { page } = window;
  const began = Date.now();
  let sizes = 0;
  page.on("response", async (response) => {
    sizes = Math.max(sizes, (await response.body().catch(() => "")).length);
  });
  await page.goto(`${kit.large}#/`);
  await page.locator("table.filters tbody tr").first().waitFor();
  const first = Date.now() - began;
  await kit.until("the number of filters is shown", async () => (await page.locator(".matched").textContent()) === kit.format.plural(window.answers.get("/api/v1/filters").json.total, "filter") && window.answers.get("/api/v1/filters").json.total >= 100000);
  const { total } = window.answers.get("/api/v1/filters").json;
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  kit.check("the page has fewer than 5,000 elements", nodes < 5000, nodes);
  kit.check("responses are at most 1 MB", sizes < 1e6, sizes);
  await page.keyboard.press("]");
  await kit.until("] shows the next page", async () => (await page.locator(".page-number").textContent()).startsWith("2 / ") && page.url().includes("page=2"));
  await kit.until("the next page has different filters", () => window.answers.get("/api/v1/filters").query.get("offset") === "50");
  const typed = Date.now();
  await page.locator("#search").fill("tokens:0999");
  await kit.until("the search finds one filter", async () => (await page.locator("table.filters tbody tr").count()) === 1);
  const found = Date.now() - typed;
  await page.locator("#search").fill("");
  await page.getByLabel("Health").selectOption("act");
  await kit.until("filters that need action are listed", async () => (await page.locator("tbody .health.act").count()) === (await page.locator("table.filters tbody tr").count()) && (await page.locator("table.filters tbody tr").count()) > 0);
  await page.getByLabel("Health").selectOption("");
  await kit.settle(window);
  const cdp = await window.context.newCDPSession(page);
  await cdp.send("Performance.enable");
  const heap = (await cdp.send("Performance.getMetrics")).metrics.find((one) => one.name === "JSHeapUsedSize").value;
  console.log(`  ${kit.format.count(total)} filters: first rows after ${first} ms, search ${found} ms, largest response ${kit.format.bytes(sizes)}, `
    + `${nodes} elements, JavaScript heap ${kit.format.bytes(heap)}`);
  await window.close("many filters");
  for (const width of WIDTHS) {
    await manageOneOfMany(browser, width, total, kit);
  }
  await lookAtMany(browser, kit);
}

// Looks at the pages whose content depends on the number of filters.
async function lookAtMany(browser, kit) {
  for (const scheme of ["light", "dark"]) {
    const window = await kit.open(browser, kit.large, { colorScheme: scheme });
    for (const [name, hash] of [["overview", "#/"], ["last", "#/?sort=health&order=desc&page=999999"], ["filter", "#/filter/tokens%3A0999"], ["events", "#/events"], ["server", "#/server"]]) {
      await kit.go(window, hash);
      await kit.settle(window);
      await look(window, `${name}-large`, scheme, kit);
    }
    await window.close(`many filters, ${scheme}`);
  }
}

// Finds one of many filters, and creates, renames and deletes another, by keyboard alone.
async function manageOneOfMany(browser, width, total, kit) {
  const window = await kit.open(browser, kit.large, { viewport: { width, height: 900 } });
  const { page } = window;
  const heading = (name) => kit.until(`${name} opens, ${width} pixels`, async () => (await page.locator("h1").textContent()) === name && (await page.locator(".page[aria-busy=false]").count()) > 0);
  const search = async (text, n) => {
    await page.keyboard.press("/");
    await page.keyboard.type(text);
    await kit.until(`the search finds ${n} of many filters, ${width} pixels`, async () => (await page.locator(".matched").textContent()) === `${n} of ${kit.format.plural(total + n - 1, "filter")}`);
    await page.keyboard.press("Escape");
  };
  await kit.go(window, "#/");
  await search("tokens:0999", 1);
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await heading("tokens:0999");
  await page.keyboard.press("Escape");
  await heading("Filters");
  await page.keyboard.press("n");
  await kit.until("the form is open", async () => (await focused(page)) === "field-name");
  await page.keyboard.insertText("tokens:0999+");
  await page.keyboard.press("Enter");
  await heading("tokens:0999+");
  await page.keyboard.press("Escape");
  await heading("Filters");
  await search("tokens:0999", 2);
  for (const key of ["j", "j", "Enter"]) {
    await page.keyboard.press(key);
  }
  await heading("tokens:0999+");
  await tabTo(page, "Rename…", kit);
  await page.keyboard.press("Enter");
  await fill(page, "field-name", "tokens:renamed", kit);
  await page.keyboard.press("Enter");
  await heading("tokens:renamed");
  await tabTo(page, "Delete…", kit);
  await page.keyboard.press("Enter");
  await kit.until("the confirmation has the focus", async () => (await focused(page)) === "confirm");
  await page.keyboard.type("delete");
  await page.keyboard.press("Enter");
  await heading("Filters");
  await kit.until("the filter is deleted", async () => (await page.locator(".matched").textContent()) === kit.format.plural(total, "filter"));
  await window.close(`many filters by keyboard, ${width} pixels`);
}
