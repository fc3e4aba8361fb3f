"""What a run over many trajectories does with the judges of a rubric: one store and one budget for all, or only a plan.

    with equipped(tree, store="verdicts.jsonl", budget=Budget(usd=5.0)):
        …  # every judge records there and spends from it

    with planned(tree) as plan:
        …  # every question is counted
    print(plan.total.calls, plan.total.cost)

Within `planned` nothing is sent.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakSet

from judges.asking import Asker
from judges.clients.litellm import imported
from judges.clients.protocol import ChatError, ChatReply, ChatRequest, Price, Token
from judges.exchange import Exchange, Exchanger
from judges.limits import Budget, BudgetExceeded, BudgetLike, Reservation
from judges.store import Store, request_key, store_from
from judges.verdict import JudgeConfigError
from rubrics.engine.frames import current_episode
from rubrics.engine.loop import block
from rubrics.episode import Episode
from rubrics.evaluation import Usage
from rubrics.node import Node

_REASON = 60
"""Tokens of a written reason, as an estimate: one to three sentences."""
_VALUE = 10
"""Tokens of a key with its score."""


def askers(rubric: Any) -> list[Asker]:
    """Those who ask models for the nodes of a tree, or for a group rubric; each once."""
    found: dict[int, Asker] = {}
    _search(rubric, found, set())
    return list(found.values())


def judge_paths(rubric: Node) -> list[str]:
    """The paths of the nodes that ask a model; the root's is `""`."""
    asking = []
    for path, node in [("", rubric), *rubric.named_rubrics()]:
        found: dict[int, Asker] = {}
        known = {id(child) for child in node.children()}
        for value in vars(node).values():
            _search(value, found, set(known))
        if found:
            asking.append(path)
    return asking


def _search(value: Any, found: dict[int, Asker], seen: set[int]) -> None:
    if id(value) in seen or value is None or isinstance(value, str | int | float):
        return
    seen.add(id(value))
    if isinstance(value, Asker):
        found[id(value)] = value
    elif isinstance(value, list | tuple):
        for item in value:
            _search(item, found, seen)
    elif isinstance(value, dict):
        for item in value.values():
            _search(item, found, seen)
    elif isinstance(value, Node):
        for item in [*value.children(), *vars(value).values()]:
            _search(item, found, seen)
    elif type(value).__module__.partition(".")[0] == "judges" or hasattr(value, "asker"):
        for item in getattr(value, "__dict__", {}).values():
            _search(item, found, seen)


