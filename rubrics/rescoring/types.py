"""The objects that an environment's rubric was written for, made again of recorded data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rubrics.score import RubricError
from rubrics.trajectory import Step, Trajectory


class RebuildError(RubricError, ValueError):
    """Recorded data that no object of the wanted class can be made of."""


@dataclass(frozen=True, slots=True)
class Types:
    """The classes of actions and observations; None leaves the recorded data as they are.

    An object is made by `model_validate` where the class has it (pydantic), else by passing the fields as keyword
    arguments. What is null in the recording stays None.
    """

    action: type | None = None
    observation: type | None = None

    def of(self, trajectory: Trajectory) -> tuple[Any, list[Step]]:
        """The initial observation and the steps, rebuilt. Raises RebuildError naming the place."""
        if self.action is None and self.observation is None:
            return trajectory.initial, trajectory.steps
        initial = _build(self.observation, trajectory.initial, "initial")
        steps = [
            Step(
                _build(self.action, step.action, f"steps.{index}.action"),
                _build(self.observation, step.observation, f"steps.{index}.observation"),
                step.reward,
                step.metadata,
            )
            for index, step in enumerate(trajectory.steps)
        ]
        return initial, steps


def _build(kind: type | None, value: Any, place: str) -> Any:
    if kind is None or value is None:
        return value
    if not isinstance(value, Mapping):
        raise RebuildError(f"{place}: a {kind.__qualname__} is made of an object's fields, found {value!r:.80}")
    validate = getattr(kind, "model_validate", None)
    try:
        return validate(dict(value)) if callable(validate) else kind(**value)
    except Exception as error:
        message = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
        raise RebuildError(f"{place}: no {kind.__qualname__} can be made of it: {message}") from error
