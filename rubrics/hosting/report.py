"""What hosts make of a scored step, a reward or the reason why not, and of a finished episode, a line in a file."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from os import SEEK_END, PathLike
from pathlib import Path
from typing import Any, BinaryIO

from rubrics.episode import Episode
from rubrics.evaluation import Evaluation, evaluation_of
from rubrics.formats.jsonl import trajectory_line
from rubrics.formats.parsing import finite
from rubrics.score import Outcome, Unscored, is_pending

_writing = threading.Lock()


class StepReport:
    """What a tree said of one step.

    Attributes:
        reward: None where there is none.
        status: `"scored"`, `"pending"`, `"unscored"` or `"error"`.
        scores: of the nodes below the root by path; None for one that was unscored, or not reached.
        error: what was raised; None where nothing was.
        evaluation: the record, where there is one, as far as it came.
        message: why there is no reward, `"legal.rubric: ValueError: boom"`; hosts send it as `str(RubricError)`.
        hint: the same without the words of nodes and exceptions, which can quote a gold answer.
        step_rewards: of an episode that ended with this step, as JSON values.
    """

    def __init__(self, status: str, reward: float | None, scores: dict[str, float | None]) -> None:
        self.status, self.reward, self.scores = status, reward, scores
        self.error: BaseException | None = None
        self.evaluation: Evaluation | None = None
        self.message = self.hint = ""
        self.step_rewards: dict[str, Any] | None = None

    @classmethod
    def of_record(cls, record: Evaluation) -> StepReport:
        """The report of a step that was recorded."""
        report = cls(record.status, record.score, _scores_in(record))
        report.evaluation = record
        if record.score is None:
            report._unscored([(node.path or node.kind, node.reason) for node in _unscored(record)])
        return report

    @classmethod
    def of_episode(cls, episode: Episode, kind: str) -> StepReport:
        """The report of an episode's last step, which was not recorded; `kind` is the root's."""
        outcomes = episode.last_outcomes()
        root = outcomes.pop("")
        scores = {
            path: outcome if outcome.__class__ is float else None if _missing(outcome) else float(outcome)  # type: ignore[arg-type]
            for path, outcome in outcomes.items()
        }
        if not isinstance(root, Unscored):
            return cls("pending" if is_pending(root) else "scored", float(root), scores)  # type: ignore[arg-type]
        report = cls("unscored", None, scores)
        unscored = [(path, outcome) for path, outcome in outcomes.items() if isinstance(outcome, Unscored)]
        innermost = [
            (path, outcome.reason)
            for path, outcome in unscored
            if not any(other.startswith(f"{path}.") for other, _ in unscored)
        ]
        report._unscored(innermost or [(kind, root.reason)])
        return report

    @classmethod
    def of_error(cls, error: BaseException, record: Evaluation | None = None) -> StepReport:
        """The report of a tree that raised; the record where it is known and the exception does not bear it."""
        record = record or evaluation_of(error)
        report = cls("error", None, {} if record is None else _scores_in(record))
        report.error, report.evaluation = error, record
        root = "the rubric" if record is None else record.kind
        report.hint = f"{getattr(error, '_rubrics_path', root)}: {type(error).__name__}"
        notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("in rubric ")]
        report.message = "; ".join([f"{report.hint}: {error}", *notes])
        return report

    def _unscored(self, nodes: list[tuple[str, str | None]]) -> None:
        self.hint = f"{', '.join(name for name, _ in nodes)} {'is' if len(nodes) == 1 else 'are'} unscored"
        self.message = "; ".join(f"{name} is unscored: {reason or 'no reason given'}" for name, reason in nodes)

    def to_dict(self, full: bool = False) -> dict[str, Any]:
        """As JSON values: status, reason, scores by path; with `full`, reasons in words and the whole record."""
        record = self.evaluation
        data: dict[str, Any] = {"status": self.status}
        reason = (self.message or (record and record.reason)) if full else self.hint
        if reason:
            data["reason"] = reason
        data["scores"] = self.scores
        if self.step_rewards is not None:
            data["step_rewards"] = self.step_rewards
        if full and record is not None:
            data["evaluation"] = plain_values(record.to_dict())
        return data

    def in_words(self) -> dict[str, Any]:
        """Like `to_dict`, for a trainer, which may read what an agent may not: reasons in words, and what it cost."""
        data = self.to_dict()
        record = self.evaluation
        if reason := self.message or (record and record.reason):
            data["reason"] = reason
        if record is not None:
            data["reasons"] = {node.path: node.reason for node in record.nodes() if node.path and node.reason}
            if record.usage:
                data["usage"] = record.usage.to_dict()
        return data


def append_episode(
    path: str | PathLike[str], episode: Episode, evaluations: Mapping[int, Evaluation], source: dict[str, Any]
) -> None:
    """Append an episode that is over to a file of our trajectory JSONL, from any number of threads.

    Args:
        path: the file; it and its folder are made where they are missing.
        episode: what is written.
        evaluations: records of its steps by index; each goes into its step's `metadata["evaluation"]`.
        source: where the episode took place.

    Raises:
        TypeError, ValueError: an action or observation has no form in JSON; the message names the place.
        OSError: the file cannot be written.
    """
    trajectory = episode.trajectory
    trajectory.source = source
    for index, step in enumerate(trajectory.steps):
        if (evaluation := evaluations.get(index)) is not None:
            step.metadata["evaluation"] = plain_values(evaluation.to_dict())
    line = trajectory_line(trajectory)
    with _writing:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a+b", buffering=0) as stream:  # one write a line: other processes may append to it too
            stream.write(b"\n" + line if _ends_within_a_line(stream) else line)


def _ends_within_a_line(stream: BinaryIO) -> bool:
    """Whether a process that was killed left half a line, which must not spoil the next."""
    return (
        stream.seekable()
        and stream.seek(0, SEEK_END) > 0
        and stream.seek(-1, SEEK_END) >= 0
        and stream.read(1) != b"\n"
    )


def _scores_in(record: Evaluation) -> dict[str, float | None]:
    return {node.path: node.score for node in record.nodes() if node.path}


def _missing(outcome: Outcome | None) -> bool:
    return outcome is None or isinstance(outcome, Unscored)


def _unscored(record: Evaluation) -> list[Evaluation]:
    """The nodes that an unscored node is unscored for: the innermost ones."""
    below = [found for child in record.children if child.status == "unscored" for found in _unscored(child)]
    return below or [record]


def plain_values(data: dict[str, Any]) -> Any:
    """JSON values: None for what is not finite, the text of what is no value at all."""
    from pydantic_core import to_jsonable_python

    return finite(to_jsonable_python(data, bytes_mode="base64", fallback=repr, serialize_as_any=True), [])
