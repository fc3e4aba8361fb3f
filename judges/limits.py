"""Limits: how much may be spent, how many requests may be under way, how long to wait before the next attempt."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import Any, Protocol
from weakref import WeakSet

from judges.verdict import JudgeConfigError
from rubrics.evaluation import NO_USAGE, Usage

BYTES_A_TOKEN = 3.0
"""The estimate of tokens before a request: UTF-8 bytes / 3. English prose has about 4 bytes a token, code and other
scripts about 3, so it errs on the high side."""


def estimate_tokens(text: str) -> int:
    """A rough count of the tokens of a text, without a tokenizer (see `BYTES_A_TOKEN`)."""
    return ceil(len(text.encode("utf-8", "replace")) / BYTES_A_TOKEN)


class BudgetExceeded(Exception):
    """A reservation would exceed the budget; nothing was reserved."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one request may cost at most, while it is under way."""

    tokens: int = 0
    usd: float = 0.0


class BudgetLike(Protocol):
    """What a judge needs of a budget; implement it to share one between processes. The methods may not block for long.

    Attributes:
        usd: None where dollars are not limited, so that no price is needed.
    """

    @property
    def usd(self) -> float | None: ...

    def reserve(self, tokens: int, usd: float) -> Any:
        """Reserve one call with at most so many tokens and dollars.

        Raises:
            BudgetExceeded: it would go beyond the limits.
        """
        ...

    def settle(self, reservation: Any, usage: Usage) -> None:
        """What it really cost; a usage of no calls gives the reservation back."""
        ...


class Budget:
    """How much judges may spend together. It counts requests sent: retries, repeated questions and probes too.

    Each request is reserved before it is sent and settled after, so that exactly `calls` are let through at any
    concurrency, in any number of threads.

    Args:
        calls: requests.
        tokens: prompt and completion tokens. A request reserves an estimate of its prompt and its whole `max_tokens`.
        usd: US dollars, by the price of the model.
    """

    def __init__(self, calls: int | None = None, tokens: int | None = None, usd: float | None = None) -> None:
        for name, value in (("calls", calls), ("tokens", tokens), ("usd", usd)):
            if value is None:
                continue
            whole = name != "usd"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not isfinite(value):
                raise JudgeConfigError(f"Budget: {name} is a {'whole ' if whole else ''}number, not {value!r}")
            if value < 0:
                raise JudgeConfigError(f"Budget: {name} must not be negative, got {value}")
        self.calls, self.tokens, self.usd = calls, tokens, usd
        self._spent = NO_USAGE
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._held, self._flying = Reservation(), 0  # requests under way are another process's
        _budgets.add(self)

    def __repr__(self) -> str:
        limits = [
            f"{name}={getattr(self, name)}" for name in ("calls", "tokens", "usd") if getattr(self, name) is not None
        ]
        return f"Budget({', '.join(limits)})"

    def __deepcopy__(self, memo: object) -> Budget:
        return self  # a copy of a tree spends from the same budget

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._renew()

    @property
    def spent(self) -> Usage:
        """What has been spent, requests under way left out."""
        return self._spent

    def reserve(self, tokens: int, usd: float) -> Reservation:
        """Reserve one call with at most so many tokens and dollars.

        Raises:
            BudgetExceeded: it would go beyond the limits.
        """
        with self._lock:
            calls = self._spent.calls + self._flying + 1
            if self.calls is not None and calls > self.calls:
                raise BudgetExceeded(f"the budget of {self.calls} calls is used up")
            if self.tokens is not None and self._spent.total_tokens + self._held.tokens + tokens > self.tokens:
                left = self.tokens - self._spent.total_tokens - self._held.tokens
                raise BudgetExceeded(f"the request may take {tokens} tokens, and {left} of {self.tokens} are left")
            spent = self._spent.cost or 0.0  # known wherever dollars are limited
            if self.usd is not None and spent + self._held.usd + usd > self.usd * (1.0 + 1e-9):  # rounding
                left_usd = self.usd - spent - self._held.usd
                raise BudgetExceeded(f"the request may cost ${usd:.6f}, and ${left_usd:.6f} of ${self.usd:g} are left")
            self._held = Reservation(self._held.tokens + tokens, self._held.usd + usd)
            self._flying += 1
            return Reservation(tokens, usd)

    def settle(self, reservation: Reservation, usage: Usage) -> None:
        """What it really cost; a usage of no calls gives the reservation back."""
        with self._lock:
            self._flying -= 1
            held = self._held
            left = (held.tokens - reservation.tokens, held.usd - reservation.usd) if self._flying else (0, 0.0)
            self._held = Reservation(*left)
            if usage.cost is None and self.usd is not None:
                usage = replace(usage, cost=reservation.usd)  # the most that it may have been
            self._spent = self._spent + usage


class Budgets:
    """Several budgets at once: what is spent counts in each.

    Attributes:
        usd: the least of them; None where none limits dollars.
    """

    def __init__(self, budgets: Sequence[BudgetLike]) -> None:
        self.budgets = tuple(budgets)
        self.usd = min((budget.usd for budget in budgets if budget.usd is not None), default=None)

    def reserve(self, tokens: int, usd: float) -> list[Any]:
        """Reserve in each.

        Raises:
            BudgetExceeded: it would go beyond the limits of one; then nothing is reserved in any.
        """
        held: list[Any] = []
        try:
            for budget in self.budgets:
                held.append(budget.reserve(tokens, usd))
        except BudgetExceeded:
            self.settle(held, NO_USAGE)
            raise
        return held

    def settle(self, reservation: list[Any], usage: Usage) -> None:
        """What it really cost."""
        for budget, held in zip(self.budgets, reservation, strict=False):
            budget.settle(held, usage)


_budgets: WeakSet[Budget] = WeakSet()


def _unlock() -> None:
    for budget in list(_budgets):
        budget._renew()  # another thread may have held the lock when the process was forked


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


class Limiter:
    """How many requests to one address and model are under way on a loop, and whether it asked everybody to wait."""

    def __init__(self) -> None:
        self.capacity = 0
        self._slots = asyncio.Semaphore(0)
        self._until = 0.0

    def admit(self, capacity: int) -> None:
        """A judge with this concurrency takes part; the capacity is that of the widest judge."""
        for _ in range(capacity - self.capacity):
            self._slots.release()
        self.capacity = max(self.capacity, capacity)

    def pause(self, seconds: float) -> None:
        """No request begins for so long."""
        self._until = max(self._until, asyncio.get_running_loop().time() + seconds)

    async def __aenter__(self) -> None:
        """Take a place among the requests under way."""
        await self._slots.acquire()
        try:
            while (wait := self._until - asyncio.get_running_loop().time()) > 0.0:  # noqa: ASYNC110  it may grow
                await asyncio.sleep(wait)
        except BaseException:
            self._slots.release()
            raise

    async def __aexit__(self, *error: object) -> None:
        self._slots.release()


def limiter_of(limiters: dict[Hashable, Limiter], address: Hashable, model: str, capacity: int) -> Limiter:
    """The limiter that requests to an address and model share."""
    key = (address, model)
    limiter = limiters.get(key)
    if limiter is None:
        limiter = limiters[key] = Limiter()
    if limiter.capacity < capacity:
        limiter.admit(capacity)
    return limiter


def backoff(attempt: int, longest: float) -> float:
    """Seconds before the next attempt where the provider names none: 0.5, 1, 2, … up to `longest`, with jitter.

    Args:
        attempt: 0 for the first repetition.
    """
    return min(0.5 * 2.0 ** min(attempt, 16), longest) * (0.5 + 0.5 * random.random())
