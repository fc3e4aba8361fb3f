"""Criteria of a whole episode: which tools were called, in which order, with what, and what came of it.

Calls are read off actions of the shapes that hosts and readers give (see `calls.calls_of`). A criterion that finds
fault with steps cites them in `metadata["evidence"]`, for `ByEvidence`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rubrics.criteria.calls import Call, calls_of, field_of
from rubrics.criteria.values import Value, quoted, text_of
from rubrics.delayed import TrajectoryRubric
from rubrics.score import Score, StructureError, Unscored

if TYPE_CHECKING:
    from rubrics.credit import Credit

Pairs = list[tuple[Any, Any]]


class ToolCheck(TrajectoryRubric):
    """A delayed leaf that looks at the tool calls of an episode. Subclasses write `score_calls(calls, trajectory)`.

    Args:
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
    """

    extra: ClassVar[str | None] = None

    def score_trajectory(self, trajectory: Pairs) -> Any:
        calls = [call for step, (action, _) in enumerate(trajectory) for call in calls_of(action, step)]
        return self.score_calls(calls, trajectory)

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> float | Score:
        """The score of an episode.

        Args:
            calls: the tool calls, in order.
            trajectory: the (action, observation) pairs.
        """
        raise NotImplementedError


def _found(value: float, reason: str | None, steps: Sequence[int] = ()) -> Score:
    return Score(value, reason, {"evidence": sorted(set(steps))} if steps else None)


class Called(ToolCheck):
    """Whether a tool was called, as often as it should be.

    Args:
        tool: its name.
        least, most: how often; None for no upper bound.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
    """

    def __init__(
        self,
        tool: str,
        least: int = 1,
        most: int | None = None,
        intermediate_reward: float = 0.0,
        credit: Credit | None = None,
    ) -> None:
        super().__init__(intermediate_reward, credit)
        if least < 0 or (most is not None and most < least):
            raise StructureError(f"Called: least is 0 or more, and most not below it; got {least} and {most}")
        self.tool, self.least, self.most = tool, least, most

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> Score:
        steps = [call.step for call in calls if call.name == self.tool]
        fits = len(steps) >= self.least and (self.most is None or len(steps) <= self.most)
        return _found(float(fits), f"{self.tool} was called {len(steps)} times", steps)


class NeverCalled(ToolCheck):
    """Whether none of some tools was called.

    Args:
        tools: their names.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
    """

    def __init__(
        self, tools: str | Sequence[str], intermediate_reward: float = 0.0, credit: Credit | None = None
    ) -> None:
        super().__init__(intermediate_reward, credit)
        self.tools = tools

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> Score:
        names = {self.tools} if isinstance(self.tools, str) else set(self.tools)
        found = [call for call in calls if call.name in names]
        if not found:
            return Score(1.0)
        return _found(0.0, f"{found[0].name} was called in step {found[0].step}", [call.step for call in found])


class CalledInOrder(ToolCheck):
    """Whether tools were called in an order; others may be called in between.

    Args:
        tools: their names, in the order in which they should be called first.
        partial: score the share of the tools that were called in this order, in place of all or nothing.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
    """

    def __init__(
        self,
        tools: Sequence[str],
        partial: bool = False,
        intermediate_reward: float = 0.0,
        credit: Credit | None = None,
    ) -> None:
        super().__init__(intermediate_reward, credit)
        if not tools or isinstance(tools, str):
            raise StructureError(f"CalledInOrder: tools is a list of names, not {tools!r}")
        self.tools, self.partial = list(tools), partial

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> Score:
        steps: list[int] = []
        for call in calls:
            if len(steps) < len(self.tools) and call.name == self.tools[len(steps)]:
                steps.append(call.step)
        share = len(steps) / len(self.tools)
        missing = None if share == 1.0 else f"{self.tools[len(steps)]} was not called after the ones before it"
        return _found(share if self.partial else float(share == 1.0), missing, steps)


class AtMostCalls(ToolCheck):
    """Whether there were not too many calls.

    Args:
        most: how many there may be.
        tool: only calls of this one count; None for all.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
    """

    def __init__(
        self, most: int, tool: str | None = None, intermediate_reward: float = 0.0, credit: Credit | None = None
    ) -> None:
        super().__init__(intermediate_reward, credit)
        if most < 0:
            raise StructureError(f"AtMostCalls: most is 0 or more, not {most}")
        self.most, self.tool = most, tool

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> Score:
        steps = [call.step for call in calls if self.tool in (None, call.name)]
        fits = len(steps) <= self.most
        return _found(float(fits), None if fits else f"there were {len(steps)} calls", steps[self.most :])


class NoRepeatedCalls(ToolCheck):
    """The share of calls that do not repeat an earlier one, tool and arguments alike; 1 without any call.

    Args:
        ignore: tools that may be called again, such as those that look at a state that changes.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
    """

    def __init__(
        self, ignore: Sequence[str] = (), intermediate_reward: float = 0.0, credit: Credit | None = None
    ) -> None:
        super().__init__(intermediate_reward, credit)
        if isinstance(ignore, str):
            raise StructureError(f"NoRepeatedCalls: ignore is a list of names, not {ignore!r}")
        self.ignore = list(ignore)

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> Score:
        counted = [call for call in calls if call.name not in self.ignore]
        seen: set[str] = set()
        repeated = []
        for call in counted:
            if call.key in seen:
                repeated.append(call)
            seen.add(call.key)
        if not repeated:
            return Score(1.0)
        said = f"{len(repeated)} of {len(counted)} calls repeat another, such as {repeated[0].name}"
        return _found(1.0 - len(repeated) / len(counted), said, [call.step for call in repeated])


class ArgumentsMatch(ToolCheck):
    """Whether a tool was called with the right arguments.

    Args:
        tool: its name.
        arguments: values that must be there, at any depth of objects: a call may have others beside them.
        schema: in its place, JSON Schema that the arguments must meet (needs the extra `structure`).
        exact: whether there may be no other arguments.
        calls: `any` call will do, `all` must fit (and there must be one), or the `last` one counts.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
    """

    def __init__(
        self,
        tool: str,
        arguments: dict[str, Any] | None = None,
        schema: dict[str, Any] | None = None,
        exact: bool = False,
        calls: Literal["any", "all", "last"] = "any",
        intermediate_reward: float = 0.0,
        credit: Credit | None = None,
    ) -> None:
        super().__init__(intermediate_reward, credit)
        if (arguments is None) == (schema is None):
            raise StructureError("ArgumentsMatch: give either arguments or schema")
        if calls not in ("any", "all", "last"):
            raise StructureError(f"ArgumentsMatch: calls is 'any', 'all' or 'last', not {calls!r}")
        self.tool, self.arguments, self.schema, self.exact, self.calls = tool, arguments, schema, exact, calls
        self._validator  # noqa: B018

    @cached_property
    def _validator(self) -> Any:
        if self.schema is None:
            return None
        from rubrics.criteria.structure import validator_of

        return validator_of(self.schema, self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_validator"}

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> Score:
        counted = [call for call in calls if call.name == self.tool]
        if not counted:
            return Score(0.0, f"{self.tool} was not called")
        looked_at = counted[-1:] if self.calls == "last" else counted
        wrong = [call for call in looked_at if self._problem(call)]
        if len(wrong) < len(looked_at) if self.calls == "any" else not wrong:
            return _found(1.0, None, [call.step for call in looked_at if call not in wrong])
        return _found(0.0, self._problem(wrong[-1]), [call.step for call in wrong])

    def _problem(self, call: Call) -> str | None:
        if self._validator is not None:
            from rubrics.criteria.structure import problem_with

            return problem_with(_plain(call.arguments), self._validator)
        if not isinstance(call.arguments, Mapping):
            return f"the arguments of {self.tool} are no object"
        given = dict(call.arguments)
        if self.exact and set(given) != set(self.arguments or {}):
            return f"it was given {', '.join(sorted(map(str, given)))}"
        for name, value in (self.arguments or {}).items():
            if name not in given or not _holds(given[name], value):
                return f"{name} was {quoted(str(given.get(name)), 80)}"
        return None


def _holds(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(given, Mapping) and all(
            key in given and _holds(dict(given)[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(given, list | tuple) and len(given) == len(wanted) and all(map(_holds, given, wanted))
    if isinstance(wanted, bool) or isinstance(given, bool):
        return given is wanted
    return bool(given == wanted)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in dict(value).items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


class RecoversFromErrors(ToolCheck):
    """The share of errors after which something worked; 1 without any error.

    Errors that follow each other are one. It is recovered from where a later step has none.

    Args:
        error: a path to what says that a step failed, such as `observation.failed`; anything but null, false, 0 and
            empty values counts. By default: `error` or `is_error` of the observation or of a message in it, a `status`
            of `error`, or a text that begins with `Error` or `Traceback`.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
    """

    def __init__(
        self, error: str | None = None, intermediate_reward: float = 0.0, credit: Credit | None = None
    ) -> None:
        super().__init__(intermediate_reward, credit)
        self.error = error
        self._path  # noqa: B018

    @cached_property
    def _path(self) -> Value | None:
        return None if self.error is None else Value(self.error)

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> Score:
        failed = [self._failed(action, observation) for action, observation in trajectory]
        begun = [step for step, now in enumerate(failed) if now and (step == 0 or not failed[step - 1])]
        if not begun:
            return Score(1.0, "there was no error")
        lost = [begun[-1]] if failed[-1] else []
        return _found(1.0 - len(lost) / len(begun), f"{len(begun)} errors, {len(lost)} not recovered from", begun)

    def _failed(self, action: Any, observation: Any) -> bool:
        if self._path is not None:
            try:
                return bool(self._path.read(action, observation, self.task))
            except Unscored:  # there is none, so it did not fail
                return False
        messages = field_of(observation, "messages")
        each = [observation, *(messages if isinstance(messages, list | tuple) else [])]
        return any(_is_error(one) for one in each)


def _is_error(value: Any) -> bool:
    if any(bool(field_of(value, name)) for name in ("error", "is_error")):
        return True
    if str(field_of(value, "status")).casefold() == "error":
        return True
    return (text_of(value) or "").lstrip().startswith(("Error", "ERROR", "Traceback (most recent call last)"))


class WithinBudget(ToolCheck):
    """Whether an episode stayed within a budget of turns or tokens: 1 up to it, falling to 0 over a cushion.

    Args:
        most: the budget.
        cushion: the excess at which the score reaches 0; with 0 it falls at once.
        of: `turns` (steps), `calls` (of tools), or a path to a number in each step, such as
            `action.usage.completion_tokens`, whose sum counts.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
    """

    def __init__(
        self,
        most: float,
        cushion: float = 0.0,
        of: str = "turns",
        intermediate_reward: float = 0.0,
        credit: Credit | None = None,
    ) -> None:
        super().__init__(intermediate_reward, credit)
        if most < 0.0 or cushion < 0.0:
            raise StructureError(f"WithinBudget: most and cushion are 0 or more, not {most} and {cushion}")
        self.most, self.cushion, self.of = most, cushion, of
        self._path  # noqa: B018

    @cached_property
    def _path(self) -> Value | None:
        return None if self.of in ("turns", "calls") else Value(self.of)

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> Score:
        spent = float(len(trajectory) if self.of == "turns" else len(calls))
        if self._path is not None:
            each = [self._path.read(action, observation, self.task) for action, observation in trajectory]
            if wrong := [one for one in each if isinstance(one, bool) or not isinstance(one, int | float)]:
                raise Unscored(f"{self.of} is {quoted(str(wrong[0]), 40)}, no number")
            spent = float(sum(each))
        over = spent - self.most
        value = 1.0 if over <= 0.0 else max(0.0, 1.0 - over / self.cushion) if self.cushion else 0.0
        return Score(value, None if over <= 0.0 else f"it took {spent:g}, and {self.most:g} were allowed")


class SideEffect(ToolCheck):
    """Whether the environment reports what should have come of an episode.

    Args:
        path: where it reports, such as `observation.state.files`.
        expected: what must be there, any JSON value; or, in its place,
        contains: what must be in it: an item of a list, a key, or a part of a text.
        when: at the `end`: in the last step that reports it; or `ever`.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.

    Unscored where no step reports it.
    """

    def __init__(
        self,
        path: str,
        expected: bool | int | float | str | list[Any] | dict[str, Any] | None = None,
        contains: bool | int | float | str | None = None,
        when: Literal["end", "ever"] = "end",
        intermediate_reward: float = 0.0,
        credit: Credit | None = None,
    ) -> None:
        super().__init__(intermediate_reward, credit)
        if (expected is None) == (contains is None):
            raise StructureError("SideEffect: give either expected or contains")
        if when not in ("end", "ever"):
            raise StructureError(f"SideEffect: when is 'end' or 'ever', not {when!r}")
        self.path, self.expected, self.contains, self.when = path, expected, contains, when
        self._report  # noqa: B018

    @cached_property
    def _report(self) -> Value:
        return Value(self.path)

    def score_calls(self, calls: list[Call], trajectory: Pairs) -> Score:
        reported = []
        for step, (action, observation) in enumerate(trajectory):
            try:
                reported.append((step, self._report.read(action, observation, self.task)))
            except Unscored:  # this step does not report it
                continue
        if not reported:
            raise Unscored(f"no step reports {self.path}")
        counted = reported[-1:] if self.when == "end" else reported
        fitting = [step for step, value in counted if self._fits(value)]
        said = None if fitting else f"{self.path} is {quoted(str(counted[-1][1]), 80)}"
        return _found(float(bool(fitting)), said, fitting[:1])

    def _fits(self, value: Any) -> bool:
        if self.contains is None:
            return _holds(value, self.expected)
        if isinstance(value, str):
            return str(self.contains) in value
        if isinstance(value, Mapping):
            return self.contains in value
        return isinstance(value, list | tuple) and any(_holds(item, self.contains) for item in value)
