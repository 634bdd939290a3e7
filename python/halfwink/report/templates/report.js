const byId = (id) => document.getElementById(id);

// Charts. The first is drawn at once, others when they come near the window: drawing all takes
// seconds in a large report.
const charts = [...document.querySelectorAll(".chart")];
const isDark = () => matchMedia("screen and (prefers-color-scheme: dark)").matches;
const column = (held) => (Array.isArray(held) ? held : held.at.map((n) => held.of[n]));
let data;
// Each chart gets objects of its own, since Vega marks them.
function dataset(name) {
  data ??= JSON.parse(byId("data").textContent);
  const {count, rows, names = [], own = {}} = data.sets[name];
  const columns = Object.entries(own).map(([key, held]) => [key, column(held)]);
  for (const key of names) {
    const all = column(data.shared[key]);
    columns.push([key, rows.map((row) => all[row])]);
  }
  return Array.from({length: count}, (_, n) =>
    Object.fromEntries(columns.map(([key, values]) => [key, values[n]])));
}
async function embed(chart) {
  const spec = JSON.parse(byId(chart.id + "-spec").textContent);
  spec.datasets = Object.fromEntries(spec.datasets.map((name) => [name, dataset(name)]));
  const made = await vegaEmbed(chart, spec, {
    renderer: chart.dataset.renderer,
    theme: isDark() ? "dark" : undefined,
    config: {background: "transparent", legend: {orient: "bottom", columns: 6}},
    actions: {export: true, source: false, compiled: false, editor: false},
  });
  const image = chart.querySelector(".marks");
  image.setAttribute("role", "img");
  image.removeAttribute("aria-roledescription");
  image.setAttribute("aria-label",
    chart.dataset.title + ": a chart; its figures stand in the tables of this page");
  image.querySelectorAll("[role]").forEach((part) => part.removeAttribute("role"));
  image.querySelectorAll("[aria-label], [aria-roledescription]").forEach((part) => {
    part.removeAttribute("aria-label");
    part.removeAttribute("aria-roledescription");
  });
  return made;
}
const drawings = new Map();
function draw(chart) {
  if (!drawings.has(chart)) drawings.set(chart, embed(chart));
  return drawings.get(chart);
}
// Awaiting it has every chart drawn.
const drawn = {then: (...next) => Promise.all(charts.map(draw)).then(...next)};
if ("IntersectionObserver" in window) {
  const near = new IntersectionObserver((changes) => {
    for (const {isIntersecting, target} of changes) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target);
    }
  }, {rootMargin: "800px 0px"});
  charts.slice(1).forEach((chart) => near.observe(chart));
  charts.slice(0, 1).forEach(draw);
} else {
  charts.forEach(draw);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [chart, made] of [...drawings]) {
    made.then((old) => old.finalize());
    drawings.set(chart, embed(chart));
  }
});

// Tables. Most lines of a long one are text until they are asked for: laying them out takes seconds.
const MORE_LINES = 500;
class Table {
  constructor(table) {
    this.table = table;
    this.headings = [...table.tHead.rows[0].cells];
    this.bodies = [...table.tBodies];
    this.texts = new Map();
    this.reached = table.querySelector("td[title]");
    if (this.reached) this.reached.tabIndex = 0;
    this.rest = byId(table.id + "-rest");
    this.more = byId(table.id + "-more");
    this.headings.forEach((heading, n) =>
      heading.querySelector("button")?.addEventListener("click", () => this.sortBy(n)));
    table.addEventListener("focusin", ({target}) => { if (target.title) this.tell(target); });
    table.addEventListener("click", ({target}) => {
      const cell = target.closest("td[title]");
      if (cell) this.reach(cell);
    });
    table.addEventListener("keydown", (event) => this.go(event));
    if (!this.more) return;
    this.limit = this.lines(this.bodies).length;
    this.find = this.more.querySelector("input");
    this.find.addEventListener("input", () => this.show());
    this.more.querySelector(".some").addEventListener("click", () => this.show(this.shown + MORE_LINES));
    this.more.querySelector(".all").addEventListener("click", () => this.show(Infinity));
    this.show();
    this.more.hidden = false;
  }

  lines(bodies) {
    return bodies.flatMap((body) => [...body.rows].filter((row) => row.className !== "group"));
  }

