"""Asking a judge about rows, and what its replies cost and how long they took, when they were sent."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from math import fsum

from judges.asking import together
from judges.clients.protocol import ChatReply, ChatRequest
from judges.exchange import Exchange, Exchanger
from judges.store import request_key
from judges.testing.golden import GoldenRow
from judges.testing.results import Answer, Order
from judges.testing.suite import Suite
from rubrics.evaluation import NO_USAGE, Usage

_replies: ContextVar[list[ChatReply]] = ContextVar("the replies that an answer took")


class Measuring(Exchanger):
    """Notes the replies that an answer took."""

    def __init__(self, exchanger: Exchanger) -> None:
        vars(self).update(vars(exchanger))

    async def exchange(self, request: ChatRequest, replay: bool = True) -> Exchange:
        """As `Exchanger.exchange`."""
        exchange = await super().exchange(request, replay)
        if isinstance(exchange.outcome, ChatReply) and (replies := _replies.get(None)) is not None:
            replies.append(exchange.outcome)
        return exchange


class Listing(Exchanger):
    """Notes the keys of all requests.

    Args:
        exchanger: what sends them.
        keys: where they are noted.
    """

    def __init__(self, exchanger: Exchanger, keys: set[str]) -> None:
        vars(self).update(vars(exchanger))
        self.keys = keys

    async def exchange(self, request: ChatRequest, replay: bool = True) -> Exchange:
        """As `Exchanger.exchange`."""
        self.keys.add(request_key(self.endpoint, request))
        return await super().exchange(request, replay)


async def ask_all(
    suite: Suite, rows: Sequence[GoldenRow], orders: Sequence[Order] | None = None
) -> dict[str, list[Answer]]:
    """Ask about rows, as often as the suite says.

    Args:
        suite: the suite.
        rows: the rows.
        orders: of pairs; by default the suite's.

    Returns:
        The answers by id, in the order of their orders and samples.

    Raises:
        GoldenError: a row lacks what the prompt needs.
        JudgeConfigError: the judge cannot be asked.
    """
    each = [(order, sample) for order in orders or suite.orders for sample in range(suite.samples)]
    answers = iter(await together(*(_measured(suite, row, *question) for row in rows for question in each)))
    return {row.id: [next(answers) for _ in each] for row in rows}


async def _measured(suite: Suite, row: GoldenRow, order: Order, sample: int) -> Answer:
    replies: list[ChatReply] = []
    _replies.set(replies)  # of this task alone
    answer = await suite.subject.ask(row, order, sample)
    seconds = [reply.seconds for reply in replies if reply.seconds is not None]
    worth: Usage = sum((reply.usage for reply in replies), NO_USAGE)
    return answer.model_copy(update={"seconds": fsum(seconds) if seconds else None, "worth": worth})
