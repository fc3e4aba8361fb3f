"""Keys are sent, and appear nowhere else; and nobody's key is sent anywhere else."""

import asyncio
import io
import logging
import os
import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from judges import (
    ChatClient,
    ChatError,
    ChatRequest,
    Judge,
    JudgeConfigError,
    JudgeError,
    Likert,
    LiteLLMClient,
    LLMJudge,
    OpenAICompatibleClient,
    Store,
)
from rubrics import Fallback
from tests.judges.loopback import (
    LoopbackServer,
    Reply,
    cut,
    drop,
    error_in_200,
    hang,
    html,
    rejects,
    status,
    text,
)

GOOD = '{"reason": "fine", "score": 4}'


def key() -> str:
    """Not a constant: a traceback with locals shows those of the tests, too."""
    return "".join(("q7Zk-the-", "judges-own-", "key-31415"))


def policy(name: str) -> str:
    return "".join((name.lower().replace("_", "-"), "-of-the-policy"))


POLICY = [
    "OPENAI_API_KEY", "OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY", "GROQ_API_KEY",
    "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "MISTRAL_API_KEY", "TOGETHERAI_API_KEY", "DEEPSEEK_API_KEY",
    "HOSTED_VLLM_API_KEY", "HF_TOKEN", "AZURE_API_KEY", "AZURE_AD_TOKEN", "XAI_API_KEY", "OPENROUTER_API_KEY",
    "PERPLEXITYAI_API_KEY", "CEREBRAS_API_KEY", "LITELLM_PROXY_API_KEY", "LM_STUDIO_API_KEY", "DEEPINFRA_API_KEY",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK", "OLLAMA_API_KEY", "COHERE_API_KEY",
]  # fmt: skip

Client = Callable[..., ChatClient]


@pytest.fixture(params=[OpenAICompatibleClient, LiteLLMClient], ids=["aiohttp", "litellm"])
def client(request: pytest.FixtureRequest, loopback: LoopbackServer) -> Client:
    loopback.default = text(GOOD)

    def make(api_key: str | None = None, **options: Any) -> ChatClient:
        made: ChatClient = request.param(loopback.url, api_key, **options)
        return made

    return make


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that any logger says at any level."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    names = [None, *logging.root.manager.loggerDict]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
    yield said
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
        logger.removeHandler(handler)


async def sent(client: Any, model: str = "openai/m") -> None:
    """Send a request without a judge."""
    try:
        await client.send(ChatRequest(model, ({"role": "user", "content": "hi"},)))
    finally:
        if isinstance(client, OpenAICompatibleClient):
            await client.close()


def echo(request: Any) -> Reply:
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    return status(401, f"Incorrect API key provided: {given}. Bearer {given}")


TROUBLE = [
    lambda request: text(GOOD),
    echo,
    lambda request: status(500, f"proxy said: {request.headers}"),
    lambda request: status(400, f"bad: {request.headers['authorization'].split()[1]}"),
    lambda request: rejects("response_format", f"no response_format with {request.headers}"),
    lambda request: text(None, refusal=f"I refuse {request.headers}"),
    lambda request: cut(),
    lambda request: drop(),
    lambda request: html(),
    lambda request: hang(),
    lambda request: Reply(str(request.headers).encode()),
]


