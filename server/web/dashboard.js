// dashboard.js - the frame around the pages: navigation, state, periodic updates, and error
// messages.
//
// A page (view_*.js) is a module with
//   title(context)            the window title; heading(context) for the page, if it differs
//   begin(route)              its own state, discarded when another page is shown
//   load(context)             queries the service; its result becomes context.data
//   render(context)           describes the page
//   address(state)            the address that restores this state, if there is one
//   key(event, context)       its own keyboard shortcuts; returns true if it handled the key
//   still                     true: not updated every two seconds
//
// Responses for a page that is no longer shown are discarded.

import { h, render } from "./vdom.js";
import { icon } from "./icons.js";
import * as api from "./api.js";
import * as charts from "./charts.js";
import * as format from "./format.js";
import { emptyNote, nameOf, messageOf } from "./parts.js";
import { openQuestion, questionDialog, modal, dialogsBefore, dialogsAfter } from "./dialogs.js";
import * as overview from "./view_overview.js";
import * as filter from "./view_filter.js";
import * as gates from "./view_gates.js";
import * as gate from "./view_gate.js";
import * as planner from "./view_planner.js";
import * as tenants from "./view_tenants.js";
import * as events from "./view_events.js";
import * as server from "./view_server.js";

const EVERY = 2000; // interval between updates, in milliseconds
const PAGES = [
  { id: "", name: "Filters", icon: "overview", view: overview },
  { id: "gates", name: "Gates", icon: "gates", view: gates },
  { id: "planner", name: "Planner", icon: "planner", view: planner },
  { id: "tenants", name: "Tenants", icon: "tenants", view: tenants },
  { id: "events", name: "Events", icon: "events", view: events },
  { id: "server", name: "Server", icon: "server", view: server },
];

// Pages about one object, each with the page that lists all objects of its type.
const DETAILS = {
  filter: { view: filter, above: PAGES[0], all: "All filters", none: "Filter not found" },
  gate: { view: gate, above: PAGES[1], all: "All gates", none: "Gate not found" },
};

// The page for addresses that do not exist.
const missing = {
  title: () => "Page not found", begin: () => ({}), load: async () => ({}), still: true,
  render: () => h("section", { class: "panel" }, emptyNote("Page not found", "There is no page at this address."), h("p", { class: "center" }, h("a", { class: "button", href: "#/" }, "All filters"))),
};

const state = {
  route: null, view: overview, local: {}, data: null, info: null,
  error: null, // error from this page's last request
  answered: 0, // time of the last response, according to the browser's clock
  paused: false, signingIn: false, signInProblem: "", notes: [], question: null, helping: false,
};

function setting(name, fallback) {
  try {
    return localStorage.getItem(name) ?? fallback;
  } catch {
    return fallback;
  }
}

let shortcuts = setting("bloomgate-shortcuts", "on") === "on";

// ---- Navigation ----------------------------------------------------------------------------

