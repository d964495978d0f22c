"use strict";
// Everything of the cache is put in as text, never as markup: a cache may hold any text.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const AT_ONCE = 40; // rows of an op
const OPEN = 4; // ops that are open at first
const SHORTEST = 4; // letters of a key

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
  ["changed or added", (v) => Boolean(v.change)],
].filter(([, test], at) => at === 0 || variants.some(test));

const any = (key) => variants.some((v) => v[key] !== undefined && v[key] !== 0);
// Name, value, class, what is printed, a title: what follows the keys of the config in each table.
const FACTS = [
  ["target", (v) => v.target],
  ["kind", (v) => v.kind],
  ["host", (v) => v.host || ""],
  ["stored", (v) => v.stored, "number", (v) => bytes(v.stored), "Bytes in the cache and in a wheel: the variant, compressed"],
  ["compiled", (v) => v.seconds ?? -1, "number", (v) => (v.seconds === undefined ? "" : `${v.seconds.toFixed(2)} s`), "Seconds of its compilation"],
  ["registers", (v) => v.registers, "number", null, "Registers of a thread"],
  ["shared", (v) => v.shared, "number", (v) => bytes(v.shared), "Shared memory of a block, as far as it is static"],
  ["spills", (v) => v.spilled, "number", (v) => (v.spilled ? bytes(v.spilled) : "0"), "Local memory and stack of a thread"],
  ["checked", (v) => STATE[v.state], "", null, "Verified: launched on a GPU and compared with its reference. Emulated: the same without a GPU"],
  ["fastest at", (v) => v.wins ?? 0, "number", (v) => (v.problems ? `${v.wins || 0} of ${v.problems}` : ""), "The measured problems at which it is the fastest"],
  ["of roofline", (v) => v.share ?? -1, "number", (v) => (v.share === undefined ? "" : `${Math.round(v.share * 100)}%`), "The least possible time over the measured one, at its best problem"],
  ["change", (v) => v.change || ""],
].filter(([name]) => ({ compiled: any("seconds"), "fastest at": any("problems"), "of roofline": any("share"), change: any("change"), spills: any("spilled") })[name] ?? true);

// An op: its variants, the columns that tell them apart, and what all have in common.
function opOf(name, list) {
  const keys = unique(list.flatMap((v) => Object.keys(v.config)));
  const varying = keys.filter((key) => several(list.map((v) => value(v.config[key]))));
  const tuned = new Set(data.tuned[name] || []);
  const same = keys.filter((key) => !varying.includes(key)).map((key) => `${key} ${value(list[0].config[key])}`);
  const facts = FACTS.filter(([fact, get]) => {
    if (!["target", "kind", "host"].includes(fact) || several(list.map(get))) return true;
    if (get(list[0])) same.push(fact === "target" ? `for ${get(list[0])}` : get(list[0]));
    return false;
  });
  const columns = varying.map((key) => [
    tuned.has(key) ? `${key}*` : key, (v) => v.config[key] ?? "", list.every((v) => typeof v.config[key] === "number") ? "number" : "",
    (v) => value(v.config[key] ?? ""), tuned.has(key) ? "Tuned: the loader chooses it" : "",
  ]);
  return { name, list, columns: [...columns, ...facts], varying, same, sorted: null, limit: AT_ONCE, rows: new Map() };
}

const ops = unique(variants.map((v) => v.op)).map((name) => opOf(name, variants.filter((v) => v.op === name)));

// What tells a variant from the others of its op.
function short(one) {
  const { varying, list } = ops.find((op) => op.name === one.op);
  const words = varying.map((key) => value(one.config[key]));
  return [...words, ...(several(list.map((v) => v.target)) || !words.length ? [one.target] : [])].join(" ");
}

function section(op) {
  const calls = unique(op.list.map((v) => (v.call || "").replace("kernel", op.name)));
  op.count = make("span", null, { class: "soft count" });
  op.head = make("tr");
  op.body = make("tbody");
  op.more = make("button", null, { type: "button", class: "more" });
  op.more.addEventListener("click", () => { op.limit = Infinity; fill(op); });
  op.head.append(make("th", null, { scope: "col" }, make("span", "details", { class: "unseen" })));
  op.columns.forEach(([name, , kind, , title], at) => {
    const button = make("button", name, title ? { type: "button", title } : { type: "button" });
    button.addEventListener("click", () => { op.sorted = [at, op.sorted && op.sorted[0] === at ? !op.sorted[1] : true]; fill(op); });
    op.head.append(make("th", null, kind ? { scope: "col", class: kind } : { scope: "col" }, button));
  });
  op.head.append(make("th", "call", { scope: "col" }));
  const title = make("h3", null, {}, make("span", calls[0] || op.name, { class: "mono" }));
  op.part = make("details", null, { class: "op" }, make("summary", null, {}, title, op.count));
  if (data.docs[op.name]) op.part.append(make("p", data.docs[op.name].replaceAll("``", ""), { class: "soft about" }));
  if (op.same.length && op.list.length > 1) op.part.append(make("p", `In all: ${op.same.join(", ")}`, { class: "soft same" }));
  const table = make("table", null, {}, make("thead", null, {}, op.head), op.body);
  op.part.append(make("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": `Variants of ${op.name}` }, table), op.more);
  return op.part;
}

function rowOf(op, one) {
  if (op.rows.has(one.place)) return op.rows.get(one.place);
  const row = make("tr");
  const open = make("button", "", { type: "button", class: "open", "aria-expanded": "false", "aria-label": `All of ${op.name} ${one.text}` });
  open.addEventListener("click", () => toggle(op, row, open, one));
  row.append(make("td", null, {}, open));
  for (const [name, get, kind, print] of op.columns) {
    const cell = make("td", print ? print(one) : get(one), kind ? { class: kind } : {});
    if (name === "checked") cell.className = { verified: "good", wrong: "bad", emulated: "", unverified: "soft" }[one.state];
    if (name === "spills" && one.spilled) cell.classList.add("warn");
    row.append(cell);
  }
  row.append(make("td", null, {}, copier(lines(one), `Copy the call of ${op.name} ${one.text}`)));
  op.rows.set(one.place, row);
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
    ["wrong", one.wrong], ["changed", (one.changes || []).join("; ")],
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

// The rows of an op that the filters leave, in its order.
function fill(op) {
  const rows = op.shown.slice();
  if (op.sorted) {
    const [at, ascending] = op.sorted, get = op.columns[at][1], way = ascending ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [get(a), get(b)];
      return (x < y ? -way : x > y ? way : 0) || a.place - b.place;
    });
  }
  [...op.head.cells].forEach((cell, at) => {
    if (op.sorted && op.sorted[0] === at - 1) cell.setAttribute("aria-sort", op.sorted[1] ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
  op.body.querySelectorAll('[aria-expanded="true"]').forEach((button) => button.setAttribute("aria-expanded", "false"));
  op.body.replaceChildren(...rows.slice(0, op.limit).map((one) => rowOf(op, one)));
  op.more.hidden = rows.length <= op.limit;
  op.more.textContent = `Show all ${rows.length}`;
}