@pytest.mark.parametrize("number", range(len(TROUBLE)))
async def test_a_key_is_sent_and_appears_nowhere_else(
    loopback: LoopbackServer, client: Client, log: io.StringIO, tmp_path: Path, number: int
) -> None:
    loopback.default = TROUBLE[number]
    made = client(key())
    leaf = LLMJudge(
        "Rate it.\n{{ action | untrusted }}",
        Likert(1, 5),
        client=made,
        model="openai/m",
        store=Store(tmp_path / "x.jsonl"),
        retries=0,
        timeout=0.4,
    )
    shown = [repr(made), str(leaf), repr(leaf), repr(leaf.judge), repr(vars(made)), repr(vars(leaf.judge.asker))]  # type: ignore[attr-defined]
    shown.append(repr(vars(leaf.judge.asker.exchanger)))  # type: ignore[attr-defined]
    evaluation = await Fallback(leaf, 0.0, on_error=True).evaluate("x", None)
    shown += [repr(evaluation), str(evaluation.to_dict())]
    shown.append(pickle.dumps(evaluation).decode("latin-1"))
    try:
        await leaf("y", None)
    except JudgeError as error:
        shown += [str(error), repr(error), repr(error.failure), pickle.dumps(error).decode("latin-1")]
        shown += traceback.TracebackException.from_exception(error, capture_locals=True).format()
        shown += traceback.format_exception(error)
    try:
        async with asyncio.timeout(0.4):
            await sent(client(key()))
    except ChatError as error:
        shown += [str(error), repr(error)]
        shown += traceback.TracebackException.from_exception(error, capture_locals=True).format()
    except TimeoutError:
        pass
    shown.append((tmp_path / "x.jsonl").read_text())
    shown.append(log.getvalue())
    assert loopback.requests and all(
        request.headers["authorization"] == f"Bearer {key()}" for request in loopback.requests
    )
    for part in shown:
        assert key() not in part and key()[:12] not in part


async def test_a_reply_that_repeats_the_key_is_masked(loopback: LoopbackServer, client: Client, tmp_path: Path) -> None:
    loopback.default = lambda request: text(f"I was sent {request.headers['authorization']}")
    judge = Judge("{{ a | untrusted }}", Likert(), client=client(key()), model="openai/m", store=tmp_path / "x.jsonl")
    failure = await judge.judge(a=1)
    assert key() not in repr(failure) and key() not in (tmp_path / "x.jsonl").read_text()
    assert "I was sent" in str(failure.reply)
    loopback.default = lambda request: error_in_200(401, f"bad key {request.headers['authorization']}")
    assert key() not in repr(await judge.judge(a=2))


@pytest.mark.parametrize(
    "shape",
    ["sk-proj-abcdefghijklmnop1234", "AIzaSyA1234567890abcdefghijklmnopqrstu", "gsk_abcdefghijklmnop", "hf_abcdefghij"],
)
async def test_what_looks_like_a_key_is_masked_too(loopback: LoopbackServer, client: Client, shape: str) -> None:
    loopback.default = status(401, f"Incorrect API key provided: {shape}")
    failure = await Judge("{{ a | untrusted }}", Likert(), client=client("k"), model="openai/m").judge(a=1)
    assert shape not in str(failure) and "Incorrect API key provided" in str(failure)


@pytest.mark.parametrize("bad", ["key\nwith-a-line", "schlüssel", "a\x00b"])
def test_a_key_that_cannot_be_sent(client: Client, bad: str) -> None:
    with pytest.raises(JudgeConfigError, match="API key") as caught:
        client(bad)
    assert bad not in str(caught.value)


async def test_white_space_around_a_key_is_no_part_of_it(loopback: LoopbackServer, client: Client) -> None:
    await sent(client(f" {key()}\n"))
    assert loopback.requests[0].headers["authorization"] == f"Bearer {key()}"


