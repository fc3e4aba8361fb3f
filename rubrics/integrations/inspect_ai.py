"""Inspect: a tree as a scorer of tasks and of logs, and Inspect's scorers as leaves of a tree.

    Task(dataset=…, solver=…, scorer=rubric_scorer(tree))
    inspect_ai.score(log, rubric_scorer(tree))          # the same numbers, out of a log

Each sample is a rollout of one tree: assistant's messages are the actions, `self.task` is the sample. A sample without
a reward is `Score.unscored`, which Inspect keeps and leaves out of metrics and reducers. `rubric_scorer` gives the
reward and the component scores, each with metrics of its own; `reward_scorer` the reward alone, for what wants one
number a sample: agents with several attempts, the reducer `collect`, Inspect's other metrics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from math import isnan, nan
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from rubrics.engine.journal import Pair
from rubrics.formats.inspect_logs import chat_message, conversation
from rubrics.formats.parsing import FormatError
from rubrics.rescoring.load import load_rubric
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.functions import RewardFunction
from rubrics.rollouts.scoring import Scored, Scorer as TreeScorer
from rubrics.rubric import Rubric
from rubrics.score import InvalidScoreError, RubricError, Score as NodeScore, Unscored
from rubrics.trajectory import End, Trajectory

try:
    from inspect_ai.log import transcript
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ModelName,
        ModelOutput,
    )
    from inspect_ai.scorer import (
        INCORRECT,
        NOANSWER,
        Score,
        Scorer,
        Target,
        mean,
        scorer,
        stderr,
        value_to_float,
    )
    from inspect_ai.solver import TaskState
    from inspect_ai.util import registry_info
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.inspect_ai needs inspect-ai, which does not import here ({error}); "
        "pip install 'rubrics[inspect]'"
    ) from error

OnError = Literal["unscored", "raise"]


@scorer(metrics={"*": [mean(), stderr()]})
def rubric_scorer(rubric: Rubric | str, *, on_error: OnError = "unscored") -> Scorer:
    """A tree as a scorer with sub-scores: `{"reward": 0.75, "format": 1.0, "judge": 0.5}`.

    The keys below `reward` are the paths of the nodes, the same in every epoch; a node that is unscored or was not
    reached is NaN, which Inspect leaves out. Explanation: scores and reasons in words. Metadata: status, scores,
    reasons and what model calls cost.

    Args:
        rubric: the tree, or where it is made, for logs and the command line to name it: `inspect score run.eval
            --scorer rubrics/rubric_scorer -S rubric=legal.py:make_rubric`.
        on_error: a tree that raises leaves its sample `"unscored"`, and is logged; `"raise"`: it fails the sample.

    Raises:
        LoadError: there is no tree where it was said to be.
        ValueError: a child of the root is named `reward`.
    """
    judge = _SampleScorer(rubric, on_error)
    if any(path == "reward" for path, _ in judge.scorer.rubric.named_rubrics()):
        raise ValueError("a child of the root is named 'reward', as the whole is among the sub-scores; rename it")

    async def score(state: TaskState, target: Target) -> Score:
        return await judge.score(state, target, components=True)

    return score


@scorer(metrics=[mean(), stderr()])
def reward_scorer(rubric: Rubric | str, *, on_error: OnError = "unscored") -> Scorer:
    """A tree as a scorer whose value is the reward, a float; the component scores are in the metadata.

    Arguments, explanation and metadata are those of `rubric_scorer`.
    """
    judge = _SampleScorer(rubric, on_error)

    async def score(state: TaskState, target: Target) -> Score:
        return await judge.score(state, target, components=False)

    return score


_SAMPLE: ContextVar[tuple[TaskState, Target] | None] = ContextVar("the sample that a tree is judging", default=None)


class _SampleScorer:
    def __init__(self, rubric: Rubric | str, on_error: OnError) -> None:
        self.scorer = TreeScorer(load_rubric(rubric) if isinstance(rubric, str) else rubric, on_error=on_error)

    async def score(self, state: TaskState, target: Target, *, components: bool) -> Score:
        answer = state.output.completion or None
        try:
            trajectory = trajectory_of_state(state, target)
        except FormatError as error:
            return Score.unscored(reason="no_response", answer=answer, explanation=str(error))
        token = _SAMPLE.set((state, target))
        try:
            scored = await self.scorer.score_async(trajectory)
        finally:
            _SAMPLE.reset(token)
        told: dict[str, Any] = {"answer": answer, "explanation": scored.feedback(), "metadata": _metadata(scored)}
        if scored.reward is None:
            return Score.unscored(reason="scoring_failed" if scored.status == "error" else "unscored", **told)
        if not components:
            return Score(value=scored.reward, **told)
        value = {path: nan if score is None else score for path, score in scored.scores.items()}
        return Score(value={"reward": scored.reward, **value}, **told)


def _metadata(scored: Scored) -> dict[str, Any]:
    return {
        "status": scored.status,
        "scores": scored.scores,
        "reasons": scored.reasons,
        "usage": scored.usage.to_dict() if scored.usage else None,
    }


# -- a sample as a trajectory -----------------------------------------------------------------------------------------


def trajectory_of_state(state: TaskState, target: Target | None = None) -> Trajectory:
    """What became of one sample, as the trajectory that a tree judges.

    Assistant's messages are the actions, from the first that was generated: those before it, in the sample's input or
    put in by a solver, are examples, and part of `initial`. A final output that is not among the messages is one more
    action. The rollout is truncated where a limit of the sample ended it, or its last output ran out of tokens; its
    end is "error" where the sample failed and Inspect scores it none the less. `self.task` has

        {"input", "target", "choices", "metadata", "sample_id", "epoch"}

    with input and target as in the dataset: text or messages, text or a list of it.

    Args:
        state: the sample's state; in a scorer, of an eval or of a log.
        target: by default that of the state.

    Raises:
        FormatError: the model said nothing, so there is no action.
    """
    said = _dumped([state.output.message])[0] if state.output.choices else None
    prompt, completion = conversation(_dumped(state.messages), said)
    given = state.input
    texts = (state.target if target is None else target).target
    task = {
        "input": given if isinstance(given, str) else [chat_message(message) for message in _dumped(given)],
        "target": texts[0] if len(texts) == 1 else list(texts),
        "choices": [choice.value for choice in state.choices],
        "metadata": state.metadata,
        "sample_id": state.sample_id,
        "epoch": state.epoch,
    }
    return trajectory_of(
        prompt,
        completion,
        task=task,
        end=_end(state),
        id=state.uuid,
        metadata={"sample_id": state.sample_id, "epoch": state.epoch, "model": str(state.model)},
    )


def _dumped(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    return [message.model_dump(exclude_none=True) for message in messages]


def _end(state: TaskState) -> End:
    cut = False
    for event in transcript().events:
        if event.event == "span_begin" and event.name == "scorers":
            break
        if event.event == "error":
            return "error"
        if event.event == "sample_limit":
            cut = True
        elif event.event == "model":  # that limit was one of a part, and the agent went on
            cut = False
    out_of_tokens = bool(state.output.choices) and state.output.stop_reason in ("max_tokens", "model_length")
    return "truncated" if cut or out_of_tokens else "terminated"


# -- a scorer of Inspect as a leaf ------------------------------------------------------------------------------------


class InspectScorer(RewardFunction):
    """A scorer of Inspect as a leaf, which judges the whole rollout once it has ended.

        tree = WeightedSum({"match": InspectScorer(match()), "style": Style()}, {"match": 0.8, "style": 0.2})

    In `rubric_scorer` and `reward_scorer` it gets the sample's own state and target. Elsewhere, in a trainer or
    offline, it gets a state made of the rollout's messages, of `task["target"]` and, where the task has them, of
    `input`, `choices`, `metadata`, `sample_id` and `epoch`. Its explanation becomes the node's reason.

    A grade is a number as Inspect's metrics make it one: CORRECT 1, PARTIAL 0.5, INCORRECT and NOANSWER 0, "yes" and
    "true" 1, "no" and "false" 0, numbers and texts of numbers themselves. A score that is unscored (NaN) or None is
    unscored here. Any other text, which Inspect would warn of and take as 0, raises `InvalidScoreError`.

    Args:
        scorer: an Inspect scorer, such as `match()` or `model_graded_qa()`.
        key: which of its values, where it gives several: the key of a mapping, or the index in a list.
        needs_target: False for a scorer that looks at no target; otherwise a task without one is an error, because
            some scorers find that an empty target is contained in everything.
    """

    def __init__(self, scorer: Scorer, *, key: str | int | None = None, needs_target: bool = True) -> None:
        super().__init__(scorer, messages=True)
        if not self.is_async:
            raise TypeError(f"a scorer of Inspect is async, such as match(); {scorer!r:.80} is not")
        self.key = key
        self.needs_target = needs_target

    async def score_trajectory(self, trajectory: list[Pair]) -> Any:
        """What the scorer says of the rollout."""
        state, target = _SAMPLE.get() or self._state(trajectory)
        score: Score | None = await self.function(state, target)
        if score is None:
            raise Unscored(f"{self.name} gave no score")
        value = _number(self._chosen(score.value), self.name)
        if isnan(value):
            raise Unscored(score.explanation or score.reason or f"{self.name} gave no value", score.metadata)
        return NodeScore(value, score.explanation, score.metadata)

    @property
    def name(self) -> str:
        """The name under which Inspect knows the scorer."""
        try:
            return str(registry_info(self.function).name.rpartition("/")[2])
        except ValueError:  # written without @scorer
            return super().name

    def _chosen(self, value: Any) -> Any:
        if isinstance(value, Mapping | list | tuple):
            try:
                return value[self.key]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                known = ", ".join(map(repr, value if isinstance(value, Mapping) else range(len(value))))
                raise InvalidScoreError(f"{self.name} gives several values, key is one of {known}") from None
        if self.key is not None and value == value:
            raise InvalidScoreError(f"{self.name} gives one value, {value!r:.80}; it has no {self.key!r}")
        return value

    def _state(self, trajectory: list[Pair]) -> tuple[TaskState, Target]:
        known = self.known(trajectory)
        task = known["task"] if isinstance(known["task"], Mapping) else {}
        if self.needs_target and "target" not in task:
            raise RubricError(
                f"{self.name} is to compare with a target, and the task has none; put it there as 'target', or say "
                "needs_target=False"
            )
        target = Target(task.get("target", ""))
        messages = _messages([*known["prompt"], *known["completion"]])
        said = [message for message in messages if isinstance(message, ChatMessageAssistant)]
        given = task.get("input")
        state = TaskState(
            model=ModelName("none/none"),
            sample_id=task.get("sample_id", ""),
            epoch=task.get("epoch", 1),
            input=given if isinstance(given, str) else _messages(known["prompt"] if given is None else given),
            messages=messages,
            target=target,
            choices=task.get("choices"),
            output=ModelOutput.from_message(said[-1]),
            completed=True,
            metadata=task.get("metadata"),
        )
        return state, target


_number_of = value_to_float()


def _number(value: Any, name: str) -> float:
    if value is None:
        return nan
    number: float = _number_of(value)
    if number == 0 and isinstance(value, str) and value not in (INCORRECT, NOANSWER):
        with suppress(ValueError):
            return float(value)
        if value.lower() not in ("no", "false"):
            raise InvalidScoreError(f"{name} gave the grade {value!r:.80}, which stands for no number")
    return number


_MESSAGE: TypeAdapter[ChatMessage] = TypeAdapter(ChatMessage)


def _messages(messages: Iterable[Mapping[str, Any]]) -> list[ChatMessage]:
    """Messages in OpenAI's form as Inspect's."""
    read: list[ChatMessage] = []
    for number, message in enumerate(messages):
        data = {**message, "content": message.get("content") or ""}
        if data["role"] == "developer":
            data["role"] = "system"
        if data["role"] == "tool" and "name" in data:
            data["function"] = data["name"]
        if calls := data.get("tool_calls"):
            data["tool_calls"] = [_call(call) for call in calls]
        try:
            read.append(_MESSAGE.validate_python(data))
        except ValidationError as error:
            raise FormatError(f"messages.{number} is no message that Inspect can hold: {error}") from None
    return read


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments, parse_error = function["arguments"], None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            arguments, parse_error = {"arguments": arguments}, str(error)
    return {"id": call["id"] or "", "function": function["name"], "arguments": arguments, "parse_error": parse_error}
