// The parts of the page: each is given what is chosen, and draws itself anew.

const numbers = JSON.parse(document.getElementById("numbers").textContent);
const board = numbers.board;
const MANY = 60;
const hidden = new Set();
const away = new Set(); // of the picture of quality against time
let everything = false;

const [SCENE, LEVEL, SYSTEM, TUNED, RSNR, SAM, ERGAS, SECONDS, MEMORY, DRAWS, OPTIONS, ERROR] = Array.from({ length: 12 }, (_, n) => n);
const METRIC = board ? Object.fromEntries(board.metrics.map((metric, n) => [metric.name, { ...metric, column: RSNR + n }])) : {};

// Entries of the newest version in their cell go by a system's plain name, whichever version that is.
const newestEntries = () => {
  const older = new Set(board.older);
  const last = new Map(board.systems.map((system, n) => [`${system.name}|${system.package}`, n]));
  return board.entries.flatMap((entry, n) => {
    if (older.has(n)) return [];
    const system = board.systems[entry[SYSTEM]];
    const plain = [...entry];
    plain[SYSTEM] = last.get(`${system.name}|${system.package}`);
    return [Object.assign(plain, { plain: true, version: system.version })];
  });
};
const NEWEST = board ? newestEntries() : [];
const systemOf = (entry) => board.systems[entry[SYSTEM]];
const atUsualRank = (entry) => !systemOf(entry).other_rank;
const USUAL = NEWEST.filter(atUsualRank); // what pictures show
const entriesOf = (state) => {
  const entries = state.versions === "all" ? board.entries : NEWEST;
  return state.tuned === "ranks" ? entries : entries.filter(atUsualRank);
};

const labelOf = (entry) => (entry.plain ? systemOf(entry).plain : systemOf(entry).label);
const nameOf = (entry) => labelOf(entry) + (entry[TUNED] ? ", tuned" : "");
const keyOf = (entry) => `${entry[SYSTEM]}-${entry[TUNED]}`;
const versionOf = (entry) => entry.version || systemOf(entry).version;
const methodCell = (entry) => {
  const name = el("span", { class: entry[TUNED] ? "tuned" : null }, nameOf(entry));
  if (entry[OPTIONS] !== null && entry[OPTIONS] !== undefined) name.title = board.options[entry[OPTIONS]] || "default options";
  return name;
};
const look = (entry) => ({ class: systemOf(entry).default ? "default" : null });

const chosenEntries = (state) => {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  return entriesOf(state).filter((entry) => {
    const text = `${nameOf(entry)} ${systemOf(entry).name} ${systemOf(entry).package} ${board.scenes[entry[SCENE]]}`.toLowerCase();
    return (
      (state.scene === "" || board.scenes[entry[SCENE]] === state.scene) &&
      (state.snr === "" || board.levels[entry[LEVEL]] === state.snr) &&
      (!["0", "1"].includes(state.tuned) || String(entry[TUNED]) === state.tuned) &&
      words.every((word) => text.includes(word))
    );
  });
};

// The best score of each cell, of what nobody tuned.
const bestOfCells = (entries) => {
  const best = new Map();
  for (const entry of entries) {
    const cell = `${entry[SCENE]}-${entry[LEVEL]}`;
    if (!entry[TUNED] && entry[RSNR] !== null && !(best.get(cell) >= entry[RSNR])) best.set(cell, entry[RSNR]);
  }
  return best;
};

const byMethod = (entries, state) => {
  const best = bestOfCells(entriesOf(state));
  const groups = new Map();
  for (const entry of entries) groups.set(keyOf(entry), [...(groups.get(keyOf(entry)) || []), entry]);
  return [...groups.values()].map((group) => {
    const scored = group.filter((entry) => entry[RSNR] !== null);
    const behind = scored.map((entry) => (best.has(`${entry[SCENE]}-${entry[LEVEL]}`) ? best.get(`${entry[SCENE]}-${entry[LEVEL]}`) - entry[RSNR] : null));
    const row = [...group[0]];
    for (const column of [RSNR, SAM, ERGAS, SECONDS, MEMORY]) row[column] = median(group.map((entry) => entry[column]));
    row.options = row[OPTIONS] = null;
    const versions = [...new Set(group.map(versionOf))].join(", ");
    return Object.assign(row, { plain: group[0].plain, version: versions, cells: scored.length, best: behind.filter((gap) => gap !== null && gap <= 0).length, behind: median(behind) });
  });
};

