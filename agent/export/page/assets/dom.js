// The page as data: `h` describes an element, `patch` makes a parent's children match, changing
// only what differs, so that focus, selection and scrolling survive a refresh. Text only ever goes
// in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "line", "polyline", "circle", "title"]);

// An element; `key` tells it among its siblings, and with an unchanged `memo` it is left alone.
export function h(tag, attributes, ...children) {
  const { key = null, memo, ...rest } = attributes ?? {};
  return { tag, key, memo, attributes: rest, children: flatten(children) };
}

function flatten(children) {
  const flat = [];
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    flat.push(typeof child === "object" ? child : { tag: "#text", key: null, text: String(child) });
  }
  return flat;
}

const shown = new WeakMap(); // node → what it was last made from

export function patch(parent, children) {
  const wanted = flatten([children]);
  const keyed = new Map();
  const free = [];
  for (const node of Array.from(parent.childNodes)) {
    const old = shown.get(node);
    if (old === undefined) node.remove();
    else if (old.key !== null) keyed.set(old.key, node);
    else free.push(node);
  }
  let place = parent.firstChild;
  let next = 0;
  for (const item of wanted) {
    let node = null;
    if (item.key !== null) {
      node = keyed.get(item.key) ?? null;
      keyed.delete(item.key);
    } else if (next < free.length) {
      node = free[next];
      next += 1;
    }
    if (node !== null && shown.get(node).tag !== item.tag) {
      if (node === place) place = node.nextSibling;
      node.remove();
      node = null;
    }
    node ??= create(item);
    update(node, item);
    if (node === place) place = node.nextSibling;
    else parent.insertBefore(node, place);
  }
  for (const node of keyed.values()) node.remove();
  for (const node of free.slice(next)) node.remove();
}

function create(item) {
  if (item.tag === "#text") {
    const node = document.createTextNode("");
    shown.set(node, { tag: "#text", key: null, text: "" });
    return node;
  }
  const node = SVG_TAGS.has(item.tag)
    ? document.createElementNS(SVG, item.tag)
    : document.createElement(item.tag);
  shown.set(node, { tag: item.tag, key: item.key, memo: undefined, attributes: {}, children: [] });
  return node;
}

function update(node, item) {
  const old = shown.get(node);
  if (item.tag === "#text") {
    if (old.text !== item.text) node.data = item.text;
    shown.set(node, item);
    return;
  }
  if (item.memo !== undefined && item.memo === old.memo) return;
  for (const name of Object.keys(old.attributes)) {
    if (!(name in item.attributes)) set(node, name, null);
  }
  for (const [name, value] of Object.entries(item.attributes)) {
    if (old.attributes[name] !== value || name === "value") set(node, name, value);
  }
  patch(node, item.children);
  shown.set(node, item);
}

// `--name` sets a custom property (style attributes are barred by the page's policy).
function set(node, name, value) {
  const absent = value === null || value === undefined || value === false;
  if (name.startsWith("--")) {
    if (absent) node.style.removeProperty(name);
    else node.style.setProperty(name, String(value));
  } else if (name === "value") {
    if (node.value !== (value ?? "")) node.value = value ?? "";
  } else if (absent) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}
