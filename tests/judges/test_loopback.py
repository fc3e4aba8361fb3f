"""The loopback server itself: each behaviour as a plain HTTP client sees it."""

import asyncio
import json
import math
import socket
import threading
import time
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.judges.loopback import (
    Behaviour,
    LoopbackServer,
    choice,
    choices,
    cut,
    drip,
    drop,
    error_in_200,
    eventually,
    hang,
    html,
    late,
    logprobs,
    not_json,
    rate_limited,
    redirect,
    rejects,
    status,
    text,
    tool,
    until_schema,
    usage,
    without,
)

SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "schema": {}}}}
OBJECT = {"response_format": {"type": "json_object"}}
TOOLS = {"tools": [{"type": "function", "function": {"name": "verdict", "parameters": {}}}]}


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, url

    async def ask(self, path: str = "/chat/completions", **body: Any) -> tuple[int, dict[str, str], bytes]:
        body = {"model": "m", "messages": [{"role": "user", "content": "2+2?"}], **body}
        async with self.session.post(self.url + path, json=body, allow_redirects=False) as reply:
            headers = {name.lower(): value for name, value in reply.headers.items()}
            return reply.status, headers, await reply.read()

    async def json(self, **body: Any) -> Any:
        return json.loads((await self.ask(**body))[2])


@pytest.fixture
async def client(loopback: LoopbackServer) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(session, loopback.url)


