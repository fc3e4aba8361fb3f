// The head of the page, the counts, the charts, and the tables of nodes and groups.

const MARKS = { up: "▲", down: "▼", newly_unscored: "∅", newly_scored: "✓" };
const TONES = { up: "up", down: "down", newly_unscored: "lost", newly_scored: "lost", other_content: "lost" };
const wayName = (way) => (way === "unscored" ? "unscored in both" : way.replaceAll("_", " "));
const wayTag = (way) =>
  el("span", { class: `tag ${TONES[way] ?? ""}` }, MARKS[way] && el("span", { class: "mark" }, MARKS[way]), el("span", { class: "word" }, ` ${wayName(way)}`));

function showHead() {
  const { old, new: now, recorded } = data;
  const name = (run) => el("b", {}, run.name);
  byId("runs").append(
    ...(recorded
      ? ["The rewards that were recorded, against those of ", name(now)]
      : [name(old), " → ", name(now)]),
    `, ${plural(data.rows.id.length, "trajectory", "trajectories")}`,
  );
  const note = (words, warning) => byId("notes").append(el("li", { class: warning ? "warning" : "" }, words));
  if (data.same_rubric === true && !recorded) {
    note("Both runs are of the same rubric (its fingerprint is equal).");
  }
  if (data.unstable) {
    note(`The same tree gave another number: ${plural(data.unstable, "reward")} moved although nothing in the rubric did.`, true);
  }
  const shaky = data.nodes.filter((node) => node.unstable && !node.only && node.path in now.judges);
  if (shaky.length && !data.unstable) {
    const list = shaky.map((node) => `${nodeName(node.path)} (${count(node.unstable)} of ${count(node.n)})`).join(", ");
    note(`The same judge gave another number: ${list}.`, true);
  }
  if (data.changed_judges.length) {
    note(`These judges differ in prompt, scale, model or sampling: ${data.changed_judges.map(nodeName).join(", ")}.`);
  }
  for (const run of recorded ? [now] : [old, now]) {
    if (run.unreadable) note(`${plural(run.unreadable, "record")} of ${run.name} could not be read, and ${run.unreadable === 1 ? "is" : "are"} not compared.`, true);
    if (Object.keys(run.rubrics).length > 1) note(`The rows of ${run.name} are of ${Object.keys(run.rubrics).length} different rubrics.`, true);
  }
  if (data.counts.other_content) {
    note(`${plural(data.counts.other_content, "id")} stand for other trajectories in the new run than in the old; these are not compared.`, true);
  }
}

const nodeName = (path) => path || "(root)";

function showCounts() {
  for (const way of data.ways) {
    if (!data.counts[way] && !["up", "down", "unchanged"].includes(way)) continue;
    byId("counts").append(
      el(
        "button",
        { type: "button", "data-way": way, "aria-pressed": "false", onclick: () => toggle("way", way) },
        el("span", { class: `number ${TONES[way] ?? ""}` }, MARKS[way] ? `${MARKS[way]} ` : "", count(data.counts[way])),
        el("span", { class: "name" }, wayName(way)),
      ),
    );
  }
}

function showCharts() {
  const { rows, reward } = data;
  const present = (column) => column.filter((value) => value !== null);
  const way = Object.fromEntries(data.ways.map((name, index) => [name, index]));
  const differences = [];
  rows.way.forEach((kind, i) => {
    if (kind === way.up || kind === way.down) differences.push(rows.new[i] - rows.old[i]);
  });
  const olds = present(rows.old), news = present(rows.new);
  if (olds.length + news.length) {
    byId("charts").append(rewardChart(olds, news, data.recorded ? "recorded" : "old", "new"));
    byId("charts").append(differenceChart(differences, data.counts.unchanged));
  }
  if (reward.n) {
    const between = reward.low === null ? "" : ` (95 % between ${signed(reward.low)} and ${signed(reward.high)})`;
    byId("charts").firstChild.insertBefore(
      el(
        "p",
        { class: "about" },
        `Mean of the ${count(reward.n)} that have both: ${number(reward.old)} → ${number(reward.new)}, `,
        el("b", { class: tone(reward.difference) }, signed(reward.difference)),
        between,
      ),
      byId("charts").firstChild.children[1],
    );
  }
}

const amount = (n, kind) => el("td", { class: `num ${n ? kind : "zero"}` }, n ? count(n) : "0");
const sum = (counts) => Object.values(counts).reduce((total, n) => total + n, 0);
const spelled = (counts) => Object.entries(counts).map(([status, n]) => `${count(n)} ${status}`).join(", ");

function showNodes() {
  const nodes = data.nodes.filter((node) => !(data.recorded && node.only === "new"));
  const missing = data.recorded ? data.nodes.filter((node) => node.only === "new").length : 0;
  byId("nodes-about").append(
    data.recorded
      ? `The recorded parts of the reward beside the nodes of the same names. ${plural(missing, "node")} without a recorded part are left out.`
      : "Each node at the last step, or at every step where both runs recorded all of them. Means are over what was scored in both.",
    " Choose a node to see the trajectories in which it changed.",
  );
  if (!nodes.length) {
    byId("nodes").hidden = true;
    return;
  }
  const means = nodes.flatMap((node) => [node.old_mean, node.new_mean]).filter((mean) => mean !== null);
  const [low, high] = range([...means, 0, 1]);
  const table = byId("nodes").querySelector("table");
  const heads = ["node", "mean", "", "difference", "n", "up", "down", "same", "newly unscored", "newly scored", ""];
  const minor = new Set([2, 7, 9]);
  table.append(
    el("thead", {}, el("tr", {}, heads.map((head, i) => el("th", { class: `${i && i !== 2 && i < 10 ? "num" : ""} ${minor.has(i) ? "minor" : ""}`, scope: "col" }, head)))),
    el("tbody", {}, nodes.map((node) => nodeRow(node, low, high))),
  );
}

