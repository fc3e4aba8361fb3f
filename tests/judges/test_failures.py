"""Every kind of failure and what is done about it, with both network clients against a server that misbehaves."""

import asyncio
import time
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import pytest

from judges import (
    Binary,
    Budget,
    ChatClient,
    Judge,
    JudgeError,
    JudgeFailure,
    Likert,
    LLMJudge,
    OpenAICompatibleClient,
    Verdict,
)
from tests.judges.clients import GOOD, KEY, Client
from tests.judges.loopback import (
    Behaviour,
    LoopbackServer,
    choices,
    cut,
    drip,
    drop,
    error_in_200,
    eventually,
    hang,
    html,
    late,
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

PROMPT = "Rate it.\n{{ answer | untrusted }}"


def judge_of(client: ChatClient, **options: Any) -> Judge:
    return Judge(PROMPT, Likert(1, 5), client=client, model="openai/m", **{"max_wait": 0.02, **options})


async def ask(client: ChatClient, **options: Any) -> Verdict | JudgeFailure:
    return await judge_of(client, **options).judge(answer="42")


# -- failures that stand, and those that pass -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "kind", "code", "attempts"),
    [
        (status(500), "transport", 500, 3),
        (status(503), "transport", 503, 3),
        (status(529, "overloaded"), "transport", 529, 3),
        (status(408), "transport", 408, 3),
        (status(409), "request", 409, 1),
        (rate_limited(None), "rate_limit", 429, 3),
        (rate_limited("0"), "rate_limit", 429, 3),
        (status(429, "You exceeded your current quota", "insufficient_quota"), "rate_limit", 429, 1),
        (status(401, "bad key"), "auth", 401, 1),
        (status(403, "not yours"), "auth", 403, 1),
        (status(400, "temperature is too high"), "request", 400, 1),
        (status(404, "no such model"), "request", 404, 1),
        (status(422, "no"), "request", 422, 1),
        (status(400, "This model's maximum context length is 8 tokens", "context_length_exceeded"), "too_long", 400, 1),
        (status(413, "too big"), "too_long", 413, 1),
        (status(400, "blocked by the content management policy", "content_filter"), "refused", 400, 1),
        (rejects("logprobs"), "logprobs", 400, 1),
        (error_in_200(502, "upstream"), "transport", 502, 3),
        (html(), "transport", None, 3),
        (html(502), "transport", 502, 3),
        (not_json(), "transport", None, 3),
        (not_json(b"\xff\xfe"), "transport", None, 3),
        (not_json(b"[]"), "transport", None, 3),
        (not_json(b'"4"'), "transport", None, 3),
        (not_json(b""), "transport", None, 3),
        (cut(), "transport", None, 3),
        (drop(), "transport", None, 3),
        (text(None, refusal="I cannot help with that"), "refused", None, 1),
        (text("", "content_filter"), "refused", None, 1),
    ],
)
async def test_a_failure_has_its_kind_and_its_number_of_attempts(
    loopback: LoopbackServer, client: Client, behaviour: Behaviour, kind: str, code: int | None, attempts: int
) -> None:
    loopback.default = behaviour
    failure = await ask(client(), retries=2)
    assert isinstance(failure, JudgeFailure)
    assert (failure.kind, failure.attempts, len(loopback.requests)) == (kind, attempts, attempts)
    assert code is None or failure.status == code
    assert failure.message and failure.usage.calls == attempts and not failure.cached


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (choices([]), "empty"),
        (text(None), "empty"),
        (text(""), "empty"),
        (text("  \n"), "empty"),
        (text("4"), "format"),
        (text('{"score": "4", "reason": "x"}'), "format"),
        (text('{"score": 2.5, "reason": "x"}'), "out_of_scale"),
        (text('{"score": 6, "reason": "x"}'), "out_of_scale"),
        (text('{"score": 4, "score": 2, "reason": "x"}'), "ambiguous"),
        (text('{"reason": "it is th', "length"), "truncated"),
        (text("", "length"), "truncated"),
        (text(None, "length", reasoning_content="hm"), "truncated"),
    ],
)
async def test_a_reply_that_cannot_be_used_is_asked_for_once_more(
    loopback: LoopbackServer, client: Client, behaviour: Behaviour, kind: str
) -> None:
    loopback.default = behaviour
    failure = await ask(client(), retries=5)
    assert isinstance(failure, JudgeFailure) and failure.kind == kind
    assert failure.attempts == 2 and len(loopback.requests) == 2 and failure.usage.total_tokens == 50
    loopback.clear()
    loopback.answer(behaviour)
    loopback.default = text(GOOD)
    verdict = await ask(client(), retries=0)
    assert isinstance(verdict, Verdict) and verdict.score == 0.75 and verdict.usage.calls == 2
    first, second = (request.body for request in loopback.requests)
    assert second["max_tokens"] == first["max_tokens"] * (4 if kind == "truncated" else 1)
    told = second["messages"][-1]["content"]
    assert "cannot be used" in told
    roles = [message["role"] for message in second["messages"]]
    assert all(one != other for one, other in pairwise(roles))  # providers want turns
    assert all(message["content"].strip() for message in second["messages"])


