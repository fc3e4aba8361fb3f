"""A tree compiled for running: one `Place` for each place in the tree, and what the tree as a whole needs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rubrics.node import is_initialised
from rubrics.score import Outcome, StructureError

if TYPE_CHECKING:
    from rubrics.rubric import Rubric

SyncCall: TypeAlias = "Callable[[Any, Any, list[Outcome | None]], Outcome]"
AsyncCall: TypeAlias = "Callable[[Any, Any, list[Outcome | None]], Coroutine[Any, Any, Outcome]]"

LEAF, CONTAINER, CUSTOM, DELAYED, HOLDER = "leaf", "container", "custom", "delayed", "holder"

tick = count(1).__next__
LATEST = [0]  # the stamp of the plan that ran last; not the plan, which would keep its tree alive


class Place:
    """One place in the tree; a node used twice has two places and one index.

    Attributes:
        node, path, name, index: the node, where it is, and its number among the distinct nodes.
        kind: leaf, container, custom (a forward that calls children), delayed, or holder (RubricList, RubricDict).
        is_async: whether this node or any below it is async.
        delays: whether this node or any below it is delayed.
        remembered: whether its outcome is kept for the rest of the step.
    """

    __slots__ = (
        "children",
        "custom",
        "delays",
        "descendants",
        "index",
        "is_async",
        "kind",
        "kind_name",
        "name",
        "node",
        "path",
        "remembered",
        "runs",
    )

    def __init__(self, node: Rubric, path: str, index: int) -> None:
        self.node = node
        self.path = path
        self.name = path.rpartition(".")[2]
        self.index = index
        self.kind: str = node._kind()
        self.kind_name = type(node).__name__
        self.custom = self.kind == CUSTOM
        self.children: list[Place] = []
        self.is_async = node._own_async()
        self.delays = node._is_delayed()
        self.remembered = False
        self.descendants: dict[int, Place] = {}
        self.runs: dict[tuple[str, bool], Any] = {}

    def who(self) -> str:
        """How messages name this node."""
        return f"{self.path} ({self.kind_name})" if self.path else f"{self.kind_name} (root)"

    def __iter__(self) -> Iterator[Place]:
        yield self
        for child in self.children:
            yield from child


class Plan:
    """A compiled tree.

    Attributes:
        root: the place of the root.
        size: distinct nodes.
        paths: where nodes are, and their numbers, as (path, index); a node used twice is at two places.
        is_async: whether a call of the root returns a coroutine.
        stateful: whether the tree keeps state between steps (nodes that are delayed, observe, or use their memory).
        nests: whether nodes can be called from within a forward.
        repeats: whether a node is at several places, so that its outcome does not say at which of them it was reached.
        tells_by_outcomes: whether the outcomes of a run say by themselves what a record of it would: nothing is async,
            so that there is no cost, nothing is nested, so that there are no calls but those of the structure, and
            nothing repeats.
        remembers: whether outcomes are kept during a step.
        overlaps: whether a node is in another tree too.
        threaded: whether parts of it run in worker threads on any loop.
        delayed: nodes that judge the whole trajectory.
        observers: places of nodes with an `observe`.
        self_stateful: nodes that keep state on themselves (they override `reset`).
        blank: the outcomes of a run that has not begun.
        hooked: whether the root has hooks.
        plain: whether a step is no more than a call of the root: nothing is async, observes or keeps state on itself.
        only_pays: whether a step before the last only pays the root's intermediate reward.
        last, stamp: outcomes of the latest run that was finished, and when that was.
    """

    def __init__(self, root: Rubric, previous: Plan | None = None) -> None:
        self.by_node: dict[int, list[Place]] = {}
        self.root = self._place(root, "")
        self.size = len(self.by_node)
        places = list(self.root)
        self.paths = [(place.path, place.index) for place in places]
        nodes = [group[0].node for group in self.by_node.values()]
        self.is_async = self.root.is_async
        self.delays = self.root.delays
        self.delayed = [node for node in nodes if node._is_delayed()]
        self.observers = [group[0] for group in self.by_node.values() if group[0].node._observes()]
        self.self_stateful = [node for node in nodes if node._keeps_state()]
        self.plain = not (self.is_async or self.observers or self.self_stateful)
        self.stateful = self.delays or bool(self.observers) or any(node._remembers for node in nodes)
        self.nests = any(place.custom for place in places)
        self.repeats = len(places) > self.size
        self.tells_by_outcomes = not (self.nests or self.is_async or self.repeats)
        self._mark_remembered(self.root, under_custom=False)
        self.remembers = any(place.remembered for place in places)
        self.threaded = any(getattr(place.node, "around", None) is not None for place in places)
        self.blank: list[Outcome | None] = [None] * self.size
        self.last = self.blank
        self.hooked = bool(root._forward_hooks or root._forward_pre_hooks)
        self.only_pays = self.root.kind == DELAYED and not self.hooked
        self.stamp = -1
        self.overlaps = False
        for group in self.by_node.values():
            homes = group[0].node._homes
            homes[:] = [home for home in homes if home[0]() not in (None, previous)]
            for other in (ref() for ref, _ in homes):
                if other is not None and other.root.node is not root:  # then a node must be told whose run it is in
                    self.overlaps = other.overlaps = True
                    other.root.node._set(_call=None)
            homes.append((weakref.ref(self), group[0].index))
        if previous is not None:  # what nodes answered last stays known
            self.stamp = previous.stamp
            self.last = [
                previous.last[previous.by_node[key][0].index] if key in previous.by_node else None
                for key in self.by_node
            ]

    def _place(self, node: Rubric, path: str) -> Place:
        if not is_initialised(node):
            raise StructureError(f"{type(node).__name__}.__init__ must call super().__init__() before anything else")
        node._validate_structure()
        group = self.by_node.setdefault(id(node), [])
        place = Place(node, path, group[0].index if group else len(self.by_node) - 1)
        group.append(place)
        for name, child in node._rubric_children.items():
            below = self._place(child, f"{path}.{name}" if path else name)
            place.children.append(below)
            place.is_async = place.is_async or below.is_async
            place.delays = place.delays or below.delays
            place.descendants.setdefault(id(child), below)
        for below in place.children:
            for key, deeper in below.descendants.items():
                place.descendants.setdefault(key, deeper)
        return place

    def _mark_remembered(self, place: Place, under_custom: bool) -> None:
        shared = len(self.by_node[id(place.node)]) > 1
        rescored = self.delays and place.kind in (LEAF, CUSTOM) and not place.delays
        place.remembered = shared or under_custom or rescored
        for child in place.children:
            self._mark_remembered(child, under_custom or place.custom)

    def finished(self, last: list[Outcome | None]) -> None:
        """Make a run's outcomes the latest ones (a copy, which does not hold on to the run)."""
        self.last = last.copy()
        if LATEST[0] != self.stamp:
            self.note_latest()

    def note_latest(self) -> None:
        """Nodes that are in several trees answer `last_score` from the one that ran last."""
        LATEST[0] = self.stamp = tick()


class Layers(NamedTuple):
    """What a driver makes of the kinds of nodes, and what it wraps around them; each gives a closure for a place."""

    leaf: Callable[[Place], Any]
    container: Callable[[Place, bool], Any]
    custom: Callable[[Place], Any]
    delayed: Callable[[Place], Any]
    hooked: Callable[[Place, Any], Any]
    recorded: Callable[[Place, Any], Any]
    remembered: Callable[[Place, Any], Any]


def layered(place: Place, recording: bool, driver: str, layers: Layers) -> Any:
    """The closure of a place: what its kind does, in hooks, a recorder and a memo where it needs them."""
    call = place.runs.get((driver, recording))
    if call is None:
        if place.kind == CONTAINER:
            call = layers.container(place, recording)
        elif place.kind == DELAYED:
            call = layers.delayed(place)
        elif place.kind == CUSTOM:
            call = layers.custom(place)
        else:
            call = layers.leaf(place)
        if place.node._forward_pre_hooks or place.node._forward_hooks:
            call = layers.hooked(place, call)
        if recording:
            call = layers.recorded(place, call)
        if place.remembered:
            call = layers.remembered(place, call)
        place.runs[driver, recording] = call
    return call
