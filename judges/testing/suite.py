"""Suites: a judge, a golden set, and what is asked of the figures. A `*.judge.yaml` file holds one.

```yaml
prompt: tone.md                  # a prompt file, beside this one
golden: tone.golden.jsonl        # see judges.testing.golden
response: reply                  # the input that holds the response that is judged
reason: false                    # ask for the score alone
thresholds:
  accuracy: 0.8                  # at least; or {at_least: …, at_most: …}
min_n: 30                        # independent items below which nothing is decided
cassette: cassettes/tone.jsonl   # recorded replies
```

The other fields are those of `SuiteFile`. Paths are relative to the file.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from judges.compare import GroupwiseJudge, PairwiseJudge
from judges.judge import Judge
from judges.prompt import Prompt
from judges.scale import Likert, Numeric, Scale, scale_from
from judges.testing.figures import NOT_AT_LEAST
from judges.testing.golden import GoldenError, GoldenRow, GoldenSet, Split
from judges.testing.results import Kind, Order, Threshold
from judges.testing.subjects import Subject, Tested

ENDING = ".judge.yaml"
_KINDS: dict[str, Kind] = {"label": "labels", "score": "labels", "winner": "pairs", "ranking": "rankings"}


class SuiteFile(BaseModel):
    """What a `*.judge.yaml` file may say.

    Attributes:
        prompt: the prompt file. None where all rows bring `recorded` verdicts.
        golden: the golden set.
        name: of the suite; by default the file's.
        split: the rows that are judged; `all` for every one.
        tags: only rows that have all of these.
        response: the input that holds the response that is judged: what verbosity measures and perturbations change.
            Of pairs it is the two candidates.
        scale: of the judge, where the prompt file has none (`{type: likert, low: 1, high: 5}`).
        positive: the label that counts as positive in the true positive and true negative rate; of a binary scale true.
        tolerance: how far a number may be off and still agree, in the scale's units.
        reason, expected: of the judge (see `judges.Judge`); `reason` defaults to what the judge defaults to.
        samples: how often each row is asked.
        orders: of pairs: each shown first once, or as given.
        ties: of pairs: whether the judge may call a tie.
        model, sampling, max_tokens, endpoint, timeout, retries, concurrency: how the model is asked (see
            `judges.Options`).
        thresholds: by name of a figure.
        min_n: independent items below which nothing is decided.
        perturbations: what is changed in the inputs to see whether verdicts flip: a list of names, or names with a
            threshold for the share that flips.
        cassette: the file of recorded replies; by default `cassettes/NAME.jsonl`.
        snapshot: the file of the rendered prompts; by default `snapshots/NAME.json`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    prompt: str | None = None
    golden: str
    name: str | None = None
    split: Literal["train", "dev", "test", "all"] = "test"
    tags: list[str] = Field(default_factory=list)
    response: str | None = None
    scale: str | dict[str, Any] | None = None
    positive: Any = None
    tolerance: float = Field(default=0.0, ge=0.0, strict=False)
    reason: bool | None = None
    expected: bool = False
    samples: int = Field(default=1, ge=1)
    orders: Literal["both", "given"] = "both"
    ties: bool = True
    model: str | None = None
    sampling: dict[str, Any] = Field(default_factory=dict)
    max_tokens: int | None = Field(default=None, ge=1)
    endpoint: str | None = None
    timeout: float | None = Field(default=None, gt=0.0, strict=False)
    retries: int | None = Field(default=None, ge=0)
    concurrency: int | None = Field(default=None, ge=1)
    thresholds: dict[str, Threshold] = Field(default_factory=dict)
    min_n: int = Field(default=10, ge=1)
    perturbations: dict[str, Threshold | None] = Field(default_factory=dict)
    cassette: str | None = None
    snapshot: str | None = None

    @field_validator("thresholds", mode="before")
    @classmethod
    def _held(cls, given: Any) -> Any:
        return _directed(given, NOT_AT_LEAST)

    @field_validator("perturbations", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return dict.fromkeys(given) if isinstance(given, list) else _directed(given)

    def options(self) -> dict[str, Any]:
        """The options of the judge that the file gives."""
        names = ("model", "max_tokens", "endpoint", "timeout", "retries", "concurrency")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return {**given, "sampling": self.sampling}


@dataclass(frozen=True)
class Suite:
    """A judge, a golden set, and what is asked of the figures.

    Attributes:
        name: for people, and in the names of files.
        subject: what is tested.
        golden: the rows that are judged.
        path: the file of the suite, where there is one.
        response, positive, tolerance, thresholds, min_n, perturbations: as in `SuiteFile`.
        samples: how often each row is asked.
        orders: the orders of each pair; of other rows "given" alone.
        cassette: the store of replies; None for no store but the judge's own.
        snapshot: the file of the rendered prompts; None for none.

    Raises:
        GoldenError: the golden set does not fit the judge.
    """

    name: str
    subject: Subject
    golden: GoldenSet
    path: Path | None = None
    response: str | None = None
    positive: Any = None
    tolerance: float = 0.0
    samples: int = 1
    orders: tuple[Order, ...] = ("given",)
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    min_n: int = 10
    perturbations: Mapping[str, Threshold | None] = field(default_factory=dict)
    cassette: Path | None = None
    snapshot: Path | None = None

    @classmethod
    def of(
        cls,
        judge: Tested | None,
        golden: GoldenSet | str | Path,
        *,
        name: str,
        split: Split | None = "test",
        tags: Iterable[str] = (),
        scale: Scale | None = None,
        orders: Literal["both", "given"] | None = None,
        thresholds: Mapping[str, Any] | None = None,
        perturbations: Iterable[str] | Mapping[str, Any] = (),
        **fields: Any,
    ) -> Suite:
        """A suite of a judge that was built in Python.

        Args:
            judge: what is tested; None where all rows bring verdicts.
            golden: the golden set, or its file.
            name: of the suite.
            split: the rows that are judged; None for all.
            tags: only rows with all of these.
            scale: of the labels, where there is no judge.
            orders: of pairs; by default both.
            thresholds: by name of a figure: a number for at least, or a mapping with at_least, at_most.
            perturbations: names, or names with a threshold for the share of verdicts that flips.
            fields: further attributes.

        Raises:
            GoldenError: the golden set cannot be read or does not fit the judge, or an argument is wrong.
        """
        if unknown := sorted(fields.keys() - cls.__dataclass_fields__.keys()):
            raise GoldenError(f"suite {name}: there is no argument {', '.join(unknown)}")
        subject = Subject(judge, scale)
        on = subject.scale if subject.kind == "labels" or subject.kind is None else None
        whole = golden if isinstance(golden, GoldenSet) else GoldenSet.load(golden, on)
        if isinstance(golden, GoldenSet) and on is not None:
            whole = replace(golden, rows=tuple(_on(golden, row, on) for row in golden))
        chosen = whole.select(split, tags)
        if not len(chosen):
            which = f"the {split} split" if split else "it"
            raise GoldenError(f"{whole.path or name}: no row of {which}{' has all the tags' if tags else ' is there'}")
        if subject.prompt is not None:
            whole.refuse_examples(subject.prompt)
        kind = _kind(chosen, subject)
        _fits(name, kind, chosen, subject.scale, fields)
        if orders is None and isinstance(judge, PairwiseJudge):
            orders = "given" if judge.orders == "given" else "both"
        both = kind == "pairs" and orders != "given"
        try:
            limits = _directed(thresholds or {}, NOT_AT_LEAST)
            held = {each: Threshold.model_validate(given) for each, given in limits.items()}
            named = perturbations if isinstance(perturbations, Mapping) else dict.fromkeys(perturbations)
            limits = _directed(named)
            flips = {each: None if given is None else Threshold.model_validate(given) for each, given in limits.items()}
        except ValidationError as error:
            raise GoldenError(f"suite {name}: {_told(error)}") from None
        except ValueError as error:
            raise GoldenError(f"suite {name}: {error}") from None
        return cls(
            name=name,
            subject=subject,
            golden=chosen,
            orders=("given", "swapped") if both else ("given",),
            thresholds=held,
            perturbations=flips,
            **fields,
        )

    @classmethod
    def load(cls, path: str | Path, *, model: str | None = None, samples: int | None = None) -> Suite:
        """Read a `*.judge.yaml` file.

        Args:
            path: the file.
            model: in place of the file's, and the prompt's.
            samples: in place of the file's.

        Raises:
            GoldenError: it cannot be read, says what is not in `SuiteFile`, or its golden set does not fit the judge.
            JudgeConfigError: the judge cannot be built.
        """
        return cls.read(Path(path), read_suite(Path(path)), model=model, samples=samples)

    @classmethod
    def read(cls, path: Path, said: SuiteFile, *, model: str | None = None, samples: int | None = None) -> Suite:
        """`load`, where the file was read already; what it says need not be all that the suite's own file says."""
        options = said.options()
        if model is not None:
            options["model"] = model
        scale = None if said.scale is None else scale_from(said.scale)
        name = said.name or path.name.removesuffix(ENDING).removesuffix(path.suffix)
        folder = path.parent
        return cls.of(
            None if said.prompt is None else judge_of(folder / said.prompt, said, scale, options),
            folder / said.golden,
            name=name,
            split=None if said.split == "all" else said.split,
            tags=said.tags,
            scale=scale,
            orders=said.orders,
            thresholds=said.thresholds,
            perturbations=said.perturbations,
            path=path,
            response=said.response,
            positive=said.positive,
            tolerance=said.tolerance,
            samples=said.samples if samples is None else samples,
            min_n=said.min_n,
            cassette=folder / (said.cassette or f"cassettes/{name}.jsonl"),
            snapshot=folder / (said.snapshot or f"snapshots/{name}.json"),
        )

    @property
    def files(self) -> list[Path]:
        """What it is read from, and what a run keeps: no report may take their place."""
        prompt = self.subject.prompt
        read = None if prompt is None or prompt.where is None else Path(prompt.where)
        return [file for file in (self.path, read, self.golden.path, self.cassette, self.snapshot) if file is not None]

    @property
    def kind(self) -> Kind:
        """What its rows ask."""
        return _KINDS[self.golden.rows[0].gold_field]

    @cached_property
    def key(self) -> str:
        """What makes two suites one, hashed: name, files, judge, rows, how they are asked, what is asked of them."""
        scale = None if self.subject.scale is None else self.subject.scale.to_dict()
        how = [self.name, self.subject.fingerprint, scale, self.samples, self.orders, self.response, self.positive]
        how += [str(file) for file in (self.path, self.cassette, self.snapshot)]
        held = [[name, str(limit)] for name, limit in [*self.thresholds.items(), *self.perturbations.items()]]
        rows = [row.model_dump(mode="json", exclude_unset=True) for row in self.golden]
        said = json.dumps([how, held, self.min_n, self.tolerance, rows], default=str)
        return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:24]

    def asks(self, row: GoldenRow) -> bool:
        """Whether a model is asked about a row, which brings no verdicts along."""
        return row.reply is None and not row.recorded


