"""A row: what became of one trajectory in a rescoring run, as one line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import orjson

from rubrics.evaluation import Evaluation
from rubrics.formats.parsing import FormatError, finite, json_line
from rubrics.trajectory import End, jsonable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubrics.step_rewards import StepRewards

Status = Literal["scored", "unscored", "unfinished", "error", "unreadable"]


@dataclass(slots=True)
class Row:
    """The result of one trajectory: a reward, or the reason why there is none.

    Attributes:
        id: the trajectory's; None where the record could not be read.
        status: `"scored"`; `"unscored"` (the rubric, or the way the episode ended, gives no reward); `"unfinished"`
            (the recording does not say how the episode ended, so nothing was scored); `"error"` (the rubric raised, or
            the recording contradicts itself); `"unreadable"`.
        reward: the new reward of the episode; a number where the status is `"scored"`, and None otherwise.
        recorded_reward: the reward that the recording came with; None where it had none.
        end: how the episode ended: by the recording's word, else by its last observation, else as assumed.
        steps: number of recorded steps.
        reason: why there is no reward; for an error its type and message, the node and the step.
        evaluation: the record of the last step that was scored; of an error, as far as it came.
        step_rewards: `{"values", "emitted", "total", "kind", "reduction"}` as in `StepRewards`, None for NaN.
        usage: what the model calls of all its steps cost; None where there were none.
        source: where the trajectory was recorded or read.
        content: hash of what the trajectory holds, whatever file it stands in; None where it could not be read.
        rubric: fingerprint of the tree.
        judges: fingerprints of its judges (prompt, scale, model, sampling) by path; None where it has none.
        group: what the trajectory shares with the other rollouts of its task; None where the recording does not say.
        components: the recorded parts of the recorded reward, by name; None where there are none.
        kept: paths of nodes that need the live environment: their scores are the recorded ones. None where there are
            none.
        evaluations: the records of all steps, in order, where they were asked for; None for an unpaid step.
    """

    id: str | None
    status: Status
    reward: float | None = None
    recorded_reward: float | None = None
    end: End | None = None
    steps: int = 0
    reason: str | None = None
    evaluation: Evaluation | None = None
    step_rewards: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    source: dict[str, Any] | None = None
    content: str | None = None
    rubric: str | None = None
    judges: dict[str, str] | None = None
    group: str | int | None = None
    components: dict[str, float | None] | None = None
    kept: list[str] | None = None
    evaluations: list[Evaluation | None] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values. What nodes put into their metadata is written as well as JSON can; NaN and ±inf are None."""
        return finite(jsonable(self._data(), _as_well_as_json_can), [])  # type: ignore[no-any-return]

    def _data(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in _FIELDS}
        data["evaluation"] = self.evaluation and self.evaluation.to_dict()
        data["evaluations"] = self.evaluations and [each and each.to_dict() for each in self.evaluations]
        return data

    def to_json(self) -> bytes:
        """One line of JSONL."""
        try:  # several times as fast; what is not finite is null there, too
            return orjson.dumps(self._data(), _as_well_as_json_can, orjson.OPT_APPEND_NEWLINE)
        except TypeError:  # numbers of more than 64 bits, half surrogate pairs, keys that are no text
            return json_line(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        """The row that `to_dict` wrote."""
        evaluation, evaluations = data.get("evaluation"), data.get("evaluations")
        records = {
            "evaluation": Evaluation.from_dict(evaluation) if evaluation else None,
            "evaluations": [each and Evaluation.from_dict(each) for each in evaluations] if evaluations else None,
        }
        return cls(**{**data, **records})


def line_of(row: Row) -> tuple[Row, bytes]:
    """A row and its line. A node's metadata can hold what nothing can write, such as a list that holds itself."""
    try:
        return row, row.to_json()
    except Exception as error:
        reason = f"the result cannot be written as JSON: {type(error).__name__}: {error}"
        row = replace(row, status="error", reward=None, reason=reason, evaluation=None, evaluations=None)
        row.step_rewards = None
        return row, row.to_json()


_FIELDS = [field.name for field in fields(Row)]


def _as_well_as_json_can(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    if callable(to_list := getattr(value, "tolist", None)):  # numpy's arrays and scalars
        return to_list()
    try:
        return to_jsonable_python(value, fallback=repr)
    except ValueError:  # bytes, for example
        return repr(value)


def step_rewards_dict(rewards: StepRewards) -> dict[str, Any]:
    """Step rewards as JSON values, None for NaN."""
    return {
        "values": [value if value == value else None for value in rewards.values.tolist()],
        "emitted": [value if value == value else None for value in rewards.emitted.tolist()],
        "total": rewards.total,
        "kind": rewards.kind,
        "reduction": rewards.reduction,
    }


def read_rows(path: str | Path) -> Iterator[Row]:
    """The rows of a file that a run wrote, as a stream.

    Raises:
        FormatError: a line is no row; it names file and line.
    """
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.isspace():
                yield row_of(row_data(line, path, number), path, number)


def row_data(line: bytes, path: str | Path, number: int) -> dict[str, Any]:
    """A line of a file that a run wrote, as JSON values.

    Raises:
        FormatError: it is no row.
    """
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        torn = "" if line.endswith(b"\n") else "; the file ends in the middle of this line: go on with --resume"
        raise FormatError(f"{path}:{number}: not JSON: {error}{torn}", number) from None
    if not isinstance(data, dict) or not data.keys() >= {"id", "status", "reward"} or data["status"] not in _STATUSES:
        raise FormatError(f"{path}:{number}: no row of a rescoring run", number)
    return data


_STATUSES = get_args(Status)
_OBJECTS = ("step_rewards", "usage", "source", "judges", "components")


def row_of(data: Mapping[str, Any], path: str | Path, number: int) -> Row:
    """The row that `row_data` found.

    Raises:
        FormatError: something in it is not what a row has there.
    """
    try:
        if not isinstance(data["id"], str | None):
            raise TypeError(f"an id is a text, not {data['id']!r}")
        for name in _OBJECTS:
            if not isinstance(data.get(name), dict | None):
                raise TypeError(f"{name} is an object or null, not {data[name]!r:.60}")
        row = Row.from_dict(data)
        for value in _numbers(row):
            if not isinstance(value, int | float | None):
                raise TypeError(f"a score is a number or null, not {value!r}")
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise FormatError(f"{path}:{number}: no row of a rescoring run: {why}", number) from None
    return row


def _numbers(row: Row) -> Iterator[object]:
    yield from (row.reward, row.recorded_reward, *(row.components or {}).values())
    for evaluation in (row.evaluation, *(row.evaluations or ())):
        if evaluation is not None:
            yield from (node.score for node in evaluation.nodes())
