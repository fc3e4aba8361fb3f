"""A loopback chat server in a thread, for what a real model will not do on demand. What it answers is a script.

with LoopbackServer() as server:
    server.answer(rate_limited("2"), text("4"))     # the next two requests; after them, `server.default`
    ...                                             # ask `server.url`, look at `server.requests`

A behaviour is a `Reply`, made by one of the functions below, or a function of the `Request` that returns a behaviour.
"""

import asyncio
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    path: str
    headers: dict[str, str]  # the names in lower case
    raw: bytes
    body: Any  # the JSON value; None where there is none
    at: float  # time.monotonic()

    @property
    def form(self) -> str:
        """How it asks for structure: "json_schema", "json_object", "tools" or "text"."""
        kind = (self.body.get("response_format") or {}).get("type", "text")
        return "tools" if kind == "text" and self.body.get("tools") else str(kind)


@dataclass(frozen=True)
class Reply:
    """What the server does with one request. `body` is sent as JSON unless it is bytes."""

    body: Any = b""
    status: int = 200  # 0: close the connection without a byte
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds before anything is sent; infinite: never
    release: threading.Event | None = None  # nothing is sent before it is set
    over: float = 0.0  # seconds the body takes
    chunks: int = 1  # the pieces it comes in
    keep: float | None = None  # the part of the body that is sent before the connection is closed; None: all, kept open


Behaviour = Reply | Callable[[Request], "Behaviour"]
Content = str | list[dict[str, Any]] | None
Json = Mapping[str, Any]


def _settled(behaviour: Behaviour, request: Request, **changes: Any) -> Reply:
    while not isinstance(behaviour, Reply):
        behaviour = behaviour(request)
    return replace(behaviour, **changes)


