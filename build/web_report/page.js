"use strict";
// Everything of the cache is put in as text, never as markup: a cache may hold any text.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const AT_ONCE = 500;
const SHORTEST = 4; // letters of a key

function make(name, text, attributes) {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  return element;
}

const bytes = (n) => (n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);
const value = (v) => (v === null ? "null" : Array.isArray(v) ? `[${v.map(value).join(", ")}]` : String(v));
const config = (c) => Object.entries(c).map(([k, v]) => `${k}: ${value(v)}`).join(", ");
const colour = (place, of) => `hsl(${Math.round((place * 360 * 0.618) % 360)} 55% ${of > 12 && place % 2 ? 36 : 44}%)`;
const micro = (t) => (t < 1000 ? `${t} µs` : `${(t / 1000).toPrecision(3)} ms`);

const variants = data.variants.map((one, place) => ({
  ...one,
  place,
  text: config(one.config),
  state: one.wrong ? "wrong" : one.verified ? "verified" : "unverified",
}));
for (const one of variants) {
  one.words = [one.op, one.text, one.target, one.kind, one.host, one.assumes].join(" ").toLowerCase();
}

const COLUMNS = [
  ["op", "op", (v) => v.op],
  ["config", "config", (v) => v.text, "config"],
  ["target", "target", (v) => v.target],
  ["kind", "kind", (v) => v.kind],
  ["stored", "stored", (v) => v.stored, "number", (v) => bytes(v.stored)],
  ["compiled", "seconds", (v) => v.seconds ?? -1, "number", (v) => (v.seconds === undefined ? "" : `${v.seconds.toFixed(2)} s`)],
  ["registers", "registers", (v) => v.registers, "number"],
  ["shared", "shared", (v) => v.shared, "number", (v) => bytes(v.shared)],
  ["spills", "spilled", (v) => v.spilled, "number", (v) => (v.spilled ? bytes(v.spilled) : "0")],
  ["verified", "state", (v) => v.state],
  ["fastest at", "wins", (v) => v.wins ?? 0, "number", (v) => (v.problems ? `${v.wins || 0} of ${v.problems}` : "")],
  ["of roofline", "share", (v) => v.share ?? -1, "number", (v) => (v.share === undefined ? "" : `${Math.round(v.share * 100)}%`)],
  ["change", "change", (v) => v.change || ""],
].filter(([name, key]) => !["seconds", "share", "change", "wins"].includes(key) || variants.some((v) => v[key] !== undefined && v[key] !== 0));

const STATES = [
  ["all", () => true],
  ["verified", (v) => v.state === "verified"],
  ["not verified", (v) => v.state === "unverified"],
  ["found wrong", (v) => v.state === "wrong"],
  ["with spills", (v) => v.spilled > 0],
  ["for certain GPUs", (v) => Boolean(v.assumes)],
  ["changed or added", (v) => Boolean(v.change)],
];

let sorted = null; // [column, ascending]
let shown = variants;
let limit = AT_ONCE;
const rows = new Map();

function head() {
  const row = document.querySelector("#table thead tr");
  COLUMNS.forEach(([name], at) => {
    const cell = make("th", null, { scope: "col" });
    const button = make("button", name, { type: "button" });
    button.addEventListener("click", () => {
      sorted = [at, sorted && sorted[0] === at ? !sorted[1] : true];
      update();
    });
    cell.append(button);
    row.append(cell);
  });
  row.append(make("th", "use", { scope: "col" }));
}

function rowOf(one) {
  const known = rows.get(one.place);
  if (known) return known;
  const row = make("tr");
  COLUMNS.forEach(([, key, get, kind, print], at) => {
    const cell = make("td", null, kind ? { class: kind } : {});
    const text = print ? print(one) : get(one);
    if (at === 0) {
      const open = make("button", text, { type: "button", "aria-expanded": "false", title: "Show all of it" });
      open.addEventListener("click", () => toggle(row, open, one));
      cell.append(open);
    } else cell.textContent = text;
    if (key === "state") cell.classList.add({ verified: "good", wrong: "bad", unverified: "soft" }[one.state]);
    if (key === "spilled" && one.spilled) cell.classList.add("warn");
    row.append(cell);
  });
  const last = make("td");
  const copy = make("button", "copy", { type: "button", "aria-label": `Copy ${one.get}`, title: one.get });
  copy.addEventListener("click", () => copyText(one.get, copy));
  last.append(copy);
  row.append(last);
  rows.set(one.place, row);
  return row;
}

function toggle(row, button, one) {
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  if (open) return row.nextSibling.remove();
  const cell = make("td", null, { colspan: COLUMNS.length + 1, class: "details" });
  const list = make("dl");
  const facts = [
    ["about", data.docs[one.op]], ["get it", one.get], ["key", one.key], ["host", one.host], ["size", bytes(one.size)],
    ["device kernels", one.kernels], ["assumes of the GPU", one.assumes], ["verified on", one.verified],
    ["found wrong", one.wrong], ["changed", (one.changes || []).join("; ")],
  ];
  for (const [name, text] of facts) if (text) list.append(make("dt", name), make("dd", text, name === "get it" || name === "key" ? { class: "mono" } : {}));
  cell.append(list);
  const extra = make("tr", null, { class: "extra" });
  extra.append(cell);
  row.after(extra);
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "copied";
  setTimeout(() => (button.textContent = before), 1200);
}

