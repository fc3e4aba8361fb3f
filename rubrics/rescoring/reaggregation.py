"""Other weights and thresholds over a finished run: no leaf and no model is asked again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rubrics.delayed import TrajectoryRubric
from rubrics.engine.replay import shares
from rubrics.evaluation import NO_USAGE, Evaluation
from rubrics.fingerprinting import fingerprint
from rubrics.rescoring.rows import Row
from rubrics.rubric import Rubric
from rubrics.score import Outcome
from rubrics.step_rewards import reduced

_RERUN = "score the trajectories with record='steps' (--record steps) to change it without asking anew"


def reaggregate(rows: Iterable[Row], rubric: Rubric) -> Iterator[Row]:
    """The rows of a run under a tree of the same leaves with other weights, thresholds or containers, in order.

    Recorded outcomes are matched by path, as by `Rubric.reaggregate`. A row is unscored, and says why, where the new
    tree asks a node that was not asked, or where the records of steps are missing that count: rows hold those of all
    steps with `record="steps"`, which is the default of trees with async nodes. Rows without a result stay as they
    are. Nothing is spent, so `usage` is None.

    Args:
        rows: of a finished run.
        rubric: the new tree.
    """
    print_of_new = fingerprint(rubric)
    for row in rows:
        yield _again(row, rubric, print_of_new)


def _again(row: Row, rubric: Rubric, print_of_new: str) -> Row:
    made = replace(row, rubric=print_of_new, usage=None)
    if row.status not in ("scored", "unscored") or row.evaluation is None:
        return made
    made.status, made.reward, made.step_rewards, made.reason = "unscored", None, None, None
    reduction = (row.step_rewards or {}).get("reduction") or rubric.reduction
    records = row.evaluations
    if records is None:
        if row.steps > 1 and reduction == "sum":
            made.reason = f"only the last of {row.steps} steps was recorded, and the reward is the sum of all; {_RERUN}"
            return made
        records = [None] * (row.steps - 1) + [row.evaluation]
    made.evaluations = [None if record is None else rubric.reaggregate(record) for record in records]
    judged = [record for record in made.evaluations if record is not None]
    made.evaluation = judged[-1]
    for record in judged:
        for node in record.nodes():
            node.own_usage = NO_USAGE
    # An unpaid step, or one that does not count, has no record and pays nothing.
    emitted = [0.0 if record is None else record.score for record in made.evaluations]
    made.reward = reduced(emitted, reduction)
    for number, step in enumerate(made.evaluations, start=1):
        if step is not None and step.score is None:
            made.reason = f"step {number} of {row.steps} is unscored: {step.reason or 'no reason given'}"
    if made.reward is not None:
        made.status, made.reason = "scored", None
        if row.evaluations is not None or row.steps == 1:
            made.step_rewards = _step_rewards(rubric, made.evaluation, emitted, made.reward, reduction)
    if row.evaluations is None:
        made.evaluations = None
    return made


def _step_rewards(
    rubric: Rubric, last: Evaluation, emitted: list[float | None], total: float, reduction: Any
) -> dict[str, Any] | None:
    """Step rewards as a run writes them; None where a credit needs more than what was recorded."""
    plan = rubric._compiled()
    outcomes: dict[str, Outcome | None] = {node.path: node.outcome for node in last.nodes()}
    delayed: dict[int, Any] = {
        group[0].index: group[0].node for group in plan.by_node.values() if group[0].node._is_delayed()
    }
    values = [float(value or 0.0) for value in emitted]
    for index, share in shares(plan.root, lambda place: outcomes.get(place.path)).items():
        node = delayed[index]
        if node.sees != "steps" or type(node).compute_step_rewards is not TrajectoryRubric.compute_step_rewards:
            return None
        score: Any = next(outcomes[path] for path, at in plan.paths if at == index)
        credit = node.credit(score, len(values)).copy()
        credit[-1] -= float(score)
        values = [value + share * float(part) for value, part in zip(values, credit, strict=True)]
    kind = "reward" if all(node._conserves() for node in delayed.values()) else "credit"
    return {"values": values, "emitted": emitted, "total": total, "kind": kind, "reduction": reduction}
