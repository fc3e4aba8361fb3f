"""verifiers, its tasks (the package `verifiers.v1`): a tree as a reward of a task, and a task's reward as a leaf.

    class GuessTask(vf.Task[GuessData]):
        quality = tree_reward(tree)                # as a method with `@vf.reward` would be

A trace is a rollout of the tree: `self.task` is the task's data, each assistant's message an action. The reward is
`trace.rewards["quality"]`; components are `trace.metrics["quality/format"]`, reasons and step rewards are in
`trace.info["quality"]`, and what judges cost is in `trace.extra_usage`. A trace that is unscored, or whose tree
raises, gets no number: its reward stays None, and a `TaskError` of the trace says why, so that `trace.ok` is False and
trainers leave it out.

For the `Rubric` of verifiers before 0.4 see `rubrics.integrations.verifiers_v0`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from rubrics.delayed import TrajectoryRubric
from rubrics.engine.frames import FRAME
from rubrics.engine.journal import Pair
from rubrics.formats.verifiers import chat_message, last_branch
from rubrics.rescoring.rows import step_rewards_dict
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.functions import completion_messages, messages_of
from rubrics.rollouts.scoring import Scored, Scorer, filled
from rubrics.rubric import Rubric
from rubrics.score import RubricError
from rubrics.trajectory import End, Trajectory

try:
    import verifiers.v1 as vf
    from verifiers.v1.dialects.chat import parse_message
    from verifiers.v1.state import state_cls
    from verifiers.v1.utils.decorators import invoke
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.verifiers needs verifiers 0.3.1 or later, which does not import here ({error}); "
        "pip install 'rubrics[verifiers]'"
    ) from error

_LIVE: ContextVar[tuple[Any, Any]] = ContextVar("verifiers_trace_and_runtime", default=(None, None))


class TreeReward:
    """A tree in the place of a method with `@vf.reward`. It can be pickled where the tree can.

    Attributes:
        scorer: scores the traces.
        __name__: the key in `trace.rewards`.
    """

    reward = True  # verifiers finds rewards by these four names
    reward_priority: int
    _vf_weight: float
    __name__: str

    def __init__(self, scorer: Scorer, name: str | None, weight: float, priority: int) -> None:
        self.scorer = scorer
        self.__name__ = name or "rubric"
        self._named = name is not None
        self._vf_weight = weight
        self.reward_priority = priority

    def __set_name__(self, task: type, name: str) -> None:
        if not self._named:
            self.__name__ = name

    async def __call__(self, trace: vf.Trace, runtime: vf.Runtime | None = None) -> float:
        """The reward of a trace.

        Raises:
            RubricError: there is none; verifiers makes of it a `TaskError` of the trace.
        """
        token = _LIVE.set((trace, runtime))
        try:
            scored = await self.scorer.score_async(trajectory_of_trace(trace))
        finally:
            _LIVE.reset(token)
        _record(trace, self.__name__, scored)
        return filled(scored, "raise")


class LiveTreeReward(TreeReward):
    """The same of a tree that needs the live runtime; verifiers leaves it out where it scores saved traces."""

    async def __call__(self, trace: vf.Trace, runtime: vf.Runtime) -> float:  # type: ignore[override]
        """As `TreeReward.__call__`."""
        return await super().__call__(trace, runtime)


def tree_reward(
    rubric: Rubric, *, name: str | None = None, weight: float = 1.0, priority: int = 0, concurrency: int = 256
) -> TreeReward:
    """A tree as a reward of a task: an attribute of a `vf.Task` class, or a reward's `fn` in a task's config.

    Args:
        rubric: the tree.
        name: the key in `trace.rewards`; by default the name of the attribute.
        weight: what verifiers multiplies the reward with, as in `@vf.reward`.
        priority: the place among the task's rewards, as in `@vf.reward`.
        concurrency: as in `Scorer`.
    """
    scorer = Scorer(rubric, concurrency=concurrency)
    live = any(node.needs_live_state for node in (rubric, *rubric.rubrics()))
    return (LiveTreeReward if live else TreeReward)(scorer, name, weight, priority)


def _record(trace: vf.Trace, name: str, scored: Scored) -> None:
    """All that there is room for beside the reward; a metric that is None is one that verifiers has not scored."""
    trace.metrics.update({f"{name}/{path}": score for path, score in scored.scores.items()})
    rewards = scored.rewards()
    trace.info[name] = {
        "status": scored.status,
        "reason": scored.reason,
        "reasons": scored.reasons,
        "step_rewards": None if rewards is None else step_rewards_dict(rewards),
    }
    if usage := scored.usage:
        trace.extra_usage.append(
            vf.Usage(
                prompt_tokens=usage.prompt_tokens - usage.cached_tokens,
                completion_tokens=usage.completion_tokens,
                cached_input_tokens=usage.cached_tokens,
                cost=usage.cost,
            )
        )


# -- a trace as a trajectory ------------------------------------------------------------------------------------------


def trajectory_of_trace(trace: vf.Trace) -> Trajectory:
    """The trajectory of a trace, live or read from a file (`vf.WireTrace.model_validate(record)`).

    It has the messages of the trace's last branch, as `trace.messages` has. What the model saw before its first reply
    is the prompt. A limit of the run, or of the model's reply, and a timeout of the agent are the end `"truncated"`; a
    rollout that failed before it could be scored ended in an error.
    """
    path, prompt = last_branch([{"parent": node.parent, "sampled": node.sampled} for node in trace.nodes])
    messages = [chat_message(trace.nodes[index].message.model_dump(exclude_none=True)) for index in path]
    task = trace.task.data.model_dump(mode="json")
    end = _end(trace)
    if not any(message["role"] == "assistant" for message in messages[prompt:]):
        return Trajectory(id=trace.id, task=task, end=end)
    return trajectory_of(messages[:prompt], messages[prompt:], task=task, end=end, id=trace.id)


def _end(trace: vf.Trace) -> End:
    if trace.errors and not trace.ok and not trace.timing.scoring.start:
        return "error"
    return "truncated" if trace.is_truncated or trace.stop_condition == "agent_timeout" else "terminated"


# -- a task's reward as a leaf ----------------------------------------------------------------------------------------


class TaskReward(TrajectoryRubric):
    """A method with `@vf.reward` or `@vf.metric` as a leaf, which judges the whole rollout once it has ended.

        tree = WeightedSum({"exact": TaskReward(GuessTask, "exact"), "judge": …}, {"exact": 0.5, "judge": 0.5})

    Within `tree_reward` it gets the trace and the runtime that verifiers gave; elsewhere a trace made of the
    trajectory's messages and its task, with a fresh state. One that requires a `runtime` cannot be scored elsewhere
    (`needs_live_state`). Set `needs_live_state` on a leaf whose method reads what is on a live trace only, such as
    `trace.state`. A method that returns keyed scores gives their sum, as verifiers does. Weights are the tree's.

    Args:
        task: the class of the task.
        method: the name of the method.
        config: the task's config; by default a fresh one of its type.
    """

    is_async = True

    def __init__(self, task: type[vf.Task], method: str, *, config: vf.TaskConfig | None = None) -> None:
        super().__init__()
        function = getattr(task, method, None)
        if not callable(function) or not (hasattr(function, "reward") or hasattr(function, "metric")):
            raise TypeError(f"{task.__name__}.{method} is no method with @vf.reward or @vf.metric")
        self.task_type = task
        self.method = method
        self.config = config
        runtime = inspect.signature(function).parameters.get("runtime")
        self.needs_live_state = runtime is not None and runtime.default is runtime.empty

    async def score_trajectory(self, trajectory: list[Pair]) -> Any:
        """What the method says of the trace."""
        frame = FRAME.get()
        assert frame is not None and frame.run.episode is not None
        trace, runtime = _LIVE.get()
        if trace is None or trace.id != frame.run.episode.id:
            trace, runtime = self._trace(trajectory, truncated=frame.run.ending == "truncated"), None
        if self.needs_live_state and runtime is None:
            raise RubricError(f"{self.method} needs the runtime of a live rollout, and there is none")
        task = self.task_type(trace.task.data, self.config)
        known = {"task": task.data, "trace": trace} | ({} if runtime is None else {"runtime": runtime})
        value = await invoke(getattr(task, self.method), known)
        return sum(value.values()) if isinstance(value, Mapping) else value

    def _trace(self, trajectory: list[Pair], truncated: bool) -> vf.Trace:
        frame = FRAME.get()
        assert frame is not None and frame.run.episode is not None
        episode = frame.run.episode
        messages = [*messages_of(episode.initial), *completion_messages(trajectory)]
        prompt = len(messages_of(episode.initial))
        return vf.Trace(
            id=episode.id,
            task=vf.TraceTask(type=self.task_type.__name__, data=self.task_type.data_type().model_validate(self.task)),
            agent=vf.AgentInfo(config=vf.AgentConfig()),
            state=state_cls(self.task_type)(),
            nodes=[
                vf.MessageNode(
                    parent=index - 1 if index else None,
                    message=parse_message(dict(message)),
                    sampled=index >= prompt and message["role"] == "assistant",
                )
                for index, message in enumerate(messages)
            ],
            is_completed=True,
            stop_condition="max_turns" if truncated else "agent_completed",
        )

    def __repr__(self) -> str:
        return f"TaskReward({self.task_type.__name__}, {self.method!r})"