def usage(prompt: int = 20, completion: int = 5, cached: int = 0) -> dict[str, Any]:
    """A usage block."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**counts, "prompt_tokens_details": {"cached_tokens": cached}}


USAGE = usage()
Token = tuple[str, float, Mapping[str, float]]  # its log probability, and those of others in its place


def logprobs(tokens: Iterable[Token], *, own: bool = True, with_bytes: bool = True) -> Json:
    """The block for these tokens; with `own`, `top_logprobs` holds the token itself beside the others."""

    def entry(token: str, value: float, others: Mapping[str, float] | None = None) -> dict[str, Any]:
        made: dict[str, Any] = {"token": token, "logprob": value, "bytes": list(token.encode()) if with_bytes else None}
        if others is not None:
            top = {**({token: value} if own else {}), **others}
            made["top_logprobs"] = [entry(*item) for item in sorted(top.items(), key=lambda item: -item[1])]
        return made

    return {"content": [entry(*token) for token in tokens], "refusal": None}


def choice(content: Content, finish_reason: str | None = "stop", logprobs: Json | None = None, **more: Any) -> Json:
    """One element of `choices`; `more` is of the message: refusal, reasoning_content, tool_calls, ..."""
    message = {"role": "assistant", "content": content, "refusal": None, **more}
    return {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish_reason}


def choices(items: Sequence[Json], usage: Json | None = USAGE, model: str | None = None, delay: float = 0) -> Reply:
    """A 200 with these choices; without `model` it names the one asked for, with `usage=None` it has no such block."""
    body = {"object": "chat.completion", "created": 1_750_000_000, "model": model, "choices": items}
    return Reply(body | ({} if usage is None else {"usage": usage}), delay=delay)


def text(
    content: Content,
    finish_reason: str | None = "stop",
    *,
    usage: Json | None = USAGE,
    model: str | None = None,
    delay: float = 0.0,
    **parts: Any,
) -> Reply:
    """An ordinary 200; `parts` are those of `choice`: logprobs, refusal, reasoning_content, ..."""
    return choices([choice(content, finish_reason, **parts)], usage, model, delay)


def tool(arguments: str | Json, name: str | None = None) -> Behaviour:
    """A 200 with one tool call and no content; without `name`, a call of the first tool offered."""
    if name is None:
        return lambda request: tool(arguments, request.body["tools"][0]["function"]["name"])
    function = {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
    return choices(
        [choice(None, "tool_calls", tool_calls=[{"id": "call_1", "type": "function", "function": function}])]
    )


def status(
    code: int,
    message: str = "no",
    code_name: str | None = None,
    type_name: str | None = None,
    headers: Mapping[str, str] = {},
    param: str | None = None,
) -> Reply:
    """An error status with an OpenAI style body."""
    return Reply({"error": {"message": message, "type": type_name, "param": param, "code": code_name}}, code, headers)


def rate_limited(retry_after: str | None = "2", ms: float | None = None, code: int = 429) -> Reply:
    """A 429 (or a 503) with retry-after (seconds, or an HTTP date), retry-after-ms, or neither."""
    hints = {"retry-after": retry_after, "retry-after-ms": ms}
    headers = {name: str(value) for name, value in hints.items() if value is not None}
    return status(code, "Rate limit reached", "rate_limit_exceeded", "requests", headers)


def rejects(parameter: str, message: str | None = None) -> Reply:
    """A 400 that names the parameter."""
    message = message or f"Unsupported parameter: '{parameter}' is not supported with this model."
    return status(400, message, "unsupported_parameter", "invalid_request_error", {}, parameter)


def error_in_200(code: int, message: str = "no") -> Reply:
    """A 200 whose body is an error."""
    return Reply({"error": {"message": message, "code": code}})


def html(status: int = 200) -> Reply:
    """A page, as a proxy in the way would send it."""
    return Reply(b"<!doctype html><html><body>Sign in</body></html>", status, {"content-type": "text/html"})


def not_json(body: bytes = b'{"choices": [') -> Reply:
    """A 200 that says it is JSON and is not."""
    return Reply(body)


def redirect(url: str, code: int = 307) -> Reply:
    """A redirect."""
    return Reply(b"", code, {"location": url})


def cut(behaviour: Behaviour | None = None, keep: float = 0.5) -> Behaviour:
    """Part of a body, then the connection is closed."""
    return lambda request: _settled(behaviour or text("4"), request, keep=keep)


def drop() -> Reply:
    """The connection is closed before any reply."""
    return Reply(status=0)


def hang() -> Reply:
    """No reply, ever."""
    return Reply(delay=float("inf"))


def late(behaviour: Behaviour, seconds: float = 0.0, release: threading.Event | None = None) -> Behaviour:
    """The same, after that time and once the event is set."""
    return lambda request: _settled(behaviour, request, delay=seconds, release=release)


def drip(behaviour: Behaviour, seconds: float, chunks: int) -> Behaviour:
    """The same, its body in as many pieces over that time."""
    return lambda request: _settled(behaviour, request, over=seconds, chunks=chunks)


def without(parameters: Sequence[str], then: Behaviour) -> Behaviour:
    """Rejects a request that has one of the parameters (the first such one by name); answers any other."""
    return lambda request: next((rejects(name) for name in parameters if request.body.get(name)), then)


def until_schema(form: str, content: str) -> Behaviour:
    """Rejects every form of structure but this one: "json_schema", "json_object", "tools", or "text" for none."""

    def behaviour(request: Request) -> Behaviour:
        if request.form == form:
            return tool(content) if form == "tools" else text(content)
        return rejects("tools" if request.form == "tools" else "response_format", f"{request.form} is not supported")

    return behaviour


async def eventually(condition: Callable[[], object], within: float = 10.0) -> None:
    """Wait until the condition holds: what the server sees, it sees a moment after the client."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - it is of another thread
            await asyncio.sleep(0.002)


