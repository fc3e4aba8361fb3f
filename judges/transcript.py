"""An episode as text for a judge: steps with their indexes, tool calls and results, within a token budget.

What does not fit is left out from the middle, and the text says so. Everything that comes from the run stands in
fences; the indexes, the kinds of the parts and what is said of the omissions do not, so that no tool output can forge a
step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.fence import Pieces, as_text, plain_value
from judges.limits import BYTES_A_TOKEN, estimate_tokens

_LEAST = 48  # tokens below which a value is not cut further; whole steps go instead
_FENCE = 24  # tokens of a fence and its heading, by the same estimate

Part = tuple[str, str]
"""A heading, such as "tool call", and the text below it."""


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


def transcript(steps: Sequence[tuple[Any, Any]], initial: Any = None, budget: int = 8000) -> Transcript:
    """Render an episode.

    Args:
        steps: (action, observation) of each step.
        initial: the observation before the first.
        budget: tokens by the estimate of `estimate_tokens`. Long values are cut first, the longest most; where that is
            not enough, steps from the middle are left out. The first and the last step are always shown.

    Raises:
        PromptError: a value cannot be shown as text.
    """
    for left in _attempts(budget):
        found = _rendered(steps, initial, left)
        if found.tokens <= budget:
            break
    return found


def _attempts(budget: int) -> Iterator[int]:
    """Budgets for the values, ever smaller: what is said of omissions takes room that is known only afterwards."""
    for tenths in range(10, 1, -1):
        yield budget * tenths // 10


def _rendered(steps: Sequence[tuple[Any, Any]], initial: Any, budget: int) -> Transcript:
    opening = [] if initial is None else parts_of(initial, "observation")
    whole = [[*parts_of(action, "action"), *parts_of(observation, "observation")] for action, observation in steps]
    sizes = [[_size(part) for part in parts] for parts in [opening, *whole]]
    cap = _cap(sizes, budget)
    cut_sizes = [sum(min(size, cap + _FENCE) for size in row) for row in sizes]
    shown = _shown(cut_sizes, budget)
    texts: list[tuple[bool, str]] = []
    if opening:
        texts += [(False, "Before the first step:\n"), *_written(opening, cap)]
    left_out = 0
    for i, parts in enumerate(whole):
        if i not in shown:
            left_out += 1
            continue
        if left_out:
            texts.append((False, _gap(i - left_out, i - 1)))
            left_out = 0
        texts += [(False, f"Step {i}:\n"), *_written(parts, cap)]
    tokens = sum(estimate_tokens(text) + (_FENCE if fenced else 0) for fenced, text in texts)
    return Transcript(Pieces(texts), frozenset(shown), tokens)


def _gap(first: int, last: int) -> str:
    if first == last:
        return f"[Step {first} is left out.]\n"
    return f"[Steps {first} to {last} are left out.]\n"


def _size(part: Part) -> int:
    return estimate_tokens(part[1]) + _FENCE


def _cap(sizes: Sequence[Sequence[int]], budget: int) -> int:
    """The most tokens a value may have so that all fit, not below `_LEAST`."""
    flat = sorted(size - _FENCE for row in sizes for size in row)
    left = budget - _FENCE * len(flat)
    for i, size in enumerate(flat):
        if size * (len(flat) - i) > left:  # this value and the longer ones share what is left
            return max(left // (len(flat) - i), _LEAST)
        left -= size
    return max(flat[-1] if flat else 0, _LEAST)


def _shown(sizes: Sequence[int], budget: int) -> set[int]:
    """The steps that are shown: from both ends towards the middle, as many as fit. `sizes[0]` is what precedes them."""
    count = len(sizes) - 1
    left = budget - sizes[0]
    shown: set[int] = set()
    order = [i // 2 if i % 2 == 0 else count - 1 - i // 2 for i in range(count)]
    for step in order:
        left -= sizes[step + 1]
        if left < 0 and len(shown) >= 2:
            break
        shown.add(step)
    return shown


def _written(parts: Sequence[Part], cap: int) -> list[tuple[bool, str]]:
    texts: list[tuple[bool, str]] = []
    for heading, text in parts:
        texts.append((False, f"{heading}:\n"))
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


def parts_of(value: Any, kind: str) -> list[Part]:
    """An action or observation as parts.

    Chat messages, tool calls and tool results are taken apart; anything else is one part, as text or JSON.

    Args:
        value: the action or observation.
        kind: `"action"` or `"observation"`, the heading of what has no better one.
    """
    if value is None:
        return [(kind, "nothing")]
    plain = value if isinstance(value, str) else plain_value(value)
    if isinstance(plain, dict) and (isinstance(plain.get("role"), str) or isinstance(plain.get("tool_calls"), list)):
        return _message(plain, kind)
    messages = _messages(plain.get("messages") if isinstance(plain, dict) else plain)
    if messages:
        return [part for message in messages for part in _message(message, kind)]
    return [(kind, plain if isinstance(plain, str) else _compact(plain))]


def _messages(value: Any) -> list[dict[str, Any]]:
    """The chat messages that a value is a list of; empty where it is not."""
    if not isinstance(value, list):
        return []
    are = all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in value)
    return value if are else []


def _message(message: Mapping[str, Any], kind: str) -> list[Part]:
    role = message.get("role")
    heading = "tool result" if role in ("tool", "function") else f"{kind}, {role}" if role else kind
    name = message.get("name")
    content = _content(message.get("content"))
    parts: list[Part] = []
    if content:
        parts.append(
            (heading, f"{name}: {content}" if isinstance(name, str) and role in ("tool", "function") else content)
        )
    for call in message.get("tool_calls") or ():
        parts.append(("tool call", _call(call)))
    return parts or [(heading, "nothing")]


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
