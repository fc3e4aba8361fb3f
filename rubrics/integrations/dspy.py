"""DSPy: a tree as a metric for `dspy.Evaluate` and optimisers, and as one with feedback for GEPA.

    dspy.Evaluate(devset=…, metric=rubric_metric(tree, unscored="raise"), max_errors=1)(program)
    dspy.GEPA(metric=feedback_metric(tree, unscored=0.0), reflection_lm=…, auto="light").compile(program, trainset=…)

Each prediction is a rollout of one tree: `self.task` is the example, all of its fields; the prediction's fields are the
last action's `outputs`. The tool calls of a `dspy.ReAct` program are steps before it.

DSPy has no place for a prediction without a score, so each metric asks what is to stand for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Fill, Scorer, checked_fill, filled
from rubrics.rubric import Rubric
from rubrics.trajectory import Trajectory

try:
    from dspy import Example, Prediction
    from dspy.teleprompt.gepa.gepa_utils import ScoreWithFeedback
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.dspy needs DSPy 3, which does not import here ({error}); pip install 'rubrics[dspy]'"
    ) from error


class Metric(Protocol):
    """A metric as DSPy calls it."""

    def __call__(self, example: Example, pred: Prediction, trace: Any = None) -> float:
        """The reward of a prediction."""
        ...


class FeedbackMetric(Protocol):
    """A metric as GEPA calls it, also for the feedback on one predictor."""

    def __call__(
        self, gold: Example, pred: Prediction, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> ScoreWithFeedback:
        """The reward of a prediction, the component scores as `objective_scores`, and both in words."""
        ...


def rubric_metric(
    rubric: Rubric, *, unscored: Fill, output: str | None = None, on_error: Literal["unscored", "raise"] = "unscored"
) -> Metric:
    """A tree as a metric that returns the reward, for `dspy.Evaluate` and for optimisers.

    An optimiser that wants to know whether a prediction is good enough for a demonstration compares with its own
    `metric_threshold`; without one it takes every reward but 0 for good.

    Args:
        rubric: the tree.
        unscored: what stands for the reward of a prediction that has none, be it that the tree could not assess it
            or that it raised: a number, or `"raise"`. DSPy catches what a metric raises, logs it and takes its own
            `failure_score` (0 by default) in its place, until it has counted `max_errors`: give it `max_errors=1` too.
        output: the field of the prediction that is the text of the action; by default the last.
        on_error: as in `Scorer`.
    """
    scorer, fill = Scorer(rubric, on_error=on_error), checked_fill(unscored)

    def rubric_metric(example: Example, pred: Prediction, trace: Any = None) -> float:
        return filled(scorer.score(trajectory_of_prediction(example, pred, output=output)), fill)

    return rubric_metric


def feedback_metric(
    rubric: Rubric, *, unscored: float, output: str | None = None, on_error: Literal["unscored", "raise"] = "unscored"
) -> FeedbackMetric:
    """A tree as a metric that also says why, for `dspy.GEPA`.

    The feedback is `Scored.feedback()`: a line a node with score and reason, which the reflecting model reads. GEPA
    asks for it after it has asked for the score; judges with a store answer the second time at no cost.

    Args:
        rubric: the tree.
        unscored: the number that stands for the reward of a prediction that has none; the feedback says that, and why.
            It cannot be `"raise"`: GEPA catches everything and takes its own `failure_score` in its place.
        output: as in `rubric_metric`.
        on_error: as in `Scorer`.
    """
    if isinstance(unscored, str):
        raise ValueError("GEPA catches what a metric raises and goes on with its failure_score: name a number instead")
    scorer, fill = Scorer(rubric, on_error=on_error), checked_fill(unscored)

    def feedback_metric(
        gold: Example, pred: Prediction, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> ScoreWithFeedback:
        scored = scorer.score(trajectory_of_prediction(gold, pred, output=output))
        return ScoreWithFeedback(
            score=filled(scored, fill),
            feedback=scored.feedback(),
            objective_scores={path: score for path, score in scored.scores.items() if score is not None},
        )

    return feedback_metric


def trajectory_of_prediction(example: Example, pred: Prediction, *, output: str | None = None) -> Trajectory:
    """A prediction as the trajectory that a tree judges.

    `initial` is the example's inputs in words, the task all of its fields. The last action is
    `{"content": text of one output, "outputs": {field: value}, "tool_calls": []}`. The `trajectory` of `dspy.ReAct`
    becomes the steps before it: thought and tool call, and what the tool answered.

    Raises:
        ValueError: there is no field in the prediction, or none of the name `output`.
    """
    outputs = dict(pred.items()) if hasattr(pred, "items") else {"output": pred}
    calls = outputs.pop("trajectory") if _is_react(outputs.get("trajectory")) else {}
    if not outputs or (output is not None and output not in outputs):
        raise ValueError(f"the prediction has no field {output or 'at all'!r}; it has: {', '.join(outputs) or 'none'}")
    said = outputs[output or list(outputs)[-1]]
    last = {"role": "assistant", "content": said if isinstance(said, str) else str(said), "outputs": outputs}
    return trajectory_of(_inputs(example), [*_tool_messages(calls), last], task=dict(example.items()))


def _inputs(example: Example) -> str | None:
    try:
        inputs = dict(example.inputs().items())
    except ValueError:  # an example of which nobody said what its inputs are
        return None
    if len(inputs) == 1:
        return str(next(iter(inputs.values())))
    return "\n\n".join(f"{name}: {value}" for name, value in inputs.items())


_TOOL = re.compile(r"tool_name_(\d+)")


def _is_react(value: Any) -> bool:
    return isinstance(value, Mapping) and (not value or any(map(_TOOL.fullmatch, value)))


def _tool_messages(trajectory: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number in [found[1] for found in map(_TOOL.fullmatch, trajectory) if found]:
        call_id, name = f"call_{number}", trajectory[f"tool_name_{number}"]
        function = {"name": str(name), "arguments": trajectory.get(f"tool_args_{number}")}
        thought = str(trajectory.get(f"thought_{number}", ""))
        answer = str(trajectory.get(f"observation_{number}", ""))
        messages += [
            {"role": "assistant", "content": thought, "tool_calls": [{"id": call_id, "function": function}]},
            {"role": "tool", "tool_call_id": call_id, "name": str(name), "content": answer},
        ]
    return messages