function nodeRow(node, low, high) {
  const lost = sum(node.newly_unscored), gained = sum(node.newly_scored);
  const depth = node.path === "" ? 0 : Math.min(6, node.path.split(".").length);
  const notes = [
    node.only && (node.only === "old" ? "removed" : "added"),
    !node.only && node.unstable > 0 && `${count(node.unstable)} unstable`,
  ].filter(Boolean);
  const index = data.nodes.indexOf(node);
  const both = node.n > 0;
  const only = node.only !== null;
  return el(
    "tr",
    { "data-node": index },
    el("td", {}, el("span", { class: `node-name nest-${depth}` }, el("button", { class: "link path", type: "button", onclick: () => toggle("node", String(index), true) }, node.path.split(".").pop() || "(root)"), el("span", { class: "soft" }, ` ${node.kind}`))),
    el("td", { class: "num" }, both ? `${number(node.old_mean)} → ${number(node.new_mean)}` : "–"),
    el("td", { class: "minor" }, both ? dumbbell(node.old_mean, node.new_mean, low, high) : ""),
    el("td", { class: `num ${tone(node.difference) || "zero"}` }, both ? signed(node.difference) : "–"),
    amount(node.n, ""),
    amount(node.up, "up"),
    amount(node.down, "down"),
    el("td", { class: "num minor" }, count(node.unchanged)),
    el("td", { class: `num ${lost && !only ? "lost" : "zero"}`, title: only ? "" : spelled(node.newly_unscored) }, only ? "–" : count(lost)),
    el("td", { class: `num minor ${gained && !only ? "lost" : "zero"}`, title: only ? "" : spelled(node.newly_scored) }, only ? "–" : count(gained)),
    el("td", {}, notes.map((note) => el("span", { class: "tag lost" }, note))),
  );
}

const GROUPS_SHOWN = 8;

function showGroups() {
  const groups = data.groups;
  if (!groups.length) return;
  byId("groups").hidden = false;
  const total = (name) => groups.reduce((sum, group) => sum + Number(group[name]), 0);
  const flat = total("old_flat") === total("new_flat") ? "as before" : `${count(total("old_flat"))} before`;
  byId("groups-about").append(
    `${plural(groups.length, "group")} of at least two rollouts that have both rewards. Of ${plural(total("pairs"), "pair")}, ${count(total("discordant"))} changed their order, ` +
      `${count(total("tied"))} became equal and ${count(total("untied"))} are no longer. The best rollout changed in ${plural(total("best_changed"), "group")}. All rewards are equal in ${plural(total("new_flat"), "group")}, ${flat}.`,
  );
  const share = (group) => group.discordant / group.pairs;
  const ranked = [...groups].sort((a, b) => share(b) - share(a) || b.tied + b.untied - a.tied - a.untied);
  const heads = ["group", "rollouts", "order changed", "became equal", "no longer equal", "tau", "mean", "best"];
  const minor = new Set([3, 4, 6]);
  const row = (group) =>
    el(
      "tr",
      {},
      el("td", {}, el("button", { class: "link path", type: "button", onclick: () => toggle("group", group.group, true) }, group.group)),
      amount(group.n, ""),
      el("td", { class: `num ${group.discordant ? "" : "zero"}` }, `${count(group.discordant)} of ${count(group.pairs)}`),
      el("td", { class: `num minor ${group.tied ? "" : "zero"}` }, count(group.tied)),
      el("td", { class: `num minor ${group.untied ? "" : "zero"}` }, count(group.untied)),
      el("td", { class: "num" }, group.tau === null ? "–" : group.tau.toFixed(2).replace("-", MINUS)),
      el("td", { class: "num minor" }, `${number(group.old_mean)} → ${number(group.new_mean)}`),
      el("td", {}, group.best_changed ? el("span", { class: "tag lost" }, "changed") : ""),
    );
  const body = el("tbody", {}, ranked.slice(0, GROUPS_SHOWN).map(row));
  const table = byId("groups").querySelector("table");
  table.append(el("thead", {}, el("tr", {}, heads.map((head, i) => el("th", { scope: "col", class: `${i && i < 7 ? "num" : ""} ${minor.has(i) ? "minor" : ""}` }, head)))), body);
  let shown = GROUPS_SHOWN;
  if (ranked.length > shown) {
    const more = el("button", { type: "button" }, "Show more groups");
    more.addEventListener("click", () => {
      body.append(...ranked.slice(shown, shown + 100).map(row));
      shown += 100;
      if (shown >= ranked.length) more.remove();
    });
    byId("groups").append(more);
  }
}
