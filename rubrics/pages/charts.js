// Histograms: an axis from the least to the greatest value, and bins that say what is in them.

const BINS = 24;
const CHART = { width: 560, height: 190, left: 6, right: 6, top: 14, bottom: 22 };

function histogram(values, low, high, bins = BINS) {
  const counts = new Array(bins).fill(0);
  for (const value of values) counts[Math.min(bins - 1, Math.floor(((value - low) / (high - low)) * bins))] += 1;
  return counts;
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low < high ? [low, high] : [low - 0.5, high + 0.5];
}

function frame(low, high, highest, label) {
  const { width, height, left, right, top, bottom } = CHART;
  const x = (bin, bins = BINS) => left + (bin / bins) * (width - left - right);
  const y = (n) => height - bottom - (n / Math.max(highest, 1)) * (height - top - bottom);
  const text = (at, anchor, words) => svg("text", { x: at, y: height - 6, "text-anchor": anchor }, words);
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    svg("line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }),
    text(left, "start", number(low)),
    text(width / 2, "middle", number((low + high) / 2)),
    text(width - right, "end", number(high)),
    svg("text", { x: width - right, y: 10, "text-anchor": "end" }, `at most ${count(highest)}`),
  );
  return { picture, x, y };
}

function hovers(picture, x, low, high, words) {
  const { height, top, bottom } = CHART;
  for (let bin = 0; bin < BINS; bin++) {
    const from = low + (bin / BINS) * (high - low), to = low + ((bin + 1) / BINS) * (high - low);
    picture.append(
      svg(
        "rect",
        { class: "hover", x: x(bin), width: x(bin + 1) - x(bin), y: top, height: height - top - bottom },
        svg("title", {}, `${number(from)} to ${number(to)}: ${words(bin)}`),
      ),
    );
  }
}
