"""Golden sets: cases with the answer that people gave, against which a judge is tested.

A file is JSONL, one row a line, or YAML, a list of rows. A row is

```yaml
- id: rude-07
  inputs: {reply: "Read the manual."}   # the values of the prompt's variables
  label: false                          # or score, winner, ranking: exactly one of them
  annotators: {ann: false, ben: false}  # what each person said; or a list of as many for each row
  split: test                           # train, dev or test; test where nothing is said
  tags: [short]
  source: written for this set
  must: true                            # a disagreement on this row fails, however good the judge is otherwise
```

`label` and `score` are values on the judge's scale, `winner` is a, b or tie, `ranking` the candidates from the best, by
their names or, where they are a list, their numbers from 0.
Two further fields let a row take part without a model: `reply`, a reply in the form that a judge asks for, which tests
the extractor alone, and `recorded`, verdicts that were read elsewhere: a list of `{order: given | swapped, label: …}`
or `{order: …, failure: KIND}`; several of one order are samples.

Few-shot examples of a prompt must come from the train split: `GoldenSet.refuse_examples`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from judges.prompt import Prompt
from judges.scale import ReadError, Scale
from judges.verdict import FailureKind, JudgeFailure, Verdict
from rubrics.score import RubricError

Split = Literal["train", "dev", "test"]
Gold = Literal["label", "score", "winner", "ranking"]
_GOLD: tuple[Gold, ...] = ("label", "score", "winner", "ranking")
WINNERS = ("a", "b", "tie")
_SHOWN = 10  # problems named in one message


class GoldenError(RubricError, ValueError):
    """A golden set cannot be read, does not fit the judge, or has lent its test rows to the prompt."""


def _given(value: Any) -> Any:
    if value is None:
        raise ValueError("a gold value is not null; leave the row out where people could not tell")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("a gold value is finite")
    return value


def _text(value: str) -> str:
    if any("\ud800" <= each <= "\udfff" for each in value):
        raise ValueError("an id is text, and half a surrogate pair is none")
    return value


def _ranking(value: list[str | int] | None) -> list[str | int] | None:
    if value is None or len(value) < 2 or len(set(value)) < len(value):
        raise ValueError("a ranking lists two or more candidates from the best, each once")
    return value


def index_of(name: str | int, candidates: Any) -> int:
    """The index of a candidate by its name, or by its number.

    Raises:
        ValueError: there is no such candidate, or candidates are neither a mapping nor a list.
    """
    if not isinstance(candidates, (Mapping, list, tuple)):
        raise ValueError(f"candidates are a list or a mapping, not {candidates!r}")
    # A name that YAML takes for a number is a text once it was in JSON.
    names = [str(each) for each in (candidates if isinstance(candidates, Mapping) else range(len(candidates)))]
    if str(name) not in names:
        raise ValueError(f"the ranking names {name!r}, which is no candidate; there are {', '.join(names)}")
    return names.index(str(name))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Recorded(_Strict):
    """A verdict on a row that was read elsewhere.

    Attributes:
        order: of a pair: whether the candidates were shown as given, or swapped.
        label: what was answered, in terms of the row's own candidates whatever the order; null for an abstention.
        failure: the kind of failure, where there was no verdict.
    """

    order: Literal["given", "swapped"] = "given"
    label: Any = None
    failure: FailureKind | None = None

    @model_validator(mode="after")
    def _one(self) -> Recorded:
        if ("label" in self.model_fields_set) == (self.failure is not None):
            raise ValueError("a recorded verdict has a label or a failure, and not both")
        return self

    def answer(self, scale: Scale | None = None) -> Verdict | JudgeFailure:
        """As a judge would have given it. Without a scale the score of a label is that of a winner, a before b.

        Raises:
            GoldenError: the label has no score.
        """
        if self.failure is not None:
            return JudgeFailure(self.failure, "recorded in the golden set")
        try:
            label = self.label if scale is None else scale.read(self.label)
        except ReadError as error:
            raise GoldenError(f"recorded {self.label!r}: {error.message}") from None
        if scale is not None or label is None:
            return Verdict(None if scale is None else scale.score(label), label)
        if label not in WINNERS:
            raise GoldenError(f"recorded {label!r} has no score without a scale: give the judge's")
        return Verdict({"a": 1.0, "tie": 0.5, "b": 0.0}[label], label)


class GoldenRow(_Strict):
    """A case and the right answer. The fields are those of the module's description.

    Raises:
        ValidationError: (pydantic's) a field is unknown or of the wrong type, or there is not exactly one gold value.
    """

    id: Annotated[
        str, BeforeValidator(lambda id: str(id) if type(id) is int else id), Field(min_length=1), AfterValidator(_text)
    ]
    inputs: dict[str, Any] = Field(min_length=1)
    label: Annotated[Any, AfterValidator(_given)] = None
    score: Annotated[int | float | None, AfterValidator(_given)] = None
    winner: Annotated[Literal["a", "b", "tie"] | None, AfterValidator(_given)] = None
    ranking: Annotated[list[str | int] | None, AfterValidator(_ranking)] = None
    annotators: dict[str, Any] | list[Any] = Field(default_factory=list)
    split: Split = "test"
    tags: list[str] = Field(default_factory=list)
    source: str | None = None
    must: bool = False
    reply: str | None = None
    recorded: list[Recorded] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_gold(self) -> GoldenRow:
        found = [name for name in _GOLD if name in self.model_fields_set]
        if len(found) != 1:
            raise ValueError(f"a row has exactly one of {', '.join(_GOLD)}; this has {' and '.join(found) or 'none'}")
        if found == ["ranking"] and "candidates" in self.inputs:
            for name in self.ranking or ():
                index_of(name, self.inputs["candidates"])
        if found == ["winner"]:
            said = list(self.annotators.values() if isinstance(self.annotators, dict) else self.annotators)
            for value in [*said, *(each.label for each in self.recorded)]:
                if value is not None and value not in WINNERS:
                    raise ValueError(f"{value!r} is not a, b or tie, as is all that is said of a row with a winner")
        return self

    @property
    def gold_field(self) -> Gold:
        """Which gold value it has."""
        return next(name for name in _GOLD if name in self.model_fields_set)

    @property
    def gold(self) -> Any:
        """The right answer."""
        return getattr(self, self.gold_field)

    def on(self, scale: Scale) -> GoldenRow:
        """The row with its values as labels of a scale: 4.0 becomes 4 on a Likert scale, "good" the "Good" of a choice.

        Rows with a winner or a ranking come back as they are.

        Raises:
            GoldenError: one is not on the scale; it names the field.
        """
        if self.gold_field in ("winner", "ranking"):
            return self

        def read(value: Any, name: str) -> Any:
            try:
                return scale.read(value)
            except ReadError as error:
                raise GoldenError(f"{name}: {error.message}") from None

        people = self.annotators
        update = {
            self.gold_field: read(self.gold, self.gold_field),
            "annotators": {name: _unless_none(read, each, f"annotators.{name}") for name, each in people.items()}
            if isinstance(people, dict)
            else [_unless_none(read, each, f"annotators.{place}") for place, each in enumerate(people)],
            "recorded": [
                each if each.failure else each.model_copy(update={"label": read(each.label, f"recorded.{place}.label")})
                for place, each in enumerate(self.recorded)
            ],
        }
        return self.model_copy(update=update)


def _unless_none(read: Callable[[Any, str], Any], value: Any, name: str) -> Any:
    return None if value is None else read(value, name)  # null: this person did not say


@dataclass(frozen=True)
class GoldenSet:
    """Rows with different ids, in the order of their file.

    Attributes:
        rows: the rows.
        path: their file, where there is one.
        lines: by id, the line on which a row begins.
    """

    rows: tuple[GoldenRow, ...]
    path: Path | None = None
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, path: str | Path, scale: Scale | None = None) -> GoldenSet:
        """Read a file: YAML if it is called `.yaml` or `.yml`, else JSONL.

        Args:
            path: the file.
            scale: the judge's, against which labels and scores are checked (see `GoldenRow.on`).

        Raises:
            GoldenError: it cannot be read, holds no row, or rows are wrong or share an id; it names file and lines.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise GoldenError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        reader = _yaml_rows if path.suffix.lower() in (".yaml", ".yml") else _json_rows
        rows: list[GoldenRow] = []
        lines: dict[str, int] = {}
        problems: list[str] = []
        for line, data in reader(text, path):
            try:
                row = GoldenRow.model_validate(data)
                row = row if scale is None else row.on(scale)
            except ValidationError as error:
                problems += [f"{path}:{line}: {_told(each)}" for each in error.errors(include_url=False)]
                continue
            except GoldenError as error:
                problems.append(f"{path}:{line}: {error}")
                continue
            if row.id in lines:
                problems.append(
                    f"{path}:{line}: the id {row.id!r} is that of line {lines[row.id]}; give each row its own"
                )
            else:
                lines[row.id] = line
                rows.append(row)
        if problems:
            more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
            raise GoldenError("\n".join([*problems[:_SHOWN], *more]))
        if not rows:
            raise GoldenError(f"{path}: the golden set has no rows")
        return cls(tuple(rows), path, lines)

    def __iter__(self) -> Iterator[GoldenRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, id: str) -> GoldenRow:
        return self._by_id[id]

    @cached_property
    def _by_id(self) -> dict[str, GoldenRow]:
        return {row.id: row for row in self.rows}

    def select(self, split: Split | None = None, tags: Iterable[str] = ()) -> GoldenSet:
        """The rows of a split, and with all of some tags."""
        wanted = set(tags)
        rows = (row for row in self.rows if split in (None, row.split) and wanted <= set(row.tags))
        return GoldenSet(tuple(rows), self.path, self.lines)

    def place(self, id: str) -> str:
        """Where a row stands: file and line."""
        where = [str(self.path)] if self.path else []
        return ":".join([*where, *([str(self.lines[id])] if id in self.lines else [])]) or f"row {id!r}"

    def ratings(self) -> list[list[Any]]:
        """What people said, shape (raters, rows), None where one did not: for `krippendorff_alpha`."""
        return ratings_of(self.rows)

    def refuse_examples(self, prompt: Prompt) -> None:
        """Refuse a prompt whose few-shot examples come from the dev or the test split: it has seen the answers.

        An example is that of a row if the inputs that both have are equal, but for letter case and white space, and one
        of them has no others.

        Raises:
            GoldenError: an example does; it names both.
        """
        examples = [_plain(example["inputs"]) for example in prompt.examples]
        held_out = [(row, _plain(row.inputs)) for row in self.rows if row.split != "train"] if examples else []
        for number, example in enumerate(examples):
            for row, inputs in held_out:
                shared = example.keys() & inputs.keys()
                if len(shared) not in (len(example), len(inputs)) or not shared:
                    continue
                if all(example[name] == inputs[name] for name in shared):
                    raise GoldenError(
                        f"{prompt.where or 'the prompt'}: example {number} is row {row.id!r} of the {row.split} split "
                        f"({self.place(row.id)}); take examples from the train split, or the test measures memory"
                    )


def ratings_of(rows: Iterable[GoldenRow]) -> list[list[Any]]:
    """What people said of rows, shape (raters, rows), None where one did not."""
    said = [row.annotators for row in rows]
    people: list[dict[Any, Any]] = [each if isinstance(each, dict) else dict(enumerate(each)) for each in said]
    names = dict.fromkeys(name for each in people for name in each)
    return [[each.get(name) for each in people] for name in names]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return " ".join(unicodedata.normalize("NFKC", value).casefold().split()) if isinstance(value, str) else value


def _told(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        fields = Recorded.model_fields if place.startswith("recorded.") else GoldenRow.model_fields
        return f"{place}: there is no such field; the fields are {', '.join(fields)}"
    message = str(error["msg"]).removeprefix("Value error, ")
    got = "" if error["type"] in ("value_error", "missing") else f", got {str(error['input'])[:60]!r}"
    return f"{place}: {message}{got}" if place else message


# -- files ------------------------------------------------------------------------------------------------------------


def _json_rows(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    decoder = json.JSONDecoder(object_pairs_hook=_no_key_twice, parse_constant=_no_constant)
    for line, row in enumerate(text.split("\n"), start=1):
        if not row.strip():
            continue
        try:
            yield line, decoder.decode(row.strip())
        except (ValueError, RecursionError) as error:
            raise GoldenError(f"{path}:{line}: no JSON: {error}") from None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value; null stands for what is missing")


def _yaml_rows(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    import yaml

    Fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def refused(loader: Any, node: Any) -> Any:
        kind = node.tag.rpartition(":")[2]
        problem = f"a {kind} is no value of a row; write a list, or a text"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

    class Loader(Fast):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names: set[str] = set()
            for key, _ in node.value:
                if (name := repr(key.value)) in names:
                    problem = f"the key {key.value!r} stands there twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                names.add(name)
            return super().construct_mapping(node, deep)

    for kind in ("set", "binary"):  # the one has no order, and is another text in each process; the other is no text
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", refused)
    try:
        loader = Loader(text)
        root = loader.get_single_node()
        if root is None:
            return
        if not isinstance(root, yaml.SequenceNode):
            raise GoldenError(f"{path}:{root.start_mark.line + 1}: a golden set in YAML is a list of rows")
        for node in root.value:
            row, line = loader.construct_document(node), node.start_mark.line + 1
            try:
                json.dumps(row, default=str)
            except (TypeError, ValueError, RecursionError) as error:  # it holds itself, or has a date for a key
                raise GoldenError(f"{path}:{line}: the row has no JSON form: {error}") from None
            yield line, row
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: the 32nd of a month
        if isinstance(error, GoldenError):
            raise
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise GoldenError(f"{path}{line}: no YAML: {getattr(error, 'problem', None) or error}") from None
