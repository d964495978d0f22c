"use strict";
// Everything of the cache is put in as text, never as markup: a cache may hold any text.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const AT_ONCE = 40; // rows of an op
const OPEN = 4; // ops that are open at first
const SHORTEST = 4; // letters of a key
const CHANGED = "changed or added";

function make(name, text, attributes, ...children) {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const bytes = (n) => (n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);
const value = (v) => (v === null ? "null" : Array.isArray(v) ? `[${v.map(value).join(", ")}]` : String(v));
const config = (c) => Object.entries(c).map(([k, v]) => `${k}: ${value(v)}`).join(", ");
const micro = (t) => (t < 1000 ? `${t} µs` : `${(t / 1000).toPrecision(3)} ms`);
const counted = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const unique = (list) => [...new Set(list)];
const several = (list) => unique(list).length > 1;

const STATE = { wrong: "wrong", verified: "verified", emulated: "emulated", unverified: "not verified" };
const variants = data.variants.map((one, place) => ({
  ...one,
  place,
  text: config(one.config),
  state: one.wrong ? "wrong" : one.verified ? "verified" : one.emulated ? "emulated" : "unverified",
}));
for (const one of variants) one.words = [one.op, one.text, one.target, one.kind, one.host, one.assumes].join(" ").toLowerCase();

const FILTERS = [
  ["all", () => true],
  ["verified", (v) => v.state === "verified"],
  ["emulated", (v) => v.state === "emulated"],
  ["not verified", (v) => v.state === "unverified"],
  ["wrong", (v) => v.state === "wrong"],
  ["with spills", (v) => v.spilled > 0],
  ["for certain GPUs", (v) => Boolean(v.assumes)],
  [CHANGED, (v) => Boolean(v.change)],
].filter(([, test], at) => at === 0 || variants.some(test));

// Name, value, class, what is printed, a title: what follows the keys of the config in each table.
const FACTS = [
  ["target", (v) => v.target],
  ["kind", (v) => v.kind],
  ["host", (v) => v.host || ""],
  ["stored", (v) => v.stored, "number", (v) => bytes(v.stored), "Bytes in the cache and in a wheel: the variant, compressed"],
  ["compiled", (v) => v.seconds ?? -1, "number", (v) => (v.seconds === undefined ? "" : `${v.seconds.toFixed(2)} s`), "Seconds of its compilation"],
  ["registers", (v) => v.registers, "number", null, "Registers of a thread"],
  ["shared", (v) => v.shared, "number", (v) => bytes(v.shared), "Shared memory of a block, as far as it is static"],
  ["spills", (v) => v.spilled, "number", (v) => (v.spilled ? bytes(v.spilled) : ""), "Local memory and stack of a thread"],
  ["checked", (v) => STATE[v.state], "", null, "Verified: launched on a GPU and compared with its reference. Emulated: the same without a GPU"],
  ["fastest at", (v) => v.wins ?? 0, "number", (v) => (v.problems ? `${v.wins || 0} of ${v.problems}` : ""), "The measured problems at which it is the fastest"],
  ["of roofline", (v) => v.share ?? -1, "number", (v) => (v.share === undefined ? "" : `${Math.round(v.share * 100)}%`), "The least possible time over the measured one, at its best problem"],
  ["change", (v) => v.change || "", "", (v) => (v.changes ? unique(v.changes.map(factOf)).join(", ") : v.change || ""), "Added, or the facts that differ from the other cache"],
];

// "registers" of "registers 40 -> 44 (+4)".
const factOf = (text) => data.changed_facts.map(([fact]) => fact).filter((fact) => text.startsWith(`${fact} `)).sort((a, b) => b.length - a.length)[0] || text;

// The columns that tell some variants of an op apart, and what all of them have in common.
function columnsOf(name, list) {
  const order = data.keys[name] || [], tuned = new Set(data.tuned[name] || []);
  const rank = (key) => (order.includes(key) ? order.indexOf(key) : order.length);
  const keys = unique(list.flatMap((v) => Object.keys(v.config))).sort((a, b) => rank(a) - rank(b));
  const varying = keys.filter((key) => several(list.map((v) => value(v.config[key]))));
  const same = keys.filter((key) => !varying.includes(key) && !["", null].includes(list[0].config[key])).map((key) => `${key} ${value(list[0].config[key])}`);
  const facts = FACTS.filter(([fact, get, , print]) => {
    if (list.every((v) => (print ? print(v) : get(v)) === "")) return false;
    if (!["target", "kind", "host"].includes(fact) || several(list.map(get))) return true;
    if (get(list[0])) same.push(fact === "target" ? `for ${get(list[0])}` : get(list[0]));
    return false;
  });
  const columns = varying.map((key) => [
    tuned.has(key) ? `${key}*` : key, (v) => v.config[key] ?? "", list.every((v) => typeof v.config[key] === "number") ? "number" : "",
    (v) => value(v.config[key] ?? ""), tuned.has(key) ? "Tuned: the loader chooses it" : "",
  ]);
  return { columns: [...columns, ...facts], varying, same };
}

function opOf(name, list) {
  return { name, list, apart: columnsOf(name, list).varying, columns: [], same: [], sorted: null, limit: AT_ONCE };
}

const ops = unique(variants.map((v) => v.op)).map((name) => opOf(name, variants.filter((v) => v.op === name)));

// What tells a variant from the others of its op.
function short(one) {
  const { apart, list } = ops.find((op) => op.name === one.op);
  const words = apart.map((key) => value(one.config[key]));
  return [...words, ...(several(list.map((v) => v.target)) || !words.length ? [one.target] : [])].join(" ");
}

function section(op) {
  const call = (op.list[0].call || "").replace("kernel", op.name) || op.name;
  op.count = make("span", null, { class: "soft count" });
  op.head = make("tr");
  op.body = make("tbody");
  op.common = make("p", null, { class: "soft same" });
  op.more = make("button", null, { type: "button", class: "more" });
  op.more.addEventListener("click", () => { op.limit = Infinity; fill(op); });
  op.part = make("details", null, { class: "op" }, make("summary", null, {}, make("h3", call, { class: "mono", title: call }), op.count));
  if (data.docs[op.name]) op.part.append(make("p", data.docs[op.name].replaceAll("``", ""), { class: "soft about" }));
  const table = make("table", null, {}, make("thead", null, {}, op.head), op.body);
  op.part.append(op.common, make("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": `Variants of ${op.name}` }, table), op.more);
  return op.part;
}