async def test_a_failure_while_asking_again_uses_the_same_pool_of_retries(
    loopback: LoopbackServer, client: Client
) -> None:
    loopback.answer(status(500), text("well"), status(500), status(500))
    loopback.default = text(GOOD)
    verdict = await ask(client(), retries=3)
    assert isinstance(verdict, Verdict) and verdict.usage.calls == 5
    loopback.clear()
    loopback.answer(status(500), text("well"), status(500), status(500))
    failure = await ask(client(), retries=2)
    assert isinstance(failure, JudgeFailure) and failure.kind == "transport"
    assert failure.attempts == 4 and failure.reply == "well"


async def test_more_room_that_does_not_exist_is_still_a_reply_that_was_cut(
    loopback: LoopbackServer, client: Client
) -> None:
    loopback.answer(text("{", "length"), status(400, "max_tokens is too large: 4096"))
    failure = await ask(client())
    assert isinstance(failure, JudgeFailure) and failure.kind == "truncated"
    assert "max_tokens is too large" in failure.message


async def test_a_server_that_nobody_runs(loopback: LoopbackServer, client: Client) -> None:
    with LoopbackServer() as gone:
        address = gone.url
    made = type(client())(address, "k")  # type: ignore[call-arg]
    failure = await ask(made, retries=1)
    assert isinstance(failure, JudgeFailure) and failure.kind == "transport" and failure.attempts == 2


# -- waiting ----------------------------------------------------------------------------------------------------------


async def test_a_wish_to_wait_beyond_max_wait_fails_at_once(loopback: LoopbackServer, client: Client) -> None:
    soon, late = (formatdate(time.time() + seconds, usegmt=True) for seconds in (-5, 3600))
    for hint in (
        rate_limited("3600"),
        rate_limited(late),
        rate_limited(None, ms=3_600_000),
        rate_limited("60", code=503),
    ):
        loopback.clear()
        loopback.answer(hint)
        failure = await ask(client(), max_wait=30.0)
        assert isinstance(failure, JudgeFailure) and failure.attempts == 1
        assert failure.kind == ("transport" if failure.status == 503 else "rate_limit")
    loopback.default = text(GOOD)
    for hint in (rate_limited("0.02"), rate_limited(soon), rate_limited("9", ms=20), rate_limited("0", code=503)):
        loopback.clear()
        loopback.answer(hint)
        verdict = await ask(client(), max_wait=5.0)
        assert isinstance(verdict, Verdict) and len(loopback.requests) == 2


