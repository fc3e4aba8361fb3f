"""Reward functions as leaves: what they are called with, and how often that is worked out."""

import asyncio
import threading
from typing import Any

import pytest

from rubrics import Gate, Rubric, RubricError, Switch, WeightedSum
from rubrics.rescoring import rescore_one
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.functions import RewardFunction
from rubrics.rollouts.scoring import Scorer

CHAT = [
    {"role": "assistant", "content": "a"},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "b"},
]


def scored(tree: Rubric, completion: Any = "7", **task: Any) -> Any:
    trajectory = trajectory_of("Which number?", completion, task=task)
    result = Scorer(tree).score(trajectory)
    assert result.reward == rescore_one(trajectory, tree).reward
    return result


def halves(a: Rubric, b: Rubric) -> WeightedSum:
    return WeightedSum({"a": a, "b": b}, {"a": 0.5, "b": 0.5})


def test_functions_get_what_they_name() -> None:
    def exact(completion: str, answer: str) -> float:
        return float(completion == answer)

    def all_of_it(**known: Any) -> float:
        return float(
            known["prompt"] == "Which number?" and known["task"].answer == known["answer"] and known["level"] == 3
        )

    assert scored(halves(RewardFunction(exact), RewardFunction(all_of_it)), answer="7", level=3).reward == 1.0
    assert "wants 'answer', and there is: prompt, completion, task" in scored(RewardFunction(exact)).reason
    with pytest.raises(RubricError, match="wants 'answer'"):
        Scorer(RewardFunction(exact), on_error="raise").score(trajectory_of(None, "7"))
    with pytest.raises(TypeError, match=r"cannot be named: obj; give it a name: RewardFunction\(lambda"):
        RewardFunction(len)


def test_what_functions_are_told_is_worked_out_once_a_rollout() -> None:
    asked = []

    class Counting(RewardFunction):
        def known(self, trajectory: Any) -> dict[str, Any]:
            asked.append(self.messages)
            return super().known(trajectory)

    leaves = {f"{i}": Counting(lambda completion: float(bool(completion)), messages=i % 2 == 1) for i in range(6)}
    tree = WeightedSum(leaves, dict.fromkeys(leaves, 1 / 6))
    assert Scorer(tree).score(trajectory_of(None, "7")).reward == pytest.approx(1.0)
    assert asked == [False, True]


def test_functions_share_no_arguments_that_are_not_the_same() -> None:
    told: dict[str, Any] = {}

    def all_of_it(**known: Any) -> float:
        told["all"] = known
        return 1.0

    def needs(answer: str, **rest: Any) -> float:
        told["needs"] = rest
        return 1.0

    def may(completion: str, answer: str = "none") -> float:
        told["may"] = answer
        return 1.0

    def must(completion: str, answer: str) -> float:
        told["must"] = answer
        return 1.0

    def tree(**functions: Any) -> WeightedSum:
        leaves = {name: RewardFunction(function) for name, function in functions.items()}
        return WeightedSum(leaves, dict.fromkeys(leaves, 1.0), "total")

    assert scored(tree(all=all_of_it, needs=needs, may=may, must=must), answer="7").reward == 1.0
    rest = {"prompt": "Which number?", "completion": "7", "task": {"answer": "7"}}
    assert told == {"all": {**rest, "answer": "7"}, "needs": rest, "may": "7", "must": "7"}
    for function in (needs, must):
        assert "wants 'answer'" in scored(tree(all=all_of_it, may=may, lacks=function)).reason
    assert told["may"] == "none"


def test_texts_and_messages_side_by_side() -> None:
    text = RewardFunction(lambda completion: float(completion == "b"))
    messages = RewardFunction(lambda completion: len(completion) / 3, messages=True)
    assert scored(halves(text, messages), CHAT).reward == 1.0


def test_a_function_that_is_called_for_some_steps_is_told_of_those() -> None:
    def count(completion: Any) -> float:
        return float(len(completion))

    some, all_of_them = RewardFunction(count, messages=True), RewardFunction(count, messages=True)
    some.sees = "calls"
    tree = halves(
        Switch(lambda action, observation: action.content, {"a": Gate(all_of_them, 0.0), "b": some}), all_of_them
    )
    assert scored(tree, CHAT).scores["a.b"] == 1.0
    assert scored(tree, CHAT).scores["b"] == 3.0


def test_async_functions_run_at_once_and_in_no_thread() -> None:
    here: set[str] = set()
    running = 0
    most = 0

    async def slow(completion: str) -> float:
        nonlocal running, most
        here.add(threading.current_thread().name)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return float(completion == "7")

    tree = halves(RewardFunction(slow), RewardFunction(slow))

    async def score() -> list[Any]:
        return await Scorer(tree).score_all_async([trajectory_of(None, "7") for _ in range(5)])

    assert [one.reward for one in asyncio.run(score())] == [1.0] * 5
    assert here == {threading.current_thread().name} and most == 10


def test_a_function_that_changes_the_messages_changes_nothing_for_the_others() -> None:
    def greedy(completion: list[Any]) -> float:
        completion.append({"role": "assistant", "content": "more"})
        return float(len(completion))

    def counts(completion: list[Any]) -> float:
        return float(len(completion))

    leaves = {"greedy": RewardFunction(greedy, messages=True), "counts": RewardFunction(counts, messages=True)}
    tree = WeightedSum(leaves, {"greedy": 0.5, "counts": 0.5})
    assert Scorer(tree).score(trajectory_of("q", "a")).scores == {"greedy": 2.0, "counts": 1.0}
