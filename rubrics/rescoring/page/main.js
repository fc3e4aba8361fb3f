// What is shown, and what keys do.

const data = readJson("data");
let scrolled = 0;

function route() {
  const [kind, wanted] = location.hash.split("=", 2);
  const index = kind === "#trajectory" ? data.rows.id.indexOf(decoded(wanted)) : kind === "#row" ? Number(wanted) : -1;
  const inside = index in data.rows.id;
  if (inside && byId("one").hidden) scrolled = window.scrollY;
  byId("all").hidden = inside;
  byId("one").hidden = !inside;
  if (inside) {
    showTrajectory(index);
    window.scrollTo(0, 0);
    byId("one").focus({ preventScroll: true });
  } else {
    byId("one").replaceChildren();
    window.scrollTo(0, scrolled);
  }
}

function decoded(words) {
  try {
    return decodeURIComponent(words);
  } catch {
    return null; // somebody's own address: no trajectory is called like this
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const button = [...byId("one").querySelectorAll("button[data-key]")].find((each) => each.dataset.key === event.key);
  if (button && !button.disabled) {
    event.preventDefault();
    button.click();
  }
});

showHead();
showCounts();
showCharts();
showNodes();
showGroups();
setUpTable();
window.addEventListener("hashchange", route);
route();
