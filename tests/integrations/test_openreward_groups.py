"""Group rewards of OpenReward: the real server and client."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("openreward")

from openreward.api.environments.types import (
    GroupCandidate,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from openreward.api.errors import ScoreGroupFailed, ScoreGroupUnsupported

from judges import ChatRequest, GroupJudge, PairwiseJudge, ScriptedClient
from rubrics import GroupRubric, GroupScores, Score, Trajectory, Unscored
from rubrics.integrations.openreward import RubricEnvironment, trajectory_of_messages
from tests.integrations.quiz import TASKS, client, make_quiz, serving


class Longest(GroupRubric):
    """The share of the longest answer; says what it was shown."""

    seen: list[Any]

    def __init__(self) -> None:
        self.seen = []

    async def score_group(self, group: Sequence[Trajectory], task: Any = None) -> Any:
        self.seen.append((list(group), task))
        texts = [trajectory.steps[-1].action.content for trajectory in group]
        if "?" in texts:
            raise Unscored("one asks back")
        if "boom" in texts:
            raise ValueError("boom")
        longest = max(map(len, texts))
        return [Score(len(text) / longest, reason=f"{len(text)} letters") for text in texts]


def says(*texts: str) -> list[Any]:
    return [[Message(role="assistant", blocks=[TextBlock(text=text)])] for text in texts]


async def test_scores_and_metadata_arrive() -> None:
    rubric = Longest()
    with serving("openreward", make_quiz("openreward", group_rubric=rubric)) as url:
        async with client("openreward", url) as environment, environment.session(split="train", index=3) as session:
            assert await session.supports_score_group()
            scores = await session.score_group(says("ab", "abcd", "a"))
    assert [score.reward for score in scores] == [0.5, 1.0, 0.25]
    assert [score.metadata for score in scores] == [{"rubric": {"status": "scored"}}] * 3
    [(_, task)] = rubric.seen
    assert task == TASKS[3]


def test_where_a_group_rubric_may_be_set() -> None:
    class Ranked:
        group_rubric = Longest()

    class Mixed(Ranked, make_quiz("openreward")):
        pass

    class Off(Mixed):
        group_rubric = None

    class Written(Mixed):
        async def score_group(self, candidates):
            return [1.0 for _ in candidates]

    told = [cls.list_tools().supports_score_group for cls in (Mixed, Off, Written)]
    assert told == [True, False, True]
    assert asyncio.run(Written(task_spec={}).score_group([None])) == [1.0]
    with pytest.raises(TypeError, match="Both has a group_rubric and a score_group of its own"):

        class Both(Off):
            group_rubric = Longest()
            score_group = Written.score_group


@pytest.mark.parametrize(("expose", "expected"), [("none", None), ("full", "4 letters")])
async def test_what_the_trainer_may_see(expose: str, expected: str | None) -> None:
    with serving("openreward", make_quiz("openreward", group_rubric=Longest(), expose=expose)) as url:
        async with client("openreward", url) as environment, environment.session(split="train", index=3) as session:
            scores = await session.score_group(says("ab", "abcd"))
    assert scores[1].metadata == expected if expected is None else scores[1].metadata["rubric"]["reason"] == expected


async def test_a_candidate_in_which_no_assistant_speaks_is_named() -> None:
    asked = [Message(role="user", blocks=[TextBlock(text="and?")])]
    with serving("openreward", make_quiz("openreward", group_rubric=Longest())) as url:
        async with client("openreward", url) as environment, environment.session(split="train", index=0) as session:
            with pytest.raises(ScoreGroupFailed, match="candidate 1: completion: there is no assistant's message"):
                await session.score_group([*says("a"), asked])


async def test_a_group_without_all_its_scores_fails_and_the_session_lives() -> None:
    with serving("openreward", make_quiz("openreward", group_rubric=Longest())) as url:
        async with client("openreward", url) as environment, environment.session(split="train", index=0) as session:
            with pytest.raises(ScoreGroupFailed, match="Longest: the group is unscored: candidate 0: one asks back"):
                await session.score_group(says("a", "?"))
            with pytest.raises(ScoreGroupFailed, match="boom"):
                await session.score_group(says("a", "boom"))
            with pytest.raises(ScoreGroupFailed, match="candidate 0: a group of one"):
                await session.score_group(says("alone"))
            assert await session.score_group([]) == []
            assert (await session.call_tool("submit", {"text": "0"})).reward == 0.625


async def test_one_candidate_without_a_score_fails_the_group() -> None:
    class Partly(GroupRubric):
        async def score_group(self, group: Sequence[Trajectory], task: Any = None) -> Any:
            return GroupScores((1.0, None), (None, "unreadable"))

    with serving("openreward", make_quiz("openreward", group_rubric=Partly())) as url:
        async with client("openreward", url) as environment, environment.session(split="train", index=0) as session:
            with pytest.raises(ScoreGroupFailed, match="candidate 1: unreadable"):
                await session.score_group(says("a", "b"))


async def test_there_is_no_score_group_without_a_group_rubric() -> None:
    assert not make_quiz("openreward").list_tools().supports_score_group
    with serving("openreward", make_quiz("openreward")) as url:
        async with client("openreward", url) as environment, environment.session(split="train", index=0) as session:
            assert not await session.supports_score_group()
            with pytest.raises(ScoreGroupUnsupported):
                await session.score_group(says("a", "b"))


async def test_a_judge_ranks_the_group() -> None:
    def prefer(request: ChatRequest) -> dict[str, Any]:
        first, second = request.messages[-1]["content"].split("Answer B:")
        return {"reason": "count of good", "score": "A" if first.count("good") > second.count("good") else "B"}

    replies = ScriptedClient(prefer)
    judge = GroupJudge(PairwiseJudge(client=replies, model="m"))
    with serving("openreward", make_quiz("openreward", group_rubric=judge, expose="full")) as url:
        async with client("openreward", url) as environment, environment.session(split="train", index=0) as session:
            scores = await session.score_group(says("good", "bad", "good good"))
    assert [score.reward for score in scores] == [0.5, 0.0, 1.0]
    assert scores[2].metadata["rubric"]["reason"] == "2 won, 0 drawn, 0 lost"
    assert scores[2].metadata["rubric"]["group"]["order"] == [2, 0, 1]
    assert scores[2].metadata["rubric"]["usage"]["calls"] == 6
    assert "0 + 0?" in replies.requests[0].messages[-1]["content"], "the judge is told the task"


def test_a_transcript_becomes_a_trajectory() -> None:
    messages = [
        Message(role="system", blocks=[TextBlock(text="be brief")]),
        Message(role="user", blocks=[TextBlock(text="what is it?"), ImageBlock(data="aGk=", mimeType="image/png")]),
        Message(
            role="assistant",
            blocks=[
                ReasoningBlock(text="look first"),
                TextBlock(text="I look"),
                ToolCallBlock(id="1", name="look", input={"at": "it"}),
            ],
        ),
        Message(role="user", blocks=[ToolResultBlock(tool_call_id="1", blocks=[TextBlock(text="a cat")])]),
        Message(role="assistant", blocks=[TextBlock(text="a cat")]),
    ]
    trajectory = trajectory_of_messages(messages, id="t", task={"a": 1})
    first, last = trajectory.steps
    assert [message["role"] for message in trajectory.initial.messages] == ["system", "user"]
    assert trajectory.initial.messages[1]["content"][1]["image_url"]["url"] == "data:image/png;base64,aGk="
    assert first.action == {
        "content": "I look",
        "tool_calls": [{"id": "1", "name": "look", "arguments": {"at": "it"}}],
        "reasoning_content": "look first",
    }
    assert first.observation["messages"] == [{"role": "tool", "tool_call_id": "1", "content": "a cat"}]
    assert first.observation.content == "a cat" and not first.observation.done
    assert last.action.content == "a cat" and last.observation.done and trajectory.end == "terminated"


async def test_metadata_of_candidates_reaches_the_rubric() -> None:
    rubric = Longest()
    with serving("openreward", make_quiz("openreward", group_rubric=rubric)) as url:
        async with client("openreward", url) as environment, environment.session(split="train", index=0) as session:
            await session.score_group(
                [GroupCandidate(messages=messages, metadata={"n": n}) for n, messages in enumerate(says("a", "b"))]
            )
    [(group, _)] = rubric.seen
    assert [(trajectory.id, trajectory.metadata) for trajectory in group] == [("0", {"n": 0}), ("1", {"n": 1})]


def test_mistakes() -> None:
    with pytest.raises(TypeError, match=r"Odd\.group_rubric must be an instance of rubrics\.GroupRubric"):

        class Odd(RubricEnvironment):
            group_rubric = Longest  # type: ignore[assignment]

    with pytest.raises(TypeError, match=r"Both has a group_rubric and a score_group of its own"):

        class Both(RubricEnvironment):
            group_rubric = Longest()

            async def score_group(self, candidates: Any) -> Any: ...
