"""What a tree is and needs, for people: in words, as Mermaid, as SVG."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from rubrics.fingerprinting import fingerprint
from rubrics.rubric import Rubric
from rubrics.shown import printable

_LONGEST = 90  # characters of a node's arguments that are shown


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be there before a tree can score.

    Attributes:
        models: that its judges ask, and the paths of the judges; under `""` those that name no model.
        extras: of this package, such as `text` of `rubrics[text]`, and the paths of the nodes that need them.
        live_state: the paths of the nodes that cannot be scored again from a recording.
        delayed: the paths of the nodes that score a whole episode.
        asynchronous: whether a call of the tree must be awaited.
    """

    models: dict[str, list[str]]
    extras: dict[str, list[str]]
    live_state: list[str]
    delayed: list[str]
    asynchronous: bool


def needs(tree: Rubric) -> Needs:
    """What must be there before a tree can score."""
    models: dict[str, list[str]] = {}
    extras: dict[str, list[str]] = {}
    live, delayed = [], []
    for path, node in [("", tree), *tree.named_rubrics()]:
        path = path or "the root"
        for model in _models(node):
            models.setdefault(model, []).append(path)
        if extra := getattr(node, "extra", None):
            extras.setdefault(extra, []).append(path)
        if node.needs_live_state:
            live.append(path)
        if hasattr(node, "score_trajectory"):
            delayed.append(path)
    return Needs(models, extras, live, delayed, tree.is_async_tree)


def _models(node: Any) -> list[str]:
    """The models that a node asks. Judges are known by what they have: this package does not import them."""
    judge = getattr(node, "judge", None)
    found: dict[str, None] = {}
    for each in getattr(judge, "judges", [judge]):
        asker = getattr(each, "asker", None)
        if asker is not None:
            found[asker.named_model or ""] = None
    return list(found)


def described(tree: Rubric, width: int = 110, color: bool = False) -> str:
    """A tree in words: its nodes, its fingerprint, and what it needs."""
    console = _console(width, color)
    console.print(_drawn(tree))
    found = needs(tree)
    nodes = 1 + len(list(tree.named_rubrics()))
    console.print(f"\nfingerprint  {fingerprint(tree)}")
    console.print(f"nodes        {nodes}{', called with await' if found.asynchronous else ''}")
    low, high = tree.range
    console.print(f"range        {low:g} to {high:g}")
    for model, paths in found.models.items():
        console.print(escape(f"model        {model or 'none named: set JUDGE_MODEL'} ({_listed(paths)})"))
    for extra, paths in found.extras.items():
        console.print(escape(f"extra        pip install 'rubrics[{extra}]' ({_listed(paths)})"))
    if found.live_state:
        console.print(escape(f"live state   {_listed(found.live_state)}: cannot be scored again from a recording"))
    if found.delayed:
        console.print(escape(f"delayed      {_listed(found.delayed)}: scored at the end of an episode"))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def mermaid(tree: Rubric) -> str:
    """A tree as a Mermaid flow chart; a weight stands at the edge to its node."""
    lines = ["flowchart TD"]
    numbers: dict[int, int] = {}

    def draw(node: Rubric, label: str) -> int:
        known = id(node) in numbers
        number = numbers.setdefault(id(node), len(numbers))
        if known:
            return number
        lines.append(f'    n{number}["{_quoted(label)}"]')
        weights = _weights(node)
        for name, child in node.named_children():
            below = draw(child, _label(name, child))
            edge = f"-->|{weights[name]:g}|" if name in weights else "-->"
            lines.append(f"    n{number} {edge} n{below}")
        return number

    draw(tree, _label("", tree))
    return "\n".join(lines) + "\n"


def svg(tree: Rubric, title: str = "rubric", width: int = 100) -> str:
    """A tree as an SVG picture."""
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor", emoji=False
    )
    console.print(_drawn(tree))
    picture = console.export_svg(title=printable(title), unique_id="rubric")
    # The fonts that rich asks for are on a server; a picture of docs should not fetch anything.
    return re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", picture, flags=re.DOTALL)


def _console(width: int, color: bool) -> Console:
    return Console(
        width=width,
        file=io.StringIO(),
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,  # :x: in a pattern is a text
    )


def _drawn(tree: Rubric) -> Tree:
    met: set[int] = set()

    def draw(node: Rubric, name: str, weight: float | None, into: Tree | None) -> Tree:
        said = f"[bold]{escape(_line(name))}[/bold] " if name else ""
        weighed = "" if weight is None else f"[cyan]{weight:g}[/cyan] × "
        again = id(node) in met
        arguments = "" if again else _arguments(node)
        text = f"{weighed}{said}{type(node).__name__}{escape(f'({arguments})' if arguments else '')}"
        branch = Tree(text) if into is None else into.add(f"{text} [dim](the same node)[/dim]" if again else text)
        if not again:
            met.add(id(node))
            weights = _weights(node)
            for below, child in node.named_children():
                draw(child, below, weights.get(below), branch)
        return branch

    return draw(tree, "", None, None)


def _weights(node: Any) -> dict[str, float]:
    weights = getattr(node, "weights", None)
    names = [name for name, _ in node.named_children()]
    return dict(zip(names, weights, strict=True)) if isinstance(weights, list) and len(weights) == len(names) else {}


def _arguments(node: Rubric) -> str:
    said = printable(" ".join(node.extra_repr().split()))
    if _weights(node):  # they stand at the children
        said = ", ".join(part for part in said.split(", ") if part.partition("=")[0] in ("normalize", "on_unscored"))
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"


def _label(name: str, node: Rubric) -> str:
    arguments = _arguments(node)
    kind = type(node).__name__ + (f"({arguments})" if arguments else "")
    return f"{name}: {kind}" if name else kind


def _quoted(text: str) -> str:
    """A text in a Mermaid label: its own marks are entities there."""
    marks = {"&": "amp", '"': "quot", "<": "lt", ">": "gt", "#": "35", "%": "37", "`": "96"}
    return "".join(f"#{marks[mark]};" if mark in marks else mark for mark in _line(text))


def _line(text: str) -> str:
    return printable(text).replace("\n", " ")


def _listed(paths: list[str], most: int = 5) -> str:
    return ", ".join(paths[:most]) + (f" and {len(paths) - most} more" if len(paths) > most else "")
