// Two histograms: the rewards of both runs, and how far each trajectory moved.

function rewardChart(olds, news, oldName, newName) {
  const [low, high] = range([...olds, ...news]);
  const before = histogram(olds, low, high), after = histogram(news, low, high);
  const { picture, x, y } = frame(low, high, Math.max(...before, ...after), "Histogram of the rewards, old and new");
  let line = `M${x(0)} ${y(0)}`;
  for (let bin = 0; bin < BINS; bin++) {
    if (before[bin]) {
      picture.append(svg("rect", { class: "bar-old", x: x(bin) + 1, width: x(1) - x(0) - 2, y: y(before[bin]), height: y(0) - y(before[bin]) }));
    }
    line += `L${x(bin)} ${y(after[bin])}L${x(bin + 1)} ${y(after[bin])}`;
  }
  line += `L${x(BINS)} ${y(0)}`;
  picture.append(svg("path", { class: "bar-new", d: line }), svg("path", { class: "step-new", d: line }));
  hovers(picture, x, low, high, (bin) => `${count(before[bin])} old, ${count(after[bin])} new`);
  return el(
    "figure",
    { class: "chart" },
    el("h2", {}, "Rewards"),
    el(
      "p",
      { class: "keys" },
      el("span", { class: "key" }, el("i", { class: "old" }), `${oldName}, ${count(olds.length)}`),
      el("span", { class: "key" }, el("i", { class: "new" }), `${newName}, ${count(news.length)}`),
    ),
    picture,
  );
}

function differenceChart(differences, unchanged) {
  const furthest = differences.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const counts = histogram(differences, -furthest, furthest);
  const highest = Math.max(...counts);
  const { picture, x, y } = frame(-furthest, furthest, highest, "Histogram of the differences, new minus old");
  counts.forEach((n, bin) => {
    if (n === 0) return;
    const shape = { x: x(bin) + 1, width: x(1) - x(0) - 2, y: y(n), height: y(0) - y(n) };
    picture.append(svg("rect", { class: bin < BINS / 2 ? "bar-down" : "bar-up", rx: 1.5, ...shape }));
  });
  picture.append(svg("line", { class: "axis", x1: x(BINS / 2), x2: x(BINS / 2), y1: y(highest), y2: y(0) }));
  hovers(picture, x, -furthest, furthest, (bin) => plural(counts[bin], "trajectory", "trajectories"));
  return el(
    "figure",
    { class: "chart" },
    el("h2", {}, "New minus old"),
    el("p", { class: "about" }, `The ${count(differences.length)} that moved; ${count(unchanged)} unchanged are not drawn.`),
    picture,
  );
}

function dumbbell(old, now, low, high) {
  const x = (value) => 7 + ((value - low) / (high - low)) * 106;
  return svg(
    "svg",
    { class: "dumbbell", viewBox: "0 0 120 16", "aria-hidden": "true" },
    svg("line", { class: "rail", x1: 7, x2: 113, y1: 8, y2: 8 }),
    svg("line", { class: "between", x1: x(old), x2: x(now), y1: 8, y2: 8 }),
    svg("circle", { class: "was", cx: x(old), cy: 8, r: 4 }),
    svg("circle", { class: "is", cx: x(now), cy: 8, r: 4 }),
  );
}
