"""TRL: a tree as a reward function of `GRPOTrainer` (and of the other online trainers), or as an environment's reward.

    trainer = GRPOTrainer(model=…, reward_funcs=reward_function(tree), train_dataset=dataset, …)

Each completion is a rollout of one tree: `self.task` is its row of the dataset (every column but the prompt),
`episode.initial` the prompt, each assistant's message an action. A rollout without a reward is `None`, which TRL leaves
out of its group's baseline and gives the advantage 0.

    functions, weights = component_functions(tree)       # one reward function for each child of a WeightedSum

    class Guessing(RubricEnvironment):                   # environment_factory=Guessing: each tool call is a step
        rubric = tree

    BatchRewardFunction(think_format_reward)             # the reverse: a reward function of TRL as a leaf

TRL itself is not imported here; tried with the releases named in docs/hosts.md.
"""

from __future__ import annotations

from asyncio import CancelledError, shield, wrap_future
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from math import fsum
from threading import Lock
from typing import Any, Literal

from rubrics.containers import WeightedSum
from rubrics.integrations.conversations import trajectory_of
from rubrics.integrations.functions import RewardFunction
from rubrics.integrations.scoring import Fill, Scored, Scorer, checked_fill, filled
from rubrics.integrations.trl_environment import NO_TASK, RubricEnvironment
from rubrics.rescoring.replay import is_cancelled
from rubrics.rubric import Rubric
from rubrics.score import RubricError

__all__ = [
    "AsyncComponentRewardFunction",
    "AsyncTreeRewardFunction",
    "BatchRewardFunction",
    "ComponentRewardFunction",
    "RubricEnvironment",
    "TreeRewardFunction",
    "component_functions",
    "reward_function",
]

# -- a tree as a reward function --------------------------------------------------------------------------------------


class TreeRewardFunction:
    """A tree in the place of a reward function, see `reward_function`. It can be pickled where the tree can.

    Attributes:
        scorer: scores the rollouts.
        __name__: how TRL calls its metric.
        unscored: what a rollout without a reward becomes.
    """

    def __init__(self, scorer: Scorer, name: str, unscored: Fill | None) -> None:
        self.scorer = scorer
        self.__name__ = name
        self.unscored = unscored

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> Any:
        """The rewards of a batch, in order; None for a rollout without one."""
        batch = _Batch(prompts, completions, given)
        return self._rewards(batch, self.scorer.score_all(batch.trajectories))

    def _rewards(self, batch: _Batch, scored: list[Scored]) -> list[float | None]:
        batch.log(self.__name__, scored)
        if self.unscored is None:
            return batch.rows([one.reward for one in scored])
        return batch.rows([filled(one, self.unscored) for one in scored])


class AsyncTreeRewardFunction(TreeRewardFunction):
    """The same as a coroutine function, which TRL runs at once with its other async ones."""

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
        """As `TreeRewardFunction.__call__`."""
        batch = _Batch(prompts, completions, given)
        return self._rewards(batch, await self.scorer.score_all_async(batch.trajectories))


def reward_function(
    rubric: Rubric,
    *,
    name: str = "rubric",
    asynchronous: bool | None = None,
    unscored: Fill | None = None,
    concurrency: int = 256,
    on_error: Literal["unscored", "raise"] = "unscored",
) -> TreeRewardFunction:
    """A tree as a reward function.

    Metrics, where the trainer takes any: `{name}/{path}/mean` of each node over the rollouts that it scored, the share
    `{name}/unscored` of rollouts without a reward, `{name}/cost` in US dollars a rollout where model calls cost
    something. The table of completions has a column `{name}/feedback`, scores and reasons in words.

    In a run with `environment_factory`, rollouts of a `RubricEnvironment` are scored by the tool calls that it
    recorded; one whose class has a `rubric` pays for itself and is None here. Rollouts of other environments are scored
    as conversations, tool calls included.

    Args:
        rubric: the tree.
        name: how TRL calls the metric.
        asynchronous: whether it is a coroutine function; by default where the tree has async nodes. `OnlineDPOTrainer`,
            `SDPOTrainer` and `A2POTrainer` do not await reward functions and need False; the thread waits then.
        unscored: what a rollout without a reward becomes. None is TRL's own rule in `GRPOTrainer`, `RLOOTrainer` and
            `AsyncGRPOTrainer`: it counts in no baseline and does not move the policy. The trainers that do not await
            reward functions take None for the reward 0, or fail; for them give `"raise"` or a number.
        concurrency: rollouts in progress at once, if the tree has async nodes.
        on_error: as in `Scorer`.
    """
    scorer = Scorer(rubric, concurrency=concurrency, on_error=on_error)
    kind = AsyncTreeRewardFunction if _default(asynchronous, rubric.is_async_tree) else TreeRewardFunction
    return kind(scorer, name, None if unscored is None else checked_fill(unscored))


def _default(given: bool | None, otherwise: bool) -> bool:
    return otherwise if given is None else given