def judge_of(path: Path, said: SuiteFile, scale: Scale | None, options: dict[str, Any]) -> Tested:
    """The judge of a prompt file: of pairs where the template shows `first` and `second`, of groups where it shows
    `candidates`.

    Args:
        path: the prompt file.
        said: what a suite says of the judge.
        scale: in place of the prompt's.
        options: of the judge.

    Raises:
        PromptError: the prompt cannot be read.
        JudgeConfigError: the judge cannot be built.
    """
    prompt = Prompt.load(path)
    if {"first", "second"} <= prompt.variables:
        return PairwiseJudge(
            prompt, orders=said.orders, ties=said.ties, reason=said.reason, expected=said.expected, **options
        )
    if "candidates" in prompt.variables:
        reason = True if said.reason is None else said.reason
        return GroupwiseJudge(prompt, scale, reason=reason, **options)
    return Judge(prompt, scale, reason=said.reason, expected=said.expected, **options)


def _kind(golden: GoldenSet, subject: Subject) -> Kind:
    """What all rows ask, and the judge answers."""
    first: Kind | None = subject.kind
    who = {
        "labels": "asks for a label or a score",
        "pairs": "compares pairs, rows with a winner",
        "rankings": "grades groups, rows with a ranking",
    }
    for row in golden:
        kind = _KINDS[row.gold_field]
        if first is None:
            first = kind
        if kind != first:
            told = f"the judge {who[first]}" if subject.kind else "the rows before have others"
            raise GoldenError(f"{golden.place(row.id)}: the row has a {row.gold_field}, and {told}")
        if subject.judge is None and not row.recorded:
            raise GoldenError(
                f"{golden.place(row.id)}: there is no prompt to ask with, and the row has no recorded verdict"
            )
    assert first is not None
    return first


