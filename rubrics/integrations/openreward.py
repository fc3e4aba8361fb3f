"""OpenReward: an environment that is scored by a rubric, without a line of scoring in it.

    class QuizEnv(RubricEnvironment):
        rubric = make_rubric()                     # one tree for all sessions

        @tool
        async def submit(self, args: Answer) -> ToolOutput:
            return ToolOutput(blocks=[TextBlock(text="noted")], finished=True)

A call of a tool is a step. A rubric sees a `ToolCall(name, input)` as the action, the `ToolOutput` as the observation,
and the task spec as `self.task`. What goes to the client is a copy of the output with `reward`, and
`metadata["rubric"]` in plain JSON:

    {"status": "scored", "scores": {"tests": 1.0, "style": None}, "step": 3, "step_rewards": {…at the end…}}

A delayed reward is paid on the call that finishes, and nothing after it. A call that the tree cannot score has the
reward None and a reason in the middle of an episode; the one that finishes raises `RubricError`, because consumers
take the last reward that is not None for the reward of the episode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rubrics.formats.parsing import FormatError
from rubrics.group import GroupRubric
from rubrics.hosting.collecting import collect
from rubrics.hosting.report import plain_values
from rubrics.hosting.tool_calls import ToolCall
from rubrics.hosting.tool_environment import EpisodeFinished, ToolEnvironment, anywhere, tools_of
from rubrics.hosting.tool_sessions import ToolTasks, tasks
from rubrics.rollouts.conversations import trajectory_of
from rubrics.score import RubricError
from rubrics.trajectory import Trajectory, wrap

try:
    from openreward.environments import Environment, GroupCandidate, GroupScore, ToolOutput
    from openreward.environments.types import RunToolOutput
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.openreward needs OpenReward 0.1.167 or later, which does not import here ({error}); "
        "pip install 'rubrics[openreward]'"
    ) from error

__all__ = ["RubricEnvironment", "ToolCall", "ToolTasks", "collect", "tasks", "trajectory_of_messages"]


class RubricEnvironment(ToolEnvironment, Environment):
    """An OpenReward environment that a rubric scores. Authors write tools that return a `ToolOutput`.

    Own tools, toolsets, toolsets of a session, `@terminal`; async, or plain (then they run in a thread). A tool marked
    `concurrent=True` is recorded, and seen by nodes that judge the episode, and its call pays nothing, unless it
    finishes. A reward that a tool sets itself is there for leaves to read, and the tree's takes its place; the tool's
    own is in `metadata["rubric"]["own_reward"]`.

    Attributes:
        group_rubric: where it is set in the class body, the environment has `score_group`, and says so to clients.
    """

    group_rubric: ClassVar[GroupRubric | None] = None
    host_name = "openreward"
    output_type = ToolOutput

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        rubric = cls.group_rubric
        if rubric is None:
            if cls.score_group is _score_group:  # a base class has one
                cls.score_group = Environment.score_group
            return
        if not isinstance(rubric, GroupRubric):
            raise TypeError(
                f"{cls.__name__}.group_rubric must be an instance of rubrics.GroupRubric, not {rubric!r:.80}"
            )
        own = "group_rubric" in cls.__dict__
        if own and "score_group" in cls.__dict__:
            raise TypeError(f"{cls.__name__} has a group_rubric and a score_group of its own; leave one of them out")
        if own or cls.score_group is Environment.score_group:
            cls.score_group = _score_group

    async def _invoke_tool_fn(self, name: str, fn: Callable[..., Any], input: Any, start: float) -> RunToolOutput:
        tools = tools_of(self)
        if tools.over:
            return self._episode_finished_error(name)
        try:
            return await super()._invoke_tool_fn(name, tools.running(name, input, fn), input, start)
        except EpisodeFinished:
            return self._episode_finished_error(name)


RubricEnvironment.host_bases = (*RubricEnvironment.__mro__,)


async def _score_group(self: RubricEnvironment, candidates: Sequence[GroupCandidate]) -> Sequence[GroupScore]:
    """Score the candidates of a group relative to one another, by the environment's `group_rubric`.

    Raises:
        RubricError: a candidate has no score, or no message of an assistant; then there is none for the group.
    """
    rubric = type(self).group_rubric
    assert rubric is not None
    task = wrap(await anywhere(self.task_of))
    group = []
    for index, candidate in enumerate(candidates):
        try:
            trajectory = trajectory_of_messages(
                candidate.messages, task=task, id=str(index), metadata=candidate.metadata
            )
        except FormatError as error:
            raise FormatError(f"candidate {index}: {error}") from None
        group.append(trajectory)
    found = await rubric.score(group, task)
    missing = [
        f"candidate {index}: {reason or 'no reason given'}"
        for index, (score, reason) in enumerate(zip(found.scores, found.reasons, strict=True))
        if score is None
    ]
    if missing:
        raise RubricError(f"{type(rubric).__name__}: the group is unscored: {'; '.join(missing)}")
    scores = []
    for score, reason in zip(found.scores, found.reasons, strict=True):
        assert score is not None
        told: dict[str, Any] = {"status": "scored"}
        if self.expose == "full":
            told |= {"reason": reason, "group": plain_values(found.metadata), "usage": found.usage.to_dict()}
        scores.append(GroupScore(reward=score, metadata=None if self.expose == "none" else {"rubric": told}))
    return scores


def trajectory_of_messages(messages: Sequence[Any], **fields: Any) -> Trajectory:
    """The trajectory of a transcript in OpenReward's form; what an assistant says is an action.

    Args:
        messages: of roles system, user and assistant, with blocks (text, image, reasoning, tool_call, tool_result).
        fields: of the trajectory, such as `task` and `id`.

    Raises:
        FormatError: no message is an assistant's.
    """
    return trajectory_of(None, [plain for message in messages for plain in _chat_messages(message)], **fields)


def _chat_messages(message: Any) -> list[dict[str, Any]]:
    """A message in the form of OpenAI's chat: results of tools are messages of their own."""
    results = [
        {"role": "tool", "tool_call_id": block.tool_call_id, "content": _content(block.blocks)}
        for block in message.blocks
        if block.type == "tool_result"
    ]
    said = [block for block in message.blocks if block.type in ("text", "image")]
    if message.role != "assistant":
        return [*results, *([{"role": message.role, "content": _content(said)}] if said or not results else [])]
    plain: dict[str, Any] = {"role": "assistant", "content": _content(said)}
    if reasoning := [block.text for block in message.blocks if block.type == "reasoning"]:
        plain["reasoning_content"] = "\n\n".join(reasoning)
    if calls := [block for block in message.blocks if block.type == "tool_call"]:
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": dict(call.input)}}
            for call in calls
        ]
    return [plain]


def _content(blocks: Sequence[Any]) -> str | list[dict[str, Any]]:
    if all(block.type == "text" for block in blocks):
        return "\n\n".join(block.text for block in blocks)
    return [
        {"type": "text", "text": block.text}
        if block.type == "text"
        else {"type": "image_url", "image_url": {"url": f"data:{block.mimeType};base64,{block.data}"}}
        for block in blocks
    ]
