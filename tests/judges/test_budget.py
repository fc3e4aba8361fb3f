"""Budgets: exactly as much as was allowed, whoever spends it."""

import asyncio
import copy
import os
import pickle
import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st

from judges import (
    Budget,
    BudgetExceeded,
    ChatError,
    ChatReply,
    Judge,
    JudgeConfigError,
    JudgeFailure,
    Likert,
    LLMJudge,
    OpenAICompatibleClient,
    Price,
    Reservation,
    ScriptedClient,
    Usage,
    Verdict,
    estimate_tokens,
)
from tests.judges.loopback import LoopbackServer, eventually, hang, status, text, usage

GOOD = '{"score": 4}'
PROMPT = "Rate it.\n{{ answer | untrusted }}"


def judge_of(client: Any, **options: Any) -> Judge:
    return Judge(PROMPT, Likert(1, 5), **{"reason": False, "client": client, "model": "m", "max_wait": 0.01, **options})


def kind(outcome: Any) -> str | None:
    return outcome.kind if isinstance(outcome, JudgeFailure) else None


@pytest.mark.parametrize("concurrency", [1, 3, 64])
@pytest.mark.parametrize("calls", [0, 1, 7, 20])
async def test_n_calls_let_exactly_n_through(loopback: LoopbackServer, calls: int, concurrency: int) -> None:
    loopback.default = text(GOOD, delay=0.01)
    budget = Budget(calls=calls)
    client = OpenAICompatibleClient(loopback.url)
    judges = [judge_of(client, budget=budget, concurrency=concurrency) for _ in range(2)]
    asked = await asyncio.gather(*(judge.judge(answer=f"{i} {j}") for i in range(10) for j, judge in enumerate(judges)))
    kinds = [kind(outcome) for outcome in asked]
    assert len(loopback.requests) == budget.spent.calls == kinds.count(None) == calls
    assert kinds.count("budget") == 20 - calls
    assert sum((outcome.usage for outcome in asked), Usage()) == budget.spent


def test_n_calls_let_exactly_n_through_from_many_threads(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD, delay=0.005)
    budget = Budget(calls=25)
    judge = judge_of(OpenAICompatibleClient(loopback.url), budget=budget)
    outcomes: list[Any] = []

    def work(thread: int) -> None:
        outcomes.extend(judge.judge_sync(answer=f"{thread} {i}") for i in range(8))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 64 and sum(isinstance(outcome, Verdict) for outcome in outcomes) == 25
    assert len(loopback.requests) == 25


async def test_retries_and_repeated_questions_count(loopback: LoopbackServer) -> None:
    client = OpenAICompatibleClient(loopback.url)
    loopback.default = status(500)
    failure = await judge_of(client, budget=Budget(calls=2), retries=5).judge(answer="x")
    assert kind(failure) == "budget" and failure.usage.calls == 2 and len(loopback.requests) == 2
    loopback.clear()
    loopback.default = text("hm")
    failure = await judge_of(client, budget=Budget(calls=1)).judge(answer="x")
    assert kind(failure) == "budget" and len(loopback.requests) == 1


async def test_a_request_that_is_cut_short_is_spent_and_one_that_never_began_is_not(loopback: LoopbackServer) -> None:
    loopback.default = hang()
    budget = Budget(calls=3)
    judge = judge_of(OpenAICompatibleClient(loopback.url), budget=budget, concurrency=1)
    asked = [asyncio.create_task(judge.judge(answer=f"{i}")) for i in range(3)]
    await eventually(lambda: loopback.in_flight)
    for task in reversed(asked):  # those in the queue first
        task.cancel()
    await asyncio.wait(asked)
    await eventually(lambda: budget.spent.calls == 1)
    loopback.default = text(GOOD)
    assert [kind(await judge.judge(answer=f"{i}")) for i in range(3)] == [None, None, "budget"]


async def test_what_the_client_did_not_send_is_given_back() -> None:
    script = ScriptedClient([ChatError("request", "no such provider", sent=False), GOOD])
    budget = Budget(calls=1)
    judge = judge_of(script, budget=budget)
    failure = await judge.judge(answer="x")
    assert kind(failure) == "request" and failure.usage.calls == 0 and budget.spent.calls == 0
    assert isinstance(failure, JudgeFailure) and failure.attempts == 0
    assert isinstance(await judge.judge(answer="x"), Verdict)


