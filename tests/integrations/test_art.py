"""Rewards of ART's trajectories, gathered by ART itself."""

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("art.trajectories")

import art
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from rubrics import Rubric, RubricError, Score, TrajectoryRubric, Unscored, WeightedSum
from rubrics.integrations.art import GroupScorer, trajectory_of_art
from rubrics.rescoring import rescore_one
from rubrics.rollouts.scoring import Scorer
from rubrics.trajectory import Trajectory

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


class Polite(Rubric):
    def forward(self, action: Any, observation: Any) -> Score:
        return Score(float("please" in action.content), reason="it says please")


class Looked(TrajectoryRubric):
    """The share of replies that call a tool."""

    def score_trajectory(self, trajectory: Any) -> float:
        return sum(bool(action.tool_calls) for action, _ in trajectory) / len(trajectory)


class Right(Rubric):
    def forward(self, action: Any, observation: Any) -> Any:
        if "hm" in action.content:
            raise Unscored("nobody knows")
        if "bug" in action.content:
            raise ZeroDivisionError("a bug")
        return float(self.task.answer in action.content)


class RightAsync(Right):
    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        return super().forward(action, observation)


def make_tree(right: type[Rubric] = Right) -> WeightedSum:
    return WeightedSum(
        {"polite": Polite(), "looked": Looked(), "right": right()}, {"polite": 0.25, "looked": 0.25, "right": 0.5}
    )


def choice(content: str | None, calls: Any = None, finish_reason: Any = "stop") -> Choice:
    message = ChatCompletionMessage(role="assistant", content=content, tool_calls=calls)
    return Choice(index=0, finish_reason=finish_reason, message=message)


async def rollout(reply: str, finish_reason: str = "stop") -> art.Trajectory:
    """A call of a tool and an answer; the assistant's message in the prompt is an example."""
    function = {"name": "look", "arguments": '{"what": "numbers"}'}
    await asyncio.sleep(0)
    return art.Trajectory(
        messages_and_choices=[
            {"role": "user", "content": "And?"},
            {"role": "assistant", "content": "please, an example"},
            {"role": "user", "content": "Which number?"},
            choice(None, [{"id": "call_1", "type": "function", "function": function}], "tool_calls"),
            {"role": "tool", "tool_call_id": "call_1", "content": "looked up numbers"},
            choice(reply, finish_reason=finish_reason),
        ],
        metadata={"answer": "7"},
    )


def gathered(scorer: GroupScorer, *groups: list[str]) -> list[art.TrajectoryGroup]:
    async def gather() -> list[art.TrajectoryGroup]:
        return await art.gather_trajectory_groups(
            [art.TrajectoryGroup([rollout(reply) for reply in replies]) for replies in groups], after_each=scorer
        )

    return asyncio.run(gather())


@pytest.mark.parametrize("right", [Right, RightAsync])
def test_a_tree_sets_the_rewards_of_groups(right: type[Rubric]) -> None:
    tree = make_tree(right)
    groups = gathered(GroupScorer(tree, unscored="raise"), ["please, 7", "it is 7", "no"], ["please"])
    rewards = {one.messages()[-1]["content"]: one.reward for group in groups for one in group}
    assert rewards == {"please, 7": 0.875, "it is 7": 0.625, "no": 0.125, "please": 0.375}
    (best,) = (one for one in groups[0] if one.reward == 0.875)
    assert best.metrics == {"rubric/polite": 1.0, "rubric/looked": 0.5, "rubric/right": 1.0}
    assert "polite: 1 (it says please)" in best.logs[0]
    for group in groups:
        for one in group:
            trajectory = trajectory_of_art(one)
            again = Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict())))
            assert one.reward == rescore_one(again, tree).reward == Scorer(tree).score(trajectory).reward


def test_what_a_tree_sees() -> None:
    trajectory = trajectory_of_art(asyncio.run(rollout("7")), {"level": 3, "answer": "8"})
    assert trajectory.task == {"level": 3, "answer": "7"} and trajectory.end == "terminated"
    assert [message.content for message in trajectory.initial.messages] == [
        "And?",
        "please, an example",
        "Which number?",
    ]
    first, second = trajectory.steps
    assert first.action.tool_calls == [{"id": "call_1", "name": "look", "arguments": {"what": "numbers"}}]
    assert first.observation.content == "looked up numbers" and not first.observation.done
    assert second.action.content == "7" and second.observation.done
    assert trajectory_of_art(asyncio.run(rollout("7", "length"))).end == "truncated"
    plain = art.Trajectory(
        messages_and_choices=[{"role": "user", "content": "?"}, {"role": "assistant", "content": "7"}]
    )
    assert [step.action.content for step in trajectory_of_art(plain).steps] == ["7"]
    plain.additional_histories.append(art.trajectories.History(messages_and_choices=[]))
    with pytest.raises(ValueError, match="additional histories"):
        trajectory_of_art(plain)


def test_a_rollout_without_a_reward_is_dropped() -> None:
    (mixed, empty) = gathered(GroupScorer(make_tree(), unscored="drop"), ["7", "hm", "bug"], ["bug", "bug"])
    assert [one.reward for one in mixed] == [0.625]
    assert sorted(exception.message for exception in mixed.exceptions) == [
        "right is unscored: nobody knows",
        "right: ZeroDivisionError: a bug",
    ]
    assert len(empty) == 0 and len(empty.exceptions) == 2


def test_the_other_rules() -> None:
    (group,) = gathered(GroupScorer(make_tree(), unscored=-1), ["hm", "bug"])
    assert [one.reward for one in group] == [-1.0, -1.0]
    assert {one.metrics["rubric/polite"] for one in group if one.metrics} == {0.0}
    with pytest.raises(RubricError, match="nobody knows"):
        gathered(GroupScorer(make_tree(), unscored="raise"), ["hm", "7"])
    with pytest.raises(TypeError, match="unscored"):
        GroupScorer(make_tree())  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="'raise', 'drop' or a finite number"):
        GroupScorer(make_tree(), unscored="error")  # type: ignore[arg-type]


def test_a_rollout_scores_itself_and_is_left_out_by_art() -> None:
    scorer = GroupScorer(make_tree(), unscored="drop")

    async def scored(reply: str) -> art.Trajectory:
        return await scorer.score(await rollout(reply))

    async def gather() -> Any:
        return await art.gather_trajectory_groups([art.TrajectoryGroup([scored("7"), scored("hm")])], max_exceptions=1)

    (group,) = asyncio.run(gather())
    assert [one.reward for one in group] == [0.625]
    assert "nobody knows" in group.exceptions[0].message


def test_many_at_once() -> None:
    groups = gathered(GroupScorer(make_tree(RightAsync), unscored="raise"), *[["7", "please 7"] for _ in range(20)])
    assert [sorted(one.reward for one in group) for group in groups] == [[0.625, 0.875]] * 20
