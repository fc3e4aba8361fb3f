// One trajectory: its steps beside its tree, with the scores, reasons and judges' replies of both runs.

let chosenStep = 0;
let brief = false; // only the nodes that changed

function openTrajectory(i) {
  const id = data.rows.id[i];
  location.hash = id.isWellFormed() ? `trajectory=${encodeURIComponent(id)}` : `row=${i}`; // half a surrogate pair
}

function showTrajectory(i) {
  const { rows } = data;
  const found = readJson(`detail-${i}`);
  const place = view.found.indexOf(i);
  const go = (by, words, key) => {
    const next = place < 0 ? undefined : view.found[place + by];
    return el("button", { type: "button", disabled: next === undefined, "aria-keyshortcuts": key, title: `key ${key}`, "data-key": key, onclick: () => openTrajectory(next) }, words);
  };
  const way = data.ways[rows.way[i]];
  const facts = [
    groupOf(i) && `group ${groupOf(i)}`,
    plural(rows.steps[i], "step"),
    found?.end && `ended: ${found.end}`,
    found?.source,
  ].filter(Boolean);
  const main = byId("one");
  main.replaceChildren(
    el(
      "div",
      { class: "bar" },
      el("button", { type: "button", "data-key": "Escape", onclick: () => (location.hash = "") }, "← All trajectories"),
      el("span", { class: "rest" }),
      go(-1, "Previous", "k"),
      go(1, "Next", "j"),
    ),
    el("h1", { class: "path" }, idName(i)),
    el(
      "p",
      { class: "moved" },
      el("span", { class: "was" }, scoreOr(rows.old[i], rows.oldStatus[i])),
      "→",
      el("span", {}, scoreOr(rows.new[i], rows.newStatus[i])),
      difference(i) ? el("span", { class: tone(difference(i)) }, signed(difference(i))) : "",
      wayTag(way),
    ),
    el("p", { class: "facts" }, facts.map((fact) => el("span", {}, fact))),
  );
  if (found === null) {
    main.append(el("section", { class: "panel" }, el("p", {}, "The steps and trees of this trajectory are not in this page, which holds those that moved most. More of them are written with --details.")));
    return;
  }
  for (const [side, reason] of Object.entries(found.reasons ?? {})) {
    if (reason) main.append(el("p", { class: `why ${side === "old" ? "was" : "is"}` }, el("b", {}, side), reason));
  }
  const tree = el("section", { class: "panel side", "aria-label": "Tree", tabindex: "0" });
  const steps = el("section", { class: "column", "aria-label": "Steps" });
  main.append(el("div", { class: "two" }, steps, tree));
  steps.append(...stepCards(found, tree));
  chosenStep = firstStirred(found.records);
  showRecord(found, tree);
}

const stirs = (node) => {
  const before = node.old?.score ?? null, after = node.new?.score ?? null;
  return node.old && node.new && (before === null || after === null ? before !== after : Math.abs(before - after) > 1e-9);
};

// The last step at which a leaf moved, else the last.
function firstStirred(records) {
  for (let index = records.length - 1; index >= 0; index--) if (records[index].nodes.some(stirs)) return index;
  return records.length - 1;
}

function stepCards(found, tree) {
  if (!found.steps) {
    return [el("section", { class: "panel" }, el("h2", {}, "Steps"), el("p", { class: "about" }, `The steps are not shown: ${found.why}. Their files are given with --trajectories.`))];
  }
  const cards = [];
  const opening = [["Task", found.task], ["First observation", found.initial]].filter(([, value]) => value !== null);
  if (opening.length) cards.push(el("article", { class: "step" }, opening.map(([name, value]) => part(name, value))));
  let last = 0;
  for (const step of found.steps) {
    if (step.step > last + 1) cards.push(el("p", { class: "gap" }, `${plural(step.step - last - 1, "step")} left out`));
    last = step.step;
    const record = found.records.findIndex((each) => each.step === step.step);
    const name = `Step ${step.step}`;
    cards.push(
      el(
        "article",
        { class: "step", "data-step": step.step },
        el(
          "header",
          {},
          record < 0
            ? el("span", { class: "name" }, name)
            : el("button", { type: "button", class: "link name", title: "show the tree of this step", onclick: () => { chosenStep = record; showRecord(found, tree); } }, name),
          step.reward === null ? "" : el("span", { class: "soft" }, `recorded reward ${number(step.reward)}`),
        ),
        part("Action", step.action),
        part("Observation", step.observation),
      ),
    );
  }
  return cards;
}

