// The history of speed, the roofline, and the page as a whole: what is chosen stands in the address.

const past = numbers.history;
const [COMMIT, VALUE, LOW, HIGH, SINGLE] = [0, 1, 2, 3, 4];
const seriesName = (series) => [series.parameters, series.place].filter(Boolean).join(" · ");

const drawHistory = (place, state, change, redraw) => {
  const names = [...new Set(past.series.map((series) => series.name))];
  if (!names.length) return [el("p", {}, "asv's results hold no values.")];
  const name = names.includes(state.b) ? state.b : past.steps.length ? past.series[past.steps[0][0]].name : names[0];
  const columns = [
    { key: "benchmark", head: "benchmark", value: (s) => past.series[s[0]].name, cell: (s) => el("button", { type: "button", onclick: () => change({ b: past.series[s[0]].name }) }, past.series[s[0]].name) },
    { key: "case", head: "case", value: (s) => seriesName(past.series[s[0]]), cell: (s) => seriesName(past.series[s[0]]) },
    { key: "commit", head: "commit", value: (s) => s[1], cell: (s) => past.commits[s[1]].join(", ") },
    { key: "before", head: "before", value: (s) => s[2], cell: (s) => inUnit(s[2], past.series[s[0]].unit), figure: true },
    { key: "after", head: "after", value: (s) => s[3], cell: (s) => inUnit(s[3], past.series[s[0]].unit), figure: true },
    { key: "factor", head: "factor", value: (s) => s[3] / s[2], cell: (s) => el("span", { class: s[3] > s[2] ? "worse" : "better" }, `${shown(s[3] / s[2], 3)}×`), figure: true },
  ];
  const steps = past.steps.length
    ? sortedTable("Steps", columns, past.steps, state.steps || "-factor", (sorting) => change({ steps: sorting }))
    : el("p", { "data-steps": "0" }, "No step is found.");
  const bar = el("div", { class: "bar" }, choice("benchmark", "b", names.map((one) => [one, one]), name, (b) => change({ b })));
  const mine = past.series.map((series, n) => [series, n]).filter(([series]) => series.name === name);
  const keys = mine.map(([, n]) => `h${n}`);
  const seen = mine.filter(([, n]) => !hidden.has(`h${n}`));
  const points = (seen.length ? seen : mine).flatMap(([series]) => series.points);
  const positive = points.every((point) => point[VALUE] > 0);
  const unit = mine[0][0].unit;
  const used = [...new Set(mine.flatMap(([series]) => series.points.map((point) => point[COMMIT])))].sort((a, b) => a - b);
  const at = new Map(used.map((commit, n) => [commit, n]));
  const ticks = used.map((commit, n) => [n, past.commits[commit][0]]);
  const chart = frame(place, `${name} by commit`, { values: [0, Math.max(1, used.length - 1)], label: "commit, in the order of their dates", ticks }, { values: points.map((point) => point[VALUE]), label: unit, log: positive, form: (value) => inUnit(value, unit) });
  seen.forEach(([series, number]) => {
    const n = keys.indexOf(`h${number}`);
    const group = svg("g", { "data-line": `h${number}` });
    const spot = (point) => [chart.X(at.get(point[COMMIT])), chart.Y(point[VALUE])];
    const sure = series.points.filter((point) => !point[SINGLE]);
    group.append(svg("path", { class: "line", stroke: colour(n), d: path(sure.map(spot)) }));
    for (const point of series.points) {
      const [x, y] = spot(point);
      const bounds = [point[LOW], point[HIGH]].filter((bound) => bound !== null && (bound > 0 || !positive));
      if (bounds.length === 2 && !point[SINGLE]) {
        const ends = bounds.map((bound) => Math.max(chart.top, Math.min(chart.bottom, chart.Y(bound))));
        group.append(svg("line", { x1: x, x2: x, y1: ends[0], y2: ends[1], stroke: colour(n) }));
      }
      const about = `${seriesName(series)}, ${past.commits[point[COMMIT]].join(", ")}: ${inUnit(point[VALUE], unit)}${point[SINGLE] ? ", measured once" : ""}`;
      group.append(marker(n, x, y, Boolean(point[SINGLE]), about));
    }
    for (const [, commit, before, after] of past.steps.filter((step) => step[0] === number)) {
      const x = chart.X(at.get(commit) - 0.5);
      group.append(svg("line", { class: "step", x1: x, x2: x, y1: chart.top, y2: chart.bottom }, svg("title", {}, `${seriesName(series)}: ${shown(after / before, 3)}×`)));
    }
    chart.root.append(group);
  });
  const items = mine.map(([series, number], n) => ({ key: `h${number}`, text: seriesName(series) || series.name, n }));
  const press = (key) => { if (!hidden.delete(key)) hidden.add(key); redraw(); };
  const once = points.filter((point) => point[SINGLE]).length;
  const caption = `${name}: ${points.length} values at ${used.length} commits${once ? `, ${once} of them measured once` : ""}.`;
  return [steps, bar, el("figure", {}, chart.root, el("figcaption", {}, caption)), legend(items, hidden, chart.root, press)];
};