async def test_tokens_are_reserved_at_an_estimate_and_settled_at_what_they_were(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD, usage=usage(100, 20))
    budget = Budget(tokens=1000)
    judge = judge_of(OpenAICompatibleClient(loopback.url), budget=budget, max_tokens=300, concurrency=1)
    outcomes = [await judge.judge(answer=f"{i}") for i in range(8)]
    kinds = [kind(outcome) for outcome in outcomes]
    spent = budget.spent.total_tokens
    assert spent == 120 * kinds.count(None) <= 1000 and kinds.count(None) >= 4
    assert set(kinds[kinds.index("budget") :]) == {"budget"}
    assert "tokens" in next(outcome.message for outcome in outcomes if isinstance(outcome, JudgeFailure))


async def test_tokens_at_once_never_go_beyond_the_budget(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD, usage=usage(120, 300), delay=0.02)  # each takes as much as it may
    budget = Budget(tokens=2000)
    judge = judge_of(OpenAICompatibleClient(loopback.url), budget=budget, max_tokens=300)
    await asyncio.gather(*(judge.judge(answer=f"{i}") for i in range(20)))
    assert 420 <= budget.spent.total_tokens <= 2000


async def test_a_provider_that_does_not_count_is_charged_at_the_estimate(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD, usage=None)
    for budget in (Budget(tokens=2000), Budget(usd=0.002)):
        judge = judge_of(OpenAICompatibleClient(loopback.url), budget=budget, max_tokens=500, price=Price(1, 1))
        outcomes = [await judge.judge(answer=f"{i} {budget}") for i in range(40)]
        assert kind(outcomes[0]) is None and kind(outcomes[-1]) == "budget"
        assert outcomes[0].usage.total_tokens == 0  # the provider's own words


async def test_dollars(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD, usage=usage(1_000, 100, cached=400))
    budget = Budget(usd=0.01)
    price = Price(1.0, 10.0, cached=0.5)
    judge = judge_of(OpenAICompatibleClient(loopback.url), budget=budget, price=price, max_tokens=100)
    verdict = await judge.judge(answer="x")
    assert verdict.usage.cost == pytest.approx((600 * 1.0 + 400 * 0.5 + 100 * 10.0) / 1e6)
    outcomes = [await judge.judge(answer=f"{i}") for i in range(10)]
    assert kind(outcomes[-1]) == "budget" and budget.spent.cost <= 0.01
    assert budget.spent.cost == pytest.approx(0.0018 * budget.spent.calls)


async def test_dollars_without_a_price_are_an_error(loopback: LoopbackServer) -> None:
    judge = judge_of(OpenAICompatibleClient(loopback.url), budget=Budget(usd=1.0))
    with pytest.raises(JudgeConfigError, match="no price of 'm' is known: give price="):
        await judge.judge(answer="x")
    leaf = LLMJudge("{{ action | untrusted }}", Likert(), client=ScriptedClient(GOOD), model="m", budget=Budget(usd=1))
    with pytest.raises(JudgeConfigError, match="price"):
        await leaf(1, 2)
    assert not loopback.requests


def test_rounding_takes_no_call_away() -> None:
    budget = Budget(usd=0.3)
    for _ in range(3):
        budget.settle(budget.reserve(1, 0.1), Usage(calls=1, cost=0.1))
    with pytest.raises(BudgetExceeded):
        budget.reserve(1, 0.1)


class Shared:
    """A budget of the protocol, as one that several processes share would be."""

    usd = None

    def __init__(self, calls: int) -> None:
        self.left, self.settled = calls, list[tuple[Any, Usage]]()

    def reserve(self, tokens: int, usd: float) -> str:
        if not self.left:
            raise BudgetExceeded("nothing is left of it")
        self.left -= 1
        assert tokens > 0 and usd == 0.0
        return f"ticket {self.left}"

    def settle(self, reservation: Any, usage: Usage) -> None:
        self.settled.append((reservation, usage))


async def test_a_budget_by_the_protocol() -> None:
    budget = Shared(2)
    judge = judge_of(ScriptedClient(["hm", GOOD]), budget=budget)
    assert isinstance(await judge.judge(answer="x"), Verdict)
    assert [ticket for ticket, _ in budget.settled] == ["ticket 1", "ticket 0"]
    assert all(usage.calls == 1 and usage.total_tokens for _, usage in budget.settled)
    failure = await judge.judge(answer="y")
    assert kind(failure) == "budget" and "nothing is left" in failure.message  # type: ignore[union-attr]