@pytest.mark.parametrize("address", ["http://user:pass-word@host/v1", "ftp://host/v1", "host:8000", "http:///v1"])
def test_an_address_that_is_none_is_told_without_what_it_hides(address: str) -> None:
    for make in (OpenAICompatibleClient, LiteLLMClient):
        with pytest.raises(JudgeConfigError) as caught:
            make(address)
        assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize(
    "model",
    ["openai/m", "m", "hosted_vllm/m", "azure/m", "perplexity/m", "cerebras/m", "deepinfra/m", "litellm_proxy/m",
     "lm_studio/m", "groq/m", "together_ai/m", "openrouter/m", "mistral/m", "anthropic/m", "gemini/m", "ollama/m",
     "bedrock/m", "cohere/m", "xai/m", "text-completion-openai/m", "aiohttp_openai/m", "gpt-4o"],
)  # fmt: skip
async def test_with_an_address_and_no_key_nothing_of_the_policys_leaves(
    loopback: LoopbackServer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    loopback.default = text(GOOD)
    for name in POLICY:
        monkeypatch.setenv(name, policy(name))
    monkeypatch.setenv("AZURE_API_VERSION", "2024-02-01")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")
    clients: list[ChatClient] = [LiteLLMClient(loopback.url)]
    if model == "m":
        clients.append(OpenAICompatibleClient(loopback.url))
    for client in clients:
        loopback.clear()
        try:
            await sent(client, model)
        except ChatError as error:
            if error.status != 404:  # this provider's own path
                raise
        (request,) = loopback.requests
        assert "-of-the-policy" not in f"{request.path} {request.headers} {request.raw!r}"


@pytest.mark.parametrize(
    ("model", "address"),
    [
        ("openai/gpt-4o", "https://api.openai.com/v1"),
        ("gpt-4o", "https://api.openai.com/v1"),
        ("text-completion-openai/m", "https://api.openai.com/v1"),
        ("aiohttp_openai/m", "https://api.openai.com/v1"),
        ("anthropic/claude", None),
        ("groq/llama", None),
        ("hosted_vllm/m", "refused"),
        ("lm_studio/m", "refused"),
        ("litellm_proxy/m", "refused"),
        ("xinference/m", "refused"),
        ("ai21/m", "refused"),
        ("no-such-model", "refused"),
    ],
)
async def test_the_policys_address_is_never_followed(
    monkeypatch: pytest.MonkeyPatch, model: str, address: str | None
) -> None:
    asked: list[Any] = []

    async def acompletion(**parameters: Any) -> Any:
        asked.append(parameters)
        raise RuntimeError("not today")

    client = LiteLLMClient()
    await client.prepare()
    import litellm

    monkeypatch.setattr(litellm, "acompletion", acompletion)
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")
    with pytest.raises(ChatError) as caught:
        await sent(client, model)
    if address == "refused":
        assert not asked and not caught.value.sent and "api_base" in str(caught.value)
    else:
        assert asked[0]["api_base"] == address and asked[0]["api_key"] is None
        assert asked[0]["num_retries"] == asked[0]["max_retries"] == 0


async def test_the_judges_own_variables(loopback: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    loopback.default = text(GOOD)
    monkeypatch.setenv("JUDGE_API_BASE", loopback.url)
    monkeypatch.setenv("JUDGE_API_KEY", key())
    monkeypatch.setenv("JUDGE_MODEL", "openai/from-the-environment")
    monkeypatch.setenv("OPENAI_API_KEY", policy("OPENAI_API_KEY"))
    for client in (None, OpenAICompatibleClient()):
        loopback.clear()
        await Judge("{{ a | untrusted }}", Likert(), client=client).judge(a=1)
        (request,) = loopback.requests
        assert request.headers["authorization"] == f"Bearer {key()}"
        assert request.body["model"].endswith("from-the-environment")
    loopback.clear()
    await Judge("{{ a | untrusted }}", Likert(), api_base=loopback.url, api_key="given", model="m").judge(a=1)
    assert loopback.requests[0].headers["authorization"] == "Bearer given"


async def test_sampling_cannot_carry_a_key_or_another_address() -> None:
    for name in ("api_key", "api_base", "base_url", "timeout", "num_retries", "max_retries", "model", "stream"):
        with pytest.raises(JudgeConfigError, match=f"sampling cannot set {name}"):
            Judge("{{ a | untrusted }}", Likert(), model="m", sampling={name: "x"})


def test_nothing_of_the_environment_is_changed_but_litellms_own_switches() -> None:
    before = dict(os.environ)
    asyncio.run(LiteLLMClient().prepare())
    changed = {name for name in os.environ if os.environ[name] != before.get(name)}
    assert changed <= {"LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_MODE"}
