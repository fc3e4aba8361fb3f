"""A real model behind a real server: what holds whatever it answers."""

from collections.abc import Callable
from typing import Any

import pytest

from judges import (
    Binary,
    ChatClient,
    Choice,
    Judge,
    JudgeFailure,
    Likert,
    LiteLLMClient,
    LLMJudge,
    OpenAICompatibleClient,
    Verdict,
)
from rubrics import WeightedSum
from tests.judges import local_model
from tests.judges.local_model import LocalModel

Client = Callable[..., ChatClient]
PROMPT = "The question was: what is 2+2? Grade this answer.\n{{ answer | untrusted }}"


@pytest.fixture(params=[OpenAICompatibleClient, LiteLLMClient], ids=["aiohttp", "litellm"])
def client(request: pytest.FixtureRequest, smollm2: LocalModel) -> Client:
    def make(**options: Any) -> ChatClient:
        made: ChatClient = request.param(smollm2.url, **options)
        return made

    return make


def judge_of(client: ChatClient, scale: Any = None, **options: Any) -> Judge:
    defaults: dict[str, Any] = {"model": "openai/smollm2-135m" if isinstance(client, LiteLLMClient) else "smollm2-135m"}
    defaults |= {"sampling": {"temperature": 0}, "max_tokens": 120, "timeout": 60.0}
    return Judge(PROMPT, scale or Likert(1, 5), client=client, **{**defaults, **options})


@pytest.mark.parametrize("scale", [Binary(), Choice({"good": 1.0, "bad": 0.0}), Likert(1, 5, abstain=True)])
async def test_a_score_alone_by_its_schema(client: Client, scale: Any) -> None:
    verdict = await judge_of(client(), scale, reason=False).judge(answer="4")
    assert isinstance(verdict, Verdict), verdict
    assert verdict.abstained or verdict.score == scale.normalise(verdict.label)
    assert verdict.usage.calls == 1 and verdict.usage.prompt_tokens > 50 and verdict.model == "smollm2-135m"


async def test_a_reason_and_a_score_by_the_schema(client: Client) -> None:
    outcome = await judge_of(client(), max_tokens=60).judge(answer="4")
    if isinstance(outcome, Verdict):
        assert outcome.reason is not None and outcome.score is not None and 0.0 <= outcome.score <= 1.0
    else:  # its reason may go on for ever
        assert outcome.kind == "truncated" and outcome.usage.calls == 2


async def test_a_disobedient_model(client: Client) -> None:
    """Asked in words only, it answers what it likes; every answer is a verdict or a failure of the reply."""
    judge = judge_of(client(wire="text"), sampling={"temperature": 1.0, "seed": 3}, max_tokens=12)
    outcomes = [await judge.judge(answer="5")]
    for outcome in outcomes:
        if isinstance(outcome, JudgeFailure):
            assert (
                outcome.kind in ("format", "out_of_scale", "ambiguous", "truncated", "empty") and outcome.attempts == 2
            )
            assert outcome.reply is not None
        else:
            assert outcome.label in (1, 2, 3, 4, 5)


@pytest.mark.parametrize("scale", [Likert(1, 5), Choice({"good": 1.0, "bad": 0.0})])
async def test_an_expected_score_or_a_logprobs_failure(client: Client, scale: Any) -> None:
    outcome = await judge_of(client(), scale, expected=True).judge(answer="4")
    if isinstance(outcome, JudgeFailure):
        assert outcome.kind == "logprobs"
        return
    assert outcome.score is not None and 0.0 <= outcome.score <= 1.0
    probabilities = outcome.metadata["probabilities"]
    assert sum(probabilities.values()) == pytest.approx(1.0) and outcome.metadata["mass"] >= 0.5
    assert outcome.score == pytest.approx(sum(p * scale.normalise(label) for label, p in probabilities.items()))


async def test_a_reply_that_is_cut(client: Client) -> None:
    failure = await judge_of(client(), max_tokens=1).judge(answer="4")
    assert isinstance(failure, JudgeFailure) and failure.kind == "truncated"
    assert failure.usage.calls == 2 and failure.usage.completion_tokens == 5  # one, and four times that


async def test_a_prompt_that_is_too_long(client: Client) -> None:
    failure = await judge_of(client()).judge(answer="word " * 10_000)
    assert isinstance(failure, JudgeFailure) and (failure.kind, failure.attempts) == ("too_long", 1)


async def test_a_timeout_and_a_judge_that_works_afterwards(client: Client) -> None:
    await judge_of(client(), reason=False).judge(answer="before")
    slow = judge_of(client(wire="text"), max_tokens=1000, timeout=0.3, retries=0, concurrency=1)
    failure = await slow.judge(answer="4")
    assert isinstance(failure, JudgeFailure) and failure.kind == "timeout"
    assert isinstance(await judge_of(client(), reason=False, concurrency=1).judge(answer="4"), Verdict)


async def test_many_at_once_in_a_tree(client: Client) -> None:
    leaves = [
        LLMJudge(
            f"Criterion {number}: is this right?\n{{{{ action | untrusted }}}}",
            Binary(),
            reason=False,
            client=client(),
            model="openai/smollm2-135m",
            max_tokens=20,
        )
        for number in range(3)
    ]
    evaluation = await WeightedSum(leaves, [1 / 3] * 3).evaluate("4", None)
    assert evaluation.status == "scored" and evaluation.usage.calls == 3
    assert evaluation.score is not None and 0.0 <= evaluation.score <= 1.0


async def test_a_wrong_key(smollm2: LocalModel) -> None:
    weights = local_model.fetch("smollm2")
    with local_model.serving("smollm2", weights, key="the-right-one", context=512, parallel=1) as server:
        for make in (OpenAICompatibleClient, LiteLLMClient):
            for key in ("the-wrong-one", None):
                failure = await judge_of(make(server.url, key), reason=False).judge(answer="4")
                assert isinstance(failure, JudgeFailure) and (failure.kind, failure.attempts) == ("auth", 1)
                assert "the-wrong-one" not in repr(failure)
            verdict = await judge_of(make(server.url, "the-right-one"), reason=False).judge(answer="4")
            assert isinstance(verdict, Verdict)