async def test_a_budget_that_fails_frees_the_slot() -> None:
    class Broken(Shared):
        def reserve(self, tokens: int, usd: float) -> str:
            raise OSError("the other process is gone")

    judge = judge_of(ScriptedClient(GOOD), budget=Broken(1), concurrency=1)
    for _ in range(3):
        with pytest.raises(OSError, match="gone"):
            await judge.judge(answer="x")


def test_copies_of_a_tree_spend_from_the_same_budget() -> None:
    budget = Budget(calls=1)
    leaf = LLMJudge("{{ action | untrusted }}", Likert(), client=ScriptedClient(GOOD), model="m", budget=budget)
    twin = copy.deepcopy(leaf)
    assert twin.judge.asker.exchanger.budget is budget  # type: ignore[attr-defined]


def test_a_pickled_budget_keeps_what_was_spent_and_not_what_is_under_way() -> None:
    budget = Budget(calls=3, tokens=100)
    budget.settle(budget.reserve(10, 0.0), Usage(calls=1, total_tokens=7))
    budget.reserve(90, 0.0)
    other = pickle.loads(pickle.dumps(budget))
    assert other.spent == budget.spent and repr(other) == repr(budget) == "Budget(calls=3, tokens=100)"
    assert other.reserve(93, 0.0) == Reservation(93, 0.0)
    with pytest.raises(BudgetExceeded):
        budget.reserve(10, 0.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_is_not_held_up_by_the_parents_requests() -> None:
    budget = Budget(calls=2)
    budget.reserve(1, 0.0)
    with budget._lock:
        child = os.fork()
        if child == 0:
            budget.reserve(1, 0.0)
            budget.reserve(1, 0.0)
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize(
    "limits", [{"calls": 1.5}, {"calls": -1}, {"tokens": True}, {"usd": float("nan")}, {"usd": "1"}]
)
def test_what_is_no_limit(limits: dict[str, Any]) -> None:
    with pytest.raises(JudgeConfigError, match=f"Budget: {next(iter(limits))}"):
        Budget(**limits)


@given(st.text())
def test_the_estimate_of_tokens_is_never_less_than_a_third_of_the_bytes(said: str) -> None:
    assert estimate_tokens(said) >= len(said.encode("utf-8", "replace")) / 3.0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60), st.booleans()), max_size=30))
def test_the_limits_hold_whatever_is_reserved_and_settled(steps: list[tuple[int, int, bool]]) -> None:
    budget = Budget(calls=8, tokens=200)
    flying: list[tuple[Reservation, int]] = []
    for tokens, real, land in steps:
        if land and flying:
            reservation, real = flying.pop(0)
            budget.settle(reservation, Usage(calls=1, total_tokens=min(real, reservation.tokens)))
        try:
            flying.append((budget.reserve(tokens, 0.0), real))
        except BudgetExceeded:
            calls, spent = budget.spent.calls + len(flying), budget.spent.total_tokens
            assert calls == 8 or spent + sum(r.tokens for r, _ in flying) + tokens > 200
        assert budget.spent.calls + len(flying) <= 8
    for reservation, real in flying:
        budget.settle(reservation, Usage(calls=1, total_tokens=min(real, reservation.tokens)))
    assert budget.spent.total_tokens <= 200


def test_a_reply_reaches_the_budget_with_its_own_cost() -> None:
    reply = ChatReply(GOOD, usage=Usage(1, 10, 0, 5, 15, cost=0.25))
    budget = Budget(usd=1.0)
    judge = judge_of(ScriptedClient(reply), budget=budget, price=Price(0.1, 0.1))
    assert judge.judge_sync(answer="x").usage.cost == 0.25 == budget.spent.cost


def test_a_cost_that_nobody_knows_is_none_and_never_0() -> None:
    reply = ChatReply(GOOD, usage=Usage(1, 10, 0, 5, 15))
    calls = Budget(calls=5)
    assert judge_of(ScriptedClient(reply), budget=calls).judge_sync(answer="x").usage == Usage(1, 10, 0, 5, 15, None)
    assert calls.spent.cost is None
    free = judge_of(ScriptedClient(reply), price=Price(0.0, 0.0))
    assert free.judge_sync(answer="x").usage.cost == 0.0
    assert (Usage(1, cost=None) + Usage(1, cost=0.5)).cost is None
    assert (Usage() + Usage(1, cost=0.5)).cost == 0.5


def test_a_budget_in_dollars_charges_an_unknown_cost_with_what_was_reserved() -> None:
    budget = Budget(usd=1.0)
    budget.settle(budget.reserve(10, 0.25), Usage(calls=1, total_tokens=10, cost=None))
    assert budget.spent.cost == 0.25
