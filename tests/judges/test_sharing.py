"""What judges share: requests in flight, slots, and what becomes of both when somebody is cancelled."""

import asyncio
import gc
import statistics
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from judges import (
    Budget,
    ChatClient,
    ChatError,
    ChatReply,
    ChatRequest,
    Judge,
    JudgeFailure,
    Likert,
    LLMJudge,
    OpenAICompatibleClient,
    Price,
    ScriptedClient,
    Verdict,
)
from rubrics import AllOf, Rubric, Timeout, WeightedSum
from tests.judges.clients import GOOD, KEY, Client
from tests.judges.loopback import LoopbackServer, eventually, hang, late, text

PROMPT = "Rate it.\n{{ answer | untrusted }}"


def judge_of(client: ChatClient, **options: Any) -> Judge:
    return Judge(PROMPT, Likert(1, 5), **{"reason": False, "client": client, "model": "openai/m", **options})


def leaf_of(client: ChatClient, **options: Any) -> LLMJudge:
    template = "Rate it.\n{{ action | untrusted }}"
    return LLMJudge(template, Likert(1, 5), **{"reason": False, "client": client, "model": "openai/m", **options})


class Soon(Rubric):
    """Zero, once the server holds a request."""

    def __init__(self, server: LoopbackServer) -> None:
        super().__init__()
        self.server = server

    async def forward(self, action: Any, observation: Any) -> float:
        await eventually(lambda: self.server.in_flight)
        return 0.0


# -- identical requests -----------------------------------------------------------------------------------------------


