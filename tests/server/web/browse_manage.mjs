// Tests the dashboard with the keyboard alone: create, open, rename and delete filters, dialogs that keep the focus,
// messages of the service, permissions, and names that contain markup, emoji or right-to-left text; then every page, at
// 400, 800 and 1400 pixels.
// browse.mjs passes its tools in `kit`.

const NAMES = ["<img src=x onerror=alert(1)>", "\u05e9\u05dc\u05d5\u05dd \u0639\u0627\u0644\u0645", "\u{1f600} emoji", `long ${"x".repeat(300)}`];

const inDialog = (page) => page.evaluate(() => document.activeElement.closest("dialog") !== null);
export const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.textContent.trim());

// Moves the focus with Tab to a control with this text or ID.
export async function tabTo(page, wanted, kit) {
  for (let i = 0; i < 60; i++) {
    if ((await focused(page)) === wanted) {
      return kit.check(`Tab reaches ${wanted}`, true);
    }
    await page.keyboard.press("Tab");
  }
  return kit.check(`Tab reaches ${wanted}`, false, await focused(page));
}

export async function fill(page, id, text, kit) {
  await tabTo(page, id, kit);
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(text);
}

async function tryTrap(page, kit) {
  for (const key of ["Tab", "Shift+Tab"]) {
    let inside = 0;
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press(key);
      inside += await inDialog(page);
    }
    kit.same(`${key} stays in the dialog`, inside, 12);
  }
}

async function create(page, name, kit) {
  await page.keyboard.press("n");
  await kit.until("n opens the form", () => page.getByRole("dialog", { name: "New filter" }).count());
  await kit.until("the name has the focus", async () => (await focused(page)) === "field-name");
  await page.keyboard.insertText(name);
  await page.keyboard.press("Enter");
}

async function tryCreate(window, kit) {
  const { page } = window;
  await kit.go(window, "#/");
  await tabTo(page, "New filter…", kit);
  await page.keyboard.press("Enter");
  await kit.until("the button opens the form", () => page.getByRole("dialog", { name: "New filter" }).count());
  await tryTrap(page, kit);
  kit.same("a filter needs a name", await page.getByRole("button", { name: "Create filter" }).isDisabled(), true);
  await kit.shoot(window, "create-light");
  await page.keyboard.press("Escape");
  await kit.until("Escape closes the form", async () => (await page.getByRole("dialog").count()) === 0);
  await kit.until("the focus returns to the button", async () => (await focused(page)) === "New filter…");
  await page.keyboard.press("Enter");
  await kit.until("the form opens again", () => page.getByRole("dialog").count());
  await fill(page, "field-name", "browse:made", kit);
  await fill(page, "field-capacity", "many", kit);
  await page.keyboard.press("Enter");
  await kit.until("a wrong number is explained", () => page.getByRole("alert").getByText('keys: found "many", expected a number').count());
  await fill(page, "field-capacity", "2.5k", kit);
  await fill(page, "field-rate", "0.1%", kit);
  await page.keyboard.press("Enter");
  await kit.until("the new filter is shown", async () => (await page.locator("h1").textContent()) === "browse:made");
  const made = (await kit.ask("GET", "api/v1/filters/browse%3Amade")).json;
  kit.same("2.5k and 0.1% are understood", [made.capacity, made.requested], [2500, 0.001]);
  await kit.until("the size is a sentence", async () => (await page.locator(".size-words").textContent()).endsWith("2,500 keys, 0.1% target") || (await page.locator(".size-words").textContent()) === "2,500 keys planned, 0.1% target");
  await page.keyboard.press("Escape");
  await kit.until("Escape returns to the list", () => page.locator("table.filters").count());
  await create(page, "browse:made", kit);
  await kit.until("an existing name is refused with the message of the service", () => page.getByRole("alert").getByText("filter browse:made already exists").count());
  await fill(page, "field-name", "browse:sized", kit);
  await fill(page, "field-memory", "64Ki", kit);
  await page.keyboard.press("Enter");
  await kit.until("a size in memory is accepted", async () => (await page.locator("h1").textContent()) === "browse:sized");
  kit.check("64Ki is the size", [65536].includes((await kit.ask("GET", "api/v1/filters/browse%3Asized")).json.bytes) || kit.mocked, "");
}

