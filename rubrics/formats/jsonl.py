"""Our own format: JSON Lines, one trajectory a line.

    {"id": "g-1", "task": …, "initial": …, "steps": [{"action": …, "observation": …, "reward": 0.0}, …],
     "end": "terminated", "reward": 1.0, "reduction": "sum", "source": {…}, "metadata": {…}}

`id` and `steps` are required, and `action` and `observation` in a step; what is left out or null is not known. `end` is
"terminated", "truncated", "error", "abandoned" or null (unfinished). Numbers are finite. Fields of one's own go into
`metadata`, of the trajectory or of a step; any other key is an error, since it is most likely a misspelt one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # before Python 3.12 pydantic needs this one

from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, finite, json_line
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Reduction, Trajectory

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _Step(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    action: Any
    observation: Any
    reward: NotRequired[float | None]
    metadata: NotRequired[dict[str, Any] | None]


class _Line(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    id: str
    task: NotRequired[Any]
    initial: NotRequired[Any]
    steps: list[_Step]
    end: NotRequired[End | None]
    reward: NotRequired[float | None]
    reduction: NotRequired[Reduction | None]
    source: NotRequired[dict[str, Any] | None]
    metadata: NotRequired[dict[str, Any] | None]


@cache
def _schema() -> TypeAdapter[_Line]:
    return TypeAdapter(_Line)


def _ours(record: Any) -> bool:
    return isinstance(record, dict) and "id" in record and isinstance(record.get("steps"), list)


@reader("jsonl", detect=_ours)
def read_jsonl(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """Our own JSON Lines: id, task, initial, steps (action, observation, reward), end, reward, …"""
    return source.each(_trajectory)


def _trajectory(record: Parsed) -> Trajectory:
    _check(record.value)
    return Trajectory.from_parsed(record.value)


def _check(value: Any) -> None:
    try:
        _schema().validate_python(value)
    except ValidationError as error:
        raise FormatError("; ".join(_messages(error))) from None


def _messages(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_context=False)[:3]:
        place = ".".join(map(str, problem["loc"]))
        if problem["type"] == "missing":
            yield f"{place}: missing"
        elif problem["type"] == "extra_forbidden":
            yield f"{place}: no such field (your own fields go into metadata)"
        else:
            found = repr(problem["input"])
            wanted = problem["msg"].removeprefix("Input should be ")
            yield f"{place or 'the line'}: expected {wanted}, found {found if len(found) <= 60 else found[:60] + '…'}"
    if (count := error.error_count()) > 3:
        yield f"and {count - 3} more"


def write_jsonl(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Writes trajectories as our JSONL, one at a time, and returns their number.

    What is not finite becomes null and is listed in the metadata under "not_finite". Raises FileExistsError rather than
    overwrite a file; TypeError or ValueError, naming the trajectory and the place, for what JSON cannot hold, and for
    what would not be read again, such as a reward that is no number.
    """
    count = 0
    with Path(path).open("xb") as file:
        for trajectory in trajectories:
            file.write(trajectory_line(trajectory))
            count += 1
    return count


def trajectory_line(trajectory: Trajectory) -> bytes:
    """One line of our JSONL, as `write_jsonl` writes it."""
    with _named(trajectory):
        data = trajectory.to_dict()
        try:
            line = json_line(data)
        except ValueError:  # there is something that is not finite
            data = _finite(data)
            line = json_line(data)
        _check(data)
    return line


def trajectory_record(trajectory: Trajectory) -> dict[str, Any]:
    """What a line of our JSONL holds, as `write_jsonl` writes it."""
    with _named(trajectory):
        data = _finite(trajectory.to_dict())
        _check(data)
    return data


@contextmanager
def _named(trajectory: Trajectory) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        error.add_note(f"in the trajectory {trajectory.id!r}")
        raise


def _finite(data: dict[str, Any]) -> dict[str, Any]:
    places: list[str] = []
    clean: dict[str, Any] = finite(data, places)
    if places:
        clean["metadata"]["not_finite"] = [*clean["metadata"].get("not_finite", ()), *places]
    return clean