async def test_identical_requests_in_flight_are_sent_once(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = late(text(GOOD), 0.2)
    judges = [judge_of(client()) for _ in range(3)]  # clients of one address and key are one
    verdicts = await asyncio.gather(*(judge.judge(answer="x") for judge in judges for _ in range(5)))
    assert len(loopback.requests) == 1
    assert [verdict.usage.calls for verdict in verdicts] == [1] + [0] * 14  # the first pays
    await judges[0].judge(answer="x")
    assert len(loopback.requests) == 2  # without a store nothing is kept


@pytest.mark.parametrize(
    "other",
    [
        {"prompt": "Rate it!\n{{ answer | untrusted }}"},
        {"scale": Likert(1, 7)},
        {"reason": True},
        {"expected": True},
        {"model": "openai/other"},
        {"max_tokens": 7},
        {"sampling": {"temperature": 0}},
        {"client": {"api_key": "other"}},
        {"client": {"wire": "text"}},
        {"timeout": 1.0},
        {"budget": Budget(calls=5)},
        {"price": Price(1, 1)},
        {"answer": "y"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_requests_that_differ_are_not_shared(loopback: LoopbackServer, client: Client, other: Any) -> None:
    await judge_of(client()).judge(answer="before")
    loopback.clear()
    loopback.default = late(text(GOOD), 0.1)
    options = dict(other)
    answer = options.pop("answer", "x")
    given: Any = {"prompt": PROMPT, "scale": Likert(1, 5), "reason": False, "model": "openai/m", **options}
    given["client"] = type(client())(loopback.url, **{"api_key": KEY, **options.get("client", {})})  # type: ignore[call-arg]
    prompt = given.pop("prompt")
    if given.get("expected"):
        del given["reason"]
    await asyncio.gather(judge_of(client()).judge(answer="x"), Judge(prompt, **given).judge(answer=answer))
    assert len(loopback.requests) == 2


async def test_samples_are_different_requests(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = late(text(GOOD), 0.2)
    judge = judge_of(client(), samples=4)
    verdicts = await asyncio.gather(judge.judge(answer="x"), judge.judge(answer="x"), judge.sample(2, {"answer": "x"}))
    assert len(loopback.requests) == 4
    assert sum(verdict.usage.calls for verdict in verdicts) == 4


async def test_a_failure_is_shared_too(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = late(lambda request: text("no", refusal="I will not"), 0.2)
    failures = await asyncio.gather(*(judge_of(client()).judge(answer="x") for _ in range(3)))
    assert [failure.usage.calls for failure in failures] == [1, 0, 0] and len(loopback.requests) == 1
    assert all(isinstance(failure, JudgeFailure) and failure.kind == "refused" for failure in failures)


async def test_ones_own_limits_are_ones_own() -> None:
    script = ScriptedClient(GOOD, delay=0.2)
    poor, rich = judge_of(script, budget=Budget(calls=0)), judge_of(script)
    hasty = judge_of(script, timeout=0.01, retries=0)
    outcomes = await asyncio.gather(*(judge.judge(answer="x") for judge in (poor, hasty, rich)))
    kinds = [outcome.kind if isinstance(outcome, JudgeFailure) else outcome.score for outcome in outcomes]
    assert kinds == ["budget", "timeout", 0.75]


# -- cancelled waiters ------------------------------------------------------------------------------------------------


async def test_a_cancelled_waiter_leaves_the_others_alone(loopback: LoopbackServer, client: Client) -> None:
    release = threading.Event()
    loopback.default = late(text(GOOD), release=release)
    judge = judge_of(client(), concurrency=1)
    asked = [asyncio.create_task(judge.judge(answer="x")) for _ in range(4)]
    await eventually(lambda: loopback.in_flight)
    asked[0].cancel()
    asked[2].cancel()
    done = await asyncio.wait([asked[0], asked[2]])
    assert all(task.cancelled() for task in done[0])
    release.set()
    verdicts = [await asked[1], await asked[3]]
    assert [verdict.usage.calls for verdict in verdicts] == [1, 0]  # the first that stayed pays
    assert len(loopback.requests) == 1 and not loopback.cancelled


async def test_the_last_waiter_takes_the_request_with_it(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = hang()
    budget = Budget(calls=2)
    judge = judge_of(client(), concurrency=1, budget=budget)
    asked = [asyncio.create_task(judge.judge(answer="x")) for _ in range(3)]
    await eventually(lambda: loopback.in_flight)
    for task in asked:
        task.cancel()
    await asyncio.wait(asked)
    await eventually(lambda: loopback.cancelled and not loopback.in_flight)
    await eventually(lambda: budget.spent.calls == 1)  # it was sent
    loopback.default = text(GOOD)
    assert isinstance(await judge.judge(answer="x"), Verdict)  # its slot is free
    assert len(loopback.requests) == 2


async def test_who_asks_after_the_last_one_left_gets_a_request_of_its_own(
    loopback: LoopbackServer, client: Client
) -> None:
    judge = judge_of(client())
    await judge.judge(answer="before")
    loopback.answer(hang())
    loopback.default = text(GOOD)
    first = asyncio.create_task(judge.judge(answer="x"))
    await eventually(lambda: loopback.in_flight)
    first.cancel()
    await asyncio.wait([first])
    verdict = await judge.judge(answer="x")
    assert isinstance(verdict, Verdict) and verdict.usage.calls == 1


async def test_a_timeout_of_the_tree_cancels_the_request(loopback: LoopbackServer, client: Client) -> None:
    leaf = leaf_of(client(), concurrency=1)
    await leaf("before", None)
    loopback.default = hang()
    evaluation = await Timeout(leaf, 0.2).evaluate("x", None)
    assert evaluation.status == "unscored" and "timed out" in str(evaluation.reason)
    await eventually(lambda: len(loopback.cancelled) == 1 and not loopback.in_flight)
    loopback.default = text(GOOD)
    assert await leaf("y", None) == 0.75


async def test_a_gate_that_is_decided_cancels_the_request(loopback: LoopbackServer, client: Client) -> None:
    leaf = leaf_of(client(), concurrency=1)
    await leaf("before", None)
    loopback.default = hang()
    evaluation = await AllOf(leaf, Soon(loopback)).evaluate("x", None)
    assert evaluation.score == 0.0
    await eventually(lambda: len(loopback.cancelled) == 1 and not loopback.in_flight)
    loopback.default = text(GOOD)
    assert await leaf("y", None) == 0.75


async def test_a_gate_leaves_the_request_to_another_that_waits_for_it(loopback: LoopbackServer, client: Client) -> None:
    release = threading.Event()
    leaf = leaf_of(client())
    loopback.default = late(text(GOOD), release=release)
    other = asyncio.create_task(leaf.evaluate("x", None))
    await eventually(lambda: loopback.in_flight)
    assert (await AllOf(leaf_of(client()), Soon(loopback)).evaluate("x", None)).score == 0.0
    release.set()
    evaluation = await other
    assert evaluation.score == 0.75 and evaluation.usage.calls == 1
    assert len(loopback.requests) == 1 and not loopback.cancelled


async def test_waiters_in_the_queue_can_be_cancelled(loopback: LoopbackServer, client: Client) -> None:
    release = threading.Event()
    judge = judge_of(client(), concurrency=2)
    await judge.judge(answer="before")
    loopback.clear()
    loopback.default = late(text(GOOD), release=release)
    asked = [asyncio.create_task(judge.judge(answer=f"{i}")) for i in range(20)]
    await eventually(lambda: loopback.in_flight == 2)
    for task in asked[4:]:
        task.cancel()
    await asyncio.wait(asked[4:])
    release.set()
    assert all(isinstance(verdict, Verdict) for verdict in await asyncio.gather(*asked[:4]))
    assert len(loopback.requests) == 4 and loopback.peak == 2


async def test_a_storm_of_cancellations_loses_no_slot(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = late(text(GOOD), 0.01)
    judge = judge_of(client(), concurrency=3)
    for round in range(5):
        asked = [asyncio.create_task(judge.judge(answer=f"{round} {i % 7}")) for i in range(30)]
        for i in range(len(asked)):
            await asyncio.sleep(0.001 * (i % 3))
            if i % 2:
                asked[i - 1].cancel()
        await asyncio.wait(asked)
        assert all(task.cancelled() or isinstance(task.result(), Verdict) for task in asked)
    await eventually(lambda: not loopback.in_flight)
    loopback.clear()
    loopback.default = late(text(GOOD), 0.2)
    await asyncio.gather(*(judge.judge(answer=f"after {i}") for i in range(6)))
    assert loopback.peak == 3 and len(loopback.requests) == 6


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.booleans()), min_size=1, max_size=12))
def test_every_request_is_paid_for_by_exactly_one_of_those_that_stayed(plan: list[tuple[int, int, bool]]) -> None:
    """Each of the plan asks question `what` at turn `when` and may be cancelled two turns later."""

    async def run() -> None:
        script = ScriptedClient(lambda request: answer())
        sent = 0

        async def answer() -> str:
            nonlocal sent
            for _ in range(3):
                await asyncio.sleep(0)
            sent += 1
            return GOOD

        budget = Budget()
        judge = judge_of(script, budget=budget, concurrency=2)

        async def one(what: int, when: int, cancel: bool) -> Verdict | JudgeFailure | None:
            for _ in range(when):
                await asyncio.sleep(0)
            task = asyncio.create_task(judge.judge(answer=str(what)))
            if cancel:
                for _ in range(6):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.wait([task])
            return None if task.cancelled() else task.result()

        verdicts = await asyncio.gather(*(one(*step) for step in plan))
        stayed = [verdict for verdict in verdicts if verdict is not None]
        paid = sum(verdict.usage.calls for verdict in stayed)
        assert all(isinstance(verdict, Verdict) for verdict in stayed)
        assert paid <= sent <= budget.spent.calls == len(script.requests)
        if len(stayed) == len(plan):
            assert paid == sent == len(script.requests)

    asyncio.run(run())


# -- slots ------------------------------------------------------------------------------------------------------------


async def test_500_leaves_have_no_more_than_32_requests_in_flight(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD, delay=0.01)
    leaves = [
        LLMJudge(
            f"Rate criterion {i}.\n{{{{ action | untrusted }}}}",
            Likert(1, 5),
            reason=False,
            client=OpenAICompatibleClient(loopback.url),
            model="m",
        )
        for i in range(500)
    ]
    assert await WeightedSum(leaves, [1 / 500] * 500)("x", None) == 0.75
    assert loopback.peak == 32 and len(loopback.requests) == 500


async def test_concurrency_bounds_a_judge_within_the_shared_limit(loopback: LoopbackServer, client: Client) -> None:
    narrow, wide = judge_of(client(), concurrency=2), judge_of(client(), concurrency=5)
    await asyncio.gather(narrow.judge(answer="before"), wide.judge(answer="before 2"))
    loopback.clear()
    loopback.default = text(GOOD, delay=0.1)
    await asyncio.gather(*(narrow.judge(answer=f"{i}") for i in range(6)))
    assert loopback.peak == 2
    loopback.clear()
    await asyncio.gather(*(judge.judge(answer=f"{i} {id(judge)}") for i in range(10) for judge in (narrow, wide)))
    assert loopback.peak == 5
    loopback.clear()
    other = judge_of(client(), concurrency=5, model="openai/other")
    await asyncio.gather(*(judge.judge(answer=f"{i}") for i in range(10) for judge in (other, wide)))
    assert loopback.peak == 10  # another model has a limit of its own


async def test_time_in_the_queue_is_not_the_requests(loopback: LoopbackServer, client: Client) -> None:
    loopback.default = text(GOOD)
    judge = judge_of(client(), concurrency=1, timeout=0.5, retries=0)
    await judge_of(client()).judge(answer="before")  # litellm's own imports in its first request take time
    loopback.default = text(GOOD, delay=0.15)
    verdicts = await asyncio.gather(*(judge.judge(answer=f"{i}") for i in range(5)))
    assert all(isinstance(verdict, Verdict) for verdict in verdicts)


async def test_preparing_a_client_is_not_the_requests_time() -> None:
    class Slow(ScriptedClient):
        async def prepare(self) -> None:
            await asyncio.sleep(0.3)

    assert isinstance(await judge_of(Slow(GOOD), timeout=0.1, retries=0).judge(answer="x"), Verdict)


async def test_other_tasks_are_not_held_up_by_64_judge_calls(loopback: LoopbackServer, client: Client) -> None:
    judge = judge_of(client(), concurrency=64)
    await judge.judge(answer="before")
    loopback.default = text(GOOD, delay=0.05)
    asked = asyncio.gather(*(judge.judge(answer=f"{i}") for i in range(256)))
    lags = []
    while not asked.done():
        before = time.perf_counter()
        await asyncio.sleep(0.005)
        lags.append(time.perf_counter() - before - 0.005)
    await asked
    assert statistics.median(lags) < 0.05


# -- clients of one's own ---------------------------------------------------------------------------------------------


async def test_what_is_known_of_a_client_is_not_believed_of_the_next_at_its_place() -> None:
    """Two clients of one name, one after the other, may have the same `id`."""

    class Plain:
        endpoint = "mine"
        local = True

        def __init__(self, knows: str) -> None:
            self.knows, self.wires = knows, list[str]()

        async def send(self, request: ChatRequest) -> ChatReply:
            self.wires.append(request.wire)
            if request.wire != self.knows:
                raise ChatError("request", "no response_format", status=400, rejects="schema")
            return ChatReply(GOOD)

    for _ in range(20):
        for knows, wires in (("text", ["json_schema", "json_object", "text"]), ("json_schema", ["json_schema"])):
            plain = Plain(knows)
            assert isinstance(await judge_of(plain).judge(answer="x"), Verdict)
            assert plain.wires == wires
            del plain
            gc.collect(0)


def test_loops_that_are_over_are_forgotten() -> None:
    judge = judge_of(ScriptedClient(GOOD, delay=0.001), concurrency=1)
    loops = []

    async def ask() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await asyncio.gather(*(judge.judge(answer=f"{i}") for i in range(3)))

    for _ in range(6):
        asyncio.run(ask())
    gc.collect()
    assert sum(loop() is not None for loop in loops) <= 1


async def test_an_error_of_a_client_reaches_every_caller_and_frees_the_slot() -> None:
    script = ScriptedClient([KeyError("mine"), GOOD, GOOD], delay=0.01)
    budget = Budget(calls=3)
    judge = judge_of(script, concurrency=1, budget=budget)
    outcomes = await asyncio.gather(*(judge.judge(answer="x") for _ in range(3)), return_exceptions=True)
    assert all(isinstance(outcome, KeyError) for outcome in outcomes)
    assert isinstance(await judge.judge(answer="x"), Verdict)
    assert budget.spent.calls == 2


async def test_a_judge_with_a_store_and_one_without_share_a_request(tmp_path: Path) -> None:
    script = ScriptedClient(GOOD, delay=0.01)
    kept, free = judge_of(script, store=tmp_path / "s.jsonl"), judge_of(script)
    verdicts = await asyncio.gather(kept.judge(answer="x"), free.judge(answer="x"))
    assert [isinstance(verdict, Verdict) for verdict in verdicts] == [True, True]
    assert len(script.requests) == 1 and sum(verdict.usage.calls for verdict in verdicts) == 1
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 1