async def test_an_ordinary_reply(loopback: LoopbackServer, client: Client) -> None:
    before = time.monotonic()
    loopback.answer(text('{"score": 4}', usage=usage(100, 7, cached=64)))
    reply = await client.json(temperature=0)
    assert reply["choices"] == [choice('{"score": 4}')]
    assert reply["choices"][0]["message"] == {"role": "assistant", "content": '{"score": 4}', "refusal": None}
    assert reply["model"] == "m" and reply["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    (request,) = loopback.requests
    assert request.path == "/v1/chat/completions" and request.headers["content-type"] == "application/json"
    assert request.body["temperature"] == 0 and json.loads(request.raw) == request.body
    assert before <= request.at <= time.monotonic()


async def test_the_parts_of_a_reply(loopback: LoopbackServer, client: Client) -> None:
    parts = [{"type": "text", "text": "4"}]
    loopback.answer(
        text(None, "content_filter", refusal="I cannot", usage=None, model="other"),
        text(parts, reasoning_content="hm"),
        tool({"score": 4}),
        tool('{"score', "other"),
        choices([]),
    )
    refused = await client.json()
    assert "usage" not in refused and refused["model"] == "other"
    assert refused["choices"][0]["message"]["refusal"] == "I cannot"
    assert refused["choices"][0]["finish_reason"] == "content_filter"
    message = (await client.json())["choices"][0]["message"]
    assert message["content"] == parts and message["reasoning_content"] == "hm"
    called = (await client.json(**TOOLS))["choices"][0]
    assert called["message"]["content"] is None and called["finish_reason"] == "tool_calls"
    assert called["message"]["tool_calls"][0]["function"] == {"name": "verdict", "arguments": '{"score": 4}'}
    assert (await client.json())["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "other"
    assert (await client.json())["choices"] == []


async def test_log_probabilities(loopback: LoopbackServer, client: Client) -> None:
    block = logprobs([("4", math.log(0.6), {"5": math.log(0.3), "é": math.log(0.7)}), ("}", 0.0, {})])
    loopback.answer(text("4}", logprobs=block))
    first, second = (await client.json())["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in first["top_logprobs"]] == ["é", "4", "5"]
    assert first["token"] == "4" and first["logprob"] == math.log(0.6)
    assert first["top_logprobs"][0]["bytes"] == [0xC3, 0xA9] and second["bytes"] == [125]
    bare = logprobs([("4", -1.0, {"5": -0.5})], own=False, with_bytes=False)["content"][0]
    assert [entry["token"] for entry in bare["top_logprobs"]] == ["5"] and bare["bytes"] is None


async def test_the_script_is_used_in_order_and_then_the_default(loopback: LoopbackServer, client: Client) -> None:
    loopback.answer(text("a"), lambda request: text(request.body["messages"][0]["content"]))
    loopback.default = text("c")
    got = [(await client.json())["choices"][0]["message"]["content"] for _ in range(4)]
    assert got == ["a", "2+2?", "c", "c"] and len(loopback.requests) == 4
    assert loopback.connections == 1  # kept alive
    loopback.answer(text("a"))
    loopback.clear()
    assert not loopback.requests and loopback.peak == 0
    assert (await client.json())["choices"][0]["message"]["content"] == "c"
    assert (await client.ask("/elsewhere"))[0] == 404 and loopback.requests[-1].path == "/v1/elsewhere"


@pytest.mark.parametrize(
    ("behaviour", "code", "headers", "body"),
    [
        (status(500, "oops", headers={"x-a": "b"}), 500, {"x-a": "b"}, {"message": "oops", "type": None}),
        (status(529, "busy", "overloaded", "server_error"), 529, {}, {"code": "overloaded", "type": "server_error"}),
        (rate_limited(), 429, {"retry-after": "2"}, {"code": "rate_limit_exceeded"}),
        (rate_limited("Sun, 06 Nov 1994 08:49:37 GMT"), 429, {"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, {}),
        (rate_limited(None, ms=150, code=503), 503, {"retry-after-ms": "150"}, {}),
        (rejects("logprobs"), 400, {}, {"param": "logprobs", "code": "unsupported_parameter"}),
        (error_in_200(502, "upstream"), 200, {}, {"message": "upstream", "code": 502}),
    ],
)
async def test_errors(
    loopback: LoopbackServer, client: Client, behaviour: Behaviour, code: int, headers: dict[str, str], body: Any
) -> None:
    loopback.answer(behaviour)
    got, got_headers, raw = await client.ask()
    assert got == code and headers.items() <= got_headers.items()
    assert body.items() <= json.loads(raw)["error"].items()


async def test_bodies_that_are_not_json(loopback: LoopbackServer, client: Client) -> None:
    loopback.answer(html(), html(502), not_json(), not_json(b"\xff"), redirect("http://127.0.0.1:1/v1"))
    assert [(await client.ask())[0] for _ in range(2)] == [200, 502]
    code, headers, raw = await client.ask()
    assert code == 200 and headers["content-type"] == "application/json" and raw == b'{"choices": ['
    assert (await client.ask())[2] == b"\xff"
    code, headers, _ = await client.ask()
    assert code == 307 and headers["location"] == "http://127.0.0.1:1/v1"


async def test_connections_that_break(loopback: LoopbackServer, client: Client) -> None:
    loopback.answer(cut(), drop(), text("4"))
    with pytest.raises(aiohttp.ClientPayloadError):
        await client.ask()
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await client.ask()
    assert (await client.ask())[0] == 200
    assert not loopback.cancelled and len(loopback.requests) == 3


async def test_a_body_that_drips(loopback: LoopbackServer, client: Client) -> None:
    loopback.answer(drip(text("4"), 0.2, 10))
    pieces = []
    start = time.monotonic()
    async with client.session.post(client.url + "/chat/completions", json={"model": "m"}) as reply:
        async for piece, _ in reply.content.iter_chunks():
            pieces.append(piece)
    assert time.monotonic() - start >= 0.2 and len(pieces) > 3
    assert json.loads(b"".join(pieces))["choices"][0]["message"]["content"] == "4"


async def test_what_is_in_flight(loopback: LoopbackServer, client: Client) -> None:
    release = threading.Event()
    loopback.default = late(text("4"), release=release)
    asked = [asyncio.create_task(client.ask()) for _ in range(8)]
    await eventually(lambda: loopback.in_flight == 8)
    assert loopback.connections == 8 and not any(task.done() for task in asked)
    release.set()
    await asyncio.gather(*asked)
    assert loopback.peak == 8
    await eventually(lambda: loopback.in_flight == 0)


@pytest.mark.parametrize("behaviour", [hang(), text("4", delay=60.0), late(text("4"), 60.0), drip(text("4"), 60.0, 9)])
async def test_a_client_that_goes_away(loopback: LoopbackServer, client: Client, behaviour: Behaviour) -> None:
    loopback.answer(behaviour)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await client.ask(seed=7)
    await eventually(lambda: loopback.cancelled)
    assert loopback.cancelled[0].body["seed"] == 7 and loopback.in_flight == 0
    await eventually(lambda: loopback.connections == 0)


async def test_a_server_that_lacks_a_parameter(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = without(["logprobs", "seed"], text("4"))
    assert (await client.json(logprobs=True, seed=1))["error"]["param"] == "logprobs"
    assert (await client.json(seed=1))["error"]["param"] == "seed"
    assert (await client.ask())[0] == 200


@pytest.mark.parametrize("form", ["json_schema", "json_object", "tools", "text"])
async def test_a_server_that_knows_one_form(loopback: LoopbackServer, client: Client, form: str) -> None:
    loopback.default = until_schema(form, '{"score": 4}')
    requests: dict[str, dict[str, Any]] = {"json_schema": SCHEMA, "json_object": OBJECT, "tools": TOOLS, "text": {}}
    for other, body in requests.items():
        code, _, raw = await client.ask(**body)
        assert (code == 200) == (other == form)
        assert (b"score" in raw) == (other == form)
        assert code == 200 or f"{other} is not supported" in json.loads(raw)["error"]["message"]


def test_sync_clients_and_many_loops() -> None:
    async def ask(url: str) -> int:
        async with aiohttp.ClientSession() as session:
            return (await Client(session, url).ask())[0]

    with LoopbackServer(text("5")) as server:
        assert [asyncio.run(ask(server.url)) for _ in range(3)] == [200] * 3
        with urllib.request.urlopen(server.url + "/chat/completions", b"{}") as reply:
            assert json.load(reply)["choices"][0]["message"]["content"] == "5"
        port = int(server.url.split(":")[2].split("/")[0])
    assert server.connections == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_the_end_of_the_server_ends_what_it_still_holds() -> None:
    async with aiohttp.ClientSession() as session:
        with LoopbackServer(hang()) as server:
            asked = asyncio.create_task(Client(session, server.url).ask())
            await eventually(lambda: server.in_flight)
        with pytest.raises(aiohttp.ClientError):
            await asked
    assert not server.cancelled and server.in_flight == 0


async def test_a_failure_of_the_script_is_raised() -> None:
    with pytest.raises(KeyError, match="seed"):
        async with aiohttp.ClientSession() as session:
            with LoopbackServer(lambda request: text(request.body["seed"])) as server:
                assert (await Client(session, server.url).ask())[0] == 500


async def test_many_requests_are_fast(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = text("4", delay=0.02)
    asked = await asyncio.gather(*(client.ask() for _ in range(300)))
    assert {code for code, *_ in asked} == {200} and loopback.peak > 50
