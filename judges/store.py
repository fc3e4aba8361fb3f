"""The store: one readable JSON line an exchange. A cache and a cassette are the same thing, opened in another mode."""

from __future__ import annotations

import io
import json
import math
import os
import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args
from weakref import WeakSet, WeakValueDictionary

from judges.clients.protocol import ChatError, ChatReply, ChatRequest, Token, Wire
from judges.verdict import KINDS, JudgeConfigError
from rubrics.evaluation import Usage
from rubrics.files import locked

Mode = Literal["none", "once", "new", "all", "rewrite"]
_canonical = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_ENDS = re.compile("[\x85\u2028\u2029]")  # JSON may hold them as they are, and `str.splitlines` ends a line there
_USAGE = [field.name for field in fields(Usage)]


class StoreWarning(UserWarning):
    """A line of a store cannot be read."""


def request_key(endpoint: str, request: ChatRequest) -> str:
    """What makes two requests one: model, endpoint name, messages, schema, sampling and sample index, hashed.

    The form in which a provider is asked for structured output is not among it.
    """
    content = _canonical(
        [
            request.model,
            endpoint,
            [[message["role"], message["content"]] for message in request.messages],
            request.schema,
            sampling_of(request),
            request.sample,
        ]
    )
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def sampling_of(request: ChatRequest) -> dict[str, Any]:
    """How a request is to be sampled, its limit of tokens and log probabilities included."""
    sampling = {**request.sampling, "max_tokens": request.max_tokens}
    if request.top_logprobs is not None:
        sampling["top_logprobs"] = request.top_logprobs
    return sampling


