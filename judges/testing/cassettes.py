"""Cassettes, looked at from outside: what one holds, why a reply is not in it, and what no suite asks for any more."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, unified_diff
from functools import cached_property, lru_cache
from heapq import nlargest
from io import FileIO
from pathlib import Path
from typing import Any

from judges.clients.protocol import ChatReply, ChatRequest, Message
from judges.store import Line, files_of, lines_of, request_key, sampling_of
from judges.testing.golden import GoldenError
from judges.testing.results import Case
from judges.testing.running import cassette_of, keys_of
from judges.testing.snapshots import written
from judges.testing.suite import Suite
from rubrics.files import locked, replacing

_COMPARED = 24  # recorded requests that are compared line by line
_SHOWN = 80  # lines of a difference
_WIDE = 400  # characters of one of its lines
_BOUNDARY = re.compile(r"(?<=<<<UNTRUSTED )[0-9a-f]{16}|[0-9a-f]{16}(?= UNTRUSTED>>>)")
_ALIKE = 0.01  # what an equal model, endpoint, … counts beside the words of the conversation, which are at most 1


@dataclass(frozen=True)
class Entry:
    """One exchange of a cassette.

    Attributes:
        path: the file, a shard perhaps.
        line: as it stands there.
    """

    path: Path
    line: Line

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.path}:{self.line.number}"

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation."""
        return self.line.fields.get("messages") or ()

    @property
    def reply(self) -> ChatReply | None:
        """The reply; None where there was none."""
        return self.line.outcome if isinstance(self.line.outcome, ChatReply) else None

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the request was, beside the conversation."""
        return {name: self.line.fields.get(name) for name in ("model", "endpoint", "sample", "sampling", "schema")}

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the conversation."""
        return _words(self.messages)


def read_cassette(path: str | Path) -> list[Entry]:
    """The exchanges of a cassette and its shards, in the order of the files.

    Raises:
        GoldenError: it is not there, cannot be read, or is another kind of file.
    """
    files = files_of(Path(path))
    if not files:
        raise GoldenError(f"{path}: there is no such cassette")
    try:
        found = _read(tuple((file, (at := file.stat()).st_mtime_ns, at.st_size) for file in files))
        if not found and any(file.read_bytes().strip() for file in files):
            raise GoldenError(f"{path}: no line of it is an exchange; the cassette of a suite is cassettes/NAME.jsonl")
    except OSError as error:
        raise GoldenError(f"{path}: {error}") from None
    return list(found)


@lru_cache(maxsize=4)
def _read(files: tuple[tuple[Path, int, int], ...]) -> tuple[Entry, ...]:
    return tuple(Entry(file, line) for file, _, _ in files for line in lines_of(file))


def current(entries: Iterable[Entry]) -> list[Entry]:
    """The entries that are replayed: of each request the one that was recorded last."""
    last: dict[str, Entry] = {}
    for entry in entries:
        if entry.line.key not in last or entry.line.at >= last[entry.line.key].line.at:
            last[entry.line.key] = entry
    return list(last.values())


# -- why a reply is not there -----------------------------------------------------------------------------------------


def why_not_recorded(suite: Suite, case: Case) -> str | None:
    """The difference between what a row asked and the nearest recorded request; None where a reply was there.

    Raises:
        GoldenError: the cassette cannot be read.
    """
    answer = next((answer for answer in case.answers if answer.failure == "not_recorded"), None)
    path = cassette_of(suite)
    if answer is None or path is None or suite.subject.asker is None:
        return None
    request = suite.subject.request(case.row, answer.order, answer.sample)
    return nearest(path, request, suite.subject.asker.exchanger.endpoint)


def nearest(path: str | Path, request: ChatRequest, endpoint: str) -> str:
    """What a request that is not in a cassette differs in from the one in it that is most like it.

    Args:
        path: the cassette.
        request: that was wanted.
        endpoint: at which.

    Returns:
        A unified diff of the two as text, or a sentence where there is nothing to compare.

    Raises:
        GoldenError: the cassette cannot be read.
    """
    if not files_of(Path(path)):
        return f"There is no cassette {path}."
    entries = current(read_cassette(path))
    if not entries:
        return f"The cassette {path} holds no exchange."
    key = request_key(endpoint, request)
    if any(entry.line.key == key for entry in entries):
        return (
            f"{path} holds this question. The reply to it cannot be used as a verdict, and what the model was asked "
            "thereupon is not recorded."
        )
    facts = {
        "model": request.model,
        "endpoint": endpoint,
        "sample": request.sample,
        "sampling": sampling_of(request),
        "schema": request.schema,
    }
    words = _words(request.messages)
    wanted = _lines(facts, request.messages)

    def roughly(entry: Entry) -> float:
        alike = [name for name, fact in facts.items() if entry.facts[name] == fact]
        return len(words & entry.words) / (len(words | entry.words) or 1) + _ALIKE * len(alike)

    def closely(entry: Entry) -> tuple[float, float]:
        lines = _lines(entry.facts, entry.messages)
        return SequenceMatcher(None, _alike(lines), _alike(wanted), autojunk=False).ratio(), roughly(entry)

    best = max(nlargest(_COMPARED, entries, key=roughly), key=closely)
    there = _lines(best.facts, best.messages)
    shown = _difference(there, wanted, f"recorded, {best.place}")
    other = best.facts["endpoint"]
    if there == _lines({**facts, "endpoint": other}, request.messages):
        shown += (
            f"\nThe question is recorded, at another endpoint: JUDGE_API_BASE is another now, perhaps. With `endpoint: "
            f"{other}` in the suite, or as an option of the judge, replies are found whatever the address."
        )
    return shown