@contextmanager
def equipped(
    rubric: Any,
    *,
    store: Store | str | Path | None = None,
    budget: BudgetLike | None = None,
    price: Price | None = None,
    processes: int = 1,
) -> Iterator[list[Asker]]:
    """Give all judges of a tree, or of a group rubric, one store and one budget, for as long as the block runs.

    Args:
        rubric: the tree.
        store: where exchanges are kept, for judges that have no store of their own.
        budget: what they may spend together; budgets of their own hold as well.
        price: of models of which no price is known.
        processes: how many processes do the same: each judge's concurrency is divided among them, at least one each.

    Raises:
        JudgeConfigError: a judge of the tree is in such a block already: another run over it is under way.
    """
    asking = askers(rubric)
    shared = store_from(store)
    with _in_runs_lock:
        if any(asker in _in_runs for asker in asking):
            raise JudgeConfigError(
                "another run over this tree, or over one with a judge of it, is under way, and its store and budget "
                "are not this one's: wait for its end, or give each run a tree of its own, made before"
            )
        _in_runs.update(asking)
    before = [asker.exchanger for asker in asking]
    try:
        for asker in asking:
            asker.exchanger = asker.exchanger.within(shared, budget, price)
            asker.exchanger.concurrency = max(1, asker.exchanger.concurrency // processes)
            if budget is not None:
                asker.exchanger = _Noting(asker.exchanger, budget)
        yield asking
    finally:
        for asker, exchanger in zip(asking, before, strict=True):
            asker.exchanger = exchanger
        with _in_runs_lock:
            _in_runs.difference_update(asking)


_in_runs: WeakSet[Asker] = WeakSet()
_in_runs_lock = threading.Lock()


def refuse_unpriced(rubric: Any, price: Price | None) -> None:
    """Check that a run over a tree, or a group rubric, can be limited in dollars. Nothing is sent.

    Args:
        rubric: the tree. Judges that only replay what is recorded need no price.
        price: of models of which no price is known.

    Raises:
        JudgeConfigError: the price of a model is not known.
    """

    async def look() -> None:
        for asker in askers(rubric):
            exchanger = asker.exchanger.within(None, None, price)
            if exchanger.store is None or exchanger.store.records:
                await exchanger.known_price(asker.model)

    block(look)


def refuse_unnamed(rubric: Any) -> None:
    """Check that each judge of a tree, or of a group rubric, has a model to ask.

    Raises:
        JudgeConfigError: one has none.
    """
    for asker in askers(rubric):
        _ = asker.model


class RunBudget(Budget):
    """The budget of a run, which stops when it is used up.

    Attributes:
        exhausted: whether a request was refused.
    """

    exhausted = False

    def reserve(self, tokens: int, usd: float) -> Reservation:
        """As `Budget.reserve`."""
        try:
            return super().reserve(tokens, usd)
        except BudgetExceeded:
            self.exhausted = True
            raise


class SharedBudget(RunBudget):
    """The budget of a run over several processes, the account of which is kept elsewhere.

    Args:
        usd: US dollars in the account.
        account: its `reserve(tokens, usd)` gives a reservation, or a text that says why there is none; its
            `settle(reservation, usage)` is told what a request really cost.

    Attributes:
        exhausted: whether a request of this process was refused.
    """

    def __init__(self, usd: float, account: Any) -> None:
        super().__init__(usd=usd)
        self.account = account

    def reserve(self, tokens: int, usd: float) -> Any:
        """As `Budget.reserve`."""
        reserved = self.account.reserve(tokens, usd)
        if isinstance(reserved, str):
            self.exhausted = True
            raise BudgetExceeded(reserved)
        return reserved

    def settle(self, reservation: Any, usage: Usage) -> None:
        """As `Budget.settle`."""
        self.account.settle(reservation, usage)


refused: WeakSet[Episode] = WeakSet()
"""Episodes of which the budget of a run refused a question. Their scores are none, whatever trees made of that."""


class _Noting(Exchanger):
    """Notes the episodes of which the run's budget refused a question: a tree may well give a score all the same."""

    def __init__(self, exchanger: Exchanger, run: BudgetLike) -> None:
        vars(self).update(vars(exchanger))
        self.run = run

    async def exchange(self, request: ChatRequest, replay: bool = True) -> Exchange:
        exchange = await super().exchange(request, replay)
        outcome, episode = exchange.outcome, current_episode()
        if isinstance(outcome, ChatError) and outcome.kind == "budget" and self._run_refused() and episode is not None:
            refused.add(episode)
        return exchange

    def _run_refused(self) -> bool:
        """Whether it may have been the run's budget, and not one of the judge's own."""
        return bool(getattr(self.run, "exhausted", False))


@dataclass(slots=True)
class Planned:
    """What is to be asked of one model.

    Attributes:
        calls: requests that would be sent.
        stored: requests whose replies are recorded already.
        repeated: requests that equal an earlier one of the run, whose reply the store has by then.
        prompt_tokens: of the requests that would be sent, by litellm's tokenizer for the model.
        completion_tokens: an estimate, see `planned`.
        most_completion_tokens: what they may take at most.
        cost, most_cost: US dollars for the estimate and at most; None where no price is known.
    """

    calls: int = 0
    stored: int = 0
    repeated: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    most_completion_tokens: int = 0
    cost: float | None = 0.0
    most_cost: float | None = 0.0


@dataclass(slots=True)
class Plan:
    """What the judges of a tree would ask.

    Attributes:
        models: by model.
    """

    models: dict[str, Planned] = field(default_factory=dict)
    _seen: set[bytes] = field(default_factory=set)

    @property
    def total(self) -> Planned:
        """Over all models; the cost is None where that of one is."""
        whole = Planned()
        for one in self.models.values():
            whole.calls += one.calls
            whole.stored += one.stored
            whole.repeated += one.repeated
            whole.prompt_tokens += one.prompt_tokens
            whole.completion_tokens += one.completion_tokens
            whole.most_completion_tokens += one.most_completion_tokens
            whole.cost = _sum(whole.cost, one.cost)
            whole.most_cost = _sum(whole.most_cost, one.most_cost)
        return whole

    async def note(self, exchanger: Exchanger, request: ChatRequest) -> None:
        """Count one request."""
        one = self.models.setdefault(request.model, Planned())
        key = request_key(exchanger.endpoint, request)
        store = exchanger.store
        replays = store is not None and store.replays
        if store is not None and replays and isinstance(store.get(key), ChatReply):
            one.stored += 1
            return
        if replays and bytes.fromhex(key) in self._seen:
            one.repeated += 1
            return
        self._seen.add(bytes.fromhex(key))
        prompt, completion = await asyncio.to_thread(_tokens, request), _completion(request.schema)
        one.calls += 1
        one.prompt_tokens += prompt
        one.completion_tokens += min(completion, request.max_tokens)
        one.most_completion_tokens += request.max_tokens
        try:
            price = await exchanger.known_price(request.model)
        except JudgeConfigError:
            one.cost = one.most_cost = None
        if one.cost is not None and one.most_cost is not None:
            one.cost += price.of(prompt, min(completion, request.max_tokens))
            one.most_cost += price.of(prompt, request.max_tokens)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


class _Planning(Exchanger):
    """Counts what it is to send, and answers so that as much as possible is asked."""

    def __init__(self, exchanger: Exchanger, plan: Plan) -> None:
        vars(self).update(vars(exchanger))
        self.plan = plan

    async def exchange(self, request: ChatRequest, replay: bool = True) -> Exchange:
        await self.plan.note(self, request)
        return Exchange(_reply(request), cached=True)


@contextmanager
def planned(rubric: Any, *, store: Store | str | Path | None = None, price: Price | None = None) -> Iterator[Plan]:
    """Count what the judges of a tree would ask, for as long as the block runs. Nothing is sent.

    Judges are taken to give the best score (the greatest number, true, the first of choices), so that gates open and
    what stands behind them is counted. A written reason is taken for 60 tokens, each score for 10.

    Args:
        rubric: the tree, or a group rubric.
        store: where exchanges would be kept, for judges that have no store of their own.
        price: of models of which no price is known.
    """
    plan = Plan()
    with equipped(rubric, store=store, price=price) as asking:
        for asker in asking:
            asker.exchanger = _Planning(asker.exchanger, plan)
        yield plan


def _tokens(request: ChatRequest) -> int:
    litellm = imported()
    return litellm.token_counter(model=request.model, messages=[dict(message) for message in request.messages])  # type: ignore[no-any-return]


def _completion(schema: Any) -> int:
    """Tokens of a reply, as an estimate."""
    if not isinstance(schema, dict):
        return _REASON
    properties = schema.get("properties", {})
    if not properties:
        return _VALUE
    return sum(_REASON if name == "reason" else _completion(part) for name, part in properties.items())


def _reply(request: ChatRequest) -> ChatReply:
    value = _best(request.schema)
    text = json.dumps(value, ensure_ascii=False)
    tokens: tuple[Token, ...] | None = None
    if request.top_logprobs is not None and isinstance(value, dict):
        head, score, tail = text.rpartition(json.dumps(value.get("score"), ensure_ascii=False))
        tokens = tuple(Token(part, part.encode(), 0.0, ((part, 0.0),)) for part in (head, score, tail) if part)
    return ChatReply(text, "stop", logprobs=tokens, model=request.model)


def _best(schema: Any) -> Any:
    """A value that a JSON Schema allows, at the top of what it allows."""
    if "anyOf" in schema:
        return _best(schema["anyOf"][0])
    if "enum" in schema:
        choices = schema["enum"]
        return choices[0] if any(isinstance(choice, str) for choice in choices) else max(choices)
    kind = schema.get("type")
    if kind == "object":
        return {name: _best(part) for name, part in schema.get("properties", {}).items()}
    if kind in ("integer", "number"):
        return schema.get("maximum", 1)
    return {"boolean": True, "array": [], "string": "as planned"}.get(kind)
