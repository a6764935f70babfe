// vdom.js - renders a page as a function of its data. h() describes an element. render() updates
// the page to match the description and changes only what differs, so focus, selection and scroll
// position survive updates, which happen every two seconds.
//
// Text always becomes text nodes, so markup cannot be injected. Listeners are looked up when an event occurs, so the
// listener in the latest description handles the event.
//
//   key      identifies siblings that may move
//   style    an object, set by property: the content security policy forbids style attributes
//   measure  called with the width of the element, now and whenever it changes
//   onX      listeners

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "selected", "disabled", "indeterminate", "open"]);

export function h(tag, props, ...children) {
  const list = [];
  flatten(children, list);
  return { tag, props: props || {}, children: list, key: props ? props.key : undefined, node: null };
}

function flatten(children, list) {
  for (const child of children) {
    if (Array.isArray(child)) {
      flatten(child, list);
    } else if (child !== null && child !== undefined && child !== false && child !== true) {
      list.push(typeof child === "object" ? child : { tag: null, text: String(child), node: null });
    }
  }
}

export function render(container, description) {
  const now = [];
  flatten([description], now);
  patchChildren(container, container.described || [], now, false);
  container.described = now;
}

function create(v, svg) {
  if (v.tag === null) {
    v.node = document.createTextNode(v.text);
    return v.node;
  }
  const inside = svg || v.tag === "svg";
  v.node = inside ? document.createElementNS(SVG, v.tag) : document.createElement(v.tag);
  patchChildren(v.node, [], v.children, inside);
  patchProps(v.node, {}, v.props);
  return v.node;
}

function patch(old, v, svg) {
  v.node = old.node;
  if (v.tag === null) {
    if (old.text !== v.text) {
      v.node.data = v.text;
    }
    return;
  }
  patchChildren(v.node, old.children, v.children, svg || v.tag === "svg");
  patchProps(v.node, old.props, v.props);
}

function patchChildren(parent, old, now, svg) {
  const keyed = new Map();
  const free = [];
  for (const child of old) {
    if (child.key !== undefined) {
      keyed.set(child.key, child);
    } else {
      free.push(child);
    }
  }
  const kept = new Set();
  for (const child of now) {
    const match = child.key !== undefined ? keyed.get(child.key) : nextOf(free, child.tag);
    if (match && match.tag === child.tag && !kept.has(match)) {
      patch(match, child, svg);
      kept.add(match);
    } else {
      create(child, svg);
    }
  }
  for (const child of old) {
    if (!kept.has(child)) {
      forget(child);
      child.node.remove();
    }
  }
  let at = parent.firstChild;
  for (const child of now) {
    if (child.node === at) {
      at = at.nextSibling;
    } else {
      parent.insertBefore(child.node, at);
    }
  }
}

// Returns the first unused element with this tag, so that an element is reused even if elements before it were
// inserted or removed.
function nextOf(free, tag) {
  const i = free.findIndex((other) => other.tag === tag);
  return i < 0 ? undefined : free.splice(i, 1)[0];
}

function forget(v) {
  if (v.props && v.props.measure) {
    sizes().unobserve(v.node);
  }
  for (const child of v.children || []) {
    forget(child);
  }
}

function patchProps(node, old, now) {
  for (const name of Object.keys(old)) {
    if (!(name in now)) {
      setProp(node, name, undefined, old[name]);
    }
  }
  for (const name of Object.keys(now)) {
    if (PROPERTIES.has(name) || now[name] !== old[name]) {
      setProp(node, name, now[name], old[name]);
    }
  }
}

function setProp(node, name, value, before) {
  if (name === "key") {
    return;
  }
  if (name.startsWith("on")) {
    listen(node, name.slice(2), value);
  } else if (name === "style") {
    patchStyle(node, before || {}, value || {});
  } else if (name === "measure") {
    measure(node, value);
  } else if (PROPERTIES.has(name) && typeof node[name] !== "number" && name in node) {
    const wanted = value ?? (typeof node[name] === "string" ? "" : false);
    if (node[name] !== wanted) {
      node[name] = wanted;
    }
  } else if (value === undefined || value === null || value === false) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

function listen(node, type, listener) {
  node.heard = node.heard || {};
  if (!(type in node.heard)) {
    node.addEventListener(type, (event) => node.heard[type] && node.heard[type](event),
      type === "wheel" ? { passive: false } : undefined);
  }
  node.heard[type] = listener;
}

function patchStyle(node, old, now) {
  for (const name of Object.keys(old)) {
    if (!(name in now)) {
      node.style.removeProperty(name);
    }
  }
  for (const [name, value] of Object.entries(now)) {
    if (old[name] !== value) {
      node.style.setProperty(name, value);
    }
  }
}

let observer = null;
function sizes() {
  observer = observer || new ResizeObserver((entries) => {
    for (const entry of entries) {
      if (entry.target.measured) {
        entry.target.measured(Math.round(entry.contentRect.width));
      }
    }
  });
  return observer;
}

function measure(node, callback) {
  if (!node.measured && callback) {
    sizes().observe(node);
  } else if (!callback) {
    sizes().unobserve(node);
  }
  node.measured = callback;
}
