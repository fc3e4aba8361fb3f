// One suite: its head, decisions, changes, pictures, biases and figures.

function showSuite(suite) {
  byId("title").replaceChildren(el("bdi", {}, suite.title));
  byId("facts").replaceChildren(...suite.facts.flatMap(([name, fact]) => [el("dt", {}, name), el("dd", {}, el("bdi", {}, fact))]));
  byId("notes").replaceChildren(...suite.notes.map((note) => el("li", { class: "warning" }, note)));
  byId("difference").hidden = !suite.difference;
  byId("difference").querySelector("pre").textContent = suite.difference;
  showCounts(suite);
  showDecisions(suite);
  showChanges(suite);
  showCharts(suite);
  showBias(suite);
  showFigures(suite);
}

function showCounts({ counts, cases, changes }) {
  const card = (status, n, name, kind) =>
    el("button", { type: "button", "data-status": status, "aria-pressed": "false", onclick: () => choose({ status: view.status === status ? "" : status }) }, el("span", { class: `number ${kind ?? ""}` }, count(n)), el("span", { class: "name" }, name));
  byId("counts").replaceChildren(
    ...Object.entries(counts).map(([status, n]) => card(status, n, status, STATUS_TONES[status])),
    ...(changes ? [card("changed", cases.filter((each) => each.was).length, "changed", "lost")] : []),
  );
}

const askedFor = ([least, most]) => [least !== null && `≥ ${short(least)}`, most !== null && `≤ ${short(most)}`].filter(Boolean).join(", ");

function showDecisions({ decisions }) {
  byId("decisions").hidden = !decisions.length;
  fill(
    byId("decisions"),
    [[""], ["figure"], ["asked"], ["estimate", "num"], ["95 % interval", "num"], ["", "minor"], ["n", "num minor"], ["", "minor"]],
    decisions.map(({ figure: each, outcome, reason, limits }) =>
      row([
        outcomeTag(outcome),
        el("bdi", { class: "path name" }, each.name),
        el("td", { class: "asked" }, askedFor(limits)),
        numeric(number(each.estimate)),
        numeric(bounds(each)),
        el("td", { class: "minor" }, intervalPicture(each, limits, outcome)),
        el("td", { class: "num minor" }, items(each)),
        el("td", { class: "minor soft reason" }, outcome === "PASS" ? "" : reason),
      ]),
    ),
  );
}

function showChanges({ changes }) {
  byId("changes").hidden = changes === null;
  if (changes === null) return;
  byId("changes").querySelector("div").replaceChildren(
    el("p", {}, el("b", {}, `${count(changes.changed)} of ${count(changes.compared)} verdicts changed`), `: ${count(changes.better)} are right now and were not, ${count(changes.worse)} were right and are not any more.`),
    el("p", { class: "about" }, `${changes.paired[0].toUpperCase()}${changes.paired.slice(1)}.`),
    ...changes.apart.map(([name, ids, n]) => el("p", { class: "about" }, `${plural(n, "row")} ${name}: `, el("bdi", { class: "path" }, ids.join(", ")), n > ids.length ? " …" : "")),
  );
}

function showCharts(suite) {
  const charts = [];
  if (suite.confusion) charts.push(confusionChart(suite.confusion, (gold, judged) => choose({ gold: JSON.stringify(gold), judged: JSON.stringify(judged), status: "" })));
  if (suite.points) charts.push(pointsChart(suite.points));
  if (suite.curve.length) charts.push(curveChart(suite.curve, suite.kind));
  if (suite.scores) charts.push(scoresChart(suite.scores));
  byId("charts").replaceChildren(...charts);
}

const BIASES = [
  ["first_position_rate", "position: how often the candidate that is shown first wins", "0.5 without a bias"],
  ["consistency", "position: the same verdict in both orders", "1 without a bias"],
  ["verbosity", "length: score and length, given the gold label", "0 without a bias"],
  ["self_agreement", "chance: two samples of a row agree", "1 without noise"],
  ["unanimity", "chance: all samples of a row agree", "1 without noise"],
];

function showBias({ figures, perturbations }) {
  const found = BIASES.flatMap(([name, words, ideal]) => figures.filter((each) => each.name === name).map((each) => ({ each, words, ideal })));
  byId("bias").hidden = !found.length && !perturbations.length;
  const cells = (each) => [numeric(number(each.estimate)), numeric(bounds(each)), el("td", { class: "minor" }, intervalPicture(each)), el("td", { class: "num minor" }, items(each)), el("td", { class: "num minor" }, number(each.detectable))];
  const measured = found.map(({ each, words, ideal }) => row([el("td", {}, words, el("span", { class: "soft" }, `; ${ideal}`)), ...cells(each), el("td", {}, each.why ?? "")]));
  const perturbed = perturbations.map((each) => {
    const lifted = each.lifted === null || !each.flipped ? "" : `, ${count(each.lifted)} lifted`;
    const lift = each.lift && el("div", { class: "soft minor" }, `mean lift ${signed(each.lift.estimate)}, 95 % interval ${bounds(each.lift)}`);
    const words = `${count(each.flipped)} of ${count(each.figure.n)} flipped${lifted}`;
    return row([
      el("td", {}, el("bdi", { class: "path" }, each.name), el("span", { class: "soft" }, ` ${each.description}`)),
      ...cells(each.figure),
      el("td", {}, each.flipped ? el("button", { type: "button", class: "link", onclick: () => choose({ flipped: each.name, status: "" }) }, words) : words, each.outcome ? [" ", outcomeTag(each.outcome)] : "", lift),
    ]);
  });
  fill(byId("bias"), [[""], ["estimate", "num"], ["95 % interval", "num"], ["", "minor"], ["n", "num minor"], ["finds from", "num minor"], ["", "reading"]], [...measured, ...perturbed]);
}

function showFigures({ figures, compared }) {
  const names = [["figure"], ["estimate", "num"], ["95 % interval", "num"], ["", "minor"], ["n", "num minor"], ...(compared ? [["baseline", "num"]] : []), ["", "minor"]];
  fill(
    byId("figures"),
    names,
    figures.map((each) =>
      row([
        el("bdi", { class: "path name" }, each.name),
        numeric(number(each.estimate)),
        numeric(bounds(each)),
        el("td", { class: "minor" }, intervalPicture(each)),
        el("td", { class: "num minor" }, items(each)),
        ...(compared ? [numeric("was" in each ? number(each.was) : el("span", { class: "zero" }, "same"))] : []),
        el("td", { class: "minor soft reason" }, each.why ?? ""),
      ]),
    ),
  );
}