class LoopbackServer:
    """Its attributes may be read from any thread; a request is in flight from its last byte to its reply's."""

    def __init__(self, default: Behaviour | None = None) -> None:
        self.default: Behaviour = text("4") if default is None else default
        self.requests: list[Request] = []
        self.cancelled: list[Request] = []  # whose client went away before all of the reply was sent
        self.in_flight = self.peak = self.connections = 0
        self._queue: deque[Behaviour] = deque()
        self._open: set[_Connection] = set()
        self._failure: Exception | None = None  # of a function of the script

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="loopback", daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure and kind is None:
            raise self._failure

    def answer(self, *behaviours: Behaviour) -> None:
        """Queue behaviours; each serves one request, in the order in which requests arrive."""
        self._queue.extend(behaviours)

    def clear(self) -> None:
        """Forget what was recorded and what is queued."""
        self._queue.clear()
        self.requests.clear()
        self.cancelled.clear()
        self.peak = self.in_flight

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(lambda: _Connection(self), sock=self._socket)
        self._ready.set()
        await self._stop.wait()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # a forked process may hold it too
        server.close()
        while self._open:
            for connection in list(self._open):
                connection.close()
                connection.transport.abort()
            await asyncio.sleep(0)

    def _reply(self, request: Request) -> Reply:
        if not request.path.endswith("/chat/completions"):
            return status(404, f"no such path: {request.path}")
        try:
            return _settled(self._queue.popleft() if self._queue else self.default, request)
        except Exception as error:
            self._failure = error
            return status(500, f"the script failed: {error!r}")


class _Connection(asyncio.Protocol):
    def __init__(self, server: LoopbackServer) -> None:
        self.server, self.buffer = server, b""
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport: asyncio.Transport = transport
        self.server._open.add(self)
        self.server.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        if self.task:
            self.task.cancel()
        self.server._open.discard(self)
        self.server.connections -= 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if self.task or not end:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0))
        if len(rest) < size:
            return
        raw, self.buffer = rest[:size], rest[size:]
        request = Request(first.split()[1], headers, raw, json.loads(raw) if raw else None, time.monotonic())
        self.task = asyncio.get_running_loop().create_task(self.handle(request))

    async def handle(self, request: Request) -> None:
        server = self.server
        server.requests.append(request)
        server.in_flight += 1
        self.counted: Request | None = request
        server.peak = max(server.peak, server.in_flight)
        try:
            await self.send(server._reply(request), request)
        except asyncio.CancelledError:
            if not server._stop.is_set():
                server.cancelled.append(request)
        finally:
            self.leave(request)
            self.task = None
        if not self.transport.is_closing():
            self.data_received(b"")  # the next request may be here already

    def leave(self, request: Request) -> None:
        """The request is not in flight any more."""
        if request is self.counted:
            self.counted = None
            self.server.in_flight -= 1

    async def send(self, reply: Reply, request: Request) -> None:
        await asyncio.sleep(reply.delay)
        while reply.release and not reply.release.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        if not reply.status:
            return self.close()
        body = reply.body
        if not isinstance(body, bytes):
            if "choices" in body:
                model = body["model"] or (request.body or {}).get("model")
                body = {"id": f"chatcmpl-{len(self.server.requests)}", **body, "model": model}
            body = json.dumps(body).encode()
        headers = {"content-type": "application/json", **reply.headers, "content-length": str(len(body))}
        lines = [f"HTTP/1.1 {reply.status} {'OK' if reply.status < 400 else 'No'}", *map(": ".join, headers.items())]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        sent = body if reply.keep is None else body[: int(len(body) * reply.keep)]
        for piece in range(reply.chunks):
            await asyncio.sleep(reply.over / reply.chunks)
            if piece == reply.chunks - 1:
                self.leave(request)  # before the client can know of it, or its next request would be counted beside it
            self.transport.write(sent[len(sent) * piece // reply.chunks : len(sent) * (piece + 1) // reply.chunks])
        if reply.keep is not None or request.headers.get("connection") == "close":
            self.close()

    def close(self) -> None:
        with suppress(OSError):
            self.transport.write_eof()  # before closing: a forked process may hold the socket too
        self.transport.close()