async function tryRename(window, kit) {
  const { page } = window;
  await kit.go(window, "#/filter/browse%3Amade");
  await tabTo(page, "Rename…", kit);
  await page.keyboard.press("Enter");
  await kit.until("the form contains the name", async () => (await page.locator("#field-name").inputValue()) === "browse:made");
  await page.keyboard.insertText("browse:sized");
  await page.keyboard.press("Enter");
  await kit.until("a name in use is refused", () => page.getByRole("alert").getByText("already exists").count());
  for (const name of NAMES) {
    await fill(page, "field-name", `browse:${name}`, kit);
    await page.keyboard.press("Enter");
    await kit.until(`${name.slice(0, 30)}: renamed`, async () => (await page.locator("h1").textContent()) === kit.format.nameText(`browse:${name}`, 160));
    kit.same(`${name.slice(0, 30)}: the service has the new name`, (await kit.ask("GET", `api/v1/filters/${kit.format.segment(`browse:${name}`)}`)).status, 200);
    kit.same(`${name.slice(0, 30)}: no markup`, await page.locator("main img, main script").count(), 0);
    await tabTo(page, "Rename…", kit);
    await page.keyboard.press("Enter");
    await kit.until("the form opens", () => page.getByRole("dialog").count());
  }
  await page.goBack();
  await kit.until("the form closes on another page", async () => (await page.getByRole("dialog").count()) === 0);
  await page.goForward();
  await kit.until("the filter is shown again", async () => (await page.locator("h1").textContent()) === kit.format.nameText(`browse:${NAMES.at(-1)}`, 160));
  await tabTo(page, "Rename…", kit);
  await page.keyboard.press("Enter");
  await fill(page, "field-name", "browse:made", kit);
  await page.keyboard.press("Enter");
  await kit.until("the old name is back", async () => (await page.locator("h1").textContent()) === "browse:made");
}

async function tryDelete(window, kit) {
  const { page } = window;
  for (const name of ["browse:made", "browse:sized"]) {
    await kit.go(window, `#/filter/${encodeURIComponent(name)}`);
    await tabTo(page, "Delete…", kit);
    await page.keyboard.press("Enter");
    await kit.until("deleting asks for confirmation", () => page.getByRole("dialog", { name: "Delete this filter?" }).count());
    await page.keyboard.press("Escape");
    await kit.until("the focus returns to Delete", async () => (await focused(page)) === "Delete…");
    kit.same("nothing is deleted", (await kit.ask("GET", `api/v1/filters/${encodeURIComponent(name)}`)).status, 200);
    await page.keyboard.press("Enter");
    await kit.until("the dialog is open", async () => (await focused(page)) === "confirm");
    await page.keyboard.type("delet");
    await page.keyboard.press("Enter");
    kit.check("an incomplete word does not delete", await page.getByRole("dialog").count());
    await page.keyboard.type("e");
    await kit.until("the whole word enables the button", () => page.getByRole("button", { name: "Delete filter" }).isEnabled());
    await page.keyboard.press("Enter");
    await kit.until(`${name} is deleted`, async () => page.url().endsWith("#/") && (await kit.ask("GET", `api/v1/filters/${encodeURIComponent(name)}`)).status === 404);
  }
}

export async function tryManage(browser, kit) {
  const window = await kit.open(browser, kit.plain, { allow: ["409", "404"] });
  await kit.signIn(window);
  await tryCreate(window, kit);
  await tryRename(window, kit);
  await tryDelete(window, kit);
  await window.close("managing filters");
}

