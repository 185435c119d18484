// Charts as SVG: axes, markers that differ in colour and in form, and a legend of buttons.

const svg = (tag, attributes = {}, ...content) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...content);
  return made;
};

const COLOURS = 7;
const LETTER = 6.8; // pixels of width, on average
const FORMS = [
  "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
  "M-4 -4h8v8h-8z",
  "M0 -5.2L5 4H-5z",
  "M0 -5.6L5.6 0L0 5.6L-5.6 0z",
  "M0 5.2L5 -4H-5z",
  "M-1.7 -5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
];
const colour = (n) => `var(--c${n % COLOURS})`;
// Every pair of colour and form comes once before any comes again: 7 and 6 have no common factor.
const marker = (n, x, y, hollow, title) => {
  const look = { d: FORMS[n % FORMS.length], transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, class: "marker" };
  const paint = { fill: hollow ? "var(--back)" : colour(n), stroke: colour(n), "stroke-width": 1.6 };
  return svg("path", { ...look, ...paint }, ...(title ? [svg("title", {}, title)] : []));
};

const linearTicks = (low, high, count = 6) => {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((digit) => digit * power >= raw);
  const ticks = [];
  for (let n = Math.ceil(low / step); n * step <= high + 1e-9 * step; n++) ticks.push(n * step);
  return ticks;
};
const logTicks = (low, high) => {
  const decades = Math.log10(high / low);
  const digits = decades > 4 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
  const ticks = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
    for (const digit of digits) if (digit * 10 ** p >= low && digit * 10 ** p <= high) ticks.push(digit * 10 ** p);
  }
  return ticks;
};

// A scale from values to places; `log` for what spans decades.
const scale = (values, from, to, log) => {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (log) [low, high] = low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.06, high * (high / low) ** 0.06];
  else [low, high] = low === high ? [low - 1, high + 1] : [low - 0.06 * (high - low), high + 0.06 * (high - low)];
  const part = log ? (v) => Math.log(v / low) / Math.log(high / low) : (v) => (v - low) / (high - low);
  const place = (value) => from + (to - from) * part(value);
  return { place, ticks: log ? logTicks(low, high) : linearTicks(low, high), low, high };
};

// An empty chart as wide as its place. x and y: {values, label, log, ticks: [[value, text]], form}
const frame = (place, label, x, y) => {
  const width = Math.max(300, Math.min(place.clientWidth || 900, 990));
  const height = Math.round(width < 560 ? 0.95 * width : Math.min(0.52 * width, 470));
  const [right, top, bottom] = [width - 12, 14, height - 44];
  const Y = scale(y.values, bottom, top, y.log);
  const longest = (texts) => LETTER * Math.max(0, ...texts.map((text) => text.length));
  const left = 28 + longest(Y.ticks.map((value) => (y.form || shown)(value)));
  const X = scale(x.values, left, right, x.log);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const marks = x.ticks || X.ticks.map((value) => [value, (x.form || shown)(value)]);
  const fitting = Math.max(1, Math.ceil((marks.length * (longest(marks.map(([, text]) => text)) + 8)) / (right - left)));
  marks.forEach(([value, text], n) => {
    const at = X.place(value);
    root.append(svg("line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom }));
    if (n % fitting === 0) root.append(svg("text", { x: at, y: bottom + 16, "text-anchor": "middle" }, text));
  });
  Y.ticks.forEach((value) => {
    const at = Y.place(value);
    root.append(svg("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }));
    root.append(svg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, (y.form || shown)(value)));
  });
  root.append(svg("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }));
  root.append(svg("text", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }, x.label));
  const turned = { transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" };
  root.append(svg("text", turned, y.label));
  return { root, X: X.place, Y: Y.place, left, right, top, bottom, xRange: [X.low, X.high], yRange: [Y.low, Y.high] };
};

const path = (points) => points.map(([x, y], n) => `${n ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// A name beside its point, moved down or up until it covers no other name.
const nameBeside = (chart, taken, x, y, text) => {
  const width = LETTER * text.length;
  const before = x + 9 + width > chart.right;
  const left = before ? x - 9 - width : x + 9;
  for (const shift of [-8, 18, -20, 30, -32, 42]) {
    const box = [left, y + shift - 11, left + width, y + shift + 2];
    if (box[1] < chart.top || box[3] > chart.bottom) continue;
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    chart.root.append(svg("text", { x: before ? x - 9 : x + 9, y: y + shift, "text-anchor": before ? "end" : "start" }, text));
    return;
  }
};

// items: {key, text, n, dashed, hollow}; a look makes the others pale; a press, where there is `onPress`, takes a line away
// or brings it back.
const legend = (items, hidden, chart, onPress) => {
  const look = (key) => {
    for (const group of chart.querySelectorAll("[data-line]")) {
      group.classList.toggle("pale", key !== null && group.getAttribute("data-line") !== key);
    }
  };
  const entries = items.map((item) => {
    const stroke = { stroke: colour(item.n), "stroke-dasharray": item.dashed ? "4 3" : null };
    const sample = svg("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" });
    sample.append(svg("path", { d: "M0 6H26", class: "line", ...stroke }), marker(item.n, 13, 6, item.hollow));
    const pressed = onPress ? { "aria-pressed": String(!hidden.has(item.key)), onclick: () => onPress(item.key) } : {};
    const attributes = {
      type: "button",
      ...pressed,
      onmouseenter: () => look(item.key),
      onmouseleave: () => look(null),
      onfocus: () => look(item.key),
      onblur: () => look(null),
    };
    return el("li", {}, el("button", { ...attributes, "data-item": item.key }, sample, item.text));
  });
  return el("ul", { class: "legend" }, ...entries);
};
