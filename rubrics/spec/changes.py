"""What differs between two trees, in words."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rubrics.fingerprinting import fingerprints
from rubrics.rubric import Rubric
from rubrics.spec.documents import SpecError
from rubrics.spec.held import held_of
from rubrics.spec.kinds import KindError, custom, kind_of
from rubrics.spec.writing import Writer

What = Literal["added", "removed", "replaced", "moved", "changed"]


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One difference between two trees.

    Attributes:
        path: of the node, in the second tree; in the first, where the node is gone. The root's is `""`.
        what: `added`, `removed`, `replaced` (by a node of another kind), `moved` (the same node under another path),
            `changed` (an argument, or the source of the class).
        text: in words.
    """

    path: str
    what: What
    text: str

    def __str__(self) -> str:
        return f"{self.path or 'the root'}: {self.text}"


def spec_changes(before: Rubric, after: Rubric) -> list[SpecChange]:
    """What differs between two trees, node by node; none for trees with one fingerprint."""
    old, new = fingerprints(before), fingerprints(after)
    if old[""] == new[""]:
        return []
    was, now = dict(_nodes(before)), dict(_nodes(after))
    gone, came = [path for path in was if path not in now], [path for path in now if path not in was]
    changes: list[SpecChange] = []
    moved: dict[str, str] = {}
    for path in came:
        source = next((other for other in gone if old[other] == new[path] and other not in moved.values()), None)
        if source is not None:
            moved[path] = source
    for path in now:
        if path in moved:
            if not _below(path, moved) or not _below(moved[path], dict.fromkeys(moved.values(), "")):
                changes.append(SpecChange(path, "moved", f"it was {moved[path]}"))
        elif path not in was:
            if not _below(path, dict.fromkeys(came, "")):
                changes.append(SpecChange(path, "added", f"added, a {_called(now[path])}"))
        else:
            changes += _changed(path, was[path], now[path], old[path] != new[path])
    left = [path for path in gone if path not in moved.values()]
    changes += [
        SpecChange(path, "removed", f"removed, a {_called(was[path])}")
        for path in left
        if not _below(path, dict.fromkeys(left, ""))
    ]
    return changes


def _nodes(tree: Rubric) -> list[tuple[str, Rubric]]:
    return [("", tree), *tree.named_rubrics()]


def _below(path: str, others: Mapping[str, str]) -> bool:
    """Whether one of the others is above a path."""
    parts = path.split(".")
    return any(".".join(parts[:end]) in others for end in range(1, len(parts)))


def _called(node: Rubric) -> str:
    said = " ".join(node.extra_repr().split())
    return type(node).__name__ + (f"({said})" if 0 < len(said) <= 80 else "")


def _changed(path: str, was: Rubric, now: Rubric, differs: bool) -> list[SpecChange]:
    if type(was).__qualname__ != type(now).__qualname__:
        return [SpecChange(path, "replaced", f"{_called(was)} became {_called(now)}")]
    if not differs:
        return []
    old, new = _own_arguments(was), _own_arguments(now)
    if old is None or new is None:
        return [SpecChange(path, "changed", "its arguments cannot be told apart, and its fingerprint is another")]
    texts = [text for name in {**old, **new} for text in _told(name, old.get(name), new.get(name))]
    same_below = {name for name, _ in was.named_children()} == {name for name, _ in now.named_children()}
    if not texts and same_below and list(dict(was.named_children())) != list(dict(now.named_children())):
        texts = [f"the order of its children was {', '.join(dict(was.named_children()))}"]
    below = any(a != b for a, b in zip(_keys(was), _keys(now), strict=False)) or len(_keys(was)) != len(_keys(now))
    if not texts and not below:
        texts = ["the source of its class, or what it keeps beside its arguments, changed"]
    return [SpecChange(path, "changed", text) for text in texts]


def _keys(node: Rubric) -> list[tuple[str, str]]:
    return [(name, fingerprints(child)[""]) for name, child in node.named_children()]


def _own_arguments(node: Rubric) -> dict[str, Any] | None:
    """The arguments of a node as data, without its children; None where they cannot be read."""
    writer = Writer(node)
    try:
        kind = kind_of(type(node)) or custom("", type(node))
        return {name: writer.value(value) for name, value in kind.arguments(node).items() if not _holds_nodes(value)}
    except (SpecError, KindError):
        return None


def _holds_nodes(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_nodes, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_nodes, value))
    return isinstance(value, Rubric) and held_of(value) is not None


def _told(name: str, was: Any, now: Any) -> list[str]:
    if was == now:
        return []
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        return [text for key in {**was, **now} for text in _told(f"{name}.{key}", was.get(key), now.get(key))]
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return [text for i, (a, b) in enumerate(zip(was, now, strict=True)) for text in _told(f"{name}[{i}]", a, b)]
    if isinstance(was, str) and isinstance(now, str) and ("\n" in was + now or len(was + now) > 120):
        lines = difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=0)
        return [f"{name} changed:\n" + "\n".join(f"    {line}" for line in list(lines)[2:])]
    if was is None:
        return [f"{name} {_said(now)} is new"]
    if now is None:
        return [f"{name} {_said(was)} is gone"]
    return [f"{name} {_said(was)} → {_said(now)}"]


def _said(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
