// A long list is shown a page at a time.

const PAGE_ROWS = 100;

function pager(page, total, turn, size = PAGE_ROWS) {
  const pages = Math.ceil(total / size), from = page * size;
  if (pages < 2) return [];
  const button = (by, words) => el("button", { type: "button", disabled: page + by < 0 || page + by >= pages, onclick: () => turn(by) }, words);
  return [button(-1, "Previous"), `${count(from + 1)} – ${count(Math.min(from + size, total))} of ${count(total)}`, button(1, "Next")];
}
