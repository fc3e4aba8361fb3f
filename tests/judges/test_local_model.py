"""The small real model and its server answer as the tests of judges expect."""

import json
import math
from typing import Any

import aiohttp

from tests.judges import local_model
from tests.judges.local_model import LocalModel

GRADE = {
    "type": "object",
    "properties": {"score": {"type": "integer", "enum": [1, 2, 3, 4, 5]}},
    "required": ["score"],
    "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "grade", "strict": True, "schema": GRADE}}


async def ask(model: LocalModel, key: str | None = None, **body: Any) -> tuple[int, Any]:
    messages = [{"role": "user", "content": "Grade the answer '4' to the question '2+2?' from 1 to 5."}]
    body = {"model": model.model, "messages": messages, "temperature": 0, "max_tokens": 60, **body}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{model.url}/chat/completions", json=body, headers=headers) as reply,
    ):
        return reply.status, await reply.json()


async def test_a_schema_is_obeyed(smollm2: LocalModel) -> None:
    assert smollm2.url.endswith("/v1") and smollm2.model == "smollm2-135m"
    code, reply = await ask(smollm2, response_format=SCHEMA)
    assert code == 200 and reply["choices"][0]["finish_reason"] == "stop"
    assert json.loads(reply["choices"][0]["message"]["content"])["score"] in range(1, 6)
    assert reply["model"] == smollm2.model and reply["usage"]["completion_tokens"] > 0


async def test_log_probabilities(smollm2: LocalModel) -> None:
    code, reply = await ask(smollm2, max_tokens=2, logprobs=True, top_logprobs=3)
    block = reply["choices"][0]["logprobs"]["content"]
    assert code == 200 and len(block) == 2
    assert "".join(entry["token"] for entry in block) == reply["choices"][0]["message"]["content"]
    for entry in block:
        assert entry["bytes"] == list(entry["token"].encode()) and len(entry["top_logprobs"]) == 3
        assert sum(math.exp(other["logprob"]) for other in entry["top_logprobs"]) < 1.001
    _, reply = await ask(smollm2, max_tokens=2)
    assert "logprobs" not in reply["choices"][0]


async def test_a_reply_cut_short(smollm2: LocalModel) -> None:
    code, reply = await ask(smollm2, max_tokens=3)
    assert code == 200 and reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 3


async def test_a_prompt_that_is_too_long(smollm2: LocalModel) -> None:
    code, reply = await ask(smollm2, messages=[{"role": "user", "content": "word " * 10_000}])
    assert code == 400 and reply["error"]["type"] == "exceed_context_size_error"
    assert reply["error"]["n_prompt_tokens"] > 10_000 and reply["error"]["n_ctx"] == 2048  # of 4096, for two slots


async def test_a_key(smollm2: LocalModel) -> None:
    assert (await ask(smollm2, "any", max_tokens=1))[0] == 200  # it needs none
    weights = local_model.fetch("smollm2")
    with local_model.serving("smollm2", weights, key="secret", context=512, parallel=1) as model:
        assert model.key == "secret"
        assert (await ask(model, "secret", max_tokens=1))[0] == 200
        for wrong in (None, "public"):
            code, reply = await ask(model, wrong)
            assert code == 401 and reply["error"]["type"] == "authentication_error"
