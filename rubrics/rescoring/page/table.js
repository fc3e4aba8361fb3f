// The table of trajectories: filtered, sorted, and a page of it shown at a time.

const view = { text: "", way: "", node: "", group: "", sort: "move", descending: true, page: 0, found: [] };

const difference = (i) => {
  const { old, new: now } = data.rows;
  return old[i] === null || now[i] === null ? null : now[i] - old[i];
};
const groupOf = (i) => (data.rows.group[i] < 0 ? "" : data.groupNames[data.rows.group[i]]);

const idName = (i) => data.rows.id[i].trim() || "(no id)"; // else there is nothing to click on

const COLUMNS = [
  { name: "id", title: "trajectory", value: (i) => data.rows.id[i], text: true },
  { name: "group", title: "group", value: groupOf, text: true, minor: true, when: () => data.groupNames.length > 0 },
  { name: "way", title: "moved", value: (i) => data.rows.way[i] },
  { name: "old", title: "old", value: (i) => data.rows.old[i], numeric: true },
  { name: "new", title: "new", value: (i) => data.rows.new[i], numeric: true },
  { name: "difference", title: "difference", value: difference, numeric: true },
  { name: "steps", title: "steps", value: (i) => data.rows.steps[i], numeric: true, minor: true },
  { name: "nodes", title: "nodes that changed", value: (i) => data.rows.nodes[i].length, minor: true },
];

function setUpTable() {
  const ways = data.ways.filter((way) => data.counts[way]);
  byId("way").append(el("option", { value: "" }, "in any way"), ...ways.map((way) => el("option", { value: way }, wayName(way))));
  const nodes = data.nodes.map((node, index) => [node, index]).filter(([node]) => node.only === null);
  byId("node").append(el("option", { value: "" }, "any"), ...nodes.map(([node, index]) => el("option", { value: index }, nodeName(node.path))));
  byId("group-label").hidden = data.groupNames.length === 0;
  view.lower = data.rows.id.map((id) => id.toLowerCase());
  view.unstable = new Set(data.rows.unstable);
  view.detailed = document.querySelectorAll('script[id^="detail-"]').length;
  for (const name of ["text", "group"]) byId(name).addEventListener("input", readFilters);
  for (const name of ["way", "node"]) byId(name).addEventListener("change", readFilters);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(readFilters));
  filter();
}

function readFilters() {
  for (const name of ["text", "way", "node", "group"]) view[name] = byId(name).value;
  filter();
}

// Choosing what is chosen already takes the choice back.
function toggle(name, value, scroll) {
  byId(name).value = view[name] === value ? "" : value;
  readFilters();
  if (scroll) byId("trajectories").scrollIntoView({ block: "start" });
}

function filter() {
  const { rows, ways, groupNames } = data;
  const text = view.text.toLowerCase(), way = ways.indexOf(view.way);
  const node = view.node === "" ? -1 : Number(view.node);
  const exact = groupNames.indexOf(view.group), part = view.group.toLowerCase();
  const inGroup = (i) => (exact >= 0 ? rows.group[i] === exact : groupOf(i).toLowerCase().includes(part));
  view.found = [];
  for (let i = 0; i < rows.id.length; i++) {
    if (text && !view.lower[i].includes(text)) continue;
    if (view.way && rows.way[i] !== way) continue;
    if (node >= 0 && !rows.nodes[i].includes(node)) continue;
    if (view.group && !inGroup(i)) continue;
    view.found.push(i);
  }
  sort();
  for (const button of byId("counts").children) button.setAttribute("aria-pressed", String(button.dataset.way === view.way));
  for (const row of byId("nodes").querySelectorAll("tbody tr")) row.classList.toggle("chosen", row.dataset.node === view.node);
}

// Without a column, what moved furthest comes first. What has no number comes last in either direction.
function sort() {
  const column = COLUMNS.find(({ name }) => name === view.sort);
  const value = column ? column.value : (i) => (difference(i) === null ? null : Math.abs(difference(i)));
  const keys = new Map(view.found.map((i) => [i, value(i)]));
  const sign = view.descending ? -1 : 1;
  const words = new Intl.Collator("en", { numeric: true }).compare;
  view.found.sort((i, j) => {
    const a = keys.get(i), b = keys.get(j);
    if (a === null || b === null) return a === b ? i - j : a === null ? 1 : -1;
    return sign * (column?.text ? words(a, b) : a - b) || i - j;
  });
  view.page = 0;
  showTable();
}

function sortBy(column) {
  view.descending = view.sort === column.name ? !view.descending : !column.text && column.name !== "way";
  view.sort = column.name;
  sort();
}

function showTable() {
  const table = byId("trajectories").querySelector("table");
  const focused = document.activeElement?.dataset?.sort;
  const columns = COLUMNS.filter((column) => column.when === undefined || column.when());
  const heads = columns.map((column) => {
    const sorted = view.sort === column.name;
    const arrow = sorted ? (view.descending ? " ↓" : " ↑") : "";
    return el(
      "th",
      { scope: "col", class: `${column.numeric ? "num" : ""} ${column.minor ? "minor" : ""}`, "aria-sort": sorted ? (view.descending ? "descending" : "ascending") : null },
      el("button", { type: "button", "data-sort": column.name, onclick: () => sortBy(column) }, column.title + arrow),
    );
  });
  const from = view.page * PAGE_ROWS;
  const shown = view.found.slice(from, from + PAGE_ROWS);
  table.replaceChildren(el("thead", {}, el("tr", {}, heads)), el("tbody", {}, shown.map((i) => trajectoryRow(i, columns))));
  if (focused) table.querySelector(`[data-sort="${focused}"]`)?.focus();
  const all = data.rows.id.length;
  const said = view.found.length === all ? `All ${count(all)}.` : `${count(view.found.length)} of ${count(all)}.`;
  byId("found").textContent = view.detailed < all ? `${said} The steps and trees of ${count(view.detailed)} are in this page.` : said;
  byId("pages").replaceChildren(...pager(view.page, view.found.length, turnPage));
}

function trajectoryRow(i, columns) {
  const { rows } = data;
  const cell = {
    id: () => el("button", { type: "button", class: "link path", onclick: () => openTrajectory(i) }, idName(i)),
    group: () => el("span", { class: "path soft" }, groupOf(i)),
    way: () => [wayTag(data.ways[rows.way[i]]), view.unstable.has(i) ? el("span", { class: "tag lost", title: "the tree is the same" }, "same tree") : ""],
    old: () => scoreOr(rows.old[i], rows.oldStatus[i]),
    new: () => scoreOr(rows.new[i], rows.newStatus[i]),
    difference: () => el("span", { class: tone(difference(i)) || "zero" }, signed(difference(i))),
    steps: () => count(rows.steps[i]),
    nodes: () => el("span", { class: "paths path", title: changedNodes(i).join(", ") }, changedNodes(i).join(", ")),
  };
  return el("tr", {}, columns.map((column) => el("td", { class: `${column.numeric ? "num" : ""} ${column.minor ? "minor" : ""}` }, cell[column.name]())));
}

// The nodes in which the change began: those below which nothing changed.
function changedNodes(i) {
  const paths = data.rows.nodes[i].map((index) => data.nodes[index].path);
  const lowest = paths.filter((path) => !paths.some((other) => other !== path && (path === "" || other.startsWith(`${path}.`))));
  return lowest.map(nodeName);
}

const scoreOr = (score, status) => (score === null ? el("span", { class: "soft" }, status ?? "–") : number(score));

function turnPage(by) {
  view.page += by;
  showTable();
  byId("trajectories").scrollIntoView({ block: "start" });
}