const drawRoofs = (place) =>
  numbers.roofs.flatMap((roof) => {
    const [ridge, peak] = [roof.flops / roof.bytes, roof.flops / 1e9];
    const kernels = [...new Set(roof.points.map((point) => point[0]))];
    const rates = roof.points.map((point) => point[3] / 1e9);
    const chart = frame(place, `Roofline of ${roof.machine}`, { values: [...roof.points.map((point) => point[2]), ridge], label: "flops per byte", log: true }, { values: [...rates, peak], label: "GFLOP/s", log: true });
    const start = Math.max(chart.xRange[0], (chart.yRange[0] * 1e9) / roof.bytes);
    const line = [[start, (start * roof.bytes) / 1e9], [ridge, peak], [chart.xRange[1], peak]];
    chart.root.append(svg("path", { class: "roof", d: path(line.map(([x, y]) => [chart.X(x), chart.Y(y)])) }));
    roof.points.forEach(([kernel, about, intensity, rate, share], n) => {
      const text = `${kernel}, ${about}: ${shown(rate / 1e9, 3)} GFLOP/s, ${Math.round(100 * share)} % of the limit`;
      chart.root.append(svg("g", { "data-line": kernel }, marker(kernels.indexOf(kernel), chart.X(intensity), chart.Y(rates[n]), false, text)));
    });
    const columns = [
      { key: "kernel", head: "kernel", value: (p) => p[0], cell: (p) => p[0] },
      { key: "case", head: "case", value: (p) => p[1], cell: (p) => p[1] },
      { key: "rate", head: "GFLOP/s", value: (p) => p[3], cell: (p) => shown(p[3] / 1e9, 3), figure: true, first: "desc" },
      { key: "share", head: "of the limit", value: (p) => p[4], cell: (p) => `${Math.round(100 * p[4])} %`, figure: true, first: "desc" },
    ];
    const holder = el("div");
    const draw = (sort) => holder.replaceChildren(sortedTable(`Roofline, ${roof.machine}`, columns, roof.points, sort, draw));
    draw("-share");
    const caption = `${roof.machine}: ${shown(peak, 3)} GFLOP/s, ${shown(roof.bytes / 1e9, 3)} GB/s.`;
    const items = kernels.map((kernel, n) => ({ key: kernel, text: kernel, n }));
    return [el("figure", {}, chart.root, el("figcaption", {}, caption)), legend(items, null, chart.root, null), holder];
  });

const DEFAULTS = { q: "", view: "methods", scene: "", snr: "", tuned: "", versions: "", sort: "", row: "", fs: "", fl: "", m: "", b: "", steps: "" };
const DRAW = { board: drawBoard, tradeoff: drawTradeoff, curves: drawCurves, history: drawHistory, roofs: drawRoofs };

const placeOf = (view) => document.querySelector(`[data-view="${view}"]`);

const fromAddress = () => {
  const text = location.hash.slice(1);
  const given = text.includes("=") ? Object.fromEntries(new URLSearchParams(text)) : {};
  return Object.fromEntries(Object.entries(DEFAULTS).map(([key, usual]) => [key, key in given ? String(given[key]) : usual]));
};
let state = fromAddress();

const toAddress = () => {
  const given = Object.entries(state).filter(([key, value]) => value !== DEFAULTS[key]);
  const text = new URLSearchParams(given).toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
};

const change = (changes) => {
  state = { ...state, ...changes };
  toAddress();
  draw();
};

// What had the keyboard keeps it, although it was made anew.
const draw = () => {
  const active = document.activeElement;
  const attribute = ["data-key", "data-item"].find((name) => active && active.hasAttribute && active.hasAttribute(name));
  const holder = active && active.closest ? active.closest("[data-view]") : null;
  const marked = attribute ? active.getAttribute(attribute) : null;
  const caret = active && active.type === "search" ? active.selectionStart : null;
  for (const [id, view] of Object.entries(DRAW)) {
    const place = placeOf(id);
    if (place) place.replaceChildren(...view(place, state, change, draw));
  }
  if (!marked || !holder) return;
  const again = [...holder.querySelectorAll(`[${attribute}]`)].find((one) => one.getAttribute(attribute) === marked);
  if (again) again.focus({ preventScroll: true });
  if (again && caret !== null) again.setSelectionRange(caret, caret);
};

const toChosen = () => {
  const row = document.querySelector("tr.chosen");
  if (row) row.scrollIntoView({ block: "center" });
};

if (board) for (const entry of USUAL) if (entry[TUNED]) hidden.add(keyOf(entry));
draw();
toChosen();
window.addEventListener("hashchange", () => { state = fromAddress(); draw(); toChosen(); });
let waiting = 0;
window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(draw, 150); });
document.addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName);
  if (event.key === "/" && search && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    search.focus();
  }
});

const theme = document.getElementById("theme");
const isDark = () => (document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
theme.hidden = false;
theme.addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
nameTheme();