// Parses "#/filter/users?x=1" into { page: "filter", rest: "users", query: { x: "1" } }.
function readRoute() {
  const text = location.hash.replace(/^#\/?/, "");
  const [path, query = ""] = text.split("?", 2);
  const slash = path.indexOf("/");
  const page = slash < 0 ? path : path.slice(0, slash);
  return { page, rest: slash < 0 ? "" : cleanSegment(path.slice(slash + 1)), query: Object.fromEntries(new URLSearchParams(query)) };
}

// Converts text from the URL to a valid path segment. URLs are untrusted, so text that is
// not the name of a filter must not become a path.
function cleanSegment(text) {
  if (/^=[A-Za-z0-9_-]*$/.test(text)) {
    return text;
  }
  try {
    return format.segment(decodeURIComponent(text));
  } catch {
    return encodeURIComponent(text);
  }
}

function arrive() {
  const route = readRoute();
  const first = state.route === null;
  const known = route.rest === "" ? PAGES.find((page) => page.id === route.page) : Object.hasOwn(DETAILS, route.page) && DETAILS[route.page];
  const view = known ? known.view : missing;
  Object.assign(state, { route, view, local: view.begin(route), data: null, error: null, question: null, helping: false });
  refresh();
  draw();
  if (!first) {
    scrollTo(0, 0);
    document.getElementById("title")?.focus({ preventScroll: true });
  }
}

const goto = (hash) => {
  location.hash = hash;
};

function context() {
  return {
    route: state.route, local: state.local, data: state.data, info: state.info, api,
    change, goto, notify, refresh, showDialog: (question) => { state.question = openQuestion(question); draw(); },
  };
}

// Changes the state of a page, redraws it, and reloads its data after `delay` milliseconds (never,
// if `delay` is -1).
let reload = 0;
function change(part, delay = 0) {
  Object.assign(state.local, part);
  if (state.view.address && delay >= 0) {
    history.replaceState(null, "", state.view.address(state.local));
  }
  if (delay >= 0) {
    clearTimeout(reload);
    reload = setTimeout(refresh, delay);
  }
  draw();
}

// ---- Updates -------------------------------------------------------------------------------

let round = 0;
let timer = 0;

async function refresh() {
  const mine = ++round;
  const { view } = state;
  clearTimeout(timer);
  const [info, data] = await Promise.allSettled([api.get("api/v1/info"), view.load(context())]);
  if (mine !== round) {
    return; // a later refresh has replaced this one
  }
  if (info.status === "fulfilled") {
    state.info = info.value;
  }
  if (data.status === "fulfilled" && info.status === "fulfilled") {
    Object.assign(state, { data: data.value, error: null, answered: Date.now() / 1000, signingIn: false, signInProblem: "" });
  } else {
    failed(info.status === "rejected" ? info.reason : data.reason);
  }
  draw();
  timer = setTimeout(next, EVERY);
}

function failed(error) {
  if (!(error instanceof api.ApiError)) {
    console.error(error);
  }
  if (error.status === 401) {
    state.signInProblem = api.isSignedIn() ? "The user name or password is incorrect." : "";
    api.signOut();
    state.signingIn = true;
    state.error = null;
  } else {
    state.error = error;
  }
}

function next() {
  const idle = state.paused || document.hidden || state.signingIn || (state.view.still && !state.error && state.data);
  if (idle) {
    timer = setTimeout(next, EVERY);
  } else {
    refresh();
  }
}

function pause(paused) {
  state.paused = paused;
  if (!paused) {
    refresh();
  }
  draw();
}

let noteId = 0;
function notify(text, kind = "info") {
  const note = { id: ++noteId, text, kind };
  state.notes.push(note);
  setTimeout(() => {
    state.notes = state.notes.filter((other) => other !== note);
    draw();
  }, kind === "error" ? 12000 : 5000);
  draw();
}

// ---- The frame -----------------------------------------------------------------------------

let waiting = false;
function draw() {
  if (!waiting) {
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawNow();
    });
  }
}

function drawNow() {
  const now = context();
  const name = state.view.title(now);
  const wasOpen = dialogsBefore();
  const detail = detailPage();
  document.title = `${name} · Bloomgate`;
  render(document.getElementById("app"), [
    h("a", { class: "skip", href: "#title", key: "skip", onclick: (event) => { event.preventDefault(); document.getElementById("title").focus(); } }, "Skip to content"),
    h("div", { class: "frame", key: "frame" }, sidebar(), h("main", { id: "main" },
      h("header", { class: "top" },
        detail && h("a", { key: "up", class: "up", href: `#/${detail.above.id}`, "aria-label": detail.all }, icon("back")),
        h("h1", { key: "title", id: "title", tabindex: "-1" }, (state.view.heading && !state.signingIn ? state.view.heading(now) : name)),
        liveness()),
      banner(),
      h("div", { class: `page page-${state.view === missing ? "missing" : state.route.page || "overview"}${state.error && state.data ? " stale" : ""}`, key: `${state.route.page}/${state.route.rest}`, "aria-busy": String(!state.data && !state.error) }, content(now)))),
    h("div", { class: "notes", role: "status", "aria-live": "polite", key: "notes" }, state.notes.map((note) => h("div", { key: note.id, class: `note ${note.kind}` }, icon(note.kind === "error" ? "act" : "fine"), messageOf(note.text)))),
    // drawNow, not draw: the browser ignores Enter until the form's button is enabled.
    state.question && questionDialog(state.question, closeQuestion, drawNow),
    state.helping && helpDialog(),
  ]);
  dialogsAfter(wasOpen);
}

// Returns the entry of DETAILS for the current page, or null.
function detailPage() {
  return Object.hasOwn(DETAILS, state.route.page) ? DETAILS[state.route.page] : null;
}

// Closes a question, unless a later one has replaced it.
function closeQuestion(question) {
  if (state.question === question) {
    state.question = null;
    draw();
  }
}

