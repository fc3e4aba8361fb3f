"""A weighted sum as one reward function of TRL for each child."""

from __future__ import annotations

from asyncio import CancelledError, shield, wrap_future
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock
from typing import Any, Literal

from rubrics.containers import WeightedSum
from rubrics.integrations.trl.batch import Batch
from rubrics.rescoring.replay import is_cancelled
from rubrics.rollouts.scoring import Scored, Scorer


class ComponentRewardFunction:
    """A child of a `WeightedSum` in the place of a reward function, see `component_functions`.

    Attributes:
        __name__: the name of the child.
    """

    def __init__(self, shared: _Shared, name: str) -> None:
        self._shared = shared
        self.__name__ = name

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> Any:
        """What the child contributes to each rollout, in order; None for a rollout without a reward."""
        found, first = self._shared.join(completions, self.__name__)
        if first:
            with _answering(found):
                batch = Batch(prompts, completions, given)
                found.set_result(self._shared.components(batch, self._shared.scorer.score_all(batch.trajectories)))
        return found.result()[self.__name__]


class AsyncComponentRewardFunction(ComponentRewardFunction):
    """The same as a coroutine function."""

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
        """As `ComponentRewardFunction.__call__`."""
        while True:
            found, first = self._shared.join(completions, self.__name__)
            if first:
                with _answering(found):
                    batch = Batch(prompts, completions, given)
                    scored = await self._shared.scorer.score_all_async(batch.trajectories)
                    found.set_result(self._shared.components(batch, scored))
            try:
                return (await shield(wrap_future(found)))[self.__name__]
            except CancelledError as error:
                if first or is_cancelled(error):
                    raise  # else the one who scored for us was cancelled: the next in line does it


def component_functions(
    rubric: WeightedSum,
    *,
    name: str = "rubric",
    concurrency: int = 256,
    on_error: Literal["unscored", "raise"] = "unscored",
) -> tuple[list[ComponentRewardFunction], list[float]]:
    """A weighted sum as one reward function for each child, and their weights: for a trainer that normalises each
    component in its group before it adds them up (GDPO, Liu et al. 2026).

        functions, weights = component_functions(tree)
        args = GRPOConfig(reward_weights=weights, multi_objective_aggregation="normalize_then_sum", …)
        trainer = GRPOTrainer(model=…, reward_funcs=functions, args=args, …)

    A batch is scored once, by the function that is asked first; the others read from it. What a child contributes to a
    rollout of several steps is reduced over the steps as the tree's reward is, so that the weighted sum of the
    components is the reward of the tree. A rollout to which the tree gives no reward is None for every function. A
    child that is unscored under `on_unscored="renormalize"` is None alone, and TRL leaves it out of the sum, which is
    right after normalisation and silently 0 before it.

    Args:
        rubric: the tree; its root is the weighted sum.
        name: the prefix of metrics, as for `reward_function`.
        concurrency, on_error: as for `reward_function`.

    Returns:
        The functions, coroutine functions where the tree has async nodes, and the weights, divided as the sum divides
        them. They are those of now: later changes of the tree's weights do not reach the trainer.

    Raises:
        TypeError: the root is no WeightedSum.
    """
    if not isinstance(rubric, WeightedSum):
        raise TypeError(f"only a WeightedSum has components with weights, and the root is {type(rubric).__name__}")
    scorer = Scorer(rubric, concurrency=concurrency, on_error=on_error)
    kind = AsyncComponentRewardFunction if rubric.is_async_tree else ComponentRewardFunction
    names = [child for child, _ in rubric.named_children()]
    shared = _Shared(scorer, name, names)
    return [kind(shared, child) for child in names], rubric.shares([0.0] * len(names))


class _Shared:
    """The components of a batch, which is scored once for all who ask.

    A trainer gives the same list of completions to each of its functions; that, and not what is in it, is the batch.
    """

    def __init__(self, scorer: Scorer, name: str, readers: Sequence[str]) -> None:
        self.scorer = scorer
        self.name = name
        self.readers = frozenset(readers)
        self._lock = Lock()
        self._open: list[tuple[Sequence[Any], Future[dict[str, list[float | None]]], set[str]]] = []

    def join(self, completions: Sequence[Any], reader: str) -> tuple[Future[dict[str, list[float | None]]], bool]:
        """Where the components of a batch will be, and whether the caller is the one who has to score it."""
        with self._lock:
            for place, (known, found, seen) in enumerate(self._open):
                if known is completions and reader not in seen:
                    seen.add(reader)
                    if seen == self.readers:
                        del self._open[place]
                    return found, False
            found = Future()
            if len(self.readers) > 1:  # some functions may never be asked; who asks again begins a new round
                others = [entry for entry in self._open if entry[0] is not completions]
                self._open = [*others[-7:], (completions, found, {reader})]
            return found, True

    def components(self, batch: Batch, scored: list[Scored]) -> dict[str, list[float | None]]:
        batch.log(self.name, scored)
        return {name: batch.rows([_component(one, name) for one in scored]) for name in self.readers}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Shared, (self.scorer, self.name, sorted(self.readers))


def _component(scored: Scored, name: str) -> float | None:
    """What a child of the root contributed to the reward of a rollout."""
    return None if scored.reward is None else scored.scores[name]


@contextmanager
def _answering(found: Future[Any]) -> Iterator[None]:
    """Whoever waits for an answer hears of a failure too."""
    try:
        yield
    except BaseException as error:
        found.set_exception(error)
        raise
