// The rows: found by status, tag, label, perturbation or text, and shown with what was said of them.

const CASES_SHOWN = 20;
const FILTERS = ["text", "status", "tag", "gold", "judged", "flipped"];
const APART = "apart"; // all that do not agree
const view = { cases: [], found: [], page: 0, text: "", status: "", tag: "", gold: "", judged: "", flipped: "" };

const saidOf = (each) => (each.answers ?? []).map((answer) => JSON.stringify(answer.label ?? null));
const words = (value) => (value !== null && typeof value === "object" ? Object.values(value).map(words).join("\n") : String(value ?? ""));

function setUpCases(suite) {
  view.cases = suite.cases;
  view.texts = null; // put together when somebody searches
  const { cases } = suite;
  const distinct = (values) => [...new Set(values)];
  const statuses = data.statuses.filter((status) => suite.counts[status]);
  const apart = statuses.some((status) => status !== "agrees");
  options("status", [[APART, "does not agree"], ...statuses.map((status) => [status, status]), ...(suite.changes ? [["changed", "changed since the baseline"]] : [])]);
  options("tag", distinct(cases.flatMap((each) => each.tags ?? [])).sort().map((tag) => [tag, tag]));
  const labelled = (values) => (shownSuite.kind !== "rankings" && values.length <= 20 ? values.sort().map((each) => [each, spoken(JSON.parse(each))]) : []);
  options("gold", labelled(distinct(cases.map((each) => JSON.stringify(each.gold)))));
  options("judged", labelled(distinct(cases.flatMap(saidOf))));
  options("flipped", suite.perturbations.map(({ name }) => [name, name]));
  for (const name of FILTERS) view[name] = byId(name).value = "";
  view.status = byId("status").value = apart ? APART : "";
  view.note = [
    suite.cut && `${plural(suite.cut, "long text is cut", "long texts are cut")}, with a note in each.`,
    suite.left_out && `${plural(suite.left_out, "row")} would have made this page too large.`,
  ].filter(Boolean).join(" ");
  filter();
}

function options(name, found) {
  byId(name).replaceChildren(el("option", { value: "" }, "any"), ...found.map(([value, said]) => el("option", { value }, said)));
  byId(name).parentElement.hidden = !found.length;
}

function setUpFilters() {
  for (const name of FILTERS) byId(name).addEventListener(name === "text" ? "input" : "change", readFilters);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(readFilters));
}

function readFilters() {
  for (const name of FILTERS) view[name] = byId(name).value;
  filter();
}

// Somebody chose a count, a cell or a perturbation elsewhere on the page.
function choose(wanted) {
  for (const name of FILTERS) byId(name).value = wanted[name] ?? "";
  readFilters();
  byId("cases").scrollIntoView({ block: "start" });
}

function filter() {
  const text = view.text.toLowerCase();
  if (text && view.texts === null) view.texts = view.cases.map((each) => words(each).toLowerCase());
  const status = (each) =>
    view.status === "" || (view.status === APART ? each.status !== "agrees" : view.status === "changed" ? each.was : each.status === view.status);
  view.found = view.cases.filter(
    (each, i) =>
      status(each) &&
      (!view.tag || each.tags?.includes(view.tag)) &&
      (!view.gold || JSON.stringify(each.gold) === view.gold) &&
      (!view.judged || saidOf(each).includes(view.judged)) &&
      (!view.flipped || each.flips?.some(({ name }) => name === view.flipped)) &&
      (!text || view.texts[i].includes(text)),
  );
  view.page = 0;
  showCases();
  for (const button of byId("counts").children) button.setAttribute("aria-pressed", String(button.dataset.status === view.status));
}

function showCases() {
  const from = view.page * CASES_SHOWN;
  byId("list").replaceChildren(...view.found.slice(from, from + CASES_SHOWN).map(caseCard));
  const all = view.cases.length;
  const said = view.found.length === all ? `All ${count(all)}.` : `${count(view.found.length)} of ${count(all)}.`;
  byId("found").textContent = `${said} ${view.note}`.trim();
  byId("pages").replaceChildren(...pager(view.page, view.found.length, turnPage, CASES_SHOWN));
}

function turnPage(by) {
  view.page += by;
  showCases();
  byId("cases").scrollIntoView({ block: "start" });
}

