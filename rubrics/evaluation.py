"""The record of one run of a tree: what each node answered, why, how long it took and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from rubrics.score import Outcome, Score, Unscored

if TYPE_CHECKING:
    from rich.tree import Tree

Status = Literal["scored", "pending", "unscored", "skipped", "error"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls cost. Every attempt counts, failed ones too.

    Attributes:
        calls: requests sent.
        prompt_tokens, cached_tokens, completion_tokens, total_tokens: tokens, as the provider counted them.
        cost: US dollars; None where tokens were used whose price nobody knows. A sum with an unknown part is unknown.
    """

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        if other is NO_USAGE or self is NO_USAGE:
            return self if other is NO_USAGE else other
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.total_tokens + other.total_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
        )

    def __bool__(self) -> bool:
        return self != NO_USAGE

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {name: getattr(self, name) for name in _USAGE}


NO_USAGE = Usage()
_USAGE = [field.name for field in fields(Usage)]


class Evaluation:
    """One node of a run, with the nodes it called below it; the root stands for the whole run.

    Attributes:
        path: dotted path from the root, `""` for the root; two calls of one child by one parent are `x` and
            `x#2`.
        kind: class name of the node.
        status: `"scored"`, `"pending"`, `"unscored"`, `"skipped"` (never reached) or `"error"`.
        score: the score, or the intermediate reward of a pending node; else None.
        reason: why, in words; for an error its type and message.
        metadata: what the node added.
        duration: seconds, children included; 0 where the record is a repetition.
        own_usage: what this node itself spent; :attr:`usage` adds the nodes below it.
        children: the nodes it called, in order, and those it skipped.
    """

    __slots__ = ("children", "duration", "kind", "metadata", "own_usage", "path", "reason", "score", "status")

    def __init__(
        self,
        path: str = "",
        kind: str = "",
        status: Status = "skipped",
        score: float | None = None,
        reason: str | None = None,
        metadata: dict[str, Any] | None = None,
        duration: float = 0.0,
        own_usage: Usage = NO_USAGE,
        children: list[Evaluation] | None = None,
    ) -> None:
        self.path = path
        self.kind = kind
        self.status: Status = status
        self.score = score
        self.reason = reason
        self.metadata: dict[str, Any] = {} if metadata is None else metadata
        self.duration = duration
        self.own_usage = own_usage
        self.children: list[Evaluation] = [] if children is None else children

    @property
    def name(self) -> str:
        """The last part of the path; `""` for the root."""
        return self.path.rpartition(".")[2]

    @property
    def usage(self) -> Usage:
        """Usage summed over this node and all below it."""
        total = self.own_usage
        for child in self.children:
            total = total + child.usage
        return total

    @property
    def outcome(self) -> Outcome | None:
        """The outcome as the engine passes it on; None where there is none (skipped, error)."""
        if self.status == "unscored":
            return Unscored(self.reason, self.metadata)
        if self.score is None:
            return None
        pending = self.status == "pending"
        if pending or self.reason is not None or self.metadata:
            return Score(self.score, self.reason, self.metadata, pending)
        return self.score

    def settle(self, outcome: Outcome) -> None:
        """Write an outcome into the record."""
        if outcome.__class__ is float:
            self.status = "scored"
            self.score = outcome
            return
        explained: Any = outcome
        self.reason = explained.reason
        if explained.metadata:
            self.metadata = dict(explained.metadata)
        if isinstance(outcome, Unscored):
            self.status = "unscored"
        else:
            self.status = "pending" if explained.pending else "scored"
            self.score = float(explained)

    def fail(self, error: BaseException) -> None:
        """Write an exception into the record."""
        self.status = "error"
        self.score = None
        self.reason = f"{type(error).__name__}: {error}"

    def repeat(self, path: str) -> Evaluation:
        """This record at another path, for a node that was not run again: nothing is timed or billed twice."""
        children = [child.repeat(path + child.path[len(self.path) :]) for child in self.children]
        return Evaluation(
            path, self.kind, self.status, self.score, self.reason, dict(self.metadata), 0.0, NO_USAGE, children
        )

    def __getitem__(self, path: str) -> Evaluation:
        """The node at a dotted path below this one.

        Raises:
            KeyError: there is none; the message lists the paths there are.
        """
        target = f"{self.path}.{path}" if self.path else path
        for node in self.nodes():
            if node.path == target and node is not self:
                return node
        known = ", ".join(repr(node.path) for node in self.nodes() if node is not self) or "none"
        raise KeyError(f"no node {target!r} in this evaluation; its nodes: {known}")

    def __contains__(self, path: object) -> bool:
        target = f"{self.path}.{path}" if self.path else path
        return any(node.path == target for node in self.nodes() if node is not self)

    def nodes(self) -> Iterator[Evaluation]:
        """This node and all below it, depth first."""
        yield self
        for child in self.children:
            yield from child.nodes()

    def flatten(self) -> dict[str, float | None]:
        """The score of every node by path, the root under `""`; None where a node has none."""
        return {node.path: node.score for node in self.nodes()}

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `from_dict` reads back exactly; `usage` is the node's own."""
        return {
            "path": self.path,
            "kind": self.kind,
            "status": self.status,
            "score": self.score,
            "reason": self.reason,
            "metadata": dict(self.metadata),
            "duration": self.duration,
            "usage": self.own_usage.to_dict() if self.own_usage else None,
            "children": [child.to_dict() for child in self.children],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evaluation:
        """The evaluation that `to_dict` wrote."""
        return cls(
            path=data["path"],
            kind=data["kind"],
            status=data["status"],
            score=data["score"],
            reason=data["reason"],
            metadata=dict(data["metadata"]),
            duration=data["duration"],
            own_usage=Usage(**data["usage"]) if data["usage"] else NO_USAGE,
            children=[cls.from_dict(child) for child in data["children"]],
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Evaluation):
            return NotImplemented
        return all(getattr(self, slot) == getattr(other, slot) for slot in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Evaluation {self.label()} nodes={sum(1 for _ in self.nodes())}>"

    def _why(self) -> str:
        return f"  {_visible(self.reason)}" if self.reason else ""

    def label(self) -> str:
        """One line: name, kind, score or status."""
        answer = self.status if self.score is None else f"{self.score:.4g}"
        if self.status == "pending":
            answer += " (pending)"
        name = _visible(self.name)
        return f"{name}: {self.kind} = {answer}" if name else f"{self.kind} = {answer}"

    def __str__(self) -> str:
        lines: list[str] = []

        def draw(node: Evaluation, first: str, rest: str) -> None:
            lines.append(f"{first}{node.label()}{node._why()}")
            for i, child in enumerate(node.children):
                last = i == len(node.children) - 1
                draw(child, rest + ("└── " if last else "├── "), rest + ("    " if last else "│   "))

        draw(self, "", "")
        return "\n".join(lines)

    def tree(self) -> Tree:
        """A tree for a terminal (`rich.print(evaluation)` does the same); texts of nodes are never read as markup."""
        from rich.text import Text
        from rich.tree import Tree

        style = {"scored": "green", "pending": "yellow", "unscored": "magenta", "skipped": "dim", "error": "bold red"}

        def draw(node: Evaluation, into: Tree | None) -> Tree:
            text = Text(node.label(), style=style[node.status])
            text.append(node._why(), style="dim")
            branch = Tree(text) if into is None else into.add(text)
            for child in node.children:
                draw(child, branch)
            return branch

        return draw(self, None)

    def __rich__(self) -> Tree:
        return self.tree()


def _visible(text: str) -> str:
    """Text of nodes for a terminal: control characters are spelled out, so that they cannot move the cursor."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def evaluation_of(error: BaseException) -> Evaluation | None:
    """What was recorded of the run that raised this exception, where one was recorded; None otherwise."""
    found = getattr(error, "_rubrics_evaluation", None)
    return found if isinstance(found, Evaluation) else None