  // Makes rows of the text of the others.
  load() {
    if (!this.rest) return;
    const origins = JSON.parse(byId(this.table.id + "-origins").textContent);
    const page = new DOMParser().parseFromString(this.rest.textContent, "text/html");
    const bodies = [...page.querySelectorAll("tbody")].map((body) => document.adoptNode(body));
    for (const body of bodies) body.removeAttribute("title");
    for (const row of this.lines(bodies)) {
      const own = origins[row.dataset.origins];
      const heads = row.cells.length - own.length;
      own.forEach((origin, n) => {
        const cell = row.cells[heads + n];
        if (origin) cell.title = origin;
        cell.className = this.headings[heads + n].className;
      });
    }
    this.rest = null;
    this.bodies.push(...bodies);
    if (this.order) this.sort(bodies);
  }

  // Shows so many lines of those that have the words, in whole groups.
  show(limit = this.limit) {
    this.limit = limit;
    const words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = Number(this.more.dataset.count);
    if (words.length || limit > this.lines(this.bodies).length) this.load();
    let found = 0;
    this.shown = 0;
    const bodies = this.bodies.filter((body) => {
      const lines = this.lines([body]);
      for (const row of lines) row.hidden = !words.every((word) => this.text(row).includes(word));
      const own = lines.filter((row) => !row.hidden).length;
      found += own;
      if (!own || this.shown >= limit) return false;
      this.shown += own;
      return true;
    });
    this.table.replaceChildren(this.table.tHead, ...bodies);
    if (!words.length) found = all;
    const number = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
    this.more.querySelector("[role=status]").textContent = words.length
      ? `${number(this.shown)} of ${number(found)} found lines shown`
      : `${number(this.shown)} of ${number(all)} lines shown`;
    for (const button of this.more.querySelectorAll("button")) button.hidden = this.shown >= found;
    this.more.querySelector(".all").textContent = `show all ${number(found)} lines`;
  }

  // The search looks at the name of a line's group and at its cells.
  text(row) {
    if (!this.texts.has(row)) {
      const group = row.parentNode.querySelector(".group");
      const cells = [...(group?.cells ?? []), ...row.cells];
      this.texts.set(row, cells.map((cell) => cell.textContent).join(" ").toLowerCase());
    }
    return this.texts.get(row);
  }

  sortBy(n) {
    const heading = this.headings[n];
    const up = heading.getAttribute("aria-sort") !== "ascending";
    this.headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    this.order = [n, up];
    this.sort(this.bodies);
  }

  // Sorts the lines of each group.
  sort(bodies) {
    const [n, up] = this.order;
    const value = (row) => {
      const text = row.cells[n].firstChild.textContent.trim();
      const units = {nJ: 1e-9, uJ: 1e-6, mJ: 1e-3, J: 1, k: 1e3, M: 1e6};
      const [, number, unit] = text.match(/^(-?[\d.]+(?:e[-+]?\d+)?)\s*([a-zA-Z]*)/) || [];
      return number === undefined ? text : Number(number) * (units[unit] || 1);
    };
    for (const body of bodies) {
      const rows = this.lines([body]).map((row) => [value(row), row]);
      rows.sort(([x], [y]) => {
        const order = typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1;
        return up ? order : -order;
      });
      body.append(...rows.map(([, row]) => row));
    }
  }

  // One stop of the Tab key for all cells; arrow keys go from one to the next.
  reach(cell) {
    this.reached?.removeAttribute("tabindex");
    this.reached = cell;
    cell.tabIndex = 0;
    cell.focus();
  }

  tell(cell) {
    const names = [cell.parentNode.cells[0], this.headings[cell.cellIndex]].map((c) => c.textContent.trim());
    byId(this.table.dataset.source).textContent = names.join(", ") + ": " + cell.title;
  }

  go(event) {
    const ways = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
    if (!ways[event.key] || !event.target.title) return;
    event.preventDefault();
    const [across, down] = ways[event.key];
    const rows = this.lines([...this.table.tBodies]);
    let [x, y] = [event.target.cellIndex + across, rows.indexOf(event.target.parentNode) + down];
    for (; rows[y] && rows[y].cells[x]; x += across, y += down) {
      const found = rows[y].cells[x];
      if (found.title && found.offsetParent) return this.reach(found);
    }
  }
}
const tables = [...document.querySelectorAll("table[data-source]")].map((table) => new Table(table));
byId("columns").addEventListener("click", () => byId("table").classList.toggle("fewer"));

// Paper has everything: what is folded away, all lines, and each chart.
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  tables.filter((table) => table.more).forEach((table) => table.show(Infinity));
  charts.forEach(draw);
});
