const SVG = "http://www.w3.org/2000/svg";
const LINE = 13.2; // the height of a line in a box
const names = ops.map((op) => op.name);
// None is an alarm; a white text on each and each on either paper can be read.
const CALM = [
  "#4d73ab", "#467b7c", "#776a9f", "#5a7960", "#8e6b4f", "#906581", "#55768e", "#747546",
  "#426394", "#3b6a6a", "#665b8a", "#4d6952", "#7b5c44", "#7c566f", "#49657b", "#64643b",
];
const OTHERS = "var(--soft)";
const colour = (place) => CALM[place % CALM.length];
const ofOp = (name) => colour(names.indexOf(name));

const measure = document.createElement("canvas").getContext("2d");
function fits(text, room, font) {
  measure.font = font;
  return measure.measureText(text).width <= room;
}

// A text of words in lines that fit into a room; nothing if it does not fit whole.
function wrapped(words, wide, high, font) {
  const lines = [];
  for (const word of words) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && fits(longer, wide, font)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.length * LINE <= high && lines.every((line) => fits(line, wide, font)) ? lines.join("\n") : "";
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

function treemap(shown) {
  const box = $("treemap"), parts = [], unnamed = [], byOp = new Map();
  const font = getComputedStyle(box).fontFamily;
  box.style.height = `${Math.min(320, 140 + 8 * shown.length)}px`;
  for (const one of shown) byOp.set(one.op, [...(byOp.get(one.op) || []), one]);
  const groups = [...byOp].map(([op, list]) => [[op, list], list.reduce((sum, v) => sum + v.stored, 0)]).sort((a, b) => b[1] - a[1]);
  squares(groups, 0, 0, box.clientWidth, box.clientHeight, ([op, list], x, y, width, height) => {
    const named = groups.length > 1 && height > 18 && fits(op, width - 8, `600 12px ${font}`);
    const items = list.map((v) => [v, v.stored]).sort((a, b) => b[1] - a[1]);
    squares(items, x, y, width, height, (one, left, top, wide, high) => {
      const below = named && top < y + 16 ? 17 : 3;
      const text = wrapped(short(one).split(" "), wide - 9, high - below - 3, `11px ${font}`);
      const span = make("span", text, { title: `${op} ${one.text} for ${one.target}: ${bytes(one.stored)}` });
      Object.assign(span.style, { left: `${left}px`, top: `${top}px`, width: `${wide}px`, height: `${high}px`, paddingTop: `${below}px`, background: ofOp(op) });
      parts.push(span);
    });
    if (!named && groups.length > 1) unnamed.push([ofOp(op), op]);
    const label = make("span", named ? op : "", { class: "op" });
    Object.assign(label.style, { left: `${x + 1}px`, top: `${y + 1}px`, background: named ? ofOp(op) : "none" });
    parts.push(label);
  });
  box.replaceChildren(...parts);
  legend($("treemap-legend"), unnamed);
  box.setAttribute("aria-label", groups.map(([[op], weight]) => `${op}: ${bytes(weight)}`).slice(0, 20).join(", "));
}

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, typeof value === "number" ? value.toFixed(1) : value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A place along an axis of powers.
const along = (least, most, start, end) => (x) => start + ((end - start) * Math.log(x / least)) / Math.log(most / least);
const powers = (least, most, steps) => Array.from({ length: 14 }, (_, at) => steps.map((step) => step * 10 ** (at - 3))).flat().filter((x) => x >= least && x <= most);

// Powers of ten, or, along a short axis, numbers between them.
function ticks(least, most) {
  const [few, more] = [powers(least, most, [1]), powers(least, most, [1, 2, 5])];
  return few.length > 2 ? few : more;
}

function dots(svg, points) {
  for (const [x, y, fill, note] of points) {
    const dot = shape("circle", { cx: x, cy: y, r: "3.5", fill, class: "dot" });
    dot.append(shape("title", {}, note));
    svg.append(dot);
  }
}

// Measured times over the least possible ones: on the line, no launch could be faster.
function roofline(shown) {
  const svg = $("roofline"), width = svg.parentElement.clientWidth, height = Math.min(380, Math.max(260, width * 0.45));
  const visible = new Set(shown.map((v) => v.place)), timed = data.timed.filter(([place]) => visible.has(place));
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  if (!timed.length) return;
  const least = timed.map(([, , time]) => time), most = Math.max(...timed.map(([, us]) => us)) * 1.5, [left, bottom] = [64, height - 42];
  const lowest = Math.min(...least) * 0.7, fastest = Math.min(...timed.map(([, us]) => us)) * 0.4;
  const x = along(lowest, most, left, width - 12), y = along(fastest, most, bottom, 10);
  for (const tick of ticks(lowest, most)) {
    svg.append(shape("path", { d: `M${x(tick)} 10V${bottom}`, class: "grid" }), shape("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, micro(tick)));
  }
  for (const tick of ticks(fastest, most)) {
    svg.append(shape("path", { d: `M${left} ${y(tick)}H${width - 12}`, class: "grid" }), shape("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, micro(tick)));
  }
  const corner = Math.max(lowest, fastest); // where the line enters the plot
  svg.append(shape("path", { d: `M${x(corner)} ${y(corner)}L${x(most)} ${y(most)}`, class: "limit" }));
  svg.append(shape("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, "least possible time"));
  svg.append(shape("text", { x: left + 8, y: 22 }, "measured time"));
  dots(svg, timed.map(([place, us, limit, bound, problem]) => [x(limit), y(us), ofOp(variants[place].op),
    `${variants[place].op} ${short(variants[place])}, ${problem}: ${micro(us)}, ${Math.round((limit / us) * 100)}% of the roofline (${bound})`]));
  const shownOps = unique(timed.map(([place]) => variants[place].op));
  legend($("roofline-legend"), shownOps.map((op) => [ofOp(op), op]));
}

function legend(box, entries) {
  box.replaceChildren(...entries.map(([fill, text]) => {
    const dot = make("i");
    dot.style.background = fill;
    return make("span", null, {}, dot, text);
  }));
}

function heat() {
  const contest = data.contests[$("contest").selectedIndex], tuned = data.tuned[contest.op] || [];
  const winners = unique(contest.problems.map(([, times]) => times[0][0]));
  const label = (place) => tuned.map((name) => `${name} ${value(variants[place].config[name])}`).join(", ") || variants[place].key.slice(0, 12);
  const fill = (place) => (winners.includes(place) ? colour(winners.indexOf(place)) : OTHERS);
  const losers = contest.problems.some(([, times]) => times.some(([place]) => !winners.includes(place)));
  legend($("legend"), [...winners.map((place) => [fill(place), label(place)]), ...(losers ? [[OTHERS, "others"]] : [])]);
  spread(contest, label, fill);
  table(contest, label, fill);
}

const sizesOf = (sizes, names) => names.map((name) => `${name} ${sizes[name]}`).join(", ");

// How much slower than the fastest each variant is, a column for each problem: what choosing well is worth.
function spread(contest, label, fill) {
  const svg = $("spread"), width = svg.parentElement.clientWidth, height = 210, [left, bottom] = [44, height - 26];
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const ratios = contest.problems.flatMap(([, times]) => times.map(([, time]) => time / times[0][1]));
  const most = Math.max(1.2, Math.min(Math.max(...ratios), 16)) * 1.05, y = along(0.97, most, bottom, 10);
  const ticks = (most < 2 ? [1, 1.1, 1.2, 1.4, 1.6, 1.8] : [1, 1.5, 2, 3, 4, 8, 16]).filter((tick) => tick <= most);
  for (const tick of ticks) {
    svg.append(shape("path", { d: `M${left} ${y(tick)}H${width - 8}`, class: tick === 1 ? "limit" : "grid" }));
    svg.append(shape("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, `${tick}×`));
  }
  const step = (width - left - 24) / contest.problems.length, every = Math.ceil(110 / step);
  const names = unique(contest.problems.flatMap(([sizes]) => Object.keys(sizes))).filter((name) => several(contest.problems.map(([sizes]) => sizes[name])));
  contest.problems.forEach(([sizes, times], at) => {
    const x = left + 12 + step * (at + 0.5);
    if (at % every === 0 && x + 50 < width) svg.append(shape("text", { x, y: height - 6, "text-anchor": "middle" }, sizesOf(sizes, names)));
    const points = times.map(([place, time]) => [x, y(Math.min(time / times[0][1], most)), fill(place), `${sizesOf(sizes, names)}: ${label(place)}, ${micro(time)}, ${(time / times[0][1]).toFixed(2)} times the fastest`]);
    dots(svg, points.reverse());
  });
}

// A problem a cell: across runs the size that has most values, down the others; the colour names the fastest variant.
function table(contest, label, fill) {
  const names = unique(contest.problems.flatMap(([sizes]) => Object.keys(sizes)));
  const values = (name) => unique(contest.problems.map(([sizes]) => sizes[name])).sort((a, b) => a - b);
  const across = names.slice().sort((a, b) => values(b).length - values(a).length)[0];
  const others = names.filter((name) => name !== across && values(name).length > 1);
  const columns = values(across), lines = new Map();
  for (const [sizes, times] of contest.problems) {
    const line = sizesOf(sizes, others) || "fastest";
    lines.set(line, (lines.get(line) || new Map()).set(sizes[across], times));
  }
  const top = make("tr", null, {}, make("th", others.join(", ") || "problem", { scope: "col" }), ...columns.map((size) => make("th", `${across} ${size}`, { scope: "col" })));
  const body = [...lines].map(([line, cells]) => {
    const row = make("tr", null, {}, make("th", line, { scope: "row" }));
    for (const size of columns) {
      const times = cells.get(size), cell = make("td", times ? micro(times[0][1]) : "");
      if (times) {
        const [[place, time], second] = times;
        cell.style.background = fill(place);
        cell.title = `${label(place)}: ${micro(time)}` + (second ? `; next ${label(second[0])}: ${micro(second[1])}, ${(second[1] / time).toFixed(2)} times` : "") + `; ${times.length} timed`;
      }
      row.append(cell);
    }
    return row;
  });
  $("heat").replaceChildren(make("thead", null, {}, top), make("tbody", null, {}, ...body));
}