class _Batch:
    """What TRL calls a reward function with.

    Attributes:
        trajectories: the rollouts to score; those that pay for themselves are left out.
    """

    def __init__(self, prompts: Sequence[Any], completions: Sequence[Any], given: Mapping[str, Any]) -> None:
        if len(prompts) != len(completions):
            raise RubricError(f"there are {len(prompts)} prompts for {len(completions)} completions")
        self.given = given
        environments = given.get("environments") or [None] * len(prompts)
        columns = {
            name: values
            for name, values in given.items()
            if name not in NO_TASK and isinstance(values, list | tuple) and len(values) == len(prompts)
        }
        self.paid = [isinstance(each, RubricEnvironment) and each.pays_itself for each in environments]
        self.trajectories = [
            environment.trajectory
            if isinstance(environment, RubricEnvironment)
            else trajectory_of(prompts[i], completions[i], task={name: values[i] for name, values in columns.items()})
            for i, environment in enumerate(environments)
            if not self.paid[i]
        ]

    def rows(self, values: Sequence[float | None]) -> list[float | None]:
        """One value a completion, out of one a scored rollout."""
        found = iter(values)
        return [None if paid else next(found) for paid in self.paid]

    def log(self, name: str, scored: Sequence[Scored]) -> None:
        """Give the trainer what there is to know beside the rewards, where it takes any."""
        log_metric: Callable[[str, float], None] | None = self.given.get("log_metric")
        log_extra: Callable[[str, list[Any]], None] | None = self.given.get("log_extra")
        if log_metric is not None and scored:
            for path, mean in _means(scored).items():
                log_metric(f"{name}/{path}/mean", mean)
            log_metric(f"{name}/unscored", sum(one.reward is None for one in scored) / len(scored))
            if cost := fsum(one.usage.cost for one in scored):
                log_metric(f"{name}/cost", cost / len(scored))
        if log_extra is not None:
            said = iter([one.feedback() for one in scored])
            log_extra(f"{name}/feedback", [None if paid else next(said) for paid in self.paid])


def _means(scored: Sequence[Scored]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for one in scored:
        for path, score in one.scores.items():
            if score is not None:
                values.setdefault(path, []).append(score)
    return {path: fsum(found) / len(found) for path, found in values.items()}


# -- a reward function for each component -----------------------------------------------------------------------------


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
                batch = _Batch(prompts, completions, given)
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
                    batch = _Batch(prompts, completions, given)
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
    scorer = Scorer(rubric, concurrency=concurrency, on_error=on_error, record=True)
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

    def components(self, batch: _Batch, scored: list[Scored]) -> dict[str, list[float | None]]:
        batch.log(self.name, scored)
        return {name: batch.rows([_component(one, name) for one in scored]) for name in self.readers}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Shared, (self.scorer, self.name, sorted(self.readers))


def _component(scored: Scored, name: str) -> float | None:
    """What a child of the root contributed to the reward of a rollout."""
    if scored.reward is None or scored.episode is None:
        return None
    steps = scored.episode.evaluations if scored.episode.reduction == "sum" else scored.episode.evaluations[-1:]
    scores = [step[name].score for step in steps]
    return None if None in scores else fsum(score for score in scores if score is not None)


@contextmanager
def _answering(found: Future[Any]) -> Iterator[None]:
    """Whoever waits for an answer hears of a failure too."""
    try:
        yield
    except BaseException as error:
        found.set_exception(error)
        raise


# -- the reverse ------------------------------------------------------------------------------------------------------


class BatchRewardFunction(RewardFunction):
    """A reward function as TRL calls it, `f(prompts, completions, **columns) -> list[float | None]`, as a leaf.

    It judges one rollout at a time, so its lists have one entry each; a function that compares the completions of a
    batch does not work here. None is unscored. Columns are the keys of the task. It may be async.

    Args:
        function: the reward function.
        messages: give prompts and completions as lists of chat messages, as TRL does for conversational datasets (the
            arguments of tool calls are dicts there); by default as text.
    """

    _parsed = True

    def known(self, trajectory: Any) -> dict[str, Any]:
        """What the function can ask for, by name."""
        known = super().known(trajectory)
        del known["task"]
        prompt, completion = known.pop("prompt"), known.pop("completion")
        return {"prompts": [prompt], "completions": [completion], **{name: [known[name]] for name in known}}

    def score_trajectory(self, trajectory: Any) -> Any:
        """What the function says of the rollout."""
        rewards = super().score_trajectory(trajectory)
        return self._awaited_reward(rewards) if self.is_async else self._only(rewards)

    async def _awaited_reward(self, rewards: Any) -> Any:
        return self._only(await rewards)

    def _only(self, rewards: Any) -> Any:
        try:
            (reward,) = rewards
        except (TypeError, ValueError):
            raise RubricError(
                f"{self.name} gave {rewards!r:.80} for one completion: a list of one reward was expected"
            ) from None
        return reward.item() if hasattr(reward, "item") else reward  # of an array or a tensor
