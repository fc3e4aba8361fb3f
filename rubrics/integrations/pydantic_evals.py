"""pydantic-evals: a tree as an evaluator of datasets.

    Dataset(name=…, cases=…, evaluators=[RubricEvaluator(tree)]).evaluate_sync(task)

Each case is a rollout of one tree: `self.task` is the case, `{"name", "inputs", "expected_output", "metadata",
"attributes", "metrics"}`, the output is the action. The report has the reward as the score `rubric`, each node as
`rubric.path`, with reasons, and as the label `rubric.status` whether the case was scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rubrics.rescoring.load import load_rubric
from rubrics.rollouts.conversations import trajectory_of_output
from rubrics.rollouts.scoring import Scorer
from rubrics.rubric import Rubric
from rubrics.trajectory import Trajectory

try:
    from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.pydantic_evals needs pydantic-evals, which does not import here ({error}); "
        "pip install 'rubrics[pydantic-evals]'"
    ) from error


@dataclass(repr=False)
class RubricEvaluator(Evaluator[Any, Any, Any]):
    """A tree as an evaluator.

    A case without a reward has no score `rubric`, so averages are over the cases that have one; the label
    `rubric.status` is "unscored" then, with the reason. A node that is unscored or was not reached has no score either.
    A tree that raises is an `EvaluatorFailure` of the report, and is run again where `retry_evaluators` says so.

    Args:
        rubric: the tree, or where it is made, `"legal.py:make_rubric"`: only that can be written into a dataset's file
            and read from it, by `Dataset.from_file(…, custom_evaluator_types=[RubricEvaluator])`.
        name: what the scores are called.

    Raises:
        LoadError: there is no tree where it was said to be.
    """

    rubric: Rubric | str
    name: str = "rubric"

    def __post_init__(self) -> None:
        tree = load_rubric(self.rubric) if isinstance(self.rubric, str) else self.rubric
        self._scorer = Scorer(tree, on_error="raise")

    async def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> dict[str, Any]:
        """Scores by name, and the label."""
        scored = await self._scorer.score_async(trajectory_of_case(ctx))
        found = {f"{self.name}.{path}": (score, scored.reasons.get(path)) for path, score in scored.scores.items()}
        results = {self.name: (scored.reward, scored.reason), **found}
        return {
            **{name: EvaluationReason(score, reason) for name, (score, reason) in results.items() if score is not None},
            f"{self.name}.status": EvaluationReason(
                scored.status, None if scored.reward is not None else scored.reason
            ),
        }

    def get_default_evaluation_name(self) -> str:
        """The name, under which a failure is reported too."""
        return self.name


def trajectory_of_case(ctx: EvaluatorContext[Any, Any, Any]) -> Trajectory:
    """A case as the trajectory that a tree judges; see `trajectory_of_output` for what its output becomes."""
    task = {
        "name": ctx.name,
        "inputs": ctx.inputs,
        "expected_output": ctx.expected_output,
        "metadata": ctx.metadata,
        "attributes": ctx.attributes,
        "metrics": ctx.metrics,
    }
    return trajectory_of_output(ctx.inputs, ctx.output, task=task)
