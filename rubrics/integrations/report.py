"""What hosts make of a scored step, a reward or the reason why not, and of a finished episode, a line in a file."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from rubrics.episode import Episode
from rubrics.evaluation import Evaluation, evaluation_of
from rubrics.formats.jsonl import trajectory_line
from rubrics.formats.parsing import finite

_writing = threading.Lock()


class StepReport:
    """What a tree said of one step.

    Args:
        verdict: the record of the step, or what the tree raised.
        record: the record, where it is known and the verdict is an exception that does not bear it.

    Attributes:
        reward: None where there is none.
        error: what was raised; None where nothing was.
        evaluation: the record, as far as it came.
        message: why there is no reward, `"legal.rubric: ValueError: boom"`; hosts send it as `str(RubricError)`.
        hint: the same without the words of nodes and exceptions, which can quote a gold answer.
        step_rewards: of an episode that ended with this step, as JSON values.
    """

    def __init__(self, verdict: Evaluation | BaseException, record: Evaluation | None = None) -> None:
        self.reward: float | None = None
        self.error: BaseException | None = None
        self.step_rewards: dict[str, Any] | None = None
        self.message = self.hint = ""
        if isinstance(verdict, BaseException):
            self.error = verdict
            self.evaluation = record or evaluation_of(verdict)
            root = "the rubric" if self.evaluation is None else self.evaluation.kind
            self.hint = f"{getattr(verdict, '_rubrics_path', root)}: {type(verdict).__name__}"
            notes = [note for note in getattr(verdict, "__notes__", ()) if not note.startswith("in rubric ")]
            self.message = "; ".join([f"{self.hint}: {verdict}", *notes])
            return
        self.evaluation = verdict
        self.reward = verdict.score
        if self.reward is None:
            nodes = _unscored(verdict)
            names = [node.path or node.kind for node in nodes]
            self.hint = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} unscored"
            self.message = "; ".join(
                f"{name} is unscored: {node.reason or 'no reason given'}"
                for name, node in zip(names, nodes, strict=True)
            )

    def to_dict(self, full: bool = False) -> dict[str, Any]:
        """As JSON values: status, reason, scores by path; with `full`, reasons in words and the whole record."""
        record = self.evaluation
        data: dict[str, Any] = {"status": "error" if self.error or record is None else record.status}
        reason = (self.message or (record and record.reason)) if full else self.hint
        if reason:
            data["reason"] = reason
        data["scores"] = {} if record is None else {node.path: node.score for node in record.nodes() if node.path}
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
                data["usage"] = asdict(record.usage)
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
        with file.open("ab", buffering=0) as stream:  # one write a line: other processes may append to it too
            stream.write(line)


def _unscored(record: Evaluation) -> list[Evaluation]:
    """The nodes that an unscored node is unscored for: the innermost ones."""
    below = [found for child in record.children if child.status == "unscored" for found in _unscored(child)]
    return below or [record]


def plain_values(data: dict[str, Any]) -> Any:
    """JSON values: None for what is not finite, the text of what is no value at all."""
    from pydantic_core import to_jsonable_python

    return finite(to_jsonable_python(data, bytes_mode="base64", fallback=repr, serialize_as_any=True), [])
