"""What became of a golden set under a judge: every answer, in a form that can be kept in a file and read again."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, model_validator

from judges.scale import Scale, scale_from
from judges.testing.classification import is_label
from judges.testing.golden import GoldenError, GoldenRow, index_of
from judges.testing.rates import is_unreached
from judges.verdict import FailureKind, JudgeFailure, Verdict
from rubrics.evaluation import NO_USAGE, Usage

Order = Literal["given", "swapped"]
Kind = Literal["labels", "pairs", "rankings"]
Status = Literal["agrees", "disagrees", "abstains", "no verdict"]


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def spoken(label: Any) -> str:
    """A label, for people: as JSON has it, but texts without quotes."""
    if label is None:
        return "nothing"
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, float):
        return f"{label:.6g}"
    if isinstance(label, list | tuple):
        return ", ".join(spoken(each) for each in label)
    return str(label)


class Answer(_Kept):
    """One answer to one row.

    Attributes:
        order: of a pair: whether the candidates were shown as given, or swapped.
        sample: its number among equal questions.
        label: what was answered, in terms of the row: a value on the scale; a, b or tie whatever the order; of a
            ranking the grades, in the order of the row's candidates. None for an abstention (of a ranking: on all
            candidates) and for a failure.
        score: in [0, 1]; of a pair, of the candidate `a`; of a ranking None.
        reason, reply: the judge's words, and the text they were read from.
        failure, message: why there is no verdict.
        probabilities: of the labels, for a judge with `expected=True`.
        usage: what it cost; nothing where it was replayed.
        worth: what its replies cost when they were sent, be it now or when they were recorded.
        seconds: how long these took; None where that is not known.
        cached: whether it was replayed, or is no answer of a model.
    """

    order: Order = "given"
    sample: int = 0
    label: Any = None
    score: float | None = None
    reason: str | None = None
    reply: str | None = None
    failure: FailureKind | None = None
    message: str | None = None
    probabilities: list[tuple[Any, float]] = Field(default_factory=list)
    usage: Usage = NO_USAGE
    worth: Usage = NO_USAGE
    seconds: float | None = None
    cached: bool = False

    @property
    def verdict(self) -> Verdict | JudgeFailure:
        """As the judge gave it."""
        if self.failure is not None:
            return JudgeFailure(self.failure, self.message or "", self.usage, reply=self.reply, cached=self.cached)
        # A ranking has no one score; that it was given is what counts.
        score = 1.0 if self.score is None and self.label is not None else self.score
        return Verdict(score, self.label, self.reason, self.usage, reply=self.reply, cached=self.cached)


class Case(_Kept):
    """A row and its answers.

    Attributes:
        row: the row of the golden set.
        place: file and line of it.
        answers: in the order of their orders and samples.
        stale: whether the prompt is no longer the one of the snapshot; then nothing was asked.
    """

    row: GoldenRow
    place: str
    answers: tuple[Answer, ...] = ()
    stale: bool = False

    @field_serializer("row")
    def _as_it_stands(self, row: GoldenRow) -> dict[str, Any]:
        return row.model_dump(mode="json", exclude_unset=True)  # a gold value of null is none

    def of(self, order: Order) -> list[Answer]:
        """Its answers in one order."""
        return [answer for answer in self.answers if answer.order == order]

    def said(self, order: Order = "given") -> Any:
        """The label of an order: the most frequent of its samples, of numbers that are no labels their mean; None
        where there is none, or two are as frequent."""
        labels = [answer.label for answer in self.of(order) if answer.label is not None]
        if not labels:
            return None
        if all(isinstance(label, float) for label in labels):
            return fsum(labels) / len(labels)
        counted = Counter(json.dumps(label) for label in labels).most_common(2)
        if len(counted) == 2 and counted[0][1] == counted[1][1]:
            return None
        return next(label for label in labels if json.dumps(label) == counted[0][0])

    @property
    def unreached(self) -> list[Answer]:
        """The questions to which no model replied; of several samples perhaps some."""
        return [answer for answer in self.answers if is_unreached(answer.failure)]

    @property
    def orders(self) -> list[Order]:
        """The orders in which it was asked."""
        return list(dict.fromkeys(answer.order for answer in self.answers))

    def agrees(self, answer: Answer, tolerance: float = 0.0) -> bool:
        """Whether one answer is the row's."""
        return self._is_gold(answer.label, tolerance)

    def status(self, tolerance: float = 0.0) -> Status:
        """Whether the judge agrees with people: in every order, by what most samples say.

        A ranking agrees where the candidate that people put first has the best grade, and no other has.
        """
        for order in self.orders or ["given"]:
            if all(answer.failure is not None for answer in self.of(order)):
                return "no verdict"
        if all(answer.label is None for answer in self.answers):
            return "abstains"
        right = all(self._is_gold(self.said(order), tolerance) for order in self.orders)
        return "agrees" if right else "disagrees"

    def _is_gold(self, label: Any, tolerance: float) -> bool:
        gold = self.row.gold
        if label is None:
            return False
        if self.row.gold_field == "ranking":
            best = index_of(gold[0], self.row.inputs["candidates"])
            others = [grade for place, grade in enumerate(label) if place != best and grade is not None]
            return label[best] is not None and all(grade < label[best] for grade in others)
        return is_label(label, gold) or (tolerance > 0.0 and abs(label - gold) <= tolerance + 1e-12)


