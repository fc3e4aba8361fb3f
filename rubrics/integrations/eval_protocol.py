"""eval-protocol: a tree as the function under `@evaluation_test`.

    test_quality = evaluation_test(input_rows=[rows], rollout_processor=…)(row_evaluator(tree))

Each row is a rollout of the tree: `self.task` is its `dataset_info`, `ground_truth` and `row_id`, each assistant's
message an action. A row without a reward has `is_score_valid=False` and the reason, and is left out of averages. Its
`score` has to be a number and is 0.0, as in eval-protocol itself.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Scored, Scorer
from rubrics.rubric import Rubric
from rubrics.trajectory import End, Trajectory

try:
    from eval_protocol.models import EvaluateResult, EvaluationRow, MetricResult, Status, StepOutput
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.eval_protocol needs eval-protocol 0.3, which does not import here ({error}); "
        "pip install 'rubrics[eval-protocol]'"
    ) from error

# eval-protocol compares annotations by identity, so this module has no `from __future__ import annotations`.


def row_evaluator(
    rubric: Rubric, *, name: str = "rubric", concurrency: int = 256
) -> Callable[[EvaluationRow], Awaitable[EvaluationRow]]:
    """A tree as a function of one row, for `mode="pointwise"`, or to be awaited in a test function of your own.

    Args:
        rubric: the tree.
        name: how eval-protocol calls the evaluation.
        concurrency: as in `Scorer`.

    Returns:
        A coroutine function that sets `row.evaluation_result` and returns the row.
    """
    scorer = Scorer(rubric, concurrency=concurrency)

    async def evaluate(row: EvaluationRow) -> EvaluationRow:
        row.evaluation_result = _result(await scorer.score_async(trajectory_of_row(row)))
        return row

    evaluate.__name__ = evaluate.__qualname__ = name
    return evaluate


def rows_evaluator(
    rubric: Rubric, *, name: str = "rubric", concurrency: int = 256
) -> Callable[[list[EvaluationRow]], Awaitable[list[EvaluationRow]]]:
    """The same of many rows at once, for `mode="all"` and `mode="groupwise"`; arguments as in `row_evaluator`."""
    scorer = Scorer(rubric, concurrency=concurrency, on_error="log")

    async def evaluate(rows: list[EvaluationRow]) -> list[EvaluationRow]:
        scored = await scorer.score_all_async([trajectory_of_row(row) for row in rows])
        for row, one in zip(rows, scored, strict=True):
            row.evaluation_result = _result(one)
        return rows

    evaluate.__name__ = evaluate.__qualname__ = name
    return evaluate


def _result(scored: Scored) -> EvaluateResult:
    # A metric has no place for "unscored" that eval-protocol's own averages heed, so such a component is left out.
    metrics = {
        path: MetricResult(score=score, reason=scored.reasons.get(path, ""))
        for path, score in scored.scores.items()
        if score is not None
    }
    if scored.reward is None:
        error = scored.reason if scored.status == "error" else None
        return EvaluateResult(score=0.0, is_score_valid=False, reason=scored.reason, error=error, metrics=metrics)
    rewards = scored.rewards()
    assert rewards is not None and scored.episode is not None
    last = len(rewards.values) - 1
    ended = scored.episode.status == "terminated"
    usage = scored.usage
    return EvaluateResult(
        score=scored.reward,
        reason=scored.reason,
        metrics=metrics,
        step_outputs=[
            StepOutput(step_index=i, base_reward=float(value), terminated=ended and i == last)
            for i, value in enumerate(rewards.values)
        ],
        trajectory_info={
            "end": scored.episode.status,
            "kind": rewards.kind,  # "reward" or "credit", which nobody may sum
            "reduction": rewards.reduction,
            "judges": {"calls": usage.calls, "total_tokens": usage.total_tokens, "cost": usage.cost},
        },
    )


# -- a row as a trajectory --------------------------------------------------------------------------------------------


def trajectory_of_row(row: EvaluationRow) -> Trajectory:
    """The trajectory of a row. What stands before the first assistant's message is the prompt.

    The end is `"truncated"` where the reason for it is a limit of length or steps, `"error"` where the status of the
    rollout is an error, and `"terminated"` otherwise.
    """
    data = row.input_metadata
    task = {"row_id": data.row_id, "ground_truth": row.ground_truth, **(data.dataset_info or {})}
    id = row.execution_metadata.rollout_id or ""
    messages = [message.model_dump(exclude_none=True, exclude=_NOT_SAID) for message in row.messages]
    if not any(message["role"] == "assistant" for message in messages):
        return Trajectory(id=id, task=task, end=_end(row))
    return trajectory_of(None, messages, task=task, end=_end(row), id=id)


_NOT_SAID = {"control_plane_step", "weight", "logprobs"}
_LIMITS = ("length", "max_steps")
_FINE = (Status.Code.OK, Status.Code.FINISHED, Status.Code.RUNNING)  # rows that no processor touched are "running"


def _end(row: EvaluationRow) -> End:
    if row.rollout_status.code not in _FINE:
        return "error"
    reason: Any = row.rollout_status.get_termination_reason()
    if (reason is not None and reason.value in _LIMITS) or row.execution_metadata.finish_reason in _LIMITS:
        return "truncated"
    return "terminated"
