"""What a worker process holds: one tree with its judges, and the row function of the local engine."""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rubrics.modules import load_module
from rubrics.rescoring import judging
from rubrics.rescoring.load import load_rubric
from rubrics.rescoring.replay import Record, prepared
from rubrics.rescoring.rows import Row, line_of
from rubrics.rescoring.run import AssumedEnd, Numbered, in_order, row_of_async


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that a worker needs to score as the run's own process would.

    Attributes:
        tree: what `load_rubric` is to be given, or the pickled tree.
        types: the pickled classes of actions and observations.
        files: modules to load from files first: pickled objects may be of their classes.
        folder: the working directory of the run, for files that nodes open.
        assume_end, record: see `rubrics.rescoring.rescore`.
        store, ask_again, price: of the judges, see `rubrics.rescoring.rescore_files`.
        budget_usd, account: US dollars that the judges of all workers may spend together, and where they are kept.
        workers: how many there are.
        fingerprint, judges: of the tree, as the run's own process has them. They differ here for a pickled tree, with
            which a class may come whose source is not known, and for one that keeps state of an earlier run.
    """

    tree: str | bytes
    types: bytes
    files: list[str]
    folder: str
    assume_end: AssumedEnd | None
    record: Record | None
    store: Path | None
    ask_again: bool
    price: tuple[float, float] | None
    budget_usd: float = 0.0
    account: Account | None = None
    workers: int = 1
    fingerprint: str = ""
    judges: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker gives back for a batch of trajectories.

    Attributes:
        lines: rows as lines of JSON, with the numbers of their trajectories.
        seconds: that it took.
        exhausted: whether the budget of the run refused a request of this worker by now.
    """

    lines: list[tuple[int, bytes]]
    seconds: float
    exhausted: bool


class Worker:
    """Scores trajectories under a tree of its own. As an actor it runs in the main thread of its process."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.asking: list[Any] = []
        self.budget: Any = None
        self._open = ExitStack()  # for as long as the process lives

    def prepare(self) -> str:
        """Load the tree; returns its fingerprint.

        Raises:
            LoadError: it cannot be loaded here.
        """
        recipe = self.recipe
        if os.path.isdir(recipe.folder):  # another machine may not have it
            os.chdir(recipe.folder)
        for file in recipe.files:
            load_module(file)
        rubric = load_rubric(recipe.tree) if isinstance(recipe.tree, str) else pickle.loads(recipe.tree)
        store = judging.store_of(recipe.store, recipe.ask_again)
        price = None if recipe.price is None else judging.price_of(*recipe.price)
        if recipe.account is not None:
            self.budget = judging.shared_budget_of(recipe.budget_usd, recipe.account)
        equipped = judging.equipped(rubric, store, self.budget, price, recipe.workers)
        self.asking = self._open.enter_context(equipped)
        types = pickle.loads(recipe.types)
        method = prepared(rubric, recipe.assume_end, types, recipe.record)
        if isinstance(recipe.tree, bytes) or method.rubric.keeps_state:
            method = replace(method, fingerprint=recipe.fingerprint, judges=recipe.judges)
        self.method = method
        return method.fingerprint

    def score(self, batch: bytes) -> Answer:
        """The rows of some pickled trajectories."""
        began = time.perf_counter()
        numbered: list[Numbered] = pickle.loads(batch)
        return self._answer(began, list(in_order(numbered, self.method)))

    def _answer(self, began: float, rows: list[tuple[int, Row]]) -> Answer:
        lines = [(number, line_of(row)[1]) for number, row in rows]
        return Answer(lines, time.perf_counter() - began, self.budget is not None and self.budget.exhausted)


class AsyncWorker(Worker):
    """The same for a tree with async nodes: an actor with an event loop, on which calls of `score` are concurrent."""

    others: list[Any]

    def meet(self, others: list[Any]) -> None:
        """Get to know the other workers, which are told when a provider asks to be left alone for a while."""
        self.others = others
        loop = asyncio.get_running_loop()
        for asker in self.asking:
            exchanger = asker.exchanger
            exchanger.on_pause = partial(self._tell, loop.call_soon_threadsafe, exchanger.endpoint)

    def _tell(self, soon: Callable[..., Any], endpoint: str, model: str, seconds: float) -> None:
        for other in self.others:
            soon(other.pause.remote, endpoint, model, seconds)

    async def pause(self, endpoint: str, model: str, seconds: float) -> None:
        """Begin no request to an endpoint and model for so long."""
        for asker in self.asking:
            if asker.exchanger.endpoint == endpoint:
                asker.exchanger.pause(model, seconds)

    async def score(self, batch: bytes) -> Answer:  # type: ignore[override]
        """As of `Worker`, one trajectory after another."""
        began = time.perf_counter()
        numbered: list[Numbered] = pickle.loads(batch)
        return self._answer(
            began, [(number, await row_of_async(each, self.method, content)) for number, each, content in numbered]
        )


class Bank:
    """The account of a run's budget, as an actor: each request of each worker is reserved here."""

    def __init__(self, usd: float) -> None:
        from judges.limits import Budget

        self.budget = Budget(usd=usd)

    def reserve(self, tokens: int, usd: float) -> Any:
        """A reservation, or why there is none."""
        from judges.limits import BudgetExceeded

        try:
            return self.budget.reserve(tokens, usd)
        except BudgetExceeded as error:
            return str(error)

    def settle(self, reservation: Any, usage: Any) -> None:
        """What a request really cost."""
        self.budget.settle(reservation, usage)


class Account:
    """The way to a `Bank`, as `judges.runs.SharedBudget` wants it. What a worker had reserved when it died stays
    reserved: the provider may have been asked.

    Args:
        bank: the actor.
    """

    def __init__(self, bank: Any) -> None:
        self.bank = bank

    def reserve(self, tokens: int, usd: float) -> Any:
        """One message there and back."""
        import ray

        return ray.get(self.bank.reserve.remote(tokens, usd))

    def settle(self, reservation: Any, usage: Any) -> None:
        """Sent, and not waited for; a worker's messages are read in their order."""
        self.bank.settle.remote(reservation, usage)