const value = (column) => (entry) => (entry[column] === undefined ? null : entry[column]);
const scores = (heads) => board ? [
  { key: "rsnr", head: heads + METRIC.rsnr.label, value: value(RSNR), cell: (e) => decimals(e[RSNR]), figure: true, first: "desc" },
  { key: "sam", head: heads + METRIC.sam.label, value: value(SAM), cell: (e) => decimals(e[SAM]), figure: true },
  { key: "ergas", head: heads + METRIC.ergas.label, value: value(ERGAS), cell: (e) => decimals(e[ERGAS]), figure: true },
  { key: "seconds", head: heads + "time", value: value(SECONDS), cell: (e) => time(e[SECONDS]), figure: true },
  { key: "memory", head: heads + "memory", value: value(MEMORY), cell: (e) => bytes(e[MEMORY]), figure: true },
] : [];
const method = { key: "method", head: "method", value: (e) => nameOf(e), cell: methodCell };
const source = { key: "package", head: "package", value: (e) => systemOf(e).package, cell: (e) => `${systemOf(e).package}\u00a0${versionOf(e)}` };

const cellColumns = (link) => [
  method,
  { key: "scene", head: "scene", value: (e) => board.scenes[e[SCENE]], cell: (e) => board.scenes[e[SCENE]] },
  { key: "snr", head: "SNR", value: value(LEVEL), cell: (e) => board.levels[e[LEVEL]], figure: true },
  ...scores(""),
  { key: "draws", head: "draws", value: value(DRAWS), cell: (e) => (e[ERROR] ? el("span", { class: "worse" }, `failed: ${e[ERROR]}`) : String(e[DRAWS])), figure: true },
  source,
  { key: "link", head: "link", cell: link },
];
const methodColumns = [
  method,
  { key: "cells", head: "cells", value: (e) => e.cells, cell: (e) => String(e.cells), figure: true, first: "desc" },
  { key: "best", head: "best in", value: (e) => e.best, cell: (e) => String(e.best), figure: true, first: "desc" },
  { key: "behind", head: "median dB behind the best", value: (e) => e.behind, cell: (e) => decimals(e.behind), figure: true },
  ...scores("median "),
  source,
];

const SETTINGS = [["", "published and tuned"], ["0", "published"], ["1", "tuned with the truth"]];
if (board && board.systems.some((system) => system.other_rank)) SETTINGS.push(["ranks", "at every rank, too"]);
const SEVERAL_VERSIONS = board && board.systems.some((system) => system.label !== system.plain);

