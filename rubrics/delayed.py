"""Delayed judgements: nodes that score a whole trajectory once the episode has ended."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from rubrics.engine.frames import FRAME, Run
from rubrics.engine.journal import Pair
from rubrics.engine.plan import CUSTOM, DELAYED
from rubrics.episode import Episode
from rubrics.node import definer, has_class_forward
from rubrics.rubric import Rubric
from rubrics.score import (
    CreditError,
    EpisodeError,
    InvalidScoreError,
    Outcome,
    Score,
    StructureError,
    Unscored,
    checked,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rubrics.credit import Credit


class TrajectoryRubric(Rubric):
    """A judgement of the whole trajectory, pending until the episode ends.

    Subclasses write `score_trajectory(trajectory)`, plain or `async def`; it is called once, with the list of (action,
    observation) pairs. The node sees every step, also those on which a gate kept the call from it.

    Args:
        intermediate_reward: what it pays on each step before the end.
        credit: how its score is spread over the steps (see `rubrics.credit`); None is `Terminal()`, all on the last.
    """

    state_fields: ClassVar[tuple[str, ...]] = ("intermediate_reward",)
    _credits_itself: ClassVar[bool] = False  # whether it overrides compute_step_rewards

    def __init__(self, intermediate_reward: float = 0.0, credit: Credit | None = None) -> None:
        if type(self).score_trajectory is TrajectoryRubric.score_trajectory:
            raise TypeError(f"{type(self).__name__} cannot be made: it has no score_trajectory(trajectory)")
        super().__init__()
        self.intermediate_reward = intermediate_reward
        if credit is not None and (isinstance(credit, type) or not (callable(credit) and hasattr(credit, "conserves"))):
            raise StructureError(f"{type(self).__name__}: credit is a strategy such as EqualSplit(), not {credit!r}")
        self._credit = credit

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__
        scorer, declared = definer(cls, "score_trajectory"), definer(cls, "is_async")
        if "is_async" not in own and scorer is not declared and not issubclass(declared, scorer):
            cls.is_async = cls._forward_is_async()
        if "compute_step_rewards" in own:
            cls._credits_itself = True
            setattr(cls, "compute_step_rewards", _never_scoring_again(own["compute_step_rewards"]))  # noqa: B010

    @classmethod
    def _forward_is_async(cls) -> bool:
        return inspect.iscoroutinefunction(cls.forward) or inspect.iscoroutinefunction(cls.score_trajectory)

    def score_trajectory(self, trajectory: list[Pair]) -> Any:
        """The judgement.

        Args:
            trajectory: (action, observation) pairs in order, at least one.

        Returns:
            Whatever a `forward` may return. `Score(value, metadata={"evidence": [step, …]})` cites steps for
            `ByEvidence`.
        """
        raise NotImplementedError

    def _judge(self, run: Run) -> Any:
        """What the sync driver calls at the end of an episode."""
        return self.score_trajectory(run.episode._journal.pairs_of(self))  # type: ignore[union-attr]

    def forward(self, action: Any, observation: Any) -> Any:
        """The intermediate reward before the end, the judgement at the end.

        The engine does this by itself; a subclass with a `forward` of its own keeps `self._trajectory` itself, as in
        OpenEnv, and may call this to append a pair and get the answer.
        """
        frame = FRAME.get()
        if frame is None or frame.run.episode is None:
            raise EpisodeError("TrajectoryRubric.forward belongs to a step: call the rubric, or an episode of it")
        run = frame.run
        episode = run.episode
        assert episode is not None
        self._trajectory.append((action, observation))
        if run.ending is None:
            return self._intermediate
        value = self.score_trajectory(self._trajectory)
        if inspect.isawaitable(value):
            return self._awaited(episode, value)
        episode._journal.scored(self, checked(value, lambda: type(self).__name__))
        return value

    async def _awaited(self, episode: Episode, value: Any) -> Any:
        value = await value
        episode._journal.scored(self, checked(value, lambda: type(self).__name__))
        return value

    @property
    def intermediate_reward(self) -> float:
        """What the node pays on each step before the end."""
        return float(self._intermediate)

    @intermediate_reward.setter
    def intermediate_reward(self, value: float) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
            raise InvalidScoreError(
                f"{type(self).__name__}: intermediate_reward must be a finite number, got {value!r}"
            )
        self._intermediate = Score(value, pending=True)

    @property
    def credit(self) -> Credit:
        """How the score is spread over the steps."""
        if self._credit is None:
            from rubrics.credit import Terminal

            self._credit = Terminal()
        return self._credit

    @property
    def trajectory(self) -> list[Pair]:
        """The pairs so far (a copy): of the running episode within a run, else of the default one."""
        return list(self._trajectory)

    @property
    def _trajectory(self) -> list[Pair]:
        node = self.__dict__.get("_copy_of", self)
        journal = _episode_of(self)._journal
        return journal.list_of(node) if node._kind() == CUSTOM else journal.pairs_of(node)

    @_trajectory.setter
    def _trajectory(self, pairs: Sequence[Pair]) -> None:
        # An empty list is what a node without a forward of its own begins with anyway.
        if self._kind() == CUSTOM or pairs:
            _episode_of(self)._journal.set_list(self, pairs if isinstance(pairs, list) else list(pairs))

    def compute_step_rewards(self) -> list[float]:
        """This node's credit for each step of the default (or running) episode, after its end (OpenEnv's name).

        It does not score again, and holds neither intermediate rewards nor what other nodes paid; see
        `Episode.rewards`.

        Raises:
            EpisodeError: the episode is not over, or the node was not asked at its end.
        """
        node = self.__dict__.get("_copy_of", self)
        episode = _episode_of(self)
        if not episode.steps:
            return []
        return [float(r) for r in node.credit(final_score(node, episode), len(episode._journal.steps_of(node)))]

    def _step_rewards_in(self, episode: Episode) -> list[float]:
        """`compute_step_rewards`, overridden or not, of one episode."""
        if not episode.steps:
            return []
        steps = len(episode._journal.steps_of(self))
        return [float(r) for r in self._credited(episode, final_score(self, episode), steps)]

    def _credited(self, episode: Episode, score: Outcome, steps: int) -> NDArray[np.float64]:
        """This node's credit in an episode that is over, as (steps,)."""
        import numpy as np

        if not self._credits_itself:
            return self.credit(float(score) if not isinstance(score, Score) else score, steps).copy()  # type: ignore[arg-type]
        values = np.asarray(_run_override(self, episode, type(self).compute_step_rewards), dtype=np.float64)
        if values.shape != (steps,):
            raise CreditError(f"{type(self).__name__}.compute_step_rewards gave shape {values.shape} for {steps} steps")
        return values

    def _spreads(self) -> bool:
        if self._credit is None or self._credits_itself:
            return self._credits_itself
        from rubrics.credit import Terminal

        return type(self._credit) is not Terminal

    def _conserves(self) -> bool:
        return not self._credits_itself and self.credit.conserves

    def _kind(self) -> str:
        return DELAYED if type(self).forward is TrajectoryRubric.forward and has_class_forward(self) else CUSTOM

    def _is_delayed(self) -> bool:
        return True


