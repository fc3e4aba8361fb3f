// What is shown: one suite at a time, named by the address.

const data = readJson("data");
let shownSuite = null;

function route() {
  const [kind, wanted] = location.hash.split("=", 2);
  const index = kind === "#suite" && Number(wanted) in data.suites ? Number(wanted) : 0;
  if (data.suites[index] === shownSuite) return;
  shownSuite = data.suites[index];
  for (const [i, button] of [...byId("suites").children].entries()) button.setAttribute("aria-pressed", String(i === index));
  showSuite(shownSuite);
  setUpCases(shownSuite);
}

function showSuites() {
  const said = Object.entries(data.outcomes).flatMap(([outcome, n]) => [el("span", { class: OUTCOME_TONES[outcome] }, `${count(n)} ${outcome}`), " "]);
  byId("runs").append(plural(data.suites.length, "suite"), said.length ? ": " : "", ...said);
  if (data.suites.length < 2) return;
  const mark = ({ decisions }) => ["FAIL", "INCONCLUSIVE", "PASS"].find((outcome) => decisions.some((each) => each.outcome === outcome));
  for (const [index, suite] of data.suites.entries()) {
    const found = mark(suite);
    byId("suites").append(
      el("button", { type: "button", "aria-pressed": "false", onclick: () => (location.hash = `suite=${index}`) }, found ? el("span", { class: OUTCOME_TONES[found] }, `${OUTCOME_MARKS[found]} `) : "", el("bdi", {}, suite.title)),
    );
  }
}

showSuites();
setUpFilters();
if (data.suites.length) {
  byId("all").hidden = false;
  window.addEventListener("hashchange", route);
  route();
}