function caseCard(each) {
  const { inputs = {}, answers = [] } = each;
  const pair = shownSuite.kind === "pairs" && "a" in inputs && "b" in inputs;
  const ranked = shownSuite.kind === "rankings" && inputs.candidates;
  const { a, b, candidates, ...others } = inputs;
  const rest = pair ? others : ranked ? others : inputs;
  const facts = [each.place, each.source, each.must && "must agree", ...(each.tags ?? [])].filter(Boolean);
  const replies = el("div", { class: "column" }, answers.map((answer) => answerCard(each, answer, answers.length > 1)), each.flips ? flipped(each.flips) : "", people(each));
  return el(
    "article",
    { class: "panel case", "data-id": each.id },
    el("header", {}, el("h3", { class: "path" }, el("bdi", {}, each.id.trim() || "(no id)")), statusTag(each.status), each.was ? el("span", { class: "tag lost" }, "changed") : ""),
    el("p", { class: "facts" }, facts.map((fact) => el("bdi", {}, fact))),
    el("p", { class: "verdict" }, "gold ", el("b", {}, label(each.gold)), ranked ? "" : [", judged ", judgedWords(answers)]),
    pair && el("div", { class: "two" }, candidate("a", a, each.gold), candidate("b", b, each.gold)),
    ranked && ranking(each, candidates, answers),
    Object.keys(rest).length ? el("div", { class: "two" }, el("div", { class: "column" }, Object.entries(rest).map(([name, value]) => part(name, value))), replies) : replies,
  );
}

function judgedWords(answers) {
  if (!answers.length) return "nothing";
  const said = answers.map((answer) => [answer.order === "swapped" ? "swapped: " : "", verdictOf(answer)]);
  return said.length > 6 ? `${answers.length} times` : said.flatMap((each, i) => (i ? [", ", ...each] : each));
}

const verdictOf = (answer) => (answer.failure ? el("span", { class: "lost" }, `no verdict (${answer.failure})`) : "label" in answer ? el("b", {}, label(answer.label)) : el("span", { class: "lost" }, "abstains"));

const candidate = (name, value, gold) =>
  el("section", { class: `candidate ${gold === name ? "gold" : ""}` }, el("h3", {}, name, gold === name ? " · gold" : ""), shown(value));

function ranking({ gold }, candidates, answers) {
  const names = Array.isArray(candidates) ? candidates.map((_, i) => i) : Object.keys(candidates);
  const place = (name) => gold.findIndex((each) => String(each) === String(name)) + 1 || "–";
  const grade = (answer, i) => (Array.isArray(answer.label) ? number(answer.label[i]) : "–");
  const rows = names.map((name, i) => row([el("bdi", { class: "path" }, String(name)), numeric(String(place(name))), ...answers.slice(0, 6).map((answer) => numeric(grade(answer, i))), shown(candidates[name])]));
  return el("div", { class: "wide" }, el("table", {}, head([["candidate"], ["gold place", "num"], ...answers.slice(0, 6).map(() => ["grade", "num"]), [""]]), el("tbody", {}, rows)));
}

function answerCard(each, answer, several) {
  const was = each.was?.find(({ order }) => order === answer.order);
  const name = [answer.order === "swapped" ? "swapped" : several && "as given", answer.sample ? `sample ${answer.sample}` : ""].filter(Boolean).join(", ");
  const said = Array.isArray(answer.label) ? "" : verdictOf(answer);
  const score = answer.score === undefined || typeof answer.label === "boolean" ? "" : el("span", { class: "soft" }, ` score ${number(answer.score)}`);
  return el(
    "section",
    { class: "answer" },
    el("p", {}, name && el("span", { class: "soft" }, `${name}: `), said, score, was ? el("span", { class: "soft" }, ", was ", was.failure ? `no verdict (${was.failure})` : label(was.label)) : ""),
    answer.probabilities && el("p", { class: "soft" }, answer.probabilities.map(([of, p], i) => [i ? ", " : "", label(of), ` ${number(p)}`])),
    answer.reason && why("", answer.reason),
    was?.reason && why("was", was.reason),
    answer.message && why("", answer.message),
    answer.reply && el("details", {}, el("summary", {}, "Reply"), text(answer.reply)),
  );
}

const why = (side, said) => el("p", { class: `why ${side}`, dir: "auto" }, side && el("b", {}, side), said);

const flipped = (flips) =>
  el("section", { class: "answer" }, flips.map(({ name, order, before, after, failure, changed }) =>
    el("details", {}, el("summary", {}, el("bdi", { class: "path" }, name), order === "swapped" ? " (swapped)" : "", ": ", label(before), " → ", failure ? `no verdict (${failure})` : label(after)), changed === undefined ? "" : text(changed))));

function people({ people: said }) {
  if (!said) return "";
  const named = Array.isArray(said) ? said.map((each, i) => [`person ${i + 1}`, each]) : Object.entries(said);
  return el("p", { class: "facts" }, named.map(([name, each]) => el("span", {}, el("bdi", {}, name), ": ", label(each))));
}
