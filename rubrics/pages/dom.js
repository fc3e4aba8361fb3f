// Elements and numbers. Text that a page is given only ever becomes a text node: nothing here reads markup.

function el(tag, properties, ...children) {
  return filled(document.createElement(tag), properties, children);
}

function svg(tag, properties, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const byId = (id) => document.getElementById(id);

const readJson = (id) => {
  const block = byId(id);
  return block === null ? null : JSON.parse(block.textContent);
};

const MINUS = "\u2212";

function number(x) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  let text;
  if (Number.isInteger(x) && size < 1e6) text = String(x);
  else if (size !== 0 && (size < 5e-4 || size >= 1e6)) text = x.toExponential(2);
  else text = x.toFixed(3);
  return text.replace("-", MINUS);
}

function signed(x) {
  if (x === null || x === undefined) return "–";
  return x > 0 ? `+${number(x)}` : number(x);
}

const count = (n) => n.toLocaleString("en");
const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many ?? `${one}s`}`;

const tone = (x) => (x > 0 ? "up" : x < 0 ? "down" : "");
