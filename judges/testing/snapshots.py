"""Snapshots of prompts: what the model was sent when somebody last looked at it.

A file holds the template, the whole conversation about the first row, and for every row a hash of what is sent about
it. A changed template then shows as a difference of texts before anything is asked, and the rows it touches are known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from judges.clients.protocol import Message
from judges.testing.golden import GoldenError
from judges.testing.results import SnapshotState
from judges.testing.subjects import prompt_hash
from judges.testing.suite import Suite
from rubrics.files import replacing


class Snapshot(BaseModel):
    """What a suite sends.

    Attributes:
        template: the lines of the template.
        example: the lines of the conversation about the first row.
        rows: a hash of the conversation about each row; that of a swapped pair is called `ID/swapped`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    template: list[str]
    example: list[str]
    rows: dict[str, str]


def written(messages: Sequence[Message]) -> list[str]:
    """A conversation as lines of text."""
    return [line for each in messages for line in (f"[{each['role']}]", *each["content"].split("\n"))]


def snapshot_of(suite: Suite) -> Snapshot | None:
    """What a suite sends; None where no row is asked about.

    Raises:
        GoldenError: a row lacks what the prompt needs.
        PromptError: an input cannot be shown.
    """
    asked = [row for row in suite.golden if suite.asks(row)]
    if not asked or suite.subject.prompt is None:
        return None
    rows: dict[str, str] = {}
    for row in asked:
        for order in suite.orders:
            rows[_key(row.id, order)] = prompt_hash(suite.subject.messages(row, order))
    return Snapshot(
        template=suite.subject.prompt.template.split("\n"),
        example=written(suite.subject.messages(asked[0])),
        rows=rows,
    )


def compared(suite: Suite, now: Snapshot | None) -> SnapshotState:
    """What a suite sends, compared with its snapshot.

    Raises:
        GoldenError: the snapshot cannot be read.
    """
    if suite.snapshot is None or now is None:
        return SnapshotState()
    path = suite.snapshot
    if not path.exists():
        return SnapshotState(state="new", path=str(path), added=_ids(now.rows), known=False)
    then = _read(path)
    stale = _ids(key for key, hash in now.rows.items() if then.rows.get(key, hash) != hash)
    added = [id for id in _ids(key for key in now.rows if key not in then.rows) if id not in stale]
    if stale or now.template != then.template:
        return SnapshotState(
            state="changed", path=str(path), difference=_difference(then, now), stale=stale, added=added
        )
    return SnapshotState(state="new" if added else "same", path=str(path), added=added)


def write(path: Path, snapshot: Snapshot) -> None:
    """Write a snapshot, all of it or nothing. Rows of another suite with the same template stay in it.

    Raises:
        GoldenError: the snapshot cannot be read or written.
    """
    then = _read(path) if path.exists() else None
    if then is not None and then.template == snapshot.template:
        snapshot = snapshot.model_copy(update={"rows": {**then.rows, **snapshot.rows}})
    text = json.dumps(snapshot.model_dump(), ensure_ascii=False, indent=1) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as whole:
            whole.write_text(text, encoding="utf-8")
    except OSError as error:
        raise GoldenError(f"{path} cannot be written: {error.strerror or error}") from None


def _read(path: Path) -> Snapshot:
    try:
        return Snapshot.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise GoldenError(f"{path} is no snapshot of prompts; delete it, and it is written anew: {error}") from None


def _difference(then: Snapshot, now: Snapshot) -> str:
    """Of the templates where they differ, else of what is sent about the first row."""
    old, new = (then.template, now.template) if then.template != now.template else (then.example, now.example)
    return "\n".join(unified_diff(old, new, "the snapshot", "the prompt now", lineterm=""))


def _key(id: str, order: str) -> str:
    return id if order == "given" else f"{id}/{order}"


def _ids(keys: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(key.removesuffix("/swapped") for key in keys))
