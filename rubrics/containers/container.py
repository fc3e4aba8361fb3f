"""`Container`: the base of combinators, and what they share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar, TypeAlias

from rubrics.engine.frames import FRAME
from rubrics.engine.loop import in_thread
from rubrics.engine.plan import CONTAINER, CUSTOM
from rubrics.engine.sync import swallowed
from rubrics.node import has_class_forward, is_ours
from rubrics.rubric import Rubric
from rubrics.score import Outcome, Score, StructureError, Unscored, is_pending

Children: TypeAlias = "Sequence[Rubric] | Mapping[str, Rubric]"
"""Children as a list, or as a mapping whose keys become the names."""


def named_children_of(rubrics: Children, who: str) -> dict[str, Rubric]:
    """Children by name: a mapping's keys, or `rubric_0`, `rubric_1`, … as in OpenEnv."""
    if isinstance(rubrics, Rubric) or not isinstance(rubrics, (Mapping, Iterable)):
        raise StructureError(f"{who}: children are given as a list or as a mapping, not as {rubrics!r}")
    if isinstance(rubrics, Mapping):
        named = dict(rubrics)
    else:
        named = {f"rubric_{i}": rubric for i, rubric in enumerate(rubrics)}
    for name, rubric in named.items():
        if not isinstance(rubric, Rubric):
            raise StructureError(f"{who}: child {name!r} is {rubric!r} ({type(rubric).__name__}), not a Rubric")
    return named


def children_given(rubrics: tuple[Any, ...], who: str) -> dict[str, Rubric]:
    """Children given one by one, as one list or as one mapping."""
    if len(rubrics) == 1 and not isinstance(rubrics[0], Rubric) and isinstance(rubrics[0], (Sequence, Mapping)):
        return named_children_of(rubrics[0], who)
    return named_children_of(rubrics, who)


def finite_number(value: Any, name: str, who: str) -> float:
    """A finite number, not a bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise StructureError(f"{who}: {name} must be a finite number, got {value!r}")
    return float(value)


class Holder(Rubric):
    """What holds children under names, with a length, iteration and indexing that follow the one registry."""

    def __len__(self) -> int:
        return len(self._rubric_children)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._rubric_children.values()))

    def __getitem__(self, index: Any) -> Any:
        return list(self._rubric_children.values())[index]


class Container(Holder):
    """A node whose score follows from its children's by a rule. Subclass it for a rule of your own.

    Attributes:
        concurrent: whether async children run at once; otherwise children run in order.
        stops: whether `stop` can end the evaluation before the last child.
        catches: whether an exception of the first child counts as unscored.
        routes: whether one child is chosen, by `route(action, observation)`.
        around: None, or an async method that runs the one child in its own way.
    """

    concurrent: ClassVar[bool] = True
    stops: ClassVar[bool] = False
    catches: bool = False
    routes: ClassVar[bool] = False
    around: Callable[[Callable[[], Awaitable[Outcome]]], Awaitable[Outcome]] | None = None

    def __init__(self, children: Mapping[str, Rubric]) -> None:
        super().__init__()
        for name, child in children.items():
            self._add_child(name, child)

    def stop(self, value: Outcome) -> bool:
        """Whether this outcome of a child makes the ones that have not run unnecessary."""
        return False

    def combine(self, values: list[Outcome]) -> Outcome:
        """The outcome, from those of the children that ran, in order."""
        raise NotImplementedError

    def compiled(self) -> Callable[[list[Outcome]], Outcome]:
        """`combine`, made ready for many calls; asked for once per change of the structure.

        Where a rule of a subclass gives a plain number, pending parts make it pending, unless `stop` says that they do
        not matter.
        """
        if is_ours(type(self)):
            return self.combine
        combine, stop = self.combine, self.stop

        def combined(values: list[Outcome]) -> Outcome:
            try:
                outcome = combine(values)
            except TypeError as error:
                for name, value in zip(self._rubric_children, values, strict=False):
                    if isinstance(value, Unscored):
                        error.add_note(f"child {name!r} is unscored: {value.reason or 'no reason given'}")
                raise
            plain = not isinstance(outcome, (Score, Unscored))
            if plain and any(map(is_pending, values)) and not any(map(stop, values)):
                return Score(outcome, pending=True)  # type: ignore[arg-type]
            return outcome

        return combined

    def route(self, action: Any, observation: Any) -> str:
        """The name of the child to run."""
        raise NotImplementedError

    def shares(self, values: list[Outcome | None]) -> list[float]:
        """How much of each child's score the combined score holds; 0 where the rule is not linear in it (opaque).

        Args:
            values: the children's outcomes, None where one has none.
        """
        return [0.0] * len(values)

    def forward(self, action: Any, observation: Any) -> Any:
        """The rule, for subclasses whose own `forward` builds on it; a coroutine where a child is async."""
        if self.is_async_tree:
            return self._forward_async(action, observation)
        if self.routes:
            return self._rubric_children[self.route(action, observation)](action, observation)
        values: list[Outcome] = []
        for i, child in enumerate(self):
            try:
                values.append(_answered(child, child(action, observation)))
            except Exception as error:
                if i or not self.catches:
                    raise
                values.append(swallowed(error))
            if self.stop(values[-1]):
                break
        return self._answer(values)

    async def _forward_async(self, action: Any, observation: Any) -> Any:
        async def ask(child: Rubric) -> Outcome:
            value = child(action, observation)
            return _answered(child, await value if child.is_async_tree else value)

        async def ask_apart() -> Outcome:
            child = self[0]
            if child.is_async_tree:
                return await ask(child)
            return _answered(child, await in_thread(child, action, observation))

        if self.around is not None:
            return self._answer([await self.around(ask_apart)])
        values: list[Outcome] = []
        children = [self._rubric_children[self.route(action, observation)]] if self.routes else list(self)
        for i, child in enumerate(children):
            try:
                values.append(await ask(child))
            except Exception as error:
                if i or not self.catches:
                    raise
                values.append(swallowed(error))
            if self.stop(values[-1]):
                break
        return self._answer(values)

    def _answer(self, values: list[Outcome]) -> Any:
        outcome = self.combine(values)
        if isinstance(outcome, Unscored):
            raise outcome
        return outcome

    def _kind(self) -> str:
        return CONTAINER if type(self).forward is Container.forward and has_class_forward(self) else CUSTOM


def _answered(child: Rubric, value: Any) -> Outcome:
    """The outcome of a child that a forward called; an unscored one is None to the forward, and its reason is noted."""
    if value is not None:
        return value  # type: ignore[no-any-return]
    frame = FRAME.get()
    if frame is None:
        return Unscored()
    return next((outcome for place, outcome in reversed(frame.unscored or []) if place.node is child), Unscored())


def first_unscored(values: Sequence[Outcome]) -> Unscored | None:
    return next((value for value in values if isinstance(value, Unscored)), None)


def pending_if(value: float, values: Sequence[Outcome]) -> Outcome:
    """Mark a combined value as pending where one of its parts is."""
    return Score(value, pending=True) if any(is_pending(part) for part in values) else value


def numbers(values: Sequence[Outcome]) -> list[float]:
    return [float(value) for value in values]  # type: ignore[arg-type]


def is_failed(value: Outcome) -> bool:
    """A settled score that is not positive: a failed check, or a penalty."""
    if value.__class__ is float:
        return value <= 0.0
    return not isinstance(value, Unscored) and not is_pending(value) and value <= 0.0


def require_one_child(node: Container) -> None:
    if len(node) != 1:
        raise StructureError(f"{type(node).__name__} has one child, not {len(node)}: {list(node._rubric_children)}")
