// Intervals, the confusion matrix, the reliability curve, and scores by gold label.

function intervalPicture({ estimate, low, high, span }, limits, outcome) {
  if (span === null || estimate === null) return "";
  const [from, to] = span;
  const x = (value) => 6 + ((Math.min(to, Math.max(from, value)) - from) / (to - from)) * 148;
  const inside = limits?.filter((limit) => limit !== null) ?? [];
  return svg(
    "svg",
    { class: `interval ${OUTCOME_TONES[outcome] ?? ""}`, viewBox: "0 0 160 18", role: "img", "aria-label": `${number(estimate)} on an axis from ${number(from)} to ${number(to)}` },
    svg("line", { class: "rail", x1: 6, x2: 154, y1: 9, y2: 9 }),
    from < 0 && svg("line", { class: "rail", x1: x(0), x2: x(0), y1: 5, y2: 13 }),
    inside.map((limit) => svg("line", { class: "limit", x1: x(limit), x2: x(limit), y1: 1, y2: 17 })),
    low !== null && high !== null && svg("line", { class: "range", x1: x(low), x2: x(high), y1: 9, y2: 9 }),
    svg("circle", { class: "point", cx: x(estimate), cy: 9, r: 3.5 }),
  );
}

const figure = (title, about, ...content) =>
  el("figure", { class: "chart" }, el("h2", {}, title), about && el("p", { class: "about" }, about), ...content);

function confusionChart({ labels, counts, unjudged }, choose) {
  const some = unjudged.some((n) => n > 0);
  const total = (i) => counts[i].reduce((sum, n) => sum + n, 0) + unjudged[i];
  const cell = (n, i, judged, right) => {
    const share = total(i) ? n / total(i) : 0;
    const button = el("button", { type: "button", onclick: () => choose(labels[i], judged) }, count(n));
    const found = el("td", { class: `cell ${n ? (right ? "right" : "wrong") : ""}`, title: `${Math.round(share * 100)} % of gold ${spoken(labels[i])}` }, n ? button : el("span", { class: "zero" }, "0"));
    found.style.setProperty("--heat", `${Math.round(8 + share * 62)}%`);
    return found;
  };
  const table = el(
    "table",
    { class: "confusion" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "gold ↓ judged →"), labels.map((each) => el("th", { scope: "col" }, label(each))), some && el("th", { scope: "col" }, "none"))),
    el("tbody", {}, labels.map((gold, i) => el("tr", {}, el("th", { scope: "row" }, label(gold)), counts[i].map((n, j) => cell(n, i, labels[j], i === j)), some && cell(unjudged[i], i, null, false)))),
  );
  return figure("Confusion matrix", "Answers. Shaded by their share of the gold label; choose a cell to see its rows.", el("div", { class: "wide" }, table));
}

const SQUARE = { size: 260, left: 42, bottom: 30, top: 8, right: 10 };

function square(low, high, across, up, text) {
  const { size, left, bottom, top, right } = SQUARE;
  const x = (value) => left + ((value - low) / (high - low)) * (size - left - right);
  const y = (value) => size - bottom - ((value - low) / (high - low)) * (size - top - bottom);
  const middle = (low + high) / 2;
  const picture = svg(
    "svg",
    { class: "square", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": text },
    svg("rect", { class: "ground", x: x(low), y: y(high), width: x(high) - x(low), height: y(low) - y(high) }),
    svg("line", { class: "diagonal", x1: x(low), y1: y(low), x2: x(high), y2: y(high) }),
    [low, middle, high].map((value) => svg("text", { x: x(value), y: size - bottom + 14, "text-anchor": value === low ? "start" : value === high ? "end" : "middle" }, short(value))),
    [low, middle, high].map((value) => svg("text", { x: left - 5, y: y(value) + (value === high ? 8 : value === low ? 0 : 4), "text-anchor": "end" }, short(value))),
    svg("text", { x: (x(low) + x(high)) / 2, y: size - 3, "text-anchor": "middle" }, across),
    svg("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(9 ${(y(low) + y(high)) / 2}) rotate(-90)` }, up),
  );
  return { picture, x, y };
}

function curveChart(bins, kind) {
  const { picture, x, y } = square(0, 1, "probability that was said", "share that came true", "Reliability curve");
  const line = bins.map(({ predicted, observed }, i) => `${i ? "L" : "M"}${x(predicted)} ${y(observed.estimate)}`).join("");
  picture.append(svg("path", { class: "curve", d: line }));
  const most = Math.max(...bins.map(({ observed }) => observed.n));
  for (const { low, high, predicted, observed } of bins) {
    picture.append(
      svg("line", { class: "range", x1: x(predicted), x2: x(predicted), y1: y(observed.low), y2: y(observed.high) }),
      svg(
        "circle",
        { class: "point", cx: x(predicted), cy: y(observed.estimate), r: 2.5 + 3.5 * Math.sqrt(observed.n / most) },
        svg("title", {}, `${number(low)} to ${number(high)}: ${number(predicted)} said, ${number(observed.estimate)} came true, n = ${observed.n}`),
      ),
    );
  }
  return figure("Reliability", "On the diagonal, what is called 80 % sure comes true in 80 of 100 answers. Larger points hold more answers.", picture);
}

function pointsChart({ low, high, of, points }) {
  const { picture, x, y } = square(low, high, "gold", "judged", "Golden and judged numbers");
  for (const [gold, judged] of points) picture.append(svg("circle", { class: "dot", cx: x(gold), cy: y(judged), r: 2.5 }));
  const some = points.length < of ? ` The first ${count(points.length)} of ${count(of)} are drawn.` : "";
  return figure("Gold and judged", `Each answer is a point; on the diagonal both are the same.${some}`, picture);
}

function scoresChart({ labels, bins, unjudged }) {
  const width = 420, height = 46;
  const rows = labels.map((gold, i) => {
    const most = Math.max(1, ...bins[i]), n = bins[i].reduce((sum, each) => sum + each, 0);
    const step = width / bins[i].length;
    const bars = bins[i].map((each, k) =>
      each ? svg("rect", { class: "bar", x: k * step + 1, width: step - 2, y: height - (each / most) * (height - 4), height: (each / most) * (height - 4) }, svg("title", {}, `${number(k / bins[i].length)} to ${number((k + 1) / bins[i].length)}: ${count(each)}`)) : "",
    );
    return el(
      "div",
      { class: "strip" },
      el("span", { class: "name" }, label(gold), el("small", {}, count(n), unjudged[i] ? ` + ${count(unjudged[i])} none` : "")),
      svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `Scores of gold ${spoken(gold)}` }, bars, svg("line", { class: "axis", x1: 0, x2: width, y1: height, y2: height })),
    );
  });
  return figure("Scores by gold label", "From 0 to 1, each row to its own height.", el("div", { class: "strips" }, rows, el("div", { class: "strip ends" }, el("span", {}), el("span", { class: "ends" }, el("span", {}, "0"), el("span", {}, "1")))));
}
