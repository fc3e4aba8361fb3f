"""The server that benchmarks/judges.py measures against, and what is asked of it.

Run as a program (judges.py does, in a process of its own), it answers chat completions after a fixed latency with one
fixed reply. A raw asyncio protocol: what is measured is the client, so this reads no more of a request than it must.
It prints `READY <url>` when it listens, and stops when its standard input closes or on SIGTERM.

`POST` of anything is answered with the reply. `GET` of anything, which takes no latency and is not counted, tells how
many requests there were and how many seconds of CPU this process has used.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

MODEL = "gpt-4o-mini"  # one that litellm has a price for
PROMPT_BYTES = 4096
FILLER = "The answer under review says that the bridge was closed for repairs in the spring and opened in June. " * 50
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "integer", "enum": [1, 2, 3, 4, 5]}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": SCHEMA}}
CONTENT = json.dumps({"reason": "fine", "score": 4})
# What autorubric asks of one criterion: told by the field's name in the schema that the request carries.
CRITERION = json.dumps({"criterion_status": "MET", "explanation": "fine"})


def prompt(n: int) -> str:
    """4 KB that differ from call to call, from the first characters on."""
    return f"Item {n}: {FILLER}"[:PROMPT_BYTES]


def messages(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def check(content: Any) -> None:
    if content != CONTENT:
        raise RuntimeError(f"not the server's reply: {content!r}")


def response(body: Any, status: str = "200 OK") -> bytes:
    text = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    return head.encode() + text


def completion(content: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return response(
        {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": MODEL,
            "choices": [choice],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 12, "total_tokens": 1012},
        }
    )


class Server:
    """What the connections share."""

    def __init__(self, latency: float, content: str) -> None:
        self.latency = latency
        self.reply = completion(content)
        self.criterion = completion(CRITERION)
        self.no_length = response({"error": {"message": "a request needs a Content-Length"}}, "411 Length Required")
        self.requests = 0

    def stats(self) -> bytes:
        return response({"requests": self.requests, "cpu": time.process_time()})


class Connection(asyncio.Protocol):
    """One keep-alive connection. Replies come in the order of the requests, since each waits equally long."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = bytearray()
        self.loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer
        buffer += data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            if buffer.startswith(b"GET "):
                del buffer[: end + 4]
                self.transport.write(self.server.stats())
                continue
            head = bytes(buffer[:end]).lower()
            at = head.find(b"\r\ncontent-length:")
            if at < 0:
                self.transport.write(self.server.no_length)
                self.transport.close()
                return
            whole = end + 4 + int(head[at + 17 :].split(b"\r\n", 1)[0])
            if len(buffer) < whole:
                return
            reply = self.server.criterion if buffer.find(b"criterion_status", end, whole) >= 0 else self.server.reply
            del buffer[:whole]
            self.server.requests += 1
            self.loop.call_later(self.server.latency, self.answer, reply)

    def answer(self, reply: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(reply)


def pin(core: int) -> bool:
    """Keep this process on one core, where the system can; whether it does."""
    if not hasattr(os, "sched_setaffinity") or (os.cpu_count() or 1) <= core:
        return False
    try:
        os.sched_setaffinity(0, {core})
    except OSError:  # the core is not one of those this container may use
        return False
    return True


@contextlib.contextmanager
def running(latency: float) -> Iterator[str]:
    """This server as a process of its own; its URL, to /v1."""
    command = [sys.executable, __file__, "--latency", str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        try:
            ready, _, url = process.stdout.readline().strip().partition(" ")
            if ready != "READY":
                raise RuntimeError("the server did not start")
            yield url
        finally:
            process.stdin.close()


def stats(url: str) -> tuple[int, float]:
    """Requests the server has had, and seconds of CPU it has used."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("GET", "/")
    body = json.loads(connection.getresponse().read())
    connection.close()
    return body["requests"], body["cpu"]


async def serve(latency: float, content: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows, where the closed input has to do
            loop.add_signal_handler(name, stop.set)

    def until_closed() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=until_closed, daemon=True).start()
    shared = Server(latency, content)
    server = await loop.create_server(lambda: Connection(shared), "127.0.0.1", port, backlog=4096)
    print(f"READY http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await stop.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds from a request's end to its reply")
    parser.add_argument("--content", default=CONTENT, help="the text of the reply, except to autorubric")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--core", type=int, default=1, help="the core to run on")
    options = parser.parse_args()
    pin(options.core)
    asyncio.run(serve(options.latency, options.content, options.port))


if __name__ == "__main__":
    main()