@pytest.mark.parametrize("hint", [rate_limited("0.3"), rate_limited("60", ms=300)])
async def test_the_wait_is_at_least_as_long_as_the_provider_asked(
    loopback: LoopbackServer, client: Client, hint: Behaviour
) -> None:
    loopback.answer(hint)
    loopback.default = text(GOOD)
    verdict = await ask(client(), max_wait=5.0)
    first, second = loopback.requests
    assert isinstance(verdict, Verdict) and 0.29 <= second.at - first.at < 3.0


async def test_one_wish_to_wait_holds_up_the_other_requests_to_that_model(
    loopback: LoopbackServer, client: Client
) -> None:
    loopback.answer(rate_limited("0.4"))
    loopback.default = text(GOOD)
    judge = judge_of(client(), max_wait=5.0, concurrency=1)
    asked = await asyncio.gather(*(judge.judge(answer=str(i)) for i in range(3)))
    assert all(isinstance(verdict, Verdict) for verdict in asked)
    first, *others = (request.at for request in loopback.requests)
    assert len(others) == 3 and min(others) - first >= 0.39


@pytest.mark.parametrize("behaviour", [hang(), drip(text(GOOD), 60.0, 600), late(html(), 60.0)])
async def test_a_timeout_is_by_the_wall_clock(loopback: LoopbackServer, client: Client, behaviour: Behaviour) -> None:
    await ask(client())  # so that litellm is imported
    loopback.clear()
    loopback.default = behaviour
    started = time.monotonic()
    failure = await ask(client(), timeout=0.3, retries=1)
    assert isinstance(failure, JudgeFailure) and failure.kind == "timeout" and failure.attempts == 2
    assert 0.6 <= time.monotonic() - started < 5.0
    await eventually(lambda: len(loopback.cancelled) == 2 and loopback.in_flight == 0)


# -- the form in which structured output is asked for -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("knows", "forms"),
    [
        ("json_schema", ["json_schema"]),
        ("json_object", ["json_schema", "json_object"]),
        ("text", ["json_schema", "json_object", "text"]),
    ],
)
async def test_a_rejected_form_steps_down_and_is_remembered(
    loopback: LoopbackServer, client: Client, knows: str, forms: list[str]
) -> None:
    loopback.default = until_schema(knows, GOOD)
    budget = Budget(calls=10)
    verdict = await ask(client(), retries=0, budget=budget)
    assert isinstance(verdict, Verdict) and verdict.score == 0.75
    assert [request.form for request in loopback.requests] == forms
    assert verdict.usage.calls == budget.spent.calls == len(forms)  # probes are counted
    loopback.clear()
    verdict = await judge_of(client(), retries=0).judge(answer="another")
    assert isinstance(verdict, Verdict) and [request.form for request in loopback.requests] == [knows]
    loopback.clear()
    other = Judge(PROMPT, Likert(1, 5), client=client(), model="openai/other")
    assert isinstance(await other.judge(answer="x"), Verdict)
    assert [request.form for request in loopback.requests] == forms  # it is known of that model only


async def test_a_step_down_costs_no_repeated_question(loopback: LoopbackServer, client: Client) -> None:
    def behaviour(request: Any) -> Behaviour:
        if request.form != "text":
            return rejects("response_format")
        return text("hm") if len(request.body["messages"]) == 2 else text(GOOD)

    loopback.default = behaviour
    verdict = await ask(client(), retries=0)
    assert isinstance(verdict, Verdict) and verdict.usage.calls == 4
    assert [request.form for request in loopback.requests] == ["json_schema", "json_object", "text", "text"]


