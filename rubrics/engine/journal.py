"""What the nodes of a tree keep during an episode, and how a step that failed is undone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rubrics.score import Outcome

if TYPE_CHECKING:
    from rubrics.rubric import Rubric

Pair = tuple[Any, Any]


class Journal:
    """The trajectory of one episode, with what single nodes saw differently, remember and made of it.

    Attributes:
        actions, observations: of each step, the one in progress included. Two lists, since a pair for every step would
            keep the garbage collector busy in long episodes.
        inside: whether a step is in progress, so that changes can be undone.
        scores: what delayed nodes made of their trajectory, by id, in the run that ends the episode.
    """

    __slots__ = ("_kept", "_undo", "actions", "inside", "observations", "scores")

    def __init__(self) -> None:
        self.actions: list[Any] = []
        self.observations: list[Any] = []
        self.inside = False
        self.scores: dict[int, Outcome] = {}
        # Of single nodes, under (what, id): their "memory", and as delayed nodes the "calls" of them, the pairs that
        # they "saw" instead of a step's own, or the "list" that they keep themselves. Most episodes have none of these.
        self._kept: dict[tuple[str, int], Any] = {}
        self._undo: dict[Any, Callable[[], None]] = {}

    @property
    def pairs(self) -> list[Pair]:
        """(action, observation) of each step."""
        return list(zip(self.actions, self.observations, strict=True))

    def begin(self, action: Any, observation: Any) -> None:
        """A step is in progress."""
        self.actions.append(action)
        self.observations.append(observation)
        self.inside = True

    def drop(self) -> None:
        """The step in progress failed: all is as it was before it."""
        self.actions.pop()
        self.observations.pop()
        self.undo()

    def keep(self) -> None:
        """The step is done: its changes stay."""
        self.inside = False
        if self._undo:
            self._undo = {}

    def undo(self) -> None:
        """What nodes did since the last step is undone."""
        for undo in reversed(self._undo.values()):
            undo()
        self.scores.clear()  # they were all of this run: an episode ends once
        self.keep()

    def _to_undo(self, undo: Callable[[], None]) -> None:
        self._undo[len(self._undo)] = undo

    def memory_of(self, node: Rubric) -> dict[str, Any]:
        """A node's own dict. It is copied when a step first asks for it, so that a step that fails can put it back."""
        key = ("memory", id(node))
        known: tuple[Rubric, dict[str, Any]] | None = self._kept.get(key)
        if self.inside and key not in self._undo:
            self._undo[key] = _PutBack(self._kept, key, known and (node, _copied(known[1])))
        if known is None:
            known = self._kept[key] = (node, {})
        return known[1]

    def copy_of_memory(self, node: Rubric) -> dict[str, Any]:
        """A copy of a node's dict, for code that may be left behind."""
        return _copied(self.memory_of(node))

    def replace_memory(self, node: Rubric, memory: dict[str, Any]) -> None:
        """A node's dict is now like this one."""
        kept = self.memory_of(node)
        kept.clear()
        kept.update(memory)

    def pairs_of(self, node: Rubric) -> list[Pair]:
        """The pairs of a delayed node: what it was called with, else the step's own."""
        if not self._kept and node.sees == "steps":
            return self.pairs
        key = id(node)
        if ("list", key) in self._kept:
            return self._kept["list", key]  # type: ignore[no-any-return]
        if node.sees == "calls":
            return [(action, observation) for _, action, observation in self._kept.get(("calls", key), ())]
        saw = self._kept.get(("saw", key))
        if not saw:
            return self.pairs
        return [saw.get(t, pair) for t, pair in enumerate(self.pairs)]

    def steps_of(self, node: Rubric) -> list[int]:
        """The steps that those pairs belong to."""
        if node.sees == "calls" and ("list", id(node)) not in self._kept:
            return [t for t, _, _ in self._kept.get(("calls", id(node)), ())]
        return list(range(len(self.actions)))

    def saw(self, node: Rubric, action: Any, observation: Any) -> None:
        """A delayed node was called with this pair."""
        t = len(self.actions) - 1
        if node.sees == "calls":
            calls = self._kept.setdefault(("calls", id(node)), [])
            if calls and calls[-1][0] == t:
                calls[-1] = (t, action, observation)
            else:
                self._to_undo(_Shorten(calls))
                calls.append((t, action, observation))
            return
        if self.actions[t] is not action or self.observations[t] is not observation:
            saw = self._kept.setdefault(("saw", id(node)), {})
            self._to_undo(_PutBack(saw, t, saw.get(t)))
            saw[t] = (action, observation)

    def scored(self, node: Rubric, outcome: Outcome) -> None:
        """A delayed node scored its trajectory."""
        self.scores[id(node)] = outcome

    def score_of(self, node: Rubric) -> Outcome | None:
        """What a delayed node made of its trajectory; None where it was not asked."""
        return self.scores.get(id(node))

    def list_of(self, node: Rubric) -> list[Pair]:
        """The list that a delayed node with a `forward` of its own keeps (OpenEnv's habit)."""
        key = ("list", id(node))
        pairs: list[Pair] = self._kept.setdefault(key, [])
        if self.inside and key not in self._undo:
            self._undo[key] = _Shorten(pairs)
        return pairs

    def set_list(self, node: Rubric, pairs: list[Pair]) -> None:
        """The node assigned its `_trajectory`."""
        key = ("list", id(node))
        if self.inside:
            self._to_undo(_PutBack(self._kept, key, self._kept.get(key)))
        self._kept[key] = pairs


class _PutBack:
    """Puts back what a dict held under a key; None: nothing."""

    __slots__ = ("before", "kept", "key")

    def __init__(self, kept: dict[Any, Any], key: Any, before: Any) -> None:
        self.kept, self.key, self.before = kept, key, before

    def __call__(self) -> None:
        if self.before is None:
            self.kept.pop(self.key, None)
        else:
            self.kept[self.key] = self.before


class _Shorten:
    """Cuts a list back to the length it has now."""

    __slots__ = ("kept", "length")

    def __init__(self, kept: list[Any]) -> None:
        self.kept, self.length = kept, len(kept)

    def __call__(self) -> None:
        del self.kept[self.length :]


def _copied(memory: dict[str, Any]) -> dict[str, Any]:
    """A deep copy; a value that cannot be copied (a lock, a client) is kept as it is."""
    copied = {}
    for key, value in memory.items():
        try:
            copied[key] = copy.deepcopy(value)
        except Exception:  # deepcopy raises whatever the value's class raises
            copied[key] = value
    return copied