const drawBoard = (place, state, change) => {
  const all = (names) => [["", "all"], ...names.map((name) => [name, name])];
  const search = el("input", { type: "search", value: state.q, "data-key": "q", placeholder: "press / to search", oninput: (event) => change({ q: event.target.value }) });
  const bar = el(
    "div",
    { class: "bar" },
    el("label", {}, "search", search),
    choice("show", "view", [["methods", "methods"], ["cells", "every cell"]], state.view, (view) => change({ view, sort: "" })),
    choice("scene", "scene", all(board.scenes), state.scene, (scene) => change({ scene })),
    choice("SNR", "snr", all(board.levels), state.snr, (snr) => change({ snr })),
    choice("settings", "tuned", SETTINGS, state.tuned, (tuned) => change({ tuned })),
    ...(SEVERAL_VERSIONS ? [choice("versions", "versions", [["", "the newest in each cell"], ["all", "all"]], state.versions, (versions) => change({ versions }))] : []),
  );
  const entries = chosenEntries(state);
  const cells = state.view === "cells";
  const rows = cells ? entries : byMethod(entries, state);
  const sort = state.sort || (cells ? "-rsnr" : "behind");
  const own = (entry) => `${systemOf(entry).name}|${systemOf(entry).package}|${entry[TUNED]}|${board.scenes[entry[SCENE]]}|${board.levels[entry[LEVEL]]}`;
  const link = (entry) => el("a", { class: "link", href: "#", "aria-label": `link to ${nameOf(entry)}`, onclick: (event) => { event.preventDefault(); change({ row: own(entry) }); } }, "¶");
  const mark = (entry) => (cells && own(entry) === state.row ? { class: "chosen" } : look(entry));
  const table = sortedTable("Leaderboard", cells ? cellColumns(link) : methodColumns, rows, sort, (sort) => change({ sort }), mark);
  const lines = [...table.querySelectorAll("tbody tr")];
  const parts = [bar, el("p", { class: "small", role: "status" }, `${rows.length} ${cells ? "entries" : "methods"}`), table];
  if (lines.length > MANY && !everything) {
    lines.forEach((line, n) => { line.hidden = n >= MANY && !line.classList.contains("chosen"); });
    parts.push(el("button", { type: "button", class: "more", onclick: () => { everything = true; change({}); } }, `show all ${rows.length}`));
  }
  return parts;
};

const figureChoices = (state, change, level) => {
  const names = (list) => list.map((name) => [name, name]);
  const metrics = ["rsnr", "sam", "ergas"].map((name) => [name, METRIC[name].label]);
  const parts = [choice("scene", "fs", names(board.scenes), sceneOf(state), (fs) => change({ fs }))];
  if (level) parts.push(choice("SNR", "fl", names(board.levels), levelOf(state), (fl) => change({ fl })));
  return el("div", { class: "bar" }, ...parts, choice("score", "m", metrics, metricOf(state), (m) => change({ m })));
};
// Of these names those with the most entries: what a picture begins with has something to show.
const fullest = (names, column, entries) => {
  const counts = names.map(() => 0);
  for (const e of entries) if (e[RSNR] !== null) counts[e[column]] += 1;
  const most = Math.max(...counts);
  return names.filter((_, n) => counts[n] === most);
};
const sceneOf = (state) => [state.fs, state.scene].find((name) => board.scenes.includes(name)) || fullest(board.scenes, SCENE, USUAL)[0];
const levelOf = (state) => {
  const chosen = [state.fl, state.snr].find((name) => board.levels.includes(name));
  if (chosen) return chosen;
  const scene = board.scenes.indexOf(sceneOf(state));
  const best = fullest(board.levels, LEVEL, USUAL.filter((e) => e[SCENE] === scene));
  return best[best.length >> 1];
};
const metricOf = (state) => (["rsnr", "sam", "ergas"].includes(state.m) ? state.m : "rsnr");