// Opens every page, and uses it.
export async function tryPages(browser, kit) {
  const { gates } = (await kit.ask("GET", "api/v1/gates")).json;
  for (const width of [400, 800, 1400]) {
    const window = await kit.open(browser, kit.plain, { viewport: { width, height: 900 } });
    const { page } = window;
    const press = (key) => page.keyboard.press(key);
    const opens = (what, key, heading) => press(key).then(() => kit.until(`${what} opens, ${width} pixels`,
      async () => (await page.locator("h1").textContent()) === heading && (await page.locator(".page[aria-busy=false]").count()) > 0));
    await kit.signIn(window);
    await kit.go(window, "#/filter/browse%3Aother");
    const { capacity } = (await kit.ask("GET", "api/v1/filters/browse%3Aother")).json;
    kit.same("a filter that grows has no capacity", await page.getByText("grows automatically").count(), capacity === null ? 2 : 0);
    await fill(page, "try-key", "key-1", kit);
    await press("Enter");
    await kit.until("a key is looked up", () => page.locator(".answer.maybe").count());
    await press("Escape");
    await tabTo(page, "1 h", kit);
    await press("Enter");
    await kit.until("another time range is selected", () => page.locator("[aria-pressed=true]", { hasText: "1 h" }).count());
    await opens("the gates", "2", "Gates");
    await tabTo(page, gates[0].name, kit);
    await opens("a gate", "Enter", gates[0].name);
    await fill(page, "try-key", "browse: absent", kit);
    await press("Enter");
    await kit.until("a key is looked up through the gate", () => page.locator(".answer").count());
    await press("Escape");
    await opens("the list of gates", "Escape", "Gates");
    await tabTo(page, "Rebuild…", kit);
    await press("Enter");
    await kit.until("a dialog opens", () => page.getByRole("dialog").count());
    await tryTrap(page, kit);
    await press("Escape");
    await kit.until("the focus returns to Rebuild", async () => (await focused(page)) === "Rebuild…");
    await opens("the planner", "3", "Planner");
    await fill(page, "knob-items", "2M", kit);
    await kit.until("the plan is for two million keys", () => window.answers.get("/api/v1/plan")?.json.request.items === 2e6);
    await tabTo(page, "cuckoo", kit);
    await press("Enter");
    await kit.until("another kind is selected", () => page.locator(".answer-panel .reason", { hasText: "cuckoo" }).count());
    await opens("the tenants", "4", "Tenants");
    await opens("the events", "5", "Events");
    await tabTo(page, "Errors", kit);
    await press("Enter");
    await kit.until("only errors are shown", async () => page.url().includes("level=error"));
    await opens("the server", "6", "Server");
    await tabTo(page, "24 h", kit);
    await press("Enter");
    await kit.until("one day is shown", () => window.answers.get("/api/v1/history").query.get("seconds") === "86400");
    await window.close(`pages by keyboard, ${width} pixels`);
  }
}

// For a user without permissions, the buttons are shown but disabled.
export async function tryReader(browser, kit) {
  const window = await kit.open(browser, kit.plain);
  const { page } = window;
  await page.route("**/api/v1/info", async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    await route.fulfill({ response, json: { ...json, user: { name: "reader", admin: false, write: false, can: ["verify"] } } });
  });
  await kit.signIn(window);
  await kit.go(window, "#/");
  kit.same("a reader cannot create filters", await page.getByRole("button", { name: "New filter…" }).isDisabled(), true);
  await page.keyboard.press("n");
  await kit.go(window, "#/filter/browse%3Aother");
  kit.same("n does nothing", await page.getByRole("dialog").count(), 0);
  for (const [name, disabled] of [["Verify", false], ["Download", true], ["Rename…", true], ["Clear…", true], ["Delete…", true]]) {
    kit.same(`a reader and ${name}`, await page.getByRole("button", { name }).isDisabled(), disabled);
  }
  await kit.go(window, "#/gates");
  for (const button of await page.getByRole("button", { name: "Rebuild…" }).all()) {
    kit.same("a reader cannot rebuild", await button.isDisabled(), true);
  }
  await window.close("a reader");
}