class Store:
    """Recorded exchanges in a JSONL file.

    Args:
        path: the file. Further processes that write at the same time write a shard each beside it
            (`x.shard1.jsonl`, …); whoever opens the store reads them all.
        mode: as in vcrpy.

            * `"none"`: replay only; a request that is not there is a `not_recorded` failure;
            * `"once"`: as `"none"` where the file is there and not empty; else record;
            * `"new"`: replay what is there, record the rest;
            * `"all"`: ask everything again, and record it;
            * `"rewrite"`: as `"all"`, beginning with an empty file.

    Attributes:
        failure: why the file could not be read or written when that was tried last; None where it could.

    Raises:
        JudgeConfigError: there is no such mode, or the file cannot be read or written.
    """

    failure: str | None = None

    def __init__(self, path: str | Path, mode: Mode = "new") -> None:
        if mode not in get_args(Mode):
            raise JudgeConfigError(f"Store: mode is one of {', '.join(get_args(Mode))}, not {mode!r}")
        self.path = Path(path)
        self.mode: Mode = mode
        self._found: dict[str, ChatReply | ChatError] | None = None
        self._file: _Shard | None = None
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.Lock()
        _stores.add(self)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, mode={self.mode!r})"

    def __deepcopy__(self, memo: object) -> Store:
        return self  # a copy of a tree records in the same file

    def __getstate__(self) -> dict[str, Any]:
        emptied = self.mode == "rewrite" and self._found is not None  # a copy must not empty it again
        return {"path": self.path, "mode": "all" if emptied else self.mode}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def replays(self) -> bool:
        """Whether what is recorded is looked up."""
        return self.mode in ("none", "once", "new")

    @property
    def records(self) -> bool:
        """Whether requests may be sent, and are recorded."""
        self.load()
        return self._records

    @property
    def is_loaded(self) -> bool:
        """Whether the file has been read."""
        return self._found is not None

    def load(self) -> None:
        """Read the file, where that was not done yet. It blocks."""
        if self._found is not None:
            return
        with self._lock:
            if self._found is not None:
                return
            found: dict[str, ChatReply | ChatError] = {}
            times: dict[str, str] = {}
            try:
                for path in files_of(self.path):
                    if self.mode == "rewrite":
                        path.unlink()
                    else:
                        _read(path, found, times)
            except OSError as error:
                raise self._failed("read", error) from None
            self._records = self.mode in ("new", "all", "rewrite") or (self.mode == "once" and not found)
            self._found = found

    def get(self, key: str) -> ChatReply | ChatError | None:
        """What was recorded last under a key; None where nothing was."""
        self.load()
        return self._found.get(key) if self._found is not None else None

    def open(self) -> None:
        """Open the file for writing, where that was not done yet.

        Raises:
            JudgeConfigError: it cannot be written.
        """
        with self._lock:
            self._opened()

    def _opened(self) -> _Shard:
        if self._file is None or self._file.pid != os.getpid():
            try:
                self._file = _Shard(self.path)
            except OSError as error:
                raise self._failed("written", error) from None
        return self._file

    def _failed(self, done: str, error: OSError) -> JudgeConfigError:
        self.failure = f"{self.path} cannot be {done}: {error.strerror or error}"
        return JudgeConfigError(self.failure)

    def put(
        self,
        key: str,
        endpoint: str,
        request: ChatRequest,
        outcome: ChatReply | ChatError,
        wire: Wire,
        template: str | None,
    ) -> None:
        """Record an exchange. The line is in the file when this returns."""
        if self.get(key) is outcome:
            return  # recorded by another that waited for the same request
        line = {
            "key": key,
            "at": datetime.now(UTC).isoformat(),
            "model": request.model,
            "endpoint": endpoint,
            "sample": request.sample,
            "sampling": sampling_of(request),
            "template": template,
            "wire": wire,
            "messages": [dict(message) for message in request.messages],
            "schema": request.schema,
            **_outcome(outcome),
        }
        written = _ENDS.sub(lambda end: f"\\u{ord(end[0]):04x}", json.dumps(line, ensure_ascii=False, allow_nan=False))
        data = written.encode("utf-8", "replace") + b"\n"
        with self._lock:
            assert self._found is not None
            if self._found.get(key) is outcome:
                return
            file = self._opened()
            try:
                file.write(data)
            except OSError as error:
                self._file = None  # the next one looks at how this one ended
                raise self._failed("written", error) from None
            self._found[key], self.failure = outcome, None

    def close(self) -> None:
        """Close the file. It is opened again when needed."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            file.close()


def files_of(path: Path) -> list[Path]:
    """The files of a store that are there: its own, and the shards beside it."""
    pattern = re.compile(rf"{re.escape(path.stem)}\.shard([0-9]+){re.escape(path.suffix)}")
    folder = path.parent
    names = os.listdir(folder) if folder.is_dir() else []
    shards = sorted((int(match.group(1)), name) for name in names if (match := pattern.fullmatch(name)))
    return [each for each in (path, *(folder / name for _, name in shards)) if each.is_file()]


class _Shard:
    """The file this process writes: the store's own, or, where another process holds that, a shard beside it."""

    def __init__(self, path: Path) -> None:
        self.pid = os.getpid()
        path.parent.mkdir(parents=True, exist_ok=True)
        number = 0
        while True:
            target = path if number == 0 else path.with_name(f"{path.stem}.shard{number}{path.suffix}")
            self._file: io.FileIO = io.FileIO(target, "ab")  # it stays open as long as the store
            if locked(self._file):
                break
            self._file.close()
            number += 1
        if self._file.seek(0, os.SEEK_END) and not _ends_a_line(target):
            self.write(b"\n")  # a process died while it wrote; what it began is skipped

    def write(self, data: bytes) -> None:
        while data:  # the system may take a part at a time
            data = data[self._file.write(data) :]

    def close(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


@dataclass(frozen=True, slots=True)
class Line:
    """One exchange, as it stands in a file.

    Attributes:
        number: of the line, from 1.
        whole: the line, its end left out.
        key, at: of the request, and when it was recorded.
        fields: what else the line says.
        outcome: the reply, or why there was none.
    """

    number: int
    whole: bytes
    key: str
    at: str
    fields: Mapping[str, Any]
    outcome: ChatReply | ChatError


def lines_of(path: Path) -> Iterator[Line]:
    """The exchanges of one file. A line that is none is skipped with a warning; a torn one without, unless it is all
    there is.

    Raises:
        OSError: it cannot be read.
    """
    torn = complete = 0
    with path.open("rb") as lines:
        for number, whole in enumerate(lines, 1):
            line = whole.rstrip(b"\n")
            if not line.strip():
                continue
            try:
                data = json.loads(line)
                key, at, outcome = str(data["key"]), str(data.get("at", "")), _outcome_of(data)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                is_json = not isinstance(error, (json.JSONDecodeError, UnicodeDecodeError))
                if not is_json and b'{"key"'.startswith(line[:6]):  # by the death of the process that wrote it
                    torn += 1
                else:
                    warnings.warn(
                        f"{path}, line {number} is skipped: it is no exchange ({error})", StoreWarning, stacklevel=5
                    )
                continue
            complete += 1
            yield Line(number, line, key, at, data, outcome)
    if torn and not complete:
        warnings.warn(f"{path} holds no exchange, only one that was cut short", StoreWarning, stacklevel=5)


def _read(path: Path, found: dict[str, ChatReply | ChatError], times: dict[str, str]) -> None:
    for line in lines_of(path):
        if line.at >= times.get(line.key, ""):  # another shard may hold a later one
            found[line.key], times[line.key] = line.outcome, line.at


def _outcome(outcome: ChatReply | ChatError) -> dict[str, Any]:
    if isinstance(outcome, ChatError):
        failure = {
            "kind": outcome.kind,
            "message": outcome.message,
            "status": outcome.status,
            "rejects": outcome.rejects,
        }
        return {"failure": {name: value for name, value in failure.items() if value is not None}}
    reply: dict[str, Any] = {"text": outcome.text, "finish_reason": outcome.finish_reason}
    if outcome.refusal is not None:
        reply["refusal"] = outcome.refusal
    if outcome.model is not None:
        reply["model"] = outcome.model
    if outcome.seconds is not None:
        reply["seconds"] = round(outcome.seconds, 3)
    if outcome.logprobs is not None:
        reply["logprobs"] = [
            [token.text, list(token.bytes), _finite(token.logprob), [[text, _finite(p)] for text, p in token.top]]
            for token in outcome.logprobs
        ]
    return {"reply": reply, "usage": outcome.usage.to_dict()}


def _finite(logprob: float) -> float | None:
    return logprob if math.isfinite(logprob) else None


def _infinite(logprob: float | None) -> float:
    return -math.inf if logprob is None else float(logprob)


def _outcome_of(data: Mapping[str, Any]) -> ChatReply | ChatError:
    if "failure" in data:
        failure = data["failure"]
        if failure["kind"] not in KINDS:
            raise ValueError(f"{failure['kind']!r} is no kind of failure")
        return ChatError(
            failure["kind"], str(failure["message"]), status=failure.get("status"), rejects=failure.get("rejects")
        )
    reply = data["reply"]
    if not isinstance(reply["text"], str):
        raise TypeError("the text of the reply is none")
    usage = data.get("usage") or {}
    logprobs = reply.get("logprobs")
    return ChatReply(
        reply["text"],
        reply.get("finish_reason"),
        reply.get("refusal"),
        None
        if logprobs is None
        else tuple(
            Token(text, bytes(raw), _infinite(p), tuple((other, _infinite(q)) for other, q in top))
            for text, raw, p, top in logprobs
        ),
        Usage(**{name: usage[name] for name in _USAGE if name in usage}),
        reply.get("model"),
        reply.get("seconds"),
    )


_stores: WeakSet[Store] = WeakSet()
_by_path: WeakValueDictionary[Path, Store] = WeakValueDictionary()
_by_path_lock = threading.Lock()


def _unlock() -> None:
    global _by_path_lock
    _by_path_lock = threading.Lock()
    for store in list(_stores):
        store._renew()  # another thread may have held the lock when the process was forked


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def store_from(store: Store | str | Path | None) -> Store | None:
    """A store, or the one of this process for a path, in mode `new`."""
    if store is None or isinstance(store, Store):
        return store
    if not isinstance(store, (str, Path)):
        raise JudgeConfigError(f"store is a path or a Store, not {store!r}")
    path = Path(store).absolute()
    with _by_path_lock:
        found = _by_path.get(path)
        if found is None:
            found = _by_path[path] = Store(path)
        return found