function content(now) {
  if (state.signingIn) {
    return signInForm();
  }
  if (state.data && state.info) {
    return state.view.render(now);
  }
  const detail = detailPage();
  if (state.error && state.error.code === "not_found" && detail) {
    return h("section", { class: "panel" }, emptyNote(detail.none, messageOf(state.error.message)), h("p", { class: "center" }, h("a", { class: "button", href: `#/${detail.above.id}` }, detail.all)));
  }
  if (state.error) {
    return null; // the banner shows the error
  }
  return h("div", { class: "waiting", "aria-label": "Loading" }, [0, 1, 2].map((i) => h("div", { class: "ghost", key: i })));
}

function sidebar() {
  const counts = state.info && state.info.filters;
  const here = detailPage() ? detailPage().above.id : state.view === missing ? null : state.route.page;
  return h("aside", { class: "side" },
    h("a", { class: "brand", href: "#/", "aria-label": "Bloomgate: all filters" }, logo(), h("span", null, "Bloomgate")),
    h("nav", { "aria-label": "Pages" }, h("ul", null, PAGES.map((page) => h("li", { key: page.id }, h("a", {
      href: `#/${page.id}`, "aria-current": page.id === here ? "page" : undefined,
    }, icon(page.icon), h("span", null, page.name),
    page.id === "" && counts && counts.act > 0 && h("span", { class: "nav-count act", title: "filters that need action" }, format.count(counts.act))))))),
    h("div", { class: "side-foot" },
      state.info && h("p", { class: "muted version" }, state.info.version, state.info.user.name !== null && [" · ", nameOf(state.info.user.name, 24)]),
      h("div", { class: "side-buttons" },
        themeButton(),
        h("button", { type: "button", class: "button plain", title: "Keyboard shortcuts (?)", "aria-label": "Keyboard shortcuts", onclick: () => { state.helping = true; draw(); } }, icon("help")),
        api.isSignedIn() && h("button", { type: "button", class: "button plain", title: "Sign out", "aria-label": "Sign out", onclick: leave }, icon("leave")))));
}

function logo() {
  return h("svg", { class: "logo", viewBox: "0 0 32 32", "aria-hidden": "true" },
    h("rect", { width: 32, height: 32, rx: 7 }),
    h("path", { d: "M7 26V14a9 9 0 0 1 18 0v12M13 26v-8M19 26v-8" }), h("circle", { cx: 16, cy: 12, r: 2.3 }));
}

const THEMES = [["auto", "system"], ["light", "light"], ["dark", "dark"]];

function turnTheme() {
  const i = THEMES.findIndex(([theme]) => theme === window.bloomgateTheme.chosen());
  window.bloomgateTheme.choose(THEMES[(i + 1) % THEMES.length][0]);
  draw();
}

function themeButton() {
  const chosen = window.bloomgateTheme.chosen();
  const words = THEMES.find(([theme]) => theme === chosen)[1];
  return h("button", { type: "button", id: "theme", class: "button plain", title: `Theme: ${words} (t)`, "aria-label": `Theme: ${words}`, onclick: turnTheme },
    icon({ auto: "auto", light: "sun", dark: "moon" }[chosen]));
}

function liveness() {
  if (state.signingIn) {
    return null;
  }
  const gone = state.error && state.error.code === "gone";
  const at = state.answered ? format.clock(state.answered, true) : "";
  const words = gone ? "No response" : state.paused ? `Paused at ${at}` : state.view.still ? "" : "Live";
  return h("div", { class: "live" },
    words && h("span", { class: `live-state ${gone ? "act" : state.paused ? "paused" : "on"}`, title: at ? `last response ${at}` : undefined }, h("i"), words),
    !state.view.still && h("button", {
      type: "button", class: "button small", id: "pause", "aria-pressed": String(state.paused), title: state.paused ? "Resume (p)" : "Pause (p)", onclick: () => pause(!state.paused),
    }, icon(state.paused ? "play" : "pause"), state.paused ? "Resume" : "Pause"));
}

