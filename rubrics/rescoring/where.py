"""`--where` and `--group-by`: expressions over trajectories that can do no harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import ChainableUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rubrics.score import RubricError
from rubrics.trajectory import Trajectory

NAMES = ("id", "source", "reward", "end", "steps", "group", "task", "metadata")


class _Missing(ChainableUndefined):
    """What there is not: nothing is less or greater than it, as in SQL."""

    def _no(self, other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _no  # type: ignore[assignment]


class ConditionError(RubricError, ValueError):
    """A condition that is no expression, or cannot be worked out for a trajectory."""


def condition(text: str) -> Callable[[Trajectory], bool]:
    """A condition on trajectories, such as `reward < 0.5 and end == "terminated"`; see `expression`.

    Things that cannot be compared do not meet it.

    Raises:
        ConditionError: it is no expression, or names something else.
    """
    evaluate = expression(text)

    def holds(trajectory: Trajectory) -> bool:
        try:
            return bool(evaluate(trajectory))
        except TypeError:
            return False

    return holds


def grouping(text: str) -> Callable[[Trajectory], Any]:
    """What the trajectories of a group share, such as `task.id`; see `expression`.

    Raises:
        ConditionError: it is no expression, or names something else; called, that it cannot be worked out.
    """
    evaluate = expression(text)

    def group(trajectory: Trajectory) -> Any:
        try:
            return evaluate(trajectory)
        except TypeError as error:
            raise ConditionError(f"{text!r} on the trajectory {trajectory.id!r}: {error}") from None

    return group


def expression(text: str) -> Callable[[Trajectory], Any]:
    """A value worked out of a trajectory, such as `task.id`; None where there is none.

    It is an expression of Jinja2, which looks like one of Python, in a sandbox. It may name `id`, `source` (`path`,
    `format`, `line`), `reward` (the recorded one), `end`, `steps` (their number), `group`, `task` and `metadata`.
    What there is not (a reward that was not recorded, a key that a task has not) is `none`, and neither less nor
    greater than anything. `in`, `is none`, `is defined` and filters such as `|lower` work.

    Raises:
        ConditionError: it is no expression, or names something else.
    """
    environment = ImmutableSandboxedEnvironment(undefined=_Missing)
    environment.tests["none"] = lambda value: value is None or isinstance(value, _Missing)
    try:
        evaluate = environment.compile_expression(text)
        names = _names(environment, text)
    except TemplateError as error:
        raise ConditionError(f"{text!r} is no expression: {error}") from None
    if unknown := sorted(names.difference(NAMES)):
        raise ConditionError(f"{text!r} names {', '.join(unknown)}; there are {', '.join(NAMES)}")

    def value(trajectory: Trajectory) -> Any:
        try:
            return _present(evaluate(**_values(trajectory)))
        except TypeError:  # things that cannot be compared
            raise
        except Exception as error:  # whatever an expression does wrong is the expression's fault
            raise ConditionError(f"{text!r} on the trajectory {trajectory.id!r}: {error}") from None

    return value


def _present(value: Any) -> Any:
    """A value in whose lists what is missing is None, as it is by itself."""
    if type(value) in (list, tuple):
        return type(value)(map(_present, value))
    if type(value) is dict:
        return {key: _present(item) for key, item in value.items()}
    return None if isinstance(value, _Missing) else value


def _names(environment: ImmutableSandboxedEnvironment, expression: str) -> set[str]:
    from jinja2 import meta

    return set(meta.find_undeclared_variables(environment.parse("{{ (" + expression + ") }}")))


def _values(trajectory: Trajectory) -> dict[str, Any]:
    values = {
        "id": trajectory.id,
        "source": trajectory.source,
        "reward": trajectory.reward,
        "end": trajectory.end,
        "steps": len(trajectory.steps),
        "group": trajectory.metadata.get("group"),
        "task": trajectory.task,
        "metadata": trajectory.metadata,
    }
    return {name: value for name, value in values.items() if value is not None}
