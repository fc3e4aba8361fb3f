"""Trees under eval-protocol's `@evaluation_test`, with its rollout processor that asks no model."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("eval_protocol.models")

from eval_protocol.dataset_logger.dataset_logger import DatasetLogger
from eval_protocol.models import EvaluateResult, EvaluationRow, InputMetadata, Message, Status
from eval_protocol.pytest import NoOpRolloutProcessor, evaluation_test
from eval_protocol.types import TerminationReason

from rubrics import EqualSplit, Rubric, WeightedSum, formats
from rubrics.integrations.eval_protocol import row_evaluator, rows_evaluator, trajectory_of_row
from rubrics.rescoring import rescore_one
from rubrics.rollouts.scoring import Scorer
from rubrics.trajectory import Trajectory
from tests.integrations import polite
from tests.integrations.polite import Right, RightAsync

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


class RightHere(Right):
    column = "ground_truth"


class RightHereAsync(RightAsync):
    column = "ground_truth"


def make_tree(right: type[Rubric] = RightHere) -> WeightedSum:
    return polite.make_tree(right, EqualSplit())


class Silent(DatasetLogger):
    """Where eval-protocol would write to its database."""

    def log(self, row: EvaluationRow) -> None: ...
    def read(self, *args: Any, **kwargs: Any) -> list[EvaluationRow]:
        return []


@pytest.fixture(autouse=True)
def nothing_leaves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EP_DISABLE_AUTO_BROWSER", "1")


def row(truth: str, reply: str = "please, it is 7") -> EvaluationRow:
    function = {"name": "look", "arguments": '{"what": "numbers"}'}
    return EvaluationRow(
        messages=[
            Message(role="user", content="Which number?"),
            Message.model_validate(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
                }
            ),
            Message(role="tool", tool_call_id="call_1", content="looked up numbers", weight=0),
            Message(role="assistant", content=reply),
        ],
        ground_truth=truth,
        input_metadata=InputMetadata(row_id=f"row-{truth}-{reply}", dataset_info={"level": 3}),
    )


def evaluated(function: Any, rows: list[EvaluationRow], mode: str = "pointwise") -> list[EvaluationRow]:
    """The rows as eval-protocol leaves them after a run of `@evaluation_test`."""
    left: dict[str, EvaluationRow] = {}

    class Logger(Silent):
        def log(self, row: EvaluationRow) -> None:
            left[row.input_metadata.row_id or ""] = row

    test = evaluation_test(
        input_rows=[rows],
        rollout_processor=NoOpRolloutProcessor(),
        mode=mode,
        logger=Logger(),
        disable_browser_open=True,
    )(function)
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    (values,) = mark.kwargs["argvalues"]
    names = mark.kwargs["argnames"]
    values = getattr(values, "values", values)
    asyncio.run(test(**dict(zip(names, values if isinstance(values, list | tuple) else [values], strict=True))))
    return [left[row.input_metadata.row_id or ""] for row in rows]


@pytest.mark.parametrize("right", [RightHere, RightHereAsync])
@pytest.mark.parametrize("mode", ["pointwise", "all"])
def test_a_tree_under_evaluation_test(right: type[Rubric], mode: str) -> None:
    tree = make_tree(right)
    evaluator = row_evaluator(tree) if mode == "pointwise" else rows_evaluator(tree)
    rows = evaluated(evaluator, [row("7"), row("8"), row("unscored"), row("bug")], mode)
    good, wrong, unscored, failed = (one.evaluation_result for one in rows)

    assert good.score == 0.875 and good.is_score_valid and good.error is None
    assert {name: metric.score for name, metric in good.metrics.items()} == {
        "polite": 1.0,
        "looked": 0.5,
        "right": 1.0,
    }
    assert good.metrics["polite"].reason == "it says please"
    assert [(step.base_reward, step.terminated) for step in good.step_outputs] == [(0.0625, False), (0.8125, True)]
    assert good.trajectory_info["kind"] == "reward"
    assert wrong.score == 0.375

    assert not unscored.is_score_valid and unscored.reason == "right is unscored: nobody knows"
    assert unscored.error is None and set(unscored.metrics) == {"polite", "looked"}
    assert not failed.is_score_valid and failed.error == "right: ZeroDivisionError: a bug"
    assert {result.agg_score for result in (good, wrong, unscored, failed)} == {(0.875 + 0.375) / 2}
    assert rows[2].eval_metadata.status.is_score_invalid()

    for one in rows[:2]:
        trajectory = trajectory_of_row(one)
        again = Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict())))
        assert one.evaluation_result.score == rescore_one(again, tree).reward == Scorer(tree).score(trajectory).reward


def test_in_a_function_of_ones_own() -> None:
    score = row_evaluator(make_tree())

    @evaluation_test(
        input_rows=[[row("7")]], rollout_processor=NoOpRolloutProcessor(), logger=Silent(), disable_browser_open=True
    )
    async def test_quality(row: EvaluationRow) -> EvaluationRow:
        return await score(row)

    assert asyncio.run(test_quality(row("7"))).evaluation_result.score == 0.875


def test_what_a_tree_sees() -> None:
    trajectory = trajectory_of_row(row("7"))
    assert trajectory.task == {"row_id": "row-7-please, it is 7", "ground_truth": "7", "level": 3}
    assert [message.content for message in trajectory.initial.messages] == ["Which number?"]
    first, second = trajectory.steps
    assert first.action.tool_calls == [{"id": "call_1", "name": "look", "arguments": {"what": "numbers"}}]
    assert first.observation.content == "looked up numbers" and second.observation.done
    assert "weight" not in first.observation.messages[0]


def test_a_row_in_a_file_is_the_row_that_was_judged(tmp_path: Path) -> None:
    judged = row("7")
    judged.rollout_status = Status.rollout_finished(TerminationReason.STOP)
    judged.evaluation_result = EvaluateResult(score=0.5, metrics={})
    (tmp_path / "rows.jsonl").write_text(judged.model_dump_json() + "\n")
    (recorded,) = formats.read(tmp_path / "rows.jsonl")
    live = trajectory_of_row(judged)
    assert isinstance(recorded, Trajectory)
    assert (recorded.id, recorded.task, recorded.initial, recorded.steps, recorded.end) == (
        live.id,
        live.task,
        live.initial,
        live.steps,
        live.end,
    )
    assert recorded.reward == 0.5


def test_ends() -> None:
    cut = row("7")
    cut.rollout_status = Status.rollout_finished(TerminationReason.MAX_STEPS)
    assert trajectory_of_row(cut).end == "truncated"
    long = row("7")
    long.execution_metadata.finish_reason = "length"
    assert trajectory_of_row(long).end == "truncated"
    broken = row("7")
    broken.rollout_status = Status.rollout_error("it broke")
    (result,) = evaluated(row_evaluator(make_tree()), [broken])
    assert not result.evaluation_result.is_score_valid
    assert "the end of the rollout is 'error'" in result.evaluation_result.reason
    silent = EvaluationRow(messages=[Message(role="user", content="?")], input_metadata=InputMetadata(row_id="r"))
    (result,) = evaluated(row_evaluator(make_tree()), [silent])
    assert result.evaluation_result == EvaluateResult(
        score=0.0, is_score_valid=False, reason="the rollout has no steps", agg_score=0.0
    )


def test_many_at_once() -> None:
    rows = [row("7", f"{'please ' if i % 2 else ''}7 {i}") for i in range(40)]
    results = evaluated(row_evaluator(make_tree(RightHereAsync)), rows)
    assert [one.evaluation_result.score for one in results] == [0.875 if i % 2 else 0.625 for i in range(40)]
