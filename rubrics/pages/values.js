// Values of any shape: texts, messages, calls, lists, objects.

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isMessage = (value) => isObject(value) && typeof value.role === "string" && "content" in value;
const isCall = (value) => isObject(value) && typeof value.name === "string" && "arguments" in value && Object.keys(value).length <= 4;

function shown(value) {
  if (value === null || value === undefined) return el("span", { class: "soft" }, "none");
  if (typeof value === "string") return text(value);
  if (typeof value !== "object") return el("code", {}, String(value));
  if (Array.isArray(value)) return value.length && value.every(isMessage) ? chat({ messages: value }) : list(value);
  if (isCall(value)) return call(value);
  if (Array.isArray(value.messages) && value.messages.every(isObject)) return chat(value);
  return fields(value);
}

function text(words) {
  const parsed = /^\s*[[{]/.test(words) ? parsedJson(words) : undefined;
  if (parsed !== undefined) return el("pre", {}, JSON.stringify(parsed, null, 2));
  return el("p", { class: "said" }, words === "" ? el("span", { class: "soft" }, "(empty)") : words);
}

function parsedJson(words) {
  try {
    return JSON.parse(words);
  } catch {
    return undefined; // it only looks like JSON, and is shown as it is
  }
}

function list(values) {
  if (!values.length) return el("span", { class: "soft" }, "(none)");
  if (values.every((value) => typeof value !== "object" || value === null)) return el("code", {}, values.map(String).join(", "));
  return el("div", {}, values.map((value) => el("div", { class: "part" }, shown(value))));
}

const call = (value) =>
  el("div", { class: "call" }, el("code", { class: "name" }, value.name), isObject(value.arguments) ? fields(value.arguments) : shown(value.arguments));

function chat({ messages, content, ...rest }) {
  const said = messages.map((message) => {
    const { role, content: words, ...others } = message;
    return el("div", {}, el("p", { class: "role" }, [role, message.name].filter(Boolean).join(" ")), shown(words), extras(others, ["name", "tool_call_id"]));
  });
  return el("div", {}, said.length ? said : el("span", { class: "soft" }, "(no messages)"), extras(rest, []));
}

function extras(value, known) {
  const rest = Object.entries(value).filter(([key, item]) => !known.includes(key) && item !== null && item !== false);
  return rest.length ? fields(Object.fromEntries(rest)) : "";
}

function fields(value) {
  const { content, tool_calls: calls, ...rest } = value;
  if (Array.isArray(calls)) {
    return el("div", {}, content === null || content === undefined ? "" : shown(content), calls.map((each) => (isCall(each) ? call(each) : shown(each))), extras(rest, []));
  }
  const entries = Object.entries(value);
  if (!entries.length) return el("span", { class: "soft" }, "(empty)");
  return el("dl", {}, entries.flatMap(([key, item]) => [el("dt", {}, key), el("dd", {}, shown(item))]));
}

const part = (name, value) => el("div", { class: "part" }, el("h3", {}, name), shown(value));
