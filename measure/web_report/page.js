let shown = variants;

function update() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const op = $("op").value, target = $("target").value, [, state] = FILTERS[$("state").selectedIndex];
  const narrowed = Boolean(words.length || op || target || $("state").selectedIndex);
  shown = variants.filter((v) => (!op || v.op === op) && (!target || v.target === target) && state(v) && words.every((w) => v.words.includes(w) || (w.length >= SHORTEST && v.key.startsWith(w))));
  const byOp = new Map(ops.map(({ name }) => [name, []]));
  for (const one of shown) byOp.get(one.op).push(one);
  const left = ops.filter(({ name }) => byOp.get(name).length).length;
  for (const one of ops) {
    one.shown = byOp.get(one.name);
    one.part.hidden = !one.shown.length;
    if (narrowed !== one.narrowed || left !== one.left) one.part.open = left <= OPEN;
    [one.narrowed, one.left] = [narrowed, left];
    const stored = one.shown.reduce((sum, v) => sum + v.stored, 0);
    const number = one.shown.length === one.list.length ? counted(one.list.length, "variant") : `${one.shown.length} of ${one.list.length}`;
    one.count.textContent = `${number} · ${bytes(stored)} · ${unique(one.shown.map((v) => v.target)).sort().join(", ")}`;
    if (one.part.open) fill(one);
  }
  const stored = shown.reduce((sum, v) => sum + v.stored, 0);
  $("count").textContent = `${shown.length} of ${variants.length} variants, ${bytes(stored)} of the cache`;
  $("treemap-about").textContent = covered(stored);
  plots();
}

// What the boxes cover, and what of the cache they do not. Variants of the same code are stored once.
function covered(stored) {
  const once = data.stored - data.ptx - data.shared, all = variants.reduce((sum, v) => sum + v.stored, 0);
  const rest = [data.shared && `${bytes(data.shared)} of no single variant, such as the runtime library`, data.ptx && `${bytes(data.ptx)} of PTX`].filter(Boolean).join(" and ");
  return [
    `A box is a variant of those shown above, its area the variant's compressed bytes: ${bytes(stored)} in all.`,
    all > once && `Equal ones are stored once, so that the cache has ${bytes(once)} of variants.`,
    rest && `No box: ${rest}.`,
  ].filter(Boolean).join(" ");
}

function plots() {
  treemap(shown);
  if (data.timed.length) roofline(shown);
}

function choices(select, list, all) {
  if (all) select.append(make("option", all, { value: "" }));
  for (const name of list) select.append(make("option", name, { value: name }));
}

// Dates stay whole at the end of a line.
const unbroken = (text) => text.replace(/(\d)-(?=\d)/g, "$1\u2011");

function tile(name, text, note, kind) {
  return make("div", null, {}, make("dt", name), make("dd", text, kind ? { class: kind } : {}), make("dd", unbroken(note), { class: "note" }));
}

function tiles() {
  const count = (test) => variants.filter(test).length;
  const verified = count((v) => v.state === "verified"), emulated = count((v) => v.state === "emulated"), wrong = count((v) => v.state === "wrong"), spills = count((v) => v.spilled > 0);
  const where = unique(variants.map((v) => v.verified).filter(Boolean)).slice(0, 2).join("; ");
  const evidence = [where || "no variant was compared with its reference on a GPU", emulated && `${emulated} emulated`].filter(Boolean).join("; ");
  const parts = [`${bytes(data.stored - data.ptx - data.shared)} of variants`, data.ptx && `${bytes(data.ptx)} of PTX`, data.shared && `${bytes(data.shared)} that they share`].filter(Boolean);
  const list = [
    ["variants", variants.length, `of ${counted(ops.length, "op")}`],
    ["stored", bytes(data.stored), `compressed: ${parts.join(", ")}; ${bytes(data.size)} unpacked`],
    ["targets", unique(variants.map((v) => v.target)).sort().join(", "), unique(variants.map((v) => v.host)).filter(Boolean).sort().join("; ") || "device code alone"],
    ["verified", verified ? `${verified} of ${variants.length}` : "not verified", evidence, verified ? "" : "warn"],
  ];
  if (wrong) list.push(["wrong", wrong, "differ from their reference", "bad"]);
  if (spills) list.push(["with spills", spills, "use local memory", "warn"]);
  for (const entry of list) $("summary").append(tile(...entry));
}

function keys(event) {
  if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
    event.preventDefault();
    $("search").focus();
  }
  if (event.key === "Escape" && document.activeElement === $("search")) {
    $("search").value = "";
    update();
  }
}

function theme() {
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { $("theme").textContent = dark() ? "Light" : "Dark"; $("theme").setAttribute("aria-pressed", String(dark())); };
  $("theme").addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; label(); });
  label();
}

function begin() {
  $("name").textContent = data.name;
  $("about").textContent = [data.built && `built ${data.built}`, ...Object.entries(data.toolchain).map(([k, v]) => `${k} ${v}`)].filter(Boolean).join(" · ");
  $("made").textContent = `Index ${data.digest}. Written by precast report; this page loads nothing from anywhere.`;
  tiles();
  choices($("op"), names.slice().sort(), "every op");
  choices($("target"), unique(variants.map((v) => v.target)).sort(), "every target");
  choices($("state"), FILTERS.map(([name]) => name));
  for (const op of ops) {
    $("table").append(section(op));
    op.part.addEventListener("toggle", () => { if (op.part.open) fill(op); });
  }
  for (const id of ["op", "target", "state"]) $(id).addEventListener("change", update);
  $("search").addEventListener("input", update);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", keys);
  theme();
  if (data.timed.length) {
    $("times").hidden = false;
    $("timed-on").textContent = `On ${data.timed_on}, with a cold cache. A point is a variant at a problem; on the line, no launch could be faster.`;
  }
  if (data.contests.length) {
    $("contests").hidden = false;
    choices($("contest"), data.contests.map((c) => `${c.op} ${c.config} on ${c.gpu}`));
    const timed = data.contests.map(({ problems }) => Math.max(...problems.map(([, times]) => times.length)));
    $("contest").selectedIndex = timed.indexOf(Math.max(...timed));
    $("contest").addEventListener("change", heat);
    heat();
  }
  if (data.against) changes();
  update();
  addEventListener("resize", () => { plots(); if (data.contests.length) heat(); });
}

begin();
