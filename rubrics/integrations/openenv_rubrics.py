"""Rubrics written for OpenEnv, `openenv.core.rubrics.Rubric`, as leaves of a tree.

    tree = WeightedSum({"theirs": OpenEnvRubric(their_rubric), "judge": LLMJudge(…)}, {"theirs": 0.5, "judge": 0.5})

A rubric whose source can be changed needs no leaf: it runs here after changing its import.
"""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any

from rubrics.engine.frames import FRAME, Run
from rubrics.episode import Episode
from rubrics.rubric import Rubric
from rubrics.score import CreditError, Outcome, RubricError, Score, checked
from rubrics.trajectory import Record

try:
    from openenv.core.llm_client import LLMClient
    from openenv.core.rubrics import Rubric as TheirRubric, TrajectoryRubric as TheirTrajectoryRubric
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.openenv_rubrics needs OpenEnv 0.10, which does not import here ({error}); "
        "pip install 'rubrics[openenv]'"
    ) from error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class OpenEnvRubric(Rubric):
    """An OpenEnv rubric, a single one or a tree of its containers, as one node, with the numbers that OpenEnv gives.

    - One that keeps state (it is or holds a `TrajectoryRubric`, or overrides `reset`) is copied for each episode, so
      that episodes never mix; a step that fails leaves the copy as it was. Clients of language models are not copied.
    - One that is or holds a `TrajectoryRubric` is pending until the episode ends, however the end is said: OpenEnv
      reads it from `observation.done`, and where that is not True on the last step it is shown a copy in which it is.
      It sees the steps on which it is called, as in OpenEnv.
    - A `TrajectoryRubric` gives its steps the credit of its own `compute_step_rewards`, which does not score again.

    Args:
        rubric: an instance. What happens in it is not recorded: its nodes are no nodes of the tree.
    """

    sees = "calls"

    def __init__(self, rubric: TheirRubric) -> None:
        super().__init__()
        if not isinstance(rubric, TheirRubric):
            raise TypeError(f"expected an instance of openenv.core.rubrics.Rubric, not {rubric!r:.80}")
        nodes = [rubric, *rubric.rubrics()]
        self.rubric = rubric
        self.is_async = any(map(_waits, nodes))
        self._delays = any(isinstance(node, TheirTrajectoryRubric) for node in nodes)
        self._remembers = self._delays or any(type(node).reset is not TheirRubric.reset for node in nodes)  # type: ignore[misc]
        if self._remembers:
            try:
                _copied(rubric, [])
            except Exception as error:
                raise TypeError(
                    f"{type(rubric).__name__} keeps state and cannot be copied for each episode ({error}); "
                    "give what cannot be copied a __deepcopy__ that returns itself"
                ) from error

    def forward(self, action: Any, observation: Any) -> Any:
        """What the OpenEnv rubric says of the step; an awaitable of it, where that is async."""
        if not self._remembers:
            return self._called(self.rubric, action, observation)
        frame = FRAME.get()
        assert frame is not None and frame.run.episode is not None
        run, journal = frame.run, frame.run.episode._journal
        memory, step = self.memory, len(journal.actions) - 1
        taken = run.again and memory.get("step") == step  # the pair was taken before the episode was ended
        before = memory.get("before" if taken else "now")
        if before is None:
            rubric = _copied(self.rubric, [])
            rubric.reset()
            before = _Kept(rubric)
        now = _copied(before.rubric, [value for pair in journal.pairs_of(self) for value in pair])
        memory.update(before=before, now=_Kept(now), step=step)
        journal.saw(self, action, observation)
        answer = self._called(now, action, observation if run.ending is None else _done(observation))
        return self._awaited(run, answer) if inspect.isawaitable(answer) else self._concluded(run, answer)

    def _called(self, rubric: TheirRubric, action: Any, observation: Any) -> Any:
        answer = rubric(action, observation)
        if self.is_async or not inspect.iscoroutine(answer):
            return answer
        try:  # OpenEnv's Sequential hands back a coroutine wherever a loop runs, though nothing in it waits
            answer.send(None)
        except StopIteration as finished:
            return finished.value
        answer.close()
        raise RubricError(f"{type(self.rubric).__name__} waits for something, and none of its forwards is `async def`")

    async def _awaited(self, run: Run, answer: Any) -> Any:
        return self._concluded(run, await answer)

    def _concluded(self, run: Run, answer: Any) -> Outcome | Any:
        if not self._delays:
            return answer
        outcome = checked(answer, lambda: type(self.rubric).__name__)
        if run.ending is None:
            return Score(outcome, pending=True) if isinstance(outcome, float) else outcome
        assert run.episode is not None
        run.episode._journal.scored(self, outcome)
        return answer

    def _is_delayed(self) -> bool:
        return self._delays

    def _conserves(self) -> bool:
        return not isinstance(self.rubric, TheirTrajectoryRubric)

    def _credited(self, episode: Episode, score: float, steps: int) -> NDArray[np.float64]:
        """The credit of the steps on which it was called, as (steps,)."""
        import numpy as np

        if self._conserves():
            credit = np.zeros(steps)
            credit[-1] = float(score)
            return credit
        rubric = copy.copy(episode.memory_of(self)["now"].rubric)
        rubric.__dict__["score_trajectory"] = lambda trajectory: float(score)
        credit = np.array(rubric.compute_step_rewards(), dtype=np.float64)
        if credit.shape != (steps,):
            raise CreditError(f"{type(rubric).__name__}.compute_step_rewards gave {credit.shape} for {steps} steps")
        return credit

    def __repr__(self) -> str:
        return f"OpenEnvRubric({type(self.rubric).__name__})"


def _waits(rubric: TheirRubric) -> bool:
    """Whether a node of OpenEnv's is async, by itself or by a hook."""
    hooks = (*rubric._forward_pre_hooks, *rubric._forward_hooks)
    return any(map(inspect.iscoroutinefunction, (rubric.forward, *hooks)))


class _Kept:
    """A rubric as it was after a step; it is never called again, so a copy may be itself."""

    def __init__(self, rubric: TheirRubric) -> None:
        self.rubric = rubric

    def __deepcopy__(self, memo: dict[int, Any]) -> _Kept:
        return self


def _copied(rubric: TheirRubric, seen: list[Any]) -> TheirRubric:
    """A copy of a rubric with its state, but with the actions and observations it has seen themselves."""
    nodes = [rubric, *rubric.rubrics()]
    clients = [value for node in nodes for value in vars(node).values() if isinstance(value, LLMClient)]
    return copy.deepcopy(rubric, {id(one): one for one in (*seen, *clients)})


def _done(observation: Any) -> Any:
    """An observation that says that the episode is over in the way that OpenEnv's rubrics read."""
    if getattr(observation, "done", False):
        return observation
    if hasattr(observation, "model_copy"):
        return observation.model_copy(update={"done": True})
    if isinstance(observation, dict):
        return Record(observation, done=True)
    ended = copy.copy(observation)
    ended.done = True
    return ended