// --- the tree ---

function showRecord(found, tree) {
  const { records } = found;
  const only = el("input", { type: "checkbox", checked: brief, onchange: () => { brief = only.checked; showRecord(found, tree); } });
  tree.replaceChildren(el("header", {}, el("h2", {}, "Tree"), el("label", {}, only, "only what changed")));
  if (!records.length) {
    tree.append(el("p", { class: "about" }, "Neither run holds a record of this trajectory."));
    return;
  }
  const record = records[chosenStep];
  if (records.length > 1) {
    const button = (each, index) =>
      el("button", { type: "button", "aria-pressed": String(index === chosenStep), class: each.nodes.some(stirs) ? "stirred" : "", onclick: () => { chosenStep = index; showRecord(found, tree); } }, each.step ?? each.label);
    tree.append(el("div", { class: "steps-nav", role: "group", "aria-label": "Steps that have a record" }, records.map(button)));
  } else {
    tree.append(el("p", { class: "about" }, record.label === "Last step" ? "At the last step, the only one that is recorded." : record.label));
  }
  tree.append(el("ul", { class: brief ? "record brief" : "record" }, record.nodes.map(nodeItem)));
  for (const card of document.querySelectorAll(".step[data-step]")) card.classList.toggle("chosen", record.step !== null && card.dataset.step === String(record.step));
}

function nodeItem(node) {
  const { old, new: now } = node;
  const reasons = old?.reason === now?.reason ? [["", now?.reason]] : [["old", old?.reason], ["new", now?.reason]];
  return el(
    "li",
    { class: `nest-${Math.min(6, node.depth)} ${stirs(node) ? "" : "still"}` },
    el(
      "div",
      { class: "head" },
      el("span", {}, el("span", { class: "path" }, node.name || "(root)"), el("span", { class: "kind" }, node.kind)),
      el("span", { class: "scores" }, scores(old, now)),
    ),
    reasons.map(([side, reason]) => (reason ? el("p", { class: `why ${side === "old" ? "was" : side === "new" ? "is" : ""}` }, side && el("b", {}, side), reason) : "")),
    replies(old?.metadata, now?.metadata),
  );
}

function scores(old, now) {
  const said = (side) => (side.status === "scored" ? number(side.score) : side.score === null ? side.status : `${number(side.score)} (${side.status})`);
  if (!old || !now) return el("span", { class: "soft" }, old ? `${said(old)} (old only)` : said(now ?? old));
  if (!stirs({ old, new: now }) && old.status === now.status) return el("span", {}, said(now));
  const by = old.score === null || now.score === null ? "lost" : tone(now.score - old.score);
  return [el("span", { class: "soft" }, `${said(old)} → `), el("b", { class: by }, said(now))];
}

function replies(old, now) {
  const sides = [["old", old], ["new", now]].filter(([, metadata]) => metadata);
  if (!sides.length) return "";
  const same = sides.length === 2 && JSON.stringify(old) === JSON.stringify(now);
  const blocks = (same ? sides.slice(1) : sides).map(([side, { reply, ...rest }]) =>
    el("div", { class: "part" }, same ? "" : el("h3", {}, side), reply === undefined ? "" : text(String(reply)), Object.keys(rest).length ? fields(rest) : ""),
  );
  const judged = sides.some(([, metadata]) => "reply" in metadata);
  return el("details", {}, el("summary", {}, judged ? "Judge’s reply" : "More"), blocks);
}