function headOf(op) {
  const names = op.columns.map(([name]) => name).join();
  if (op.names !== names) {
    const cells = op.columns.map(([name, , kind, , title]) => {
      const button = make("button", name, title ? { type: "button", title } : { type: "button" });
      button.addEventListener("click", () => { op.sorted = [name, op.sorted && op.sorted[0] === name ? !op.sorted[1] : true]; fill(op); });
      return make("th", null, kind ? { scope: "col", class: kind } : { scope: "col" }, button);
    });
    const first = make("th", null, { scope: "col" }, make("span", "details", { class: "unseen" }));
    op.head.replaceChildren(first, ...cells, make("th", "call", { scope: "col" }));
  }
  op.names = names;
  op.columns.forEach(([name], at) => {
    const cell = op.head.cells[at + 1];
    if (op.sorted && op.sorted[0] === name) cell.setAttribute("aria-sort", op.sorted[1] ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
}

function rowOf(op, one) {
  const row = make("tr");
  const open = make("button", "", { type: "button", class: "open", "aria-expanded": "false", "aria-label": `All of ${op.name} ${one.text}` });
  open.addEventListener("click", () => toggle(op, row, open, one));
  row.append(make("td", null, {}, open));
  for (const [name, get, kind, print] of op.columns) {
    const cell = make("td", print ? print(one) : get(one), kind ? { class: kind } : {});
    if (name === "checked") cell.className = { verified: "good", wrong: "bad", emulated: "", unverified: "warn" }[one.state];
    if (name === "spills" && one.spilled) cell.classList.add("warn");
    row.append(cell);
  }
  row.append(make("td", null, {}, copier(lines(one), `Copy the call of ${op.name} ${one.text}`)));
  return row;
}

const lines = (one) => (one.call ? `kernel = ${one.get}\n${one.call}` : one.get);

function copier(text, label) {
  const copy = make("button", "copy", { type: "button", "aria-label": label, title: text });
  copy.addEventListener("click", () => copyText(text, copy));
  return copy;
}

function toggle(op, row, button, one) {
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  if (open) return row.nextSibling.remove();
  const list = make("dl");
  const facts = [
    ["call", lines(one)], ["signature", one.signature], ["config", one.text], ["key", one.key], ["target", one.target], ["host", one.host],
    ["unpacked", bytes(one.size)], ["device kernels", one.kernels], ["assumes of the GPU", one.assumes], ["verified on", one.verified], ["emulated on", one.emulated],
    ["wrong", one.wrong], ["changed", (one.changes || []).join("; ").replaceAll(" -> ", " → ")],
  ];
  for (const [name, text] of facts) {
    if (text) list.append(make("dt", name), make("dd", text, ["call", "key", "signature"].includes(name) ? { class: "mono" } : {}));
  }
  const cell = make("td", null, { colspan: op.columns.length + 2, class: "details" }, list);
  row.after(make("tr", null, { class: "extra" }, cell));
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

// The rows of an op that the filters leave, in its order, with the columns that tell these apart.
function fill(op) {
  const rows = op.shown.slice();
  if (rows.length) Object.assign(op, columnsOf(op.name, rows));
  const column = op.sorted && op.columns.find(([name]) => name === op.sorted[0]);
  if (column) {
    const get = column[1], way = op.sorted[1] ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [get(a), get(b)];
      return (x < y ? -way : x > y ? way : 0) || a.place - b.place;
    });
  }
  headOf(op);
  op.body.replaceChildren(...rows.slice(0, op.limit).map((one) => rowOf(op, one)));
  op.common.hidden = rows.length < 2 || !op.same.length;
  op.common.textContent = `In all: ${op.same.join(", ")}`;
  op.more.hidden = rows.length <= op.limit;
  op.more.textContent = `Show all ${rows.length}`;
}
