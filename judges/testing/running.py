"""A run of a suite: every row is judged, or replayed, once.

Replies are looked up in the suite's cassette, a store (`judges.Store`). The mode says what may be sent:

* `none`: nothing; a reply that is not there is a failure of kind `not_recorded`;
* `once`: as `none` where there is a cassette, else everything, and it is recorded;
* `new`: what is not there yet; `all`: everything again; `rewrite`: the same, into an empty cassette.

With `live` everything is sent, and no cassette is read or written. Rows whose prompt is not the one of the snapshot are
not asked about until the snapshot is updated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from judges.clients.protocol import Price
from judges.limits import BudgetLike
from judges.runs import Plan, equipped, planned
from judges.store import Mode, Store
from judges.testing import snapshots
from judges.testing.figures import figures_of, refuse_unknown
from judges.testing.golden import GoldenRow
from judges.testing.perturbations import flips_of
from judges.testing.questions import Listing, Measuring, ask_all
from judges.testing.results import Answer, Case, Flips, SuiteReport
from judges.testing.suite import Suite
from rubrics.evaluation import NO_USAGE, Usage


@dataclass(frozen=True, slots=True)
class Sending:
    """What a run may send.

    Attributes:
        mode: of the cassette.
        live: send everything, with no cassette.
        budget: what may be spent.
        price: of models of which none is known.
        update_snapshots: whether changed prompts are taken for right.
    """

    mode: Mode = "none"
    live: bool = False
    budget: BudgetLike | None = None
    price: Price | None = None
    update_snapshots: bool = False

    @property
    def sends(self) -> bool:
        """Whether anything may be sent at all."""
        return self.live or self.mode != "none"


def run_suite(suite: Suite, sending: Sending | None = None) -> SuiteReport:
    """`run_suite_async`, for sync code; it blocks the thread."""
    from rubrics.engine.loop import block

    return block(lambda: run_suite_async(suite, sending))


async def run_suite_async(suite: Suite, sending: Sending | None = None) -> SuiteReport:
    """Judge every row of a suite.

    Args:
        suite: the suite.
        sending: what may be sent; by default nothing.

    Returns:
        All answers. What went wrong with a row is in it.

    Raises:
        GoldenError: a row lacks what the prompt needs, a threshold is of no figure, or a file cannot be read.
        JudgeConfigError: the cassette cannot be read or written, an input cannot be shown, …
    """
    how = sending or Sending()
    check_suite(suite)
    now = snapshots.snapshot_of(suite)
    state = snapshots.compared(suite, now)
    keeps = how.update_snapshots or (state.state == "new" and how.sends)
    stale = set() if how.update_snapshots else set(state.stale)
    if keeps and suite.snapshot is not None and now is not None and state.state != "same":
        snapshots.write(suite.snapshot, now)
        state = state.model_copy(update={"state": "same", "stale": []})
    with _equipped(suite, how):
        cases, flips = await _asked(suite, stale)
    return SuiteReport(
        suite=suite.name,
        path=None if suite.path is None else str(suite.path),
        kind=suite.kind,
        scale=_scale(suite),
        prompt=_name_of_prompt(suite),
        model=_model(suite),
        fingerprint=None if _model(suite) is None else suite.subject.fingerprint,
        golden=None if suite.golden.path is None else str(suite.golden.path),
        samples=suite.samples,
        orders=suite.orders,
        response=suite.response,
        positive=suite.positive,
        tolerance=suite.tolerance,
        thresholds=dict(suite.thresholds),
        min_n=suite.min_n,
        snapshot=state,
        cases=cases,
        perturbations=flips,
        extractor=tuple(suite.subject.replies(suite.golden.rows[0])),
        usage=sum((answer.usage for case in cases for answer in case.answers), NO_USAGE)
        + sum((flip.usage for flip in flips), NO_USAGE),
    )


def check_suite(suite: Suite) -> None:
    """Refuse what would show only after rows were asked about, and paid: thresholds of what will be no figure.

    The names of figures are those of a run that no model answered, of one row of each kind.

    Raises:
        GoldenError: there is one.
        JudgeConfigError: no model is named.
    """
    _model(suite)
    if not suite.thresholds:
        return
    rows = [
        next((row for row in suite.golden if suite.asks(row)), None),
        next((row for row in suite.golden if row.annotators), None),
        max(suite.golden, key=lambda row: len({each.order for each in row.recorded})),
    ]
    report = SuiteReport(
        suite=suite.name,
        kind=suite.kind,
        scale=_scale(suite),
        samples=suite.samples,
        orders=suite.orders,
        response=suite.response,
        positive=suite.positive,
        thresholds=dict(suite.thresholds),
        cases=tuple({row.id: _unanswered(suite, row) for row in rows if row is not None}.values()),
    )
    refuse_unknown(report, figures_of(report))


def _unanswered(suite: Suite, row: GoldenRow) -> Case:
    if row.recorded:
        return Case(row=row, place="", answers=tuple(suite.subject.recorded(row)))
    sure: list[tuple[Any, float]] = [(row.gold, 1.0)] if suite.subject.expected else []
    one = Answer(failure="not_recorded", worth=Usage(1, 0, 0, 0, 0, None), probabilities=sure)
    asked = product(suite.orders, range(suite.samples))
    answers = tuple(one.model_copy(update={"order": order, "sample": sample}) for order, sample in asked)
    return Case(row=row, place="", answers=answers)


def plan_suite(suite: Suite, sending: Sending) -> Plan:
    """What a run would send, and what that costs. Nothing is sent.

    Raises:
        GoldenError: a row lacks what the prompt needs, or a threshold is of no figure.
        JudgeConfigError: the cassette cannot be read, or an input cannot be shown.
    """
    from rubrics.engine.loop import block

    check_suite(suite)
    snapshots.snapshot_of(suite)  # names the row that cannot be shown

    async def plan() -> Plan:
        store = None if sending.live else _store(suite, sending.mode)
        if sending.mode in ("none", "once") and store is not None and not store.records:
            return Plan()
        with planned(suite.subject.judge, store=store, price=sending.price) as found:
            await _asked(suite)
        return found

    return block(plan)


def announcement(suite: Suite, plan: Plan) -> str:
    """What a run would send, and what that costs, in words."""
    total = plan.total
    stored = f", {total.stored:,} are recorded already" if total.stored else ""
    cost = "no price is known" if total.cost is None else f"about ${total.cost:.4f}, at most ${total.most_cost:.4f}"
    tokens = f"{total.prompt_tokens:,} tokens and about {total.completion_tokens:,} back"
    return f"{suite.name} sends {total.calls:,} requests to {', '.join(plan.models)}{stored}: {tokens}, {cost}"


def keys_of(suite: Suite) -> set[str]:
    """The keys, in a store, of all requests that a run of a suite makes, as far as its cassette can answer them.

    Raises:
        GoldenError: a row lacks what the prompt needs.
        JudgeConfigError: the cassette cannot be read, or an input cannot be shown.
    """
    from rubrics.engine.loop import block

    async def keys() -> set[str]:
        found: set[str] = set()
        with _equipped(suite, Sending()):
            if suite.subject.asker is not None:
                suite.subject.asker.exchanger = Listing(suite.subject.asker.exchanger, found)
            await _asked(suite)
        return found

    return block(keys)


async def _asked(suite: Suite, stale: Collection[str] = ()) -> tuple[tuple[Case, ...], tuple[Flips, ...]]:
    """The rows with their answers, and what became of changed inputs."""
    rows = [row for row in suite.golden if row.id not in stale and suite.asks(row)]
    answered = await ask_all(suite, rows)
    cases = tuple(_case(suite, row, answered.get(row.id, ()), stale) for row in suite.golden)
    return cases, tuple([await flips_of(name, suite, cases) for name in suite.perturbations])


def _case(suite: Suite, row: GoldenRow, answers: Sequence[Answer], stale: Collection[str]) -> Case:
    place = suite.golden.place(row.id)
    if row.id in stale:
        return Case(row=row, place=place, stale=True)
    if row.recorded:
        answers = suite.subject.recorded(row)
    elif row.reply is not None:
        answers = [suite.subject.read(row)]
    return Case(row=row, place=place, answers=tuple(answers))


def _scale(suite: Suite) -> dict[str, Any] | None:
    return None if suite.kind == "pairs" or suite.subject.scale is None else suite.subject.scale.to_dict()


def _name_of_prompt(suite: Suite) -> str | None:
    prompt = suite.subject.prompt
    if prompt is None:
        return None
    name = prompt.name or prompt.where or "a prompt"
    return f"{name}, version {prompt.version}" if prompt.version else name


def _model(suite: Suite) -> str | None:
    asked = suite.subject.asker is not None and any(suite.asks(row) for row in suite.golden)
    return suite.subject.asker.model if asked and suite.subject.asker is not None else None


# -- the cassette -----------------------------------------------------------------------------------------------------


def cassette_of(suite: Suite) -> Path | None:
    """The file of a suite's replies: its own, or that of its judge's store."""
    if suite.cassette is not None or suite.subject.asker is None:
        return suite.cassette
    store = suite.subject.asker.exchanger.store
    return None if store is None else store.path


def _store(suite: Suite, mode: Mode) -> Store | None:
    path = cassette_of(suite)
    return None if path is None else Store(path, mode)


@contextmanager
def _equipped(suite: Suite, how: Sending) -> Iterator[None]:
    """The judge with the cassette in place of any store of its own, within the budget."""
    if suite.subject.judge is None:
        yield
        return
    store = None if how.live else _store(suite, how.mode)
    try:
        with equipped(suite.subject.judge, budget=how.budget, price=how.price) as asking:
            for asker in asking:
                asker.exchanger.store = store
                asker.exchanger = Measuring(asker.exchanger)
            yield
    finally:
        if store is not None:
            store.close()