function banner() {
  const { error, info } = state;
  if (error && error.code === "gone") {
    return h("div", { class: "banner act", role: "alert", key: "banner" }, icon("act"), h("div", null, h("b", null, "The server is unreachable. "),
      state.answered ? `Last response at ${format.clock(state.answered, true)}; the data shown is from then. ` : "", `Retrying every ${EVERY / 1000} seconds.`));
  }
  if (info && info.state === "loading") {
    const { loading } = info.persistence;
    return h("div", { class: "banner watch", role: "status", key: "banner" }, icon("watch"), h("div", null, h("b", null, "The service is loading. "),
      loading ? `${format.count(loading.filters)} of ${loading.expected === null ? "?" : format.count(loading.expected)} filters are loaded.` : ""));
  }
  if (info && info.state === "stopping") {
    return h("div", { class: "banner watch", role: "status", key: "banner" }, icon("watch"), h("div", null, h("b", null, "The service is shutting down.")));
  }
  if (error && !(error.code === "not_found" && !state.data)) {
    return h("div", { class: "banner act", role: "alert", key: "banner" }, icon("act"), h("div", null, h("b", null, "Request failed: "), messageOf(error.message)));
  }
  return null;
}

// ---- Signing in ----------------------------------------------------------------------------

function signInForm() {
  const submit = (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    api.signIn(form.elements.user.value, form.elements.password.value, form.elements.stay.checked);
    form.elements.password.value = "";
    refresh();
  };
  return h("form", { class: "panel sign-in", onsubmit: submit },
    h("h2", null, "Sign in"), h("p", { class: "muted" }, "This service requires a login. To use a token, enter it as the password and leave the user name empty."),
    h("label", null, "User", h("input", { name: "user", type: "text", autocomplete: "username", autocapitalize: "off", spellcheck: "false" })),
    h("label", null, "Password or token", h("input", { name: "password", type: "password", autocomplete: "current-password", required: true })),
    h("label", { class: "check" }, h("input", { name: "stay", type: "checkbox" }), "Stay signed in until this tab is closed"),
    state.signInProblem && h("p", { class: "advice act", role: "alert" }, icon("act"), h("span", null, state.signInProblem)),
    h("button", { type: "submit", class: "button primary" }, "Sign in"));
}

function leave() {
  api.signOut();
  Object.assign(state, { data: null, info: null });
  refresh();
}

// ---- Dialogs and help ----------------------------------------------------------------------

const KEYS = [
  ["1 – 6", "go to a page (1: Filters, 6: Server)"], ["/", "search"], ["j  k", "select the next or previous filter"], ["Enter", "open the selected filter"], ["n", "create a filter"],
  ["[  ]", "previous page, next page"], ["← →", "step through a focused chart"], ["Esc", "close a dialog, or leave a field, filter or gate"],
  ["r", "refresh now"], ["p", "pause or resume"], ["t", "switch the theme: system, light, dark"], ["?", "this help"],
];

function helpDialog() {
  const close = () => {
    state.helping = false;
    draw();
  };
  const toggle = () => {
    shortcuts = !shortcuts;
    try {
      localStorage.setItem("bloomgate-shortcuts", shortcuts ? "on" : "off");
    } catch {
      // If storage is unavailable, the choice lasts until the page is reloaded.
    }
    draw();
  };
  return modal("help", "help", close,
    h("div", { class: "dialog-head" }, h("h2", { id: "help-title" }, "Keyboard shortcuts"), h("button", { type: "button", class: "button plain", "aria-label": "Close", onclick: close }, icon("close"))),
    h("dl", { class: "keys" }, KEYS.map(([keys, words]) => h("div", { key: keys }, h("dt", null, keys.split(/\s{2}/).map((one) => h("kbd", null, one))), h("dd", null, words)))),
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: shortcuts, onchange: toggle }), "Enable single-key shortcuts"));
}

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) {
    return;
  }
  const typing = event.target.closest("input:not([type=range]):not([type=checkbox]),textarea,select");
  if (event.key === "Escape") {
    if (typing) {
      typing.blur();
    } else if (detailPage()) {
      goto(`#/${detailPage().above.id}`);
    }
    return;
  }
  if (typing || !shortcuts || state.signingIn) {
    return;
  }
  const place = "123456".indexOf(event.key);
  const acts = {
    "?": () => { state.helping = true; draw(); }, r: refresh, t: turnTheme, p: () => !state.view.still && pause(!state.paused),
  };
  if (state.view.key && state.view.key(event, context())) {
    event.preventDefault();
  } else if (event.key.length === 1 && place >= 0) {
    goto(`#/${PAGES[place].id}`);
  } else if (acts[event.key]) {
    event.preventDefault();
    acts[event.key]();
  }
}

charts.onRedraw(draw);
addEventListener("hashchange", arrive);
addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !state.paused && !state.signingIn) {
    refresh();
  }
});
arrive();
