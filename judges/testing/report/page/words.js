// Labels, outcomes and statuses, as people say them.

const STATUS_TONES = { agrees: "up", disagrees: "down", abstains: "lost", "no verdict": "lost", stale: "lost" };
const OUTCOME_TONES = { PASS: "up", FAIL: "down", INCONCLUSIVE: "lost" };
const OUTCOME_MARKS = { PASS: "✓", FAIL: "✗", INCONCLUSIVE: "?" };

// A label: texts as they are, all else as JSON has it. It keeps its own direction.
const label = (value) => el("bdi", { class: "label" }, spoken(value));

function spoken(value) {
  if (value === null || value === undefined) return "none";
  if (Array.isArray(value)) return value.map(spoken).join(", ");
  if (typeof value === "number") return number(value);
  return String(value);
}

const statusTag = (status) => el("span", { class: `tag ${STATUS_TONES[status] ?? ""}` }, status);
const outcomeTag = (outcome) =>
  el("span", { class: `tag ${OUTCOME_TONES[outcome]}` }, el("span", { class: "mark" }, `${OUTCOME_MARKS[outcome]} `), el("span", { class: "word" }, outcome));

const short = (x) => String(Number(x.toPrecision(4))).replace("-", MINUS); // without the zeros of a column
const bounds = ({ low, high }) => (low === null || high === null ? "–" : `${number(low)} to ${number(high)}`);
const items = ({ n, clusters }) => (n === clusters ? count(n) : `${count(n)} of ${plural(clusters, "row")}`);

const row = (cells, properties) => el("tr", properties, cells.map((cell) => (cell instanceof Element && cell.tagName === "TD" ? cell : el("td", {}, cell))));
const numeric = (...words) => el("td", { class: "num" }, ...words);
const head = (names) => el("thead", {}, el("tr", {}, names.map(([name, kind]) => el("th", { scope: "col", class: kind }, name))));

function fill(section, names, rows) {
  section.querySelector("table").replaceChildren(head(names), el("tbody", {}, rows));
}
