"""Ray: the row function in worker processes, on one machine or on a cluster.

Each worker is an actor with a tree of its own. It is given a few trajectories at a time, and no more than it can begin,
so that memory stays bounded whatever the input. A worker that dies is replaced, and what it had not answered is scored
again, one trajectory at a time: the one that kills its worker, again and again, becomes a row with the status
`"error"`, and the others come out as they would have.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from rubrics.modules import loaded_files
from rubrics.rescoring import judging
from rubrics.rescoring.engines.worker import Account, AsyncWorker, Bank, Recipe, Worker
from rubrics.rescoring.load import name_of
from rubrics.rescoring.replay import Method, Record
from rubrics.rescoring.rows import Row, line_of
from rubrics.rescoring.run import AssumedEnd, Numbered, failed_row
from rubrics.rescoring.types import Types
from rubrics.rubric import Rubric
from rubrics.score import RubricError

try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise ImportError(
        f"the engine 'ray' needs Ray, which does not import here ({error}); pip install 'rubrics[ray]'"
    ) from error

Done = tuple[int, Row, bytes]
"""A row with the number of its trajectory, and as a line of JSON."""

_BATCH_SECONDS = 0.1  # how long a call of a worker is to take, so that a message costs little and rows come soon
_LARGEST = 64  # trajectories in a call
_LOOK = 0.5  # seconds between two looks at whether the run is to stop
_DEATHS = 2  # of a worker with one trajectory alone, after which that is not tried again
_IN_A_ROW = 20  # deaths, and one more for each worker, without an answer between them, after which the run ends


class EngineError(RubricError, RuntimeError):
    """The workers cannot do their work; the message says what to do. Rows that are written stay."""


def packed(what: Rubric | Types) -> bytes:
    """A tree, or the classes of actions and observations, as bytes for the workers.

    Raises:
        EngineError: it cannot be pickled.
    """
    try:
        return ray.cloudpickle.dumps(what)  # type: ignore[no-any-return]
    except Exception as error:
        raise EngineError(
            f"{what!r:.200} cannot be sent to the workers: {type(error).__name__}: {error}. Write a function that "
            "makes the tree, in a file, and name it: load_rubric('FILE.py:FUNCTION'); each worker then makes its own"
        ) from None


@contextmanager
def cluster(workers: int | None) -> Iterator[int]:
    """Ray, and the number of workers to have there: that of `RAY_ADDRESS`, or the one that this process is connected to
    already; else one on this machine, for as long as the block runs.

    Raises:
        EngineError: there is none at that address, or it lets nobody in.
    """
    if ray.is_initialized():
        yield workers or _cpus()
        return
    address = os.environ.get("RAY_ADDRESS")
    if address:
        try:
            ray.init(address=address, logging_level="error", log_to_driver=False)
        except (ConnectionError, ValueError) as error:
            why = error.__cause__ or "is it running?"
            raise EngineError(f"RAY_ADDRESS is {address!r}, and: {error}; {why}") from None
    else:
        with _environment(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0"):
            ray.init(
                address="local",
                num_cpus=workers,
                include_dashboard=False,
                logging_level="error",
                log_to_driver=False,
                _node_ip_address="127.0.0.1",
            )
    try:
        yield workers or _cpus()
    finally:
        ray.shutdown()


def _cpus() -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Variables for the processes that are started in the block, where they are not set."""
    new = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


@dataclass(slots=True, eq=False)
class _Hand:
    """A worker, as the run sees it.

    Attributes:
        actor: its handle.
        ready: whether it has its tree.
        calls: what it was asked and has not answered; None is the call that makes it ready.
        heard: when it answered last, or was asked after it had nothing to do.
        silent: whether it was killed because it did not answer.
    """

    actor: Any
    ready: bool = False
    calls: dict[Any, list[Numbered] | None] = field(default_factory=dict)
    heard: float = 0.0
    silent: bool = False
    alone: bool = False