class Threshold(_Kept):
    """What a figure is held against: see `judges.testing.metrics.decide`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _number(cls, given: Any) -> Any:
        return {"at_least": given} if isinstance(given, (int, float)) and not isinstance(given, bool) else given

    @model_validator(mode="after")
    def _one(self) -> Threshold:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a threshold is a number, for at least, or has at_least, at_most or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"nothing is at least {self.at_least:g} and at most {self.at_most:g}")
        return self


class Flip(_Kept):
    """What became of one verdict when something was changed that should not matter.

    Attributes:
        id, order: of the row, and of the pair.
        before, after: the labels, in terms of the row; None where there was no verdict.
        failure: why there was none after the change; also where one of several samples reached no model.
        lift: how far the score moved towards what the change would gain by, in [-1, 1]; None where that is not known.
        changed: what was shown instead, for people.
    """

    id: str
    order: Order = "given"
    before: Any = None
    after: Any = None
    failure: FailureKind | None = None
    lift: float | None = None
    changed: str | None = None

    @property
    def flipped(self) -> bool | None:
        """Whether it is another verdict; None where there was none before, or the changed question reached no model."""
        if self.before is None or is_unreached(self.failure):
            return None
        return not is_label(self.after, self.before)


class ReplyCheck(_Kept):
    """How one form of reply is read.

    Attributes:
        name: of the form, such as `fenced` or `cut`.
        reply: the text.
        expected: the label that it gives; None where it must give none.
        label, failure: what was read.
    """

    name: str
    reply: str
    expected: Any = None
    label: Any = None
    failure: FailureKind | None = None

    @property
    def is_right(self) -> bool:
        """Whether it was read as expected."""
        return self.label is None if self.expected is None else is_label(self.label, self.expected)


class Flips(_Kept):
    """One perturbation, tried on all rows that it applies to.

    Attributes:
        name, description: of the perturbation.
        threshold: for the share that flips.
        verdicts: one a row and order that it applies to.
        usage: what was spent.
    """

    name: str
    description: str
    threshold: Threshold | None = None
    verdicts: tuple[Flip, ...] = ()
    usage: Usage = NO_USAGE


class SnapshotState(_Kept):
    """What a suite sends, compared with its snapshot.

    Attributes:
        state: `same`; `new`: there is no snapshot yet, or not of all rows; `changed`; `none`: the suite keeps none.
        path: the file.
        difference: of the texts, where they changed.
        stale: ids of the rows whose prompt changed.
        added: ids of the rows that the snapshot does not know.
        known: whether there is a snapshot.
    """

    state: Literal["same", "new", "changed", "none"] = "none"
    path: str | None = None
    difference: str = ""
    stale: list[str] = Field(default_factory=list)
    added: list[str] = Field(default_factory=list)
    known: bool = True


class SuiteReport(_Kept):
    """A golden set judged: all answers, and what they are to be held against.

    Attributes:
        suite: its name.
        path: its file, where it has one.
        kind: what rows ask: a value on a scale, the better of a pair, or grades of several candidates.
        scale: of the judge; None for a pair, and where all verdicts were recorded elsewhere.
        prompt: name and version, or the file.
        model: that was asked; None where none was.
        fingerprint: of the judge.
        golden: the file of the golden set.
        samples, orders: how often each row was asked.
        response: the input that holds the response that is judged.
        positive: the label that counts as positive.
        tolerance: how far a number may be off and still agree.
        thresholds: by name of a figure.
        min_n: independent items below which nothing is decided.
        snapshot: whether its prompts are those of the snapshot.
        cases: the rows.
        perturbations: what became of changed inputs.
        extractor: how forms of reply are read that models are known to give.
        usage: what was spent; nothing where all was replayed.
        at: when, in UTC.
    """

    suite: str
    path: str | None = None
    kind: Kind
    scale: dict[str, Any] | None = None
    prompt: str | None = None
    model: str | None = None
    fingerprint: str | None = None
    golden: str | None = None
    samples: int = 1
    orders: tuple[Order, ...] = ("given",)
    response: str | None = None
    positive: Any = None
    tolerance: float = 0.0
    thresholds: dict[str, Threshold] = Field(default_factory=dict)
    min_n: int = 10
    snapshot: SnapshotState = Field(default_factory=SnapshotState)
    cases: tuple[Case, ...]
    perturbations: tuple[Flips, ...] = ()
    extractor: tuple[ReplyCheck, ...] = ()
    usage: Usage = NO_USAGE
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    def __getitem__(self, id: str) -> Case:
        return self._by_id[id]

    @cached_property
    def _by_id(self) -> dict[str, Case]:
        return {case.row.id: case for case in self.cases}

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; `SuiteReport.model_validate` reads it back."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def title(self) -> str:
        """The suite, and the model that was asked."""
        return f"{self.suite} [{self.model}]" if self.model else self.suite

    @cached_property
    def on(self) -> Scale | None:
        """The scale."""
        return None if self.scale is None else scale_from(self.scale)

    def status(self, case: Case) -> Status:
        """Whether the judge agrees with people on a row."""
        return case.status(self.tolerance)

    @cached_property
    def stale(self) -> list[str]:
        """Rows whose prompt is not the one of the snapshot."""
        return [case.row.id for case in self.cases if case.stale]


def read_reports(path: str | Path) -> list[SuiteReport]:
    """The suites of a report that was written as JSON.

    Raises:
        GoldenError: it cannot be read, or is no such report.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        return [SuiteReport.model_validate(each["results"]) for each in data["suites"]]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise GoldenError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValidationError) as error:
        raise GoldenError(
            f"{path} is no report of judge tests, as --judge-report=FILE.json writes it: {error}"
        ) from None