async def test_the_budget_may_end_within_the_probes(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = until_schema("text", GOOD)
    failure = await ask(client(), budget=Budget(calls=2))
    assert isinstance(failure, JudgeFailure) and failure.kind == "budget" and failure.usage.calls == 2
    assert len(loopback.requests) == 2


async def test_tool_calls_for_servers_that_know_nothing_else(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = tool({"reason": "fine", "score": 4})
    verdict = await ask(client(wire="tool"))
    assert isinstance(verdict, Verdict) and verdict.score == 0.75
    assert [request.form for request in loopback.requests] == ["tools"]
    loopback.clear()
    loopback.default = until_schema("text", GOOD)
    other = Judge(PROMPT, Likert(1, 5), client=client(wire="tool"), model="openai/no-tools")
    assert isinstance(await other.judge(answer="x"), Verdict)
    assert [request.form for request in loopback.requests] == ["tools", "text"]


async def test_what_one_client_was_told_to_ask_first_is_not_forced_on_another(
    loopback: LoopbackServer, client: Client
) -> None:
    loopback.default = text(GOOD)
    for wire in ("text", "json_schema", "text"):
        await judge_of(client(wire=wire)).judge(answer=f"{wire} {len(loopback.requests)}")
    assert [request.form for request in loopback.requests] == ["text", "json_schema", "text"]


async def test_a_schema_with_a_fault_of_ours_is_no_reason_to_ask_for_ever(
    loopback: LoopbackServer, client: Client
) -> None:
    loopback.default = rejects("response_format")
    failure = await ask(client())
    assert isinstance(failure, JudgeFailure) and failure.kind == "request" and failure.status == 400
    assert len(loopback.requests) == 3


@pytest.mark.parametrize("behaviour", [without(["logprobs"], text('{"score": 4}')), text('{"score": 4}')])
async def test_an_expected_score_without_log_probabilities_is_a_failure(
    loopback: LoopbackServer, client: Client, behaviour: Behaviour
) -> None:
    loopback.default = behaviour
    failure = await ask(client(), expected=True)
    assert isinstance(failure, JudgeFailure) and failure.kind == "logprobs"
    (request,) = loopback.requests
    assert request.body["logprobs"] is True and request.body["top_logprobs"] == 20


# -- redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 307, 308])
async def test_a_key_does_not_follow_a_redirect_to_another_server(
    loopback: LoopbackServer, client: Client, code: int
) -> None:
    with LoopbackServer(text(GOOD)) as other:
        loopback.default = redirect(other.url + "/chat/completions", code)
        await ask(client(), retries=0)
        for request in other.requests:
            assert KEY not in str(request.headers)


async def test_the_plain_client_follows_no_redirect(loopback: LoopbackServer) -> None:
    loopback.default = redirect(loopback.url + "/elsewhere")
    failure = await ask(OpenAICompatibleClient(loopback.url, "k"))
    assert isinstance(failure, JudgeFailure) and failure.kind == "request" and failure.status == 307
    assert "redirect" in failure.message and len(loopback.requests) == 1


# -- what a reply costs, and what a tree sees -------------------------------------------------------------------------


async def test_the_usage_counts_every_attempt(loopback: LoopbackServer, client: Client) -> None:
    loopback.answer(status(500), text("hm", usage=usage(100, 7, cached=64)))
    loopback.default = text(GOOD, usage=usage(200, 9))
    verdict = await ask(client())
    spent = verdict.usage
    assert (spent.calls, spent.prompt_tokens, spent.cached_tokens, spent.completion_tokens) == (3, 300, 64, 16)
    assert spent.total_tokens == 316


async def test_a_reply_without_usage_is_one_call(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = text(GOOD, usage=None)
    assert (await ask(client())).usage.calls == 1


async def test_a_leaf_raises_the_failure_or_is_unscored(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = status(403, "not yours")
    leaf = LLMJudge("{{ action | untrusted }}", Binary(), client=client(), model="openai/m")
    with pytest.raises(JudgeError, match="auth: HTTP 403") as caught:
        await leaf(1, 2)
    assert caught.value.failure.kind == "auth" and caught.value.__cause__ is None and caught.value.__context__ is None
    quiet = LLMJudge("{{ action | untrusted }}", Binary(), client=client(), model="openai/m", on_failure="unscored")
    evaluation = await quiet.evaluate(1, 2)
    assert evaluation.status == "unscored" and evaluation.usage.calls == 1
    assert evaluation.metadata["failure"] == "auth" and "HTTP 403" in str(evaluation.reason)