const drawTradeoff = (place, state, change, redraw) => {
  const metric = METRIC[metricOf(state)];
  const [scene, level] = [sceneOf(state), levelOf(state)];
  const there = USUAL.filter(
    (e) => board.scenes[e[SCENE]] === scene && board.levels[e[LEVEL]] === level && e[metric.column] !== null && e[SECONDS] > 0,
  );
  const parts = [figureChoices(state, change, true)];
  if (!there.length) return [...parts, el("p", {}, "No system has a score and a time there.")];
  const entries = there.filter((e) => !away.has(keyOf(e)));
  const label = `${metric.label} against time, ${scene}, ${level}`;
  const chart = frame(place, label, { values: there.map((e) => e[SECONDS]), label: "time, shorter is better", log: true, form: time }, { values: there.map((e) => e[metric.column]), label: metric.label });
  const better = (a, b) => metric.direction * (a[metric.column] - b[metric.column]) > 0;
  const front = [];
  for (const e of entries.filter((e) => !e[TUNED]).sort((a, b) => a[SECONDS] - b[SECONDS] || metric.direction * (b[metric.column] - a[metric.column]))) {
    if (!front.length || better(e, front[front.length - 1])) front.push(e);
  }
  const at = (e) => [chart.X(e[SECONDS]), chart.Y(e[metric.column])];
  const corners = front.flatMap((e, n) => (n ? [[at(e)[0], at(front[n - 1])[1]], at(e)] : [at(e)]));
  if (front.length) chart.root.append(svg("path", { class: "front", d: path([...corners, [chart.right, at(front[front.length - 1])[1]]]) }));
  for (const e of entries) {
    const text = `${nameOf(e)}: ${decimals(e[metric.column])}, ${time(e[SECONDS])}${front.includes(e) ? ", on the front" : ""}`;
    chart.root.append(svg("g", { "data-line": keyOf(e) }, marker(e[SYSTEM], ...at(e), Boolean(e[TUNED]), text)));
  }
  const taken = entries.map(at).map(([x, y]) => [x - 5, y - 5, x + 5, y + 5]);
  for (const e of front) nameBeside(chart, taken, ...at(e), labelOf(e));
  const items = there.map((e) => ({ key: keyOf(e), text: nameOf(e), n: e[SYSTEM], hollow: Boolean(e[TUNED]) }));
  const press = (key) => { if (!away.delete(key)) away.add(key); redraw(); };
  const caption = `The front at ${scene}, ${level}: ${front.map((e) => `${labelOf(e)} (${time(e[SECONDS])}, ${decimals(e[metric.column])})`).join(", ")}.`;
  return [...parts, el("figure", {}, chart.root, el("figcaption", { "data-front": front.map((e) => systemOf(e).name).join(" ") }, caption)), legend(items, away, chart.root, press)];
};

const drawCurves = (place, state, change, redraw) => {
  const metric = METRIC[metricOf(state)];
  const scene = sceneOf(state);
  const lines = new Map();
  for (const e of USUAL) {
    if (board.scenes[e[SCENE]] !== scene || e[metric.column] === null) continue;
    lines.set(keyOf(e), [...(lines.get(keyOf(e)) || []), e]);
  }
  const parts = [figureChoices(state, change, false)];
  if (!lines.size) return [...parts, el("p", {}, "No system has scores there.")];
  const keys = [...lines.keys()].sort((a, b) => compared(a.split("-").reverse().join("-"), b.split("-").reverse().join("-"), false));
  const seen = keys.filter((key) => !hidden.has(key));
  const drawn = (seen.length ? seen : keys).flatMap((key) => lines.get(key));
  const ticks = board.levels.map((name, n) => [n, name]);
  const chart = frame(place, `${metric.label} of ${scene} by SNR`, { values: [0, Math.max(1, ticks.length - 1)], label: "SNR of both images", ticks }, { values: drawn.map((e) => e[metric.column]), label: metric.label });
  for (const key of seen) {
    const line = lines.get(key).sort((a, b) => a[LEVEL] - b[LEVEL]);
    const points = line.map((e) => [chart.X(e[LEVEL]), chart.Y(e[metric.column])]);
    const first = line[0];
    const stroke = { stroke: colour(first[SYSTEM]), "stroke-dasharray": first[TUNED] ? "4 3" : null };
    const weight = systemOf(first).default ? "line heavy" : "line";
    const marks = line.map((e, n) => marker(e[SYSTEM], ...points[n], Boolean(e[TUNED]), `${nameOf(e)}, ${board.levels[e[LEVEL]]}: ${decimals(e[metric.column])}`));
    chart.root.append(svg("g", { "data-line": key }, svg("path", { class: weight, d: path(points), ...stroke }), ...marks));
  }
  const items = keys.map((key) => { const e = lines.get(key)[0]; return { key, text: nameOf(e), n: e[SYSTEM], dashed: e[TUNED], hollow: Boolean(e[TUNED]) }; });
  const press = (key) => { if (!hidden.delete(key)) hidden.add(key); redraw(); };
  return [...parts, el("figure", {}, chart.root), legend(items, hidden, chart.root, press)];
};
