// filter_forms.js - the dialogs that create, rename, clear and delete a filter. The form converts numbers such as 1M, 1%
// and 64Mi; the service checks everything else, and the dialog shows its messages.

import { h } from "./vdom.js";
import * as format from "./format.js";
import { nameOf, keysOf } from "./parts.js";

// The kinds that start empty. A fuse or ribbon filter is built from a list of keys.
const KINDS = ["blocked", "classic", "partitioned", "split", "register", "counting", "cuckoo", "quotient", "scalable", "window"];

const pathOf = (filter) => `api/v1/filters/${format.segment(filter.name, filter.name_base64)}`;

// Returns the number in a field. Throws an error if the text is not a number.
function number(what, text, parse, expected) {
  const value = parse(text);
  if (Number.isNaN(value)) {
    throw new Error(`${what}: found ${text.trim() === "" ? "nothing" : `"${format.nameText(text, 40)}"`}, expected ${expected}`);
  }
  return value;
}

// Converts the fields of the form to a request. A size in memory replaces the rate.
export function creation({ name, kind, capacity, rate, memory }) {
  const size = memory.trim() === ""
    ? { error: number("false-positive rate", rate, format.parseRate, "a rate above 0 and below 1, such as 1% or 0.001") }
    : { memory: number("memory", memory, format.parseNumber, "a size such as 64Mi") };
  return { name, kind, capacity: number("keys", capacity, format.parseNumber, "a number such as 250000, 1M or 1e6"), ...size };
}

export function createDialog({ showDialog, api, notify, goto }) {
  showDialog({
    title: "New filter", button: "Create filter", plain: true,
    fields: [
      { name: "name", label: "Name" },
      { name: "kind", label: "Kind", value: "auto", options: [["auto", "automatic"], ...KINDS.map((kind) => [kind, kind])], hint: "See the planner for a comparison." },
      { name: "capacity", label: "Keys", value: "1M", hint: "The number of distinct keys, such as 250000, 1M or 1e6." },
      { name: "rate", label: "False-positive rate", value: "1%", hint: "The target, such as 1% or 0.001.", optional: true },
      { name: "memory", label: "Memory", value: "", hint: "A fixed size instead of a rate, such as 64Mi.", optional: true },
    ],
    act: async (values) => {
      const made = await api.post("api/v1/filters", creation(values));
      notify("Filter created");
      goto(`#/filter/${format.segment(made.name, made.name_base64)}`);
    },
  });
}

export function renameDialog(filter, { showDialog, api, notify, goto }) {
  showDialog({
    title: "Rename this filter?", button: "Rename", plain: true,
    text: "Clients that use the old name will no longer find the filter. Its keys and settings do not change.",
    fields: [{ name: "name", label: "New name", value: filter.name_base64 === undefined ? filter.name : "" }],
    act: async ({ name }) => {
      const made = await api.patch(pathOf(filter), { name });
      notify("Filter renamed");
      goto(`#/filter/${format.segment(made.name, made.name_base64)}`);
    },
  });
}

export function clearDialog(filter, { showDialog, api, notify, refresh }) {
  showDialog({
    title: "Clear this filter?", button: "Clear filter",
    text: ["All keys of ", nameOf(filter.name, 80), filter.items && [" (", h("b", null, keysOf(filter)), ")"],
      " will be removed. Every lookup will return ", h("b", null, "no"), " until keys are added again. This cannot be undone."],
    act: async () => {
      await api.post(`${pathOf(filter)}/clear`);
      notify("Filter cleared");
      refresh();
    },
  });
}

export function deleteDialog(filter, { showDialog, api, notify, goto }) {
  showDialog({
    title: "Delete this filter?", button: "Delete filter", confirm: "delete",
    text: [nameOf(filter.name, 80), " and its ", h("b", null, filter.items ? keysOf(filter) : "keys"), " will be deleted from memory and from disk. This cannot be undone."],
    act: async () => {
      await api.remove(pathOf(filter));
      notify("Filter deleted");
      goto("#/");
    },
  });
}
