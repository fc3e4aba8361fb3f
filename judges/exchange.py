"""One exchange with a model: looked up in the store, shared with identical ones in flight, limited, sent, recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from judges.clients.protocol import ChatClient, ChatError, ChatReply, ChatRequest, Price, Wire
from judges.clients.reading import simpler
from judges.clients.secret import masked
from judges.fence import printable
from judges.io import Itself, Room, request_loop, room_of, shared
from judges.limits import BudgetExceeded, BudgetLike, Budgets, estimate_tokens, limiter_of
from judges.store import Store, request_key
from judges.verdict import JudgeConfigError
from rubrics.evaluation import NO_USAGE, Usage

_ONE_CALL = Usage(calls=1)
_Sent = tuple[ChatReply | ChatError, Usage, Wire | None]
"""What became of a request, what it cost, and the form it was sent in; None where it was recorded already."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What became of one request.

    Attributes:
        outcome: the reply, or why there is none.
        usage: what this caller is to be charged: nothing where the reply came from the store, or where somebody else
            waited for the same request first.
        cached: whether it came from the store.
    """

    outcome: ChatReply | ChatError
    usage: Usage = NO_USAGE
    cached: bool = False


class Exchanger:
    """Sends requests within the limits of one judge.

    Args:
        client: what sends.
        endpoint: the name of what is asked, in the store.
        store: where exchanges are kept.
        budget, price: what may be spent, and what tokens cost.
        timeout: seconds a request may take by the wall clock, its time in the queue left out.
        concurrency: requests of this judge under way at once.
        longest_pause: the most seconds that a provider's wish to be left alone holds up all requests.
        template: the hash of the prompt, for the store.

    Attributes:
        on_pause: told of the model and the seconds where a provider asked everybody to wait, so that other processes
            can be told as well (see `pause`); None tells nobody.
    """

    on_pause: Callable[[str, float], None] | None = None

    def __init__(
        self,
        client: ChatClient,
        endpoint: str,
        store: Store | None,
        budget: BudgetLike | None,
        price: Price | None,
        timeout: float,
        concurrency: int,
        longest_pause: float,
        template: str | None = None,
    ) -> None:
        self.client, self.endpoint, self.store = client, endpoint, store
        self.budget, self.price = budget, price
        self.timeout, self.concurrency, self.template = timeout, concurrency, template
        self.longest_pause = longest_pause
        self._address: Hashable = getattr(client, "address", None) or Itself(client)
        # Requests under other limits are not shared: one judge's budget or timeout is no failure of another.
        self._identity: Hashable = (getattr(client, "identity", None) or Itself(client), timeout, Itself(budget), price)
        self._wire: Wire = getattr(client, "wire", "json_schema")
        self._prepare: Callable[[], Awaitable[None]] | None = getattr(client, "prepare", None)
        self._local = bool(getattr(client, "local", False))

    def within(self, store: Store | None, budget: BudgetLike | None, price: Price | None) -> Exchanger:
        """The same under the limits of a run: its store and its price where the judge has none, and both budgets."""
        budgets = [each for each in (self.budget, budget) if each is not None]
        return Exchanger(
            self.client,
            self.endpoint,
            self.store or store,
            Budgets(budgets) if len(budgets) > 1 else budgets[0] if budgets else None,
            self.price or price,
            self.timeout,
            self.concurrency,
            self.longest_pause,
            self.template,
        )

    def pause(self, model: str, seconds: float) -> None:
        """No request to this address and model begins for so long; called on the loop where judges are asked."""
        loop = self._loop()

        def pause() -> None:
            limiter_of(room_of(loop).limiters, self._address, model, self.concurrency).pause(seconds)

        loop.call_soon_threadsafe(pause)

    async def exchange(self, request: ChatRequest, replay: bool = True) -> Exchange:
        """One request and what became of it.

        Args:
            request: what to ask.
            replay: whether a recorded reply will do.
        """
        store = self.store
        if store is None:
            outcome, usage, _ = await self._in_flight(request, lambda: self._send(request))
            return Exchange(outcome, usage)
        if not store.is_loaded:
            await asyncio.to_thread(store.load)
        key = request_key(self.endpoint, request)
        found = store.get(key) if store.replays and (replay or not store.records) else None
        if found is not None and (isinstance(found, ChatReply) or not store.records):
            return Exchange(found, cached=True)
        if not store.records:
            said = (
                f"{store.path} does not hold this request to {request.model!r} at {self.endpoint!r}, and is opened "
                f"to replay only (mode {store.mode!r})"
            )
            return Exchange(ChatError("not_recorded", said), cached=True)
        store.open()  # a store that cannot be written is to be known before anything is paid for
        again = store.replays and replay
        outcome, usage, wire = await self._in_flight(request, lambda: self._kept(store, key, request, again))
        self._keep(store, key, request, outcome, wire)  # where somebody with another store sent it
        return Exchange(outcome, usage, cached=wire is None)

    async def _kept(self, store: Store, key: str, request: ChatRequest, again: bool) -> _Sent:
        """Send and record. Whoever asks the same meanwhile joins, and finds it in the store from then on."""
        found = store.get(key) if again else None  # it may have been recorded on the way here
        if isinstance(found, ChatReply):
            return found, NO_USAGE, None
        outcome, usage, wire = await self._send(request)
        self._keep(store, key, request, outcome, wire)
        return outcome, usage, wire

    def _keep(
        self, store: Store, key: str, request: ChatRequest, outcome: ChatReply | ChatError, wire: Wire | None
    ) -> None:
        if not (isinstance(outcome, ChatError) and outcome.kind == "budget"):
            store.put(key, self.endpoint, request, outcome, wire or self._wire, self.template)

    async def _in_flight(self, request: ChatRequest, start: Callable[[], Coroutine[Any, Any, _Sent]]) -> _Sent:
        """Start, or wait for an identical request that is under way; only the first who waits is charged."""
        key = (self._identity, _same(request))
        (outcome, usage, wire), first = await shared(self._loop(), key, start)
        return outcome, usage if first else NO_USAGE, wire

    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop() if self._local else request_loop()

    async def _send(self, request: ChatRequest) -> _Sent:
        room = room_of(asyncio.get_running_loop())
        limiter = limiter_of(room.limiters, self._address, request.model, self.concurrency)
        spent = NO_USAGE
        if self._prepare is not None:  # its time is not the request's either
            await self._prepare()
        async with self._gate(room), limiter:
            form = (self._address, request.model, self._wire)
            wire: Wire = room.wires.get(form, self._wire)
            while True:
                outcome, usage = await self._attempt(request if request.wire == wire else replace(request, wire=wire))
                spent = spent + usage
                less = None
                if isinstance(outcome, ChatError):
                    if outcome.kind == "rate_limit" and (outcome.retry_after or 0.0) <= self.longest_pause:
                        limiter.pause(outcome.retry_after or 0.0)
                        if self.on_pause is not None and outcome.retry_after:
                            self.on_pause(request.model, outcome.retry_after)
                    if outcome.rejects == "schema" and request.schema is not None:
                        less = simpler(wire)
                elif wire != self._wire:
                    room.wires[form] = wire  # it was taken in this form
                if less is None:
                    return outcome, spent, wire
                wire = less

    def _gate(self, room: Room) -> asyncio.Semaphore:
        gate = room.gates.get(self)
        if gate is None:
            gate = room.gates[self] = asyncio.Semaphore(self.concurrency)
        return gate

    async def _attempt(self, request: ChatRequest) -> tuple[ChatReply | ChatError, Usage]:
        """Send once, within the budget and the time."""
        budget = self.budget
        prompt = 0
        reservation: Any = None
        price = self.price
        if budget is not None:
            if budget.usd is not None and price is None:
                price = self.price = await self.known_price(request.model)
            prompt = sum(estimate_tokens(message["content"]) for message in request.messages)
            usd = price.of(prompt, request.max_tokens) if price is not None else 0.0
            try:
                reservation = budget.reserve(prompt + request.max_tokens, usd)
            except BudgetExceeded as error:
                return ChatError("budget", str(error), sent=False), NO_USAGE
        usage = _ONE_CALL
        charged = NO_USAGE if budget is None else _estimate(prompt, 0, price)  # what is known of one that is cut short
        limit = asyncio.timeout(self.timeout)
        outcome: ChatReply | ChatError
        try:
            try:
                began = perf_counter()
                async with limit:
                    outcome = await self.client.send(request)
                seconds = perf_counter() - began
                usage = outcome.usage
                if not usage.calls:
                    usage = replace(usage, calls=1)
                if not usage.cost and price is not None:
                    cost = price.of(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
                    usage = replace(usage, cost=cost)
                elif not usage.cost and usage.total_tokens:
                    usage = replace(usage, cost=None)
                outcome = replace(outcome, text=printable(outcome.text), usage=usage, seconds=seconds)
                if budget is not None:
                    completion = estimate_tokens(outcome.text)
                    charged = usage if usage.total_tokens else _estimate(prompt, completion, price)
            except TimeoutError as error:
                late = f"no reply within {self.timeout:g} s"
                outcome = ChatError("timeout", late) if limit.expired() else _of_system(error)
            except OSError as error:  # of a client of the user's own
                outcome = _of_system(error)
            except ChatError as error:
                outcome = error.with_traceback(None)
                usage = charged = _ONE_CALL if error.sent else NO_USAGE
        finally:
            if budget is not None:
                budget.settle(reservation, charged)
        return outcome, usage

    async def known_price(self, model: str) -> Price:
        """What the model costs, as given or as the client knows it.

        Raises:
            JudgeConfigError: nobody knows.
        """
        ask = getattr(self.client, "prices", None)
        price = self.price or (None if ask is None else await ask(model))
        if price is None:
            raise JudgeConfigError(
                f"the budget is in dollars, and no price of {model!r} is known: give price=Price(prompt, completion) "
                "(--price PROMPT,REPLY)"
            )
        return price


def _same(request: ChatRequest) -> Hashable:
    """What makes two requests in flight one; the store's key says the same in a form that lasts."""
    said = tuple((message["role"], message["content"]) for message in request.messages)
    fixed = (request.model, request.max_tokens, request.top_logprobs, request.sample)
    return (said, *fixed, _written(request.schema), _written(request.sampling))


_texts: dict[int, tuple[Any, str]] = {}


def _written(data: Any) -> str:
    """A schema or the sampling as text; a judge gives the same object with each request."""
    found = _texts.get(id(data))
    if found is None or found[0] is not data:
        if len(_texts) >= 512:
            _texts.clear()
        found = _texts[id(data)] = (data, json.dumps(data, sort_keys=True))
    return found[1]


def _of_system(error: OSError) -> ChatError:
    return ChatError("transport", masked(f"{type(error).__name__}: {error}"))


def _estimate(prompt: int, completion: int, price: Price | None) -> Usage:
    """What a budget is charged for a request of which the provider did not say what it took."""
    cost = price.of(prompt, completion) if price is not None else None
    return Usage(1, prompt, 0, completion, prompt + completion, cost)