def _difference(old: list[str], new: list[str], name: str) -> str:
    if _alike(old) != _alike(new):  # a boundary is another wherever anything is: to show that would only distract
        old, new = _alike(old), _alike(new)
    lines = [_cut(line) for line in unified_diff(old, new, name, "wanted", lineterm="")]
    more = [f"… and {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    return "\n".join([*lines[:_SHOWN], *more])


def _cut(line: str) -> str:
    return line if len(line) <= _WIDE else f"{line[:_WIDE]}…"


def _lines(facts: Mapping[str, Any], messages: Sequence[Message]) -> list[str]:
    told = []
    for name, fact in facts.items():
        shown = fact if isinstance(fact, str) else json.dumps(fact, indent=1 if name == "schema" else None, default=str)
        told += f"{name}: {shown}".split("\n")
    return [*told, *written(messages)]


def _alike(lines: list[str]) -> list[str]:
    return [_BOUNDARY.sub("…", line) for line in lines]


def _words(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(word for each in messages for word in re.findall(r"\w+", _BOUNDARY.sub("", each["content"])))


# -- what nobody asks for any more ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pruned:
    """What became of a cassette.

    Attributes:
        kept: entries that stay.
        superseded: entries dropped because the same request was recorded again later.
        unasked: entries dropped because no suite asks for them.
        shards: files beside it that were merged into it.
    """

    kept: tuple[Entry, ...]
    superseded: tuple[Entry, ...]
    unasked: tuple[Entry, ...]
    shards: tuple[Path, ...]

    @property
    def changes(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.superseded or self.unasked or self.shards)


def prune(path: str | Path, suites: Iterable[Suite] = (), *, dry_run: bool = False) -> Pruned:
    """Drop what was recorded again since, and what no suite asks for any more; merge the shards.

    The file is replaced as a whole or not at all. What a suite asks for are the requests of its rows and of its
    perturbations, and the questions that follow replies that could not be used.

    Args:
        path: the cassette.
        suites: those that replay it; with none, whatever was recorded last of each request stays.
        dry_run: whether to leave all as it is.

    Raises:
        GoldenError: it cannot be read or written, another process is writing to it, or a row lacks what the prompt
            needs.
    """
    path = Path(path)
    with ExitStack() as held:
        if not dry_run:
            for file in files_of(path):
                _hold(file, held)
        entries = read_cassette(path)
        latest = {id(entry) for entry in current(entries)}
        asked = [keys_of(replace(suite, cassette=path)) for suite in suites]
        wanted = None if not asked else frozenset[str]().union(*asked)
        alive = [entry for entry in entries if id(entry) in latest]
        found = Pruned(
            kept=tuple(entry for entry in alive if wanted is None or entry.line.key in wanted),
            superseded=tuple(entry for entry in entries if id(entry) not in latest),
            unasked=tuple(entry for entry in alive if wanted is not None and entry.line.key not in wanted),
            shards=tuple(file for file in files_of(path) if file != path),
        )
        if found.changes and not dry_run:
            _replace(path, found)
    return found


def _hold(file: Path, held: ExitStack) -> None:
    try:
        handle = held.enter_context(FileIO(file, "ab"))
    except OSError as error:
        raise GoldenError(f"{file} cannot be written: {error.strerror or error}") from None
    if not locked(handle):
        raise GoldenError(f"{file}: another process is writing to it; prune it when that is done")


def _replace(path: Path, found: Pruned) -> None:
    try:
        with replacing(path) as whole:
            whole.write_bytes(b"".join(entry.line.whole + b"\n" for entry in found.kept))
        for shard in found.shards:
            shard.unlink()
    except OSError as error:
        raise GoldenError(f"{path} cannot be written: {error.strerror or error}") from None