def _on(golden: GoldenSet, row: GoldenRow, scale: Scale) -> GoldenRow:
    try:
        return row.on(scale)
    except GoldenError as error:
        raise GoldenError(f"{golden.place(row.id)}: {error}") from None


def _fits(name: str, kind: Kind, golden: GoldenSet, scale: Scale | None, fields: Mapping[str, Any]) -> None:
    """Refuse fields that mean nothing here: a figure would be missing, and nobody would know why."""
    response, positive, samples = (fields.get(each) for each in ("response", "positive", "samples"))
    if response is not None and kind == "labels" and not any(response in row.inputs for row in golden):
        raise GoldenError(
            f"suite {name}: no row has the input {response!r}, which is to be the response; the first has "
            f"{', '.join(golden.rows[0].inputs)}"
        )
    if fields.get("tolerance") and not (kind == "labels" and isinstance(scale, (Likert, Numeric))):
        raise GoldenError(f"suite {name}: a tolerance is for numbers, on a scale such as Likert or Numeric")
    if positive is not None and (scale is None or kind != "labels" or positive not in (scale.labels or ())):
        raise GoldenError(f"suite {name}: positive is a label of the judge's scale, and {positive!r} is none")
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int) or samples < 1):
        raise GoldenError(f"suite {name}: samples is a whole number from 1, not {samples!r}")