class ExponentialDiscountingTrajectoryRubric(TrajectoryRubric):
    """A delayed judgement whose credit is r_t = gamma^(T-1-t) · R.

    Args:
        gamma: discount factor in [0, 1]. With 1 every step gets R, with 0 only the last.
        intermediate_reward: what it pays on each step before the end.
    """

    state_fields: ClassVar[tuple[str, ...]] = ("intermediate_reward", "gamma")

    def __init__(self, gamma: float = 0.99, intermediate_reward: float = 0.0) -> None:
        super().__init__(intermediate_reward)
        self.gamma = gamma

    @property
    def gamma(self) -> float:
        """The discount factor."""
        return self._gamma

    @gamma.setter
    def gamma(self, value: float) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
            raise StructureError(f"{type(self).__name__}: gamma must be in [0, 1], got {value!r}")
        self._gamma = float(value)
        self._credit = None

    @property
    def credit(self) -> Credit:
        """`Discounted(gamma)`."""
        if self._credit is None:
            from rubrics.credit import Discounted

            self._credit = Discounted(self._gamma)
        return self._credit


def _episode_of(node: TrajectoryRubric) -> Episode:
    """The episode a node speaks of: the running one, else the default one of the root it was last run under."""
    given: Episode | None = node.__dict__.get("_copy_in")
    if given is not None:
        return given
    return node._where()


def final_score(node: TrajectoryRubric, episode: Episode) -> float | Score:
    """What a delayed node made of an episode that is over, or EpisodeError where it made nothing of it."""
    if not episode.over:
        raise EpisodeError(
            f"{type(node).__name__}: the episode is not over, so its steps have no credit yet; "
            "end it with default_episode.end(truncated=True) if the driver cut it off"
        )
    score = episode._journal.score_of(node)
    if score is None or isinstance(score, Unscored):
        why = "it was not reached" if score is None else score.reason or "it is unscored"
        raise EpisodeError(
            f"{type(node).__name__} has no score at the end of this episode ({why}), so no credit either"
        )
    return score


def _run_override(node: TrajectoryRubric, episode: Episode, function: Callable[[Any], Any]) -> Any:
    """Run an overridden `compute_step_rewards` on a copy of the node whose `score_trajectory` answers what it did."""
    score = final_score(node, episode)
    copied = object.__new__(type(node))
    copied.__dict__.update(node.__dict__)
    copied.__dict__["_copy_of"] = node
    copied.__dict__["_copy_in"] = episode
    copied.__dict__["score_trajectory"] = lambda trajectory: score
    return function(copied)


def _never_scoring_again(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def compute_step_rewards(self: Any) -> Any:
        if "_copy_of" in self.__dict__:
            return function(self)
        episode = _episode_of(self)
        return function(self) if not episode.steps else _run_override(self, episode, function)

    return compute_step_rewards
