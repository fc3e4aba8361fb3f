"""A tree as verl's compute_score, and the reverse, by verl's documented signature; verl itself: test_verl_host.py."""

import asyncio
import inspect
import math
from typing import Any

import pytest

from rubrics import Rubric, RubricError, Score, Unscored, WeightedSum
from rubrics.integrations.verl import ComputeScore, compute_score_function
from rubrics.rescoring import rescore_one
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Scorer


class Exact(Rubric):
    """Whether the response is the ground truth; without one there is no saying."""

    def forward(self, action: Any, observation: Any) -> Any:
        if self.task.ground_truth is None:
            raise Unscored("no ground truth")
        return Score(float(action.content == self.task.ground_truth), "compared")


class AsyncExact(Exact):
    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        return super().forward(action, observation)


class Asked(Rubric):
    """Whether the prompt is there."""

    def forward(self, action: Any, observation: Any) -> float:
        from rubrics import current_episode

        initial = current_episode().initial
        return float(initial is not None and "1+1" in initial.content)


class Breaks(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        raise ValueError("a bug")


def tree(exact: type[Rubric] = Exact) -> WeightedSum:
    return WeightedSum({"exact": exact(), "asked": Asked()}, {"exact": 0.75, "asked": 0.25})


def called(function: Any, solution: str = "2", truth: Any = "2", **more: Any) -> Any:
    """As verl's managers call it: by keyword, awaiting what is a coroutine function."""
    arguments = {"data_source": "sums", "solution_str": solution, "ground_truth": truth, "extra_info": {}, **more}
    found = function(**arguments)
    return asyncio.run(found) if inspect.iscoroutinefunction(function) else found


@pytest.mark.parametrize("leaf", [Exact, AsyncExact])
@pytest.mark.parametrize("asynchronous", [None, False, True])
def test_the_score_is_that_of_rescoring_and_components_come_along(leaf: Any, asynchronous: Any) -> None:
    function = compute_score_function(tree(leaf), unscored="raise", asynchronous=asynchronous)
    assert inspect.iscoroutinefunction(function) == (leaf is AsyncExact if asynchronous is None else asynchronous)
    found = called(function)
    task = {"data_source": "sums", "ground_truth": "2", "extra_info": {}}
    assert found["score"] == 0.75 == rescore_one(trajectory_of(None, "2", task=task), tree(leaf)).reward
    assert found == {
        "score": 0.75,
        "rubric/exact": 1.0,
        "rubric/asked": 0.0,
        "rubric_unscored": 0.0,
        "rubric_reason": "",
        **({"rubric_cost": 0.0} if leaf is AsyncExact else {}),
    }


def test_the_prompt_is_where_the_dataset_has_it() -> None:
    function = compute_score_function(tree(), unscored="raise", prompt="question")
    assert called(function, extra_info={"question": "1+1?"})["score"] == 1.0
    assert called(function, extra_info={"question": [{"role": "user", "content": "1+1?"}]})["score"] == 1.0
    with pytest.raises(RubricError, match="extra_info has no prompt under 'question'"):
        called(function)


def test_what_an_unscored_rollout_becomes_has_to_be_said() -> None:
    with pytest.raises(TypeError, match="unscored"):
        compute_score_function(tree())  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="unscored is 'raise' or a finite number"):
        compute_score_function(tree(), unscored="drop")  # type: ignore[arg-type]
    with pytest.raises(RubricError, match="exact is unscored: no ground truth"):
        called(compute_score_function(tree(), unscored="raise"), truth=None)
    found = called(compute_score_function(tree(), unscored=-1), truth=None)
    assert found == {
        "score": -1.0,
        "rubric/exact": -1.0,
        "rubric/asked": 0.0,
        "rubric_unscored": 1.0,
        "rubric_reason": "exact is unscored: no ground truth",
    }
    assert list(found) == list(called(compute_score_function(tree(), unscored=-1)))  # verl takes them from row 0
    assert not any(isinstance(value, float) and math.isnan(value) for value in found.values())


def test_a_tree_that_raises_follows_the_rule_too(caplog: pytest.LogCaptureFixture) -> None:
    broken = WeightedSum({"breaks": Breaks()}, {"breaks": 1.0})
    found = called(compute_score_function(broken, unscored=-1))
    assert found["score"] == found["rubric/breaks"] == -1.0 and "a bug" in found["rubric_reason"]
    assert "the rubric failed" in caplog.text
    with pytest.raises(RubricError, match="a bug") as raised:
        called(compute_score_function(broken, unscored="raise"))
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="a bug"):
        called(compute_score_function(broken, unscored=-1, on_error="raise"))


def test_many_at_once() -> None:
    function = compute_score_function(tree(AsyncExact), unscored=0.0)

    async def run() -> list[Any]:
        return await asyncio.gather(
            *(function("sums", solution_str=str(n), ground_truth="3", extra_info={}) for n in range(50))
        )

    assert [found["rubric/exact"] for found in asyncio.run(run())] == [float(n == 3) for n in range(50)]


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any]) -> Any:
    return {"score": solution_str == ground_truth, "length": len(solution_str) + len(extra_info)}


async def plain(solution_str: str, **row: Any) -> float:
    return float(row["ground_truth"] == solution_str and row["data_source"] == "sums")


def test_a_compute_score_of_verl_is_a_leaf() -> None:
    task = {"data_source": "sums", "ground_truth": "2", "extra_info": {"a": 1}}
    rollout = trajectory_of("1+1?", "2", task=task)
    scored = Scorer(ComputeScore(compute_score), record=True).score(rollout)
    assert scored.reward == 1.0 and scored.evaluation is not None and scored.evaluation.metadata == {"length": 2}
    assert Scorer(ComputeScore(plain)).score(rollout).reward == 1.0
    assert called(compute_score_function(ComputeScore(compute_score), unscored="raise"))["score"] == 1.0
    lost = Scorer(ComputeScore(lambda ground_truth: {"points": 1})).score(rollout)
    assert lost.reward is None and "gave a dict without 'score'" in str(lost.reason)