class Pool:
    """The workers of a run.

    Args:
        rubric: the tree.
        types, assume_end, record: see `rubrics.rescoring.rescore`.
        store, ask_again, price: of the judges, see `rubrics.rescoring.rescore_files`.
        budget_usd: US dollars that the judges of all workers may spend.
        workers: how many; by default one for each CPU that Ray has.
        concurrency: trajectories in progress at once, over all workers, for a tree with async nodes.
        timeout: seconds after which a worker that has something to do and answers nothing is killed; None waits.

    Attributes:
        exhausted: whether the budget refused a request, as far as workers have answered.

    Raises:
        EngineError: the tree cannot be sent to workers.
    """

    def __init__(
        self,
        rubric: Rubric,
        types: Types,
        assume_end: AssumedEnd | None,
        record: Record | None,
        store: str | Path | None,
        ask_again: bool,
        price: tuple[float, float] | None,
        budget_usd: float | None,
        workers: int | None,
        concurrency: int,
        timeout: float | None,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers is at least 1, not {workers}")
        if concurrency < 1:
            raise ValueError(f"concurrency is at least 1, not {concurrency}")
        self.recipe = Recipe(
            tree=name_of(rubric) or packed(rubric),
            types=packed(types),
            files=loaded_files(),
            folder=os.getcwd(),
            assume_end=assume_end,
            record=record,
            store=None if store is None else Path(store).absolute(),
            ask_again=ask_again,
            price=price,
        )
        self.own_budget = judging.has_own_budget(rubric)
        self.budget_usd, self.workers, self.concurrency, self.timeout = budget_usd, workers, concurrency, timeout
        self.exhausted = False
        self._hands: list[_Hand] = []
        self._suspects: deque[Numbered] = deque()  # what a worker had when it died
        self._deaths: dict[int, int] = {}  # of workers with this one alone, by its number
        self._in_a_row = 0
        self._seconds = 0.0  # a trajectory takes, on average

    def rows(
        self, trajectories: Iterator[Numbered], method: Method, stopped: Callable[[], bool]
    ) -> Generator[Done, None, None]:
        """Rows, each as soon as it is done. Closed early, it ends the workers with what is in progress.

        Args:
            trajectories: with their numbers. No more are taken than workers can begin.
            method: how they are scored; the workers do the same.
            stopped: asked before a trajectory is begun; once it says so, what is in progress is finished.

        Raises:
            EngineError: the tree cannot be loaded in the workers, or is another one there, or they die in a row.
        """
        first = next(trajectories, None)
        if first is None:  # then Ray need not be started
            return
        self.method = method
        self.is_async = method.rubric.is_async_tree
        self._source: Iterator[Numbered] | None = _chained(first, trajectories)
        with ExitStack() as stack:
            count = stack.enter_context(cluster(self.workers))
            stack.callback(self._end)
            self._begin(count)
            while True:
                if self._source is not None and stopped():
                    self._source = None
                    self._suspects.clear()
                self._feed()
                calls = {ref: hand for hand in self._hands for ref in hand.calls}
                if self._source is None and not self._suspects and not any(map(_items, self._hands)):
                    return
                done, _ = ray.wait(list(calls), timeout=_LOOK)
                for ref in done:
                    if ref in calls[ref].calls:  # else its worker has died since
                        yield from self._answer(calls[ref], ref)
                self._end_the_silent()

    def _begin(self, count: int) -> None:
        if count > 1 and self.own_budget:
            raise EngineError(
                "a judge of the tree has a budget of its own, which each worker would spend: leave it out, and limit "
                "the run (budget_usd, --budget-usd)"
            )
        if self.budget_usd is not None:
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
            bank = ray.remote(Bank).options(num_cpus=0, scheduling_strategy=here).remote(self.budget_usd)
            self.recipe = replace(self.recipe, budget_usd=self.budget_usd, account=Account(bank))
        method = self.method
        self.recipe = replace(self.recipe, workers=count, fingerprint=method.fingerprint, judges=method.judges)
        at_once = 1 if method.rubric.keeps_state else max(1, self.concurrency // count)
        self._at_once = at_once if self.is_async else 1
        self._kind = (
            ray.remote(AsyncWorker).options(num_cpus=1, max_concurrency=at_once + 2)  # room for `meet` and `pause`
            if self.is_async
            else ray.remote(Worker).options(num_cpus=1)
        )
        for _ in range(count):
            self._hire()

    def _hire(self) -> None:
        hand = _Hand(self._kind.remote(self.recipe))
        hand.calls[hand.actor.prepare.remote()] = None
        self._hands.append(hand)

    def _end(self) -> None:
        for hand in self._hands:
            ray.kill(hand.actor)
        if self.recipe.account is not None:
            ray.kill(self.recipe.account.bank)

    def _feed(self) -> None:
        """Give workers what to do, the idlest first."""
        while ready := [hand for hand in self._hands if hand.ready and not hand.alone]:
            hand = min(ready, key=lambda hand: len(hand.calls))
            if self._suspects and not hand.calls:
                hand.alone = True
                self._ask(hand, [self._suspects.popleft()])
            elif self._source is None or len(hand.calls) >= self._depth():
                return
            elif batch := list(islice(self._source, self._size())):
                self._ask(hand, batch)
            else:
                self._source = None

    def _size(self) -> int:
        """Trajectories in a call. Those of a tree with async nodes come one by one: each is as late as itself alone."""
        if self.is_async or not self._seconds:
            return 1
        return max(1, min(_LARGEST, int(_BATCH_SECONDS / self._seconds)))

    def _depth(self) -> int:
        """Calls of a worker at once. One that answers quickly has a second one waiting, so that it is never idle."""
        if self.is_async:
            return self._at_once
        return 2 if 0.0 < self._seconds < _BATCH_SECONDS else 1

    def _ask(self, hand: _Hand, batch: list[Numbered]) -> None:
        if not hand.calls:
            hand.heard = time.monotonic()
        hand.calls[hand.actor.score.remote(ray.cloudpickle.dumps(batch))] = batch

    def _answer(self, hand: _Hand, ref: Any) -> Iterator[Done]:
        try:
            answer = ray.get(ref)
        except ray.exceptions.RayTaskError as error:  # the row function raises nothing, so it is not of a trajectory
            raise EngineError(f"a worker failed: {error.cause}") from error
        except ray.exceptions.RayError as error:
            yield from self._died(hand, error)
            return
        items = hand.calls.pop(ref)
        hand.heard = time.monotonic()
        if items is None:
            self._is_ready(hand, answer)
            return
        hand.alone = False
        self._in_a_row = 0
        self.exhausted |= answer.exhausted
        each = answer.seconds / len(items)
        self._seconds = (self._seconds + each) / 2 if self._seconds else each
        for number, line in answer.lines:
            self._deaths.pop(number, None)
            yield number, Row.from_dict(orjson.loads(line)), line

    def _is_ready(self, hand: _Hand, fingerprint: str) -> None:
        if fingerprint != self.method.fingerprint:
            raise EngineError(
                f"the tree in a worker is not the one here (fingerprints {fingerprint}, {self.method.fingerprint}): it "
                "was changed after it was loaded, or the worker has another version of its file; make every change in "
                "the function that is named"
            )
        hand.ready = True
        if self.is_async:
            for one in self._hands:
                if one.ready:
                    one.actor.meet.remote([other.actor for other in self._hands if other is not one])

    def _died(self, hand: _Hand, error: Exception) -> Iterator[Done]:
        """Replace a worker, and have what it had scored again."""
        self._hands.remove(hand)
        ray.kill(hand.actor)  # it may only be out of reach
        self._in_a_row += 1
        if self._in_a_row >= _IN_A_ROW + self.recipe.workers:
            raise EngineError(f"{self._in_a_row} workers died without an answer between them, the last one so: {error}")
        self._hire()
        lost = _items(hand)
        if len(lost) == 1 and self._killed(lost[0]):
            number, trajectory, content = lost[0]
            how = (
                f"gave no answer within {self.timeout:g} s and was killed"
                if hand.silent
                else "died (the rubric may end or crash its process, or take too much memory)"
            )
            reason = f"the worker process that scored it alone {how}, {_DEATHS} times"
            yield number, *line_of(failed_row(trajectory, self.method, content, reason))
        else:
            self._suspects.extend(lost)

    def _killed(self, item: Numbered) -> bool:
        """Whether a trajectory has now killed enough workers."""
        deaths = self._deaths[item[0]] = self._deaths.get(item[0], 0) + 1
        return deaths >= _DEATHS

    def _end_the_silent(self) -> None:
        if self.timeout is None:
            return
        for hand in self._hands:
            if hand.ready and hand.calls and not hand.silent and time.monotonic() - hand.heard > self.timeout:
                hand.silent = True
                ray.kill(hand.actor)  # its calls fail, as those of any worker that dies


def _items(hand: _Hand) -> list[Numbered]:
    """The trajectories that a worker has."""
    return [item for items in hand.calls.values() if items is not None for item in items]


def _chained(first: Numbered, others: Iterator[Numbered]) -> Iterator[Numbered]:
    yield first
    yield from others
