"""MLflow: a tree as a scorer for `mlflow.genai.evaluate`.

    mlflow.genai.evaluate(data=…, predict_fn=…, scorers=[RubricScorer(tree)])

Each row is a rollout of one tree: `self.task` is `{"inputs", "expectations"}`, the outputs are the action. The reward
is the feedback `rubric`, each node the feedback `rubric.path`; MLflow aggregates each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import PrivateAttr

from rubrics.rollouts.conversations import trajectory_of_output
from rubrics.rollouts.scoring import Scored, Scorer as TreeScorer
from rubrics.rubric import Rubric

try:
    from mlflow.entities import AssessmentError, AssessmentSource, AssessmentSourceType, Feedback
    from mlflow.genai import Scorer
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.mlflow needs MLflow, which does not import here ({error}); pip install 'rubrics[mlflow]'"
    ) from error


class RubricScorer(Scorer):
    """A tree as a scorer, called by MLflow in threads, or directly: `RubricScorer(tree)(inputs=…, outputs=…)`.

    A row without a reward has a feedback `rubric` with an error in place of a value, which MLflow leaves out of its
    aggregates: error code "UNSCORED" and the reason, or the type of what the tree raised and its message. A node that
    is unscored or was not reached has no feedback. The rationale of the reward is all scores and reasons in words, its
    metadata what model calls cost.

    Args:
        rubric: the tree.
        name: what the feedback is called.
        aggregations: as in MLflow's `@scorer`, of the reward; MLflow takes the mean of components.
        pass_if: as in MLflow's `@scorer`: whether a reward is good enough for `EvaluationResult.passed`.
        timeout: as in MLflow's `@scorer`: seconds for a row; None is MLflow's 300, 0 none.
    """

    tree: str
    _scorer: TreeScorer = PrivateAttr()

    def __init__(
        self,
        rubric: Rubric,
        *,
        name: str = "rubric",
        aggregations: list[Any] | None = None,
        pass_if: Callable[[Any], bool] | None = None,
        timeout: float | None = None,
    ) -> None:
        scorer = TreeScorer(rubric)
        # MLflow tells scorers apart by a digest of their fields, so the tree is to be among these
        super().__init__(name=name, aggregations=aggregations, timeout=timeout, tree=repr(rubric))
        self._scorer = scorer
        self._pass_if = pass_if

    def __call__(
        self, *, inputs: Any = None, outputs: Any = None, expectations: dict[str, Any] | None = None
    ) -> list[Feedback]:
        """The feedback on one row: the reward first, then a node each."""
        task = {"inputs": inputs, "expectations": expectations or {}}
        scored = self._scorer.score(trajectory_of_output(inputs, outputs, task=task))
        source = AssessmentSource(source_type=AssessmentSourceType.CODE, source_id=self.name)
        whole = Feedback(
            name=self.name,
            value=scored.reward,
            error=_error(scored),
            rationale=scored.feedback(),
            metadata={name: str(spent) for name, spent in scored.usage.to_dict().items()} if scored.usage else None,
            source=source,
        )
        return [whole] + [
            Feedback(name=f"{self.name}.{path}", value=score, rationale=scored.reasons.get(path), source=source)
            for path, score in scored.scores.items()
            if score is not None
        ]


def _error(scored: Scored) -> AssessmentError | None:
    if scored.reward is not None:
        return None
    code = "UNSCORED" if scored.error is None else type(scored.error).__name__
    return AssessmentError(error_code=code, error_message=scored.reason)
