"""What a client sends, and how it is set up."""

import copy
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from judges import (
    ChatError,
    ChatRequest,
    Judge,
    JudgeConfigError,
    JudgeFailure,
    Likert,
    LiteLLMClient,
    LLMJudge,
    OpenAICompatibleClient,
    Price,
    ScriptedClient,
    Verdict,
)
from tests.judges.clients import GOOD, KEY, Client
from tests.judges.loopback import LoopbackServer, Reply, text


def judge_of(client: Any, **options: Any) -> Judge:
    return Judge(
        "Rate it.\n{{ answer | untrusted }}", Likert(1, 5), **{"client": client, "model": "openai/m", **options}
    )


async def test_what_is_sent(loopback: LoopbackServer, client: Client) -> None:
    made = client()
    judge = judge_of(made, sampling={"temperature": 0.5, "seed": 7}, max_tokens=99)
    assert isinstance(await judge.judge(answer="çà \U0001f600"), Verdict)
    (request,) = loopback.requests
    body = request.body
    assert request.path == "/v1/chat/completions" and request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"].startswith("application/json")
    assert body["model"] == ("m" if isinstance(made, LiteLLMClient) else "openai/m")
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.5, 7, 99)
    assert body["messages"] == judge.messages(answer="çà \U0001f600")
    assert body["response_format"]["json_schema"]["schema"] == judge.form.schema
    assert body["response_format"]["json_schema"]["strict"] is True
    assert "logprobs" not in body and "n" not in body and not body.get("stream")


async def test_fields_of_ones_own(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD)
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "temperature": 1}
    made = OpenAICompatibleClient(loopback.url + "/", extra=extra, max_tokens_field="max_completion_tokens")
    assert made.address == loopback.url and made.endpoint == "127.0.0.1"
    await judge_of(made, sampling={"temperature": 0}).judge(answer="x")
    body = loopback.requests[0].body
    assert body["chat_template_kwargs"] == {"enable_thinking": False} and body["temperature"] == 0
    assert body["max_completion_tokens"] == 1024 and "max_tokens" not in body


async def test_text_that_is_not_unicode_is_a_request_that_was_not_sent(loopback: LoopbackServer) -> None:
    made = OpenAICompatibleClient(loopback.url)
    with pytest.raises(ChatError, match="cannot be written") as caught:
        await made.send(ChatRequest("m", ({"role": "user", "content": "a\ud800b"},)))
    await made.close()
    assert caught.value.kind == "request" and not caught.value.sent and not loopback.requests


@pytest.mark.parametrize("code", [200, 201])
async def test_any_success_is_one(loopback: LoopbackServer, code: int) -> None:
    body = {"model": "m", "choices": [{"message": {"content": GOOD}}]}
    loopback.default = Reply(body, code)
    assert isinstance(await judge_of(OpenAICompatibleClient(loopback.url)).judge(answer="x"), Verdict)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": None},
        {"choices": "no"},
        {"choices": [7]},
        {"choices": [{"message": None}]},
        {"choices": {}},
        {"object": "list"},
        {},
    ],
)
async def test_a_body_of_another_kind(loopback: LoopbackServer, body: Mapping[str, Any]) -> None:
    loopback.default = Reply({"model": "m", **body})
    failure = await judge_of(OpenAICompatibleClient(loopback.url), retries=0).judge(answer="x")
    assert isinstance(failure, JudgeFailure) and failure.kind == "transport"


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": GOOD}, "logprobs": 7},
        {"message": {"content": GOOD}, "logprobs": {"content": [7, {"token": None}]}},
        {"message": {"content": GOOD, "refusal": 7}, "finish_reason": 7},
        {"message": {"content": [{"type": "text", "text": GOOD}, {"type": "image"}, 7]}},
        {"message": {"content": None, "tool_calls": [None, {"function": {"name": "a", "arguments": GOOD}}]}},
    ],
)
@pytest.mark.parametrize("usage", [None, 7, {"prompt_tokens": "many", "completion_tokens": -1, "total_tokens": True}])
async def test_odd_parts_of_a_reply_do_no_harm(loopback: LoopbackServer, choice: Any, usage: Any) -> None:
    loopback.default = Reply({"model": "m", "choices": [choice], "usage": usage})
    verdict = await judge_of(OpenAICompatibleClient(loopback.url)).judge(answer="x")
    assert isinstance(verdict, Verdict) and verdict.usage.calls == 1 and verdict.usage.total_tokens == 0


def test_a_tree_of_judges_can_be_pickled_and_copied(loopback: LoopbackServer, client: Client) -> None:
    leaf = LLMJudge("Rate it.\n{{ action | untrusted }}", Likert(1, 5), client=client(), model="openai/m")
    assert leaf.blocking()("x", None) == 0.75  # in use, with connections and limits
    for twin in (copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf))):
        assert twin.blocking()("x", None) == 0.75
    assert len(loopback.requests) == 3


@pytest.mark.parametrize("extra", [{"a": object()}, {"a": float("nan")}])
def test_fields_that_are_no_json(extra: Any) -> None:
    with pytest.raises(JudgeConfigError, match="extra cannot be sent as JSON"):
        OpenAICompatibleClient("http://127.0.0.1:9/v1", extra=extra)


def test_an_address_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_API_BASE", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(JudgeConfigError, match="give api_base, or set JUDGE_API_BASE"):
        OpenAICompatibleClient()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"timeout": float("inf")}, "timeout is a number of seconds"),
        ({"retries": -1}, "retries is a whole number from 0"),
        ({"retries": True}, "retries is a whole number"),
        ({"max_wait": -1.0}, "max_wait is a number of seconds"),
        ({"max_tokens": 0}, "max_tokens is a whole number from 1"),
        ({"concurrency": 0}, "concurrency is a whole number from 1"),
        ({"api_key": "k"}, "give api_key to the client"),
        ({"client": object()}, "a client has an endpoint"),
        ({"sampling": {"a": object()}}, "cannot be sent as JSON"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JudgeConfigError, match=message):
        judge_of(options.pop("client", ScriptedClient(GOOD)), **options)


def test_a_price() -> None:
    assert Price(2.0, 10.0).of(1_000, 100, 500) == pytest.approx(0.003)
    assert Price(2.0, 10.0, cached=1.0).of(1_000, 100, 500) == pytest.approx(0.0025)
    for bad in (-1.0, float("nan"), float("inf"), True, "1"):
        with pytest.raises(ValueError, match="Price: prompt"):
            Price(bad, 1.0)  # type: ignore[arg-type]


async def test_litellm_knows_prices() -> None:
    made = LiteLLMClient()
    price = await made.prices("openai/gpt-4o-mini")
    assert price is not None and 0.0 < price.prompt < price.completion < 100.0
    assert await made.prices("hosted_vllm/nobody-knows-it") is None


async def test_a_script(loopback: LoopbackServer) -> None:
    script = ScriptedClient([{"score": 4}, JudgeFailure("auth", "no"), ChatError("timeout", "slow")])
    request = ChatRequest("m", ({"role": "user", "content": "hi"},))
    assert (await script.send(request)).text == '{"score": 4}'
    for kind in ("auth", "timeout"):
        with pytest.raises(ChatError) as caught:
            await script.send(request)
        assert caught.value.kind == kind
    with pytest.raises(RuntimeError, match="has ended: this is request 4"):
        await script.send(request)
    assert script.requests == [request] * 4 and "4 requests" in repr(script)