def _directed(given: Any, names: Container[str] | None = None) -> Any:
    """Refuse a number alone, which means at least, where more is no better: it would pass what it is to catch."""
    for name, limit in given.items() if isinstance(given, Mapping) else ():
        alone = isinstance(limit, (int, float)) and not isinstance(limit, bool)
        if alone and (names is None or name in names):
            what = "a share of verdicts that flip" if names is None else "this figure"
            raise ValueError(
                f"{name}: a number alone means at least, and more is no better of {what}: write "
                f"{{at_most: {limit:g}}}, or both at_least and at_most"
            )
    return given


def read_suite(path: Path) -> SuiteFile:
    """What the file of a suite says.

    Raises:
        GoldenError: it cannot be read, or says what is not in `SuiteFile`.
    """
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise GoldenError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise GoldenError(f"{path}{line}: no YAML: {getattr(error, 'problem', None) or error}") from None
    try:
        return SuiteFile.model_validate(data)
    except ValidationError as error:
        raise GoldenError(f"{path}: {_told(error)}") from None


def _told(error: ValidationError) -> str:
    told = []
    for each in error.errors(include_url=False):
        place = ".".join(str(part) for part in each["loc"])
        if each["type"] == "extra_forbidden":
            fields = (SuiteFile if len(each["loc"]) == 1 else Threshold).model_fields
            told.append(f"{place}: there is no such field; the fields are {', '.join(fields)}")
        else:
            told.append(f"{place}: {each['msg'].removeprefix('Value error, ')}" if place else each["msg"])
    return "; ".join(told)
