"""An episode as text for a judge: steps with their indexes, tool calls and results, within a token budget.

What does not fit is left out from the middle, and the text says so. Everything that comes from the run stands in
fences; the indexes, the kinds of the parts and what is said of the omissions do not, so that no tool output can forge a
step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from judges.fence import Pieces, as_text, plain_value
from judges.limits import BYTES_A_TOKEN, estimate_tokens
from judges.verdict import JudgeConfigError

_LEAST = 48  # tokens below which a value is not cut further; whole steps go instead
_FENCE = 26  # tokens of a fence without its value, by the same estimate

Part = tuple[str, str]
"""A heading, such as "tool call", and the text below it. Headings are ours: they stand outside the fences."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A rendered episode.

    Attributes:
        pieces: the text, for the filter `untrusted`.
        shown: the indexes of the steps that are in it.
        tokens: its size by the estimate.
    """

    pieces: Pieces
    shown: frozenset[int]
    tokens: int


def checked_budget(budget: Any, who: str) -> int:
    """A token budget, or JudgeConfigError."""
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 100:
        raise JudgeConfigError(f"{who}: token_budget is a whole number from 100, not {budget!r}")
    return budget


def transcript(steps: Sequence[tuple[Any, Any]], initial: Any = None, budget: int = 8000) -> Transcript:
    """Render an episode.

    Args:
        steps: (action, observation) of each step.
        initial: the observation before the first.
        budget: tokens by the estimate of `estimate_tokens`. Long values are cut first, the longest most; where that is
            not enough, steps from the middle are left out, and messages from the middle of a step that has very many.
            The beginning of the first step and the end of the last are always shown, also beyond the budget.

    Raises:
        PromptError: a value cannot be shown as text.
    """
    rows = [[] if initial is None else parts_of(initial, "observation")]
    rows += [[*parts_of(action, "action"), *parts_of(observation, "observation")] for action, observation in steps]
    sizes = [[estimate_tokens(text) for _, text in row] for row in rows]
    for tenths in range(10, 0, -1):  # what is said of omissions takes room that is known only afterwards
        found = _rendered(rows, sizes, budget * tenths // 10)
        if found.tokens <= budget:
            break
    return found


def _rendered(rows: Sequence[Sequence[Part]], sizes: Sequence[Sequence[int]], budget: int) -> Transcript:
    """The rows as text: what precedes the steps, and then each step."""
    cap = _cap(sizes, budget)
    cut = [[min(size, cap) + _FENCE for size in row] for row in sizes]
    kept = [list(range(len(row))) for row in cut]
    shown = list(range(len(rows) - 1))
    if sum(map(sum, cut)) > budget:
        ends = 3 if rows[0] else 2  # rows that are always there: what precedes the steps, the first and the last
        kept = [_from_both_ends(row, budget // ends) for row in cut]
        used = [sum(row[i] for i in places) for row, places in zip(cut, kept, strict=True)]
        shown = _from_both_ends(used[1:], budget - used[0])
    texts: list[tuple[bool, str]] = []
    if rows[0]:
        texts += [(False, "Before the first step:\n"), *_written(rows[0], kept[0], cap)]
    before = 0
    for step in shown:
        texts += [*_gap("Step", before, step), (False, f"Step {step}:\n")]
        texts += _written(rows[step + 1], kept[step + 1], cap)
        before = step + 1
    if len(rows) == 1:
        texts.append((False, "There are no steps.\n"))
    tokens = sum(estimate_tokens(text) + (_FENCE if fenced else 0) for fenced, text in texts)
    return Transcript(Pieces(texts), frozenset(shown), tokens)


def _cap(sizes: Sequence[Sequence[int]], budget: int) -> int:
    """The most tokens a value may have so that all fit, not below `_LEAST`."""
    flat = sorted(size for row in sizes for size in row)
    left = budget - _FENCE * len(flat)
    for i, size in enumerate(flat):
        if size * (len(flat) - i) > left:  # this value and the longer ones share what is left
            return max(left // (len(flat) - i), _LEAST)
        left -= size
    return max(flat[-1] if flat else 0, _LEAST)


def _from_both_ends(sizes: Sequence[int], budget: int) -> list[int]:
    """The indexes of what is shown: from both ends towards the middle, as many as fit, and both ends in any case."""
    count = len(sizes)
    chosen: list[int] = []
    for place in range(count):
        index = place // 2 if place % 2 == 0 else count - 1 - place // 2
        budget -= sizes[index]
        if budget < 0 and len(chosen) >= 2:
            break
        chosen.append(index)
    return sorted(chosen)


def _gap(what: str, first: int, end: int) -> list[tuple[bool, str]]:
    """What is said where those from `first` up to `end` are left out."""
    if first == end:
        return []
    if first == end - 1:
        return [(False, f"[{what} {first} is left out.]\n")]
    return [(False, f"[{what}s {first} to {end - 1} are left out.]\n")]


def _written(parts: Sequence[Part], kept: Sequence[int], cap: int) -> list[tuple[bool, str]]:
    texts: list[tuple[bool, str]] = []
    before = 0
    for i in kept:
        heading, text = parts[i]
        texts += [*_gap("Part", before, i), (False, f"{heading}:\n")]
        before = i + 1
        size = estimate_tokens(text)
        if size <= cap:
            texts += [(True, text), (False, "\n")]
            continue
        head, tail = _ends(text, int(cap * BYTES_A_TOKEN))
        texts += [
            (True, head),
            (False, f"\n[About {size - cap} tokens are left out here.]\n"),
            (True, tail),
            (False, "\n"),
        ]
    return texts


def _ends(text: str, size: int) -> tuple[str, str]:
    """The beginning and the end of a text, together `size` bytes of UTF-8 or a little less."""
    data = text.encode()
    half = size // 2
    return data[:half].decode("utf-8", "ignore"), data[len(data) - half :].decode("utf-8", "ignore")


_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MESSAGE = {"role", "content", "name", "tool_calls", "tool_call_id"}
_CHAT = {"messages", "done", "reward"}


def parts_of(value: Any, kind: str) -> list[Part]:
    """An action or observation as parts.

    Chat messages, tool calls and tool results are taken apart; anything else is one part, as text or JSON.

    Args:
        value: the action or observation.
        kind: `"action"` or `"observation"`, the heading of what has no better one.

    Raises:
        PromptError: it cannot be shown as text.
    """
    if value is None:
        return [(kind, "nothing")]
    plain = as_text(value) if isinstance(value, str) else plain_value(value)
    if isinstance(plain, dict) and (_is_message(plain) or isinstance(plain.get("tool_calls"), list)):
        return _message(plain, kind)
    messages = plain.get("messages") if isinstance(plain, dict) else plain
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        return [(kind, plain if isinstance(plain, str) else _compact(plain))]
    parts = [part for message in messages for part in _message(message, kind)]
    if isinstance(plain, dict):
        said = [_content(message.get("content")) for message in messages]
        again = {"content"} if plain.get("content") in (*said, "\n\n".join(said)) else set()
        parts += _rest(plain, _CHAT | again, kind)
    return parts


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.get("role") in _ROLES


def _message(message: Mapping[str, Any], kind: str) -> list[Part]:
    role, name, calls = message.get("role"), message.get("name"), message.get("tool_calls")
    result = role in ("tool", "function")
    heading = "tool result" if result else f"{kind}, {role}" if role in _ROLES else kind
    said = _content(message.get("content"))
    parts: list[Part] = []
    if said:
        parts.append((heading, f"{name}: {said}" if result and isinstance(name, str) else said))
    if isinstance(calls, list):
        parts += [("tool call", _call(call)) for call in calls]
        parts += _rest(message, _MESSAGE, kind)
    else:
        parts += _rest(message, _MESSAGE - {"tool_calls"}, kind)
    return parts or [(heading, "nothing")]


def _rest(fields: Mapping[str, Any], shown: Set[str], kind: str) -> list[Part]:
    """What else there is beside the fields that are shown otherwise."""
    left = {name: value for name, value in fields.items() if name not in shown and value not in (None, "", [], {})}
    return [(kind, _compact(left))] if left else []


def _content(content: Any) -> str:
    if isinstance(content, list):
        found = [part.get("text") if isinstance(part, dict) else part for part in content]
        texts = [text for text in found if isinstance(text, str)]
        if len(texts) == len(found):
            return "\n".join(texts)
    if content is None or isinstance(content, str):
        return content or ""
    return _compact(content)


def _call(call: Any) -> str:
    inner = call.get("function", call) if isinstance(call, dict) else call
    if isinstance(inner, dict) and isinstance(inner.get("name"), str):
        arguments = inner.get("arguments")
        return f"{inner['name']}({arguments if isinstance(arguments, str) else _compact(arguments)})"
    return _compact(call)


def _compact(value: Any) -> str:
    return as_text(json.dumps(value, ensure_ascii=False))