function update() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const op = $("op").value, target = $("target").value, state = STATES[$("state").selectedIndex][1];
  shown = variants.filter((v) => (!op || v.op === op) && (!target || v.target === target) && state(v) && words.every((w) => v.words.includes(w) || (w.length >= SHORTEST && v.key.startsWith(w))));
  if (sorted) {
    const [at, ascending] = sorted, get = COLUMNS[at][2], way = ascending ? 1 : -1;
    shown.sort((a, b) => {
      const [x, y] = [get(a), get(b)];
      return (x < y ? -way : x > y ? way : 0) || a.place - b.place;
    });
  }
  document.querySelectorAll("#table thead th").forEach((cell, at) => {
    if (sorted && sorted[0] === at) cell.setAttribute("aria-sort", sorted[1] ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
  document.querySelectorAll("#table .extra").forEach((row) => row.remove());
  document.querySelectorAll('#table [aria-expanded="true"]').forEach((button) => button.setAttribute("aria-expanded", "false"));
  document.querySelector("#table tbody").replaceChildren(...shown.slice(0, limit).map(rowOf));
  $("more").hidden = shown.length <= limit;
  $("more").textContent = `Show all ${shown.length}`;
  const stored = shown.reduce((sum, v) => sum + v.stored, 0);
  $("count").textContent = `${shown.length} of ${variants.length} variants, ${bytes(stored)}`;
  treemap();
}

// Boxes with areas as their weights, as near to squares as a row at a time allows.
function squares(items, x, y, width, height, put) {
  let rest = items.slice(), total = rest.reduce((sum, [, weight]) => sum + weight, 0);
  while (rest.length && total > 0) {
    const upright = width < height, side = Math.min(width, height), scale = (width * height) / total;
    let row = [], sum = 0, worst = Infinity;
    for (const item of rest) {
      const next = sum + item[1], depth = (next * scale) / side;
      const least = Math.min(...row.map(([, w]) => w), item[1]), most = Math.max(...row.map(([, w]) => w), item[1]);
      const ratio = Math.max(depth / ((least * scale) / depth), ((most * scale) / depth) / depth);
      if (row.length && ratio > worst) break;
      row.push(item);
      sum = next;
      worst = ratio;
    }
    const depth = (sum * scale) / side;
    let at = 0;
    for (const [what, weight] of row) {
      const length = (weight * scale) / depth;
      if (upright) put(what, x + at, y, length, depth);
      else put(what, x, y + at, depth, length);
      at += length;
    }
    if (upright) [y, height] = [y + depth, height - depth];
    else [x, width] = [x + depth, width - depth];
    rest = rest.slice(row.length);
    total -= sum;
  }
}

function treemap() {
  const box = $("treemap"), parts = [], byOp = new Map();
  for (const one of shown) byOp.set(one.op, [...(byOp.get(one.op) || []), one]);
  const ops = [...byOp].map(([op, list]) => [[op, list], list.reduce((sum, v) => sum + v.stored, 0)]).sort((a, b) => b[1] - a[1]);
  const names = data.variants.map((v) => v.op).filter((op, at, all) => all.indexOf(op) === at);
  squares(ops, 0, 0, box.clientWidth, box.clientHeight, ([op, list], x, y, width, height) => {
    const items = list.map((v) => [v, v.stored]).sort((a, b) => b[1] - a[1]);
    squares(items, x, y, width, height, (one, left, top, wide, high) => {
      const span = make("span", wide > 90 && high > 34 ? one.text : "", { title: `${op} ${one.text} for ${one.target}: ${bytes(one.stored)}` });
      Object.assign(span.style, { left: `${left}px`, top: `${top}px`, width: `${wide}px`, height: `${high}px`, background: colour(names.indexOf(op), names.length) });
      parts.push(span);
    });
    const label = make("span", height > 14 ? op : "", { class: "op" });
    Object.assign(label.style, { left: `${x}px`, top: `${y}px`, maxWidth: `${width}px` });
    parts.push(label);
  });
  box.replaceChildren(...parts);
  box.setAttribute("aria-label", ops.map(([[op], weight]) => `${op}: ${bytes(weight)}`).slice(0, 20).join(", "));
}

// A problem a cell: across runs the size that has most values, down the others; the colour names the fastest variant.
function heat() {
  const contest = data.contests[$("contest").selectedIndex];
  const names = [...new Set(contest.problems.flatMap(([sizes]) => Object.keys(sizes)))];
  const values = (name) => [...new Set(contest.problems.map(([sizes]) => sizes[name]))].sort((a, b) => a - b);
  const across = names.slice().sort((a, b) => values(b).length - values(a).length)[0];
  const others = names.filter((name) => name !== across && values(name).length > 1);
  const columns = values(across), lines = new Map(), winners = [];
  for (const [sizes, times] of contest.problems) {
    const line = others.map((name) => `${name} ${sizes[name]}`).join(", ") || "all";
    lines.set(line, (lines.get(line) || new Map()).set(sizes[across], [sizes, times]));
    if (!winners.includes(times[0][0])) winners.push(times[0][0]);
  }
  const tuned = data.tuned[contest.op] || [];
  const told = (place) => tuned.map((name) => `${name} ${value(variants[place].config[name])}`).join(", ") || variants[place].key.slice(0, 12);
  const top = make("tr");
  top.append(make("th", others.join(", ") || "problem", { scope: "col" }), ...columns.map((size) => make("th", `${across} ${size}`, { scope: "col" })));
  const body = [...lines].map(([line, cells]) => {
    const row = make("tr");
    row.append(make("th", line, { scope: "row" }));
    for (const size of columns) {
      const found = cells.get(size), cell = make("td", found ? micro(found[1][0][1]) : "");
      if (found) {
        const [[place, time], second] = found[1];
        cell.style.background = colour(winners.indexOf(place), winners.length);
        cell.title = `${told(place)}: ${micro(time)}` + (second ? `; next ${told(second[0])}: ${micro(second[1])}, ${(second[1] / time).toFixed(2)} times` : "") + `; ${found[1].length} timed`;
      }
      row.append(cell);
    }
    return row;
  });
  const head = make("thead"), rest = make("tbody");
  head.append(top);
  rest.append(...body);
  $("heat").replaceChildren(head, rest);
  $("legend").replaceChildren(...winners.map((place, at) => {
    const one = make("span");
    const dot = make("i");
    dot.style.background = colour(at, winners.length);
    one.append(dot, told(place));
    return one;
  }));
}

function choices(select, list, all) {
  if (all) select.append(make("option", all, { value: "" }));
  for (const name of list) select.append(make("option", name, { value: name }));
}

function begin() {
  const unique = (get) => [...new Set(variants.map(get))].sort();
  const count = (test) => variants.filter(test).length;
  $("name").textContent = data.name;
  $("about").textContent = Object.entries(data.toolchain).map(([k, v]) => `${k} ${v}`).join(", ");
  $("made").textContent = `Index ${data.digest}. Written by precast report; this page loads nothing from anywhere.`;
  const tiles = [
    ["variants", variants.length], ["ops", unique((v) => v.op).length], ["stored", bytes(data.stored)], ["unpacked", bytes(data.size)],
    ["targets", unique((v) => v.target).join(", ")], ["verified", `${count((v) => v.state === "verified")} of ${variants.length}`],
    ["found wrong", count((v) => v.state === "wrong")], ["with spills", count((v) => v.spilled > 0)],
  ];
  for (const [name, text] of tiles) {
    const tile = make("div");
    tile.append(make("dt", name), make("dd", text));
    $("summary").append(tile);
  }
  choices($("op"), unique((v) => v.op), "every op");
  choices($("target"), unique((v) => v.target), "every target");
  choices($("state"), STATES.map(([name]) => name));
  head();
  for (const id of ["op", "target", "state"]) $(id).addEventListener("change", update);
  $("search").addEventListener("input", update);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("more").addEventListener("click", () => { limit = Infinity; update(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
      event.preventDefault();
      $("search").focus();
    }
    if (event.key === "Escape" && document.activeElement === $("search")) { $("search").value = ""; update(); }
  });
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { $("theme").textContent = dark() ? "Light" : "Dark"; $("theme").setAttribute("aria-pressed", String(dark())); };
  $("theme").addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; label(); });
  label();
  addEventListener("resize", treemap);
  if (data.contests.length) {
    $("contests").hidden = false;
    choices($("contest"), data.contests.map((c) => `${c.op} ${c.config} on ${c.gpu}`));
    $("contest").addEventListener("change", heat);
    heat();
  }
  if (data.against) {
    $("changes").hidden = false;
    $("changes-title").textContent = `What changed since ${data.against}`;
    const lists = [
      ["of the cache", data.cache_changes], ["removed", data.removed],
      ["added", variants.filter((v) => v.change === "added").map((v) => `${v.op} ${v.text} for ${v.target}`)],
      ["changed", variants.filter((v) => v.change === "changed").map((v) => `${v.op} ${v.text} for ${v.target}: ${(v.changes || []).join("; ")}`)],
    ];
    for (const [name, list] of lists) {
      if (!list.length) continue;
      const details = make("details"), items = make("ul");
      details.append(make("summary", `${list.length} ${name}`));
      items.append(...list.map((text) => make("li", text)));
      details.append(items);
      $("changes-list").append(details);
    }
    if (!$("changes-list").childElementCount) $("changes-list").append(make("p", "Nothing: the two are the same."));
  }
  update();
}

begin();
