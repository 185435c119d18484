// Elements, whose content is text and never markup; numbers as people read them; tables that sort.

const el = (tag, attributes = {}, ...content) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...content);
  return made;
};

const shown = (value, digits = 4) => {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
};
const decimals = (value, places = 2) => (value === null || value === undefined ? "–" : value.toFixed(places).replace("-", "−"));
const bytes = (value) => {
  if (value === null || value === undefined) return "–";
  const [unit, size] = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["bytes", 1]].find(([, size]) => value >= size) || ["bytes", 1];
  return `${shown(value / size, 3)} ${unit}`;
};
const time = (value) => {
  if (value === null || value === undefined) return "–";
  const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6]].find(([, size]) => value >= size) || ["ns", 1e-9];
  return `${shown(value / size, 3)} ${unit}`;
};
const inUnit = (value, unit) => (unit === "seconds" ? time(value) : unit === "bytes" ? bytes(value) : shown(value));

const median = (values) => {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  if (!known.length) return null;
  const half = known.length >> 1;
  return known.length % 2 ? known[half] : (known[half - 1] + known[half]) / 2;
};

// What a value is sorted by; what is missing comes last, whichever way.
const compared = (a, b, descending) => {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return descending ? -order : order;
};

// columns: {key, head, value(row), cell(row), figure, first: "asc" or "desc"}; sort: "key" or "-key".
const sortedTable = (label, columns, rows, sort, onSort, onRow) => {
  const descending = sort.startsWith("-");
  const by = columns.find((column) => column.key === sort.replace(/^-/, "")) || columns[0];
  const sorted = rows.map((row, n) => [row, n]).sort(([a, n], [b, m]) => compared(by.value(a), by.value(b), descending) || n - m);
  const heads = columns.map((column) => {
    if (!column.value) return el("th", { scope: "col" }, el("span", { "aria-label": column.head }));
    const now = column === by ? (descending ? "descending" : "ascending") : "none";
    const next = column === by ? !descending : column.first === "desc";
    const press = () => onSort((next ? "-" : "") + column.key);
    const attributes = { scope: "col", "aria-sort": now, class: column.figure ? "figure" : null };
    return el("th", attributes, el("button", { type: "button", "data-key": column.key, onclick: press }, column.head));
  });
  const body = sorted.map(([row]) => {
    const cells = columns.map((column, n) => {
      const attributes = { class: column.figure ? "figure" : null };
      return n === 0 ? el("th", { scope: "row", ...attributes }, column.cell(row)) : el("td", attributes, column.cell(row));
    });
    return el("tr", onRow ? onRow(row) : {}, ...cells);
  });
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...body));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, table);
};

const choice = (label, key, options, value, onChoose) => {
  const items = options.map(([name, text]) => el("option", { value: name, selected: name === value }, text));
  const list = el("select", { "data-key": key, onchange: (event) => onChoose(event.target.value) }, ...items);
  return el("label", {}, label, list);
};
