// dialogs.js - modal dialogs: questions, forms, and keyboard navigation.
//
// A question is { title, text, button, act }, and optionally
//   plain     true: the operation is not destructive, so its button is not red
//   confirm   a word that must be typed to enable the button
//   fields    [{ name, label, hint, value, options, optional }]; options: [[value, text]] makes a list
// `act` gets the values of the fields by name. While it runs, the dialog stays open; if it throws, the dialog shows
// the message and can be submitted again.

import { h } from "./vdom.js";
import { icon } from "./icons.js";
import { messageOf } from "./parts.js";

// Returns a question with the state of its dialog.
export function openQuestion(question) {
  const values = Object.fromEntries((question.fields || []).map((field) => [field.name, field.value ?? ""]));
  return { ...question, values, typed: "", busy: false, problem: "" };
}

// Keeps Tab and Shift+Tab inside the dialog.
function keepFocus(event) {
  if (event.key !== "Tab") {
    return;
  }
  const stops = [...event.currentTarget.querySelectorAll("button,input,select,a[href]")].filter((stop) => !stop.disabled);
  const end = event.shiftKey ? stops[0] : stops[stops.length - 1];
  const start = event.shiftKey ? stops[stops.length - 1] : stops[0];
  if (start && (document.activeElement === end || !event.currentTarget.contains(document.activeElement))) {
    event.preventDefault();
    start.focus();
  }
}

export function modal(id, className, close, ...children) {
  return h("dialog", { key: id, class: `dialog ${className}`, "aria-labelledby": `${id}-title`, onclose: close, oncancel: close, onkeydown: keepFocus }, children);
}

let opener = null; // the element that had the focus before the dialog

// Remembers the focused element. Call before the page is rendered, and pass the result to dialogsAfter.
export function dialogsBefore() {
  const open = document.querySelector("dialog[open]") !== null;
  if (!open) {
    opener = document.activeElement;
  }
  return open;
}

// Opens new dialogs. If the last dialog was closed, moves the focus back to where it was.
export function dialogsAfter(wasOpen) {
  for (const dialog of document.querySelectorAll("dialog:not([open])")) {
    dialog.showModal();
    dialog.querySelector("[data-first]")?.select?.();
    dialog.querySelector("[data-first]")?.focus();
  }
  if (wasOpen && !document.querySelector("dialog")) {
    (opener && opener.isConnected && !opener.disabled && opener !== document.body ? opener : document.getElementById("title"))?.focus({ preventScroll: true });
  }
}

function fieldOf(question, field, i, draw) {
  const id = `field-${field.name}`;
  const change = (event) => {
    question.values[field.name] = event.target.value;
    question.problem = "";
    draw();
  };
  const common = { id, name: field.name, value: question.values[field.name], disabled: question.busy, "data-first": i === 0 ? "" : undefined, "aria-describedby": field.hint ? `${id}-hint` : undefined };
  return h("div", { class: "field", key: field.name },
    h("label", { for: id }, field.label, field.optional && h("span", { class: "muted" }, " (optional)")),
    field.options
      ? h("select", { ...common, onchange: change }, field.options.map(([value, text]) => h("option", { value, key: value, selected: value === common.value }, text)))
      : h("input", { ...common, type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", "data-1p-ignore": true, required: !field.optional, oninput: change }),
    field.hint && h("small", { id: `${id}-hint` }, field.hint));
}

export function questionDialog(question, close, draw) {
  const fields = question.fields || [];
  const isReady = () => !question.busy && (!question.confirm || question.typed === question.confirm)
    && fields.every((field) => field.optional || question.values[field.name] !== "");
  const submit = async (event) => {
    event.preventDefault();
    if (!isReady()) {
      return;
    }
    Object.assign(question, { busy: true, problem: "" });
    draw();
    try {
      await question.act(question.values);
      close(question);
    } catch (error) {
      Object.assign(question, { busy: false, problem: error.message });
      draw();
    }
  };
  const kind = question.plain ? "primary" : "danger solid";
  return modal("question", "", () => close(question),
    h("form", { onsubmit: submit, novalidate: true },
      h("h2", { id: "question-title" }, question.title), question.text && h("p", null, question.text),
      fields.map((field, i) => fieldOf(question, field, i, draw)),
      question.confirm && h("div", { class: "field" }, h("label", { for: "confirm" }, "Type ", h("b", null, question.confirm), " to confirm"),
        h("input", { id: "confirm", "data-first": "", type: "text", autocomplete: "off", autocapitalize: "off", disabled: question.busy, value: question.typed, oninput: (event) => { question.typed = event.target.value; draw(); } })),
      question.problem && h("p", { class: "advice act", role: "alert" }, icon("act"), messageOf(question.problem)),
      h("div", { class: "dialog-buttons" }, h("button", { type: "button", class: "button", onclick: () => close(question) }, "Cancel"),
        h("button", { type: "submit", class: `button ${kind}`, disabled: !isReady() }, question.busy ? "Working…" : question.button))));
}
