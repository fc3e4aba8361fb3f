"""Scales: what a judge may answer, how that is said to the model, checked, and mapped to [0, 1].

No scale coerces. `true` is no grade, `"4"` is no number, 2.5 is not on a scale of whole numbers.
"""

from __future__ import annotations

import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import isfinite
from typing import Any, ClassVar

from judges.verdict import FailureKind, JudgeConfigError

_ENUM = 20  # whole-number scales up to this size are listed in the schema: more providers hold to that than to bounds
_SPELLED = 10  # those up to this size are spelled out in the prompt
_FEW = 1000  # labels that can be told apart by their tokens


class ReadError(Exception):
    """A reply, or a part of it, is not what was asked for.

    Attributes:
        kind: the kind of failure it is.
    """

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.message = message


class Scale(ABC):
    """What may be answered. Subclasses give the wording, the schema, the validation and the map to [0, 1].

    Args:
        abstain: whether `null` may be answered, for "this cannot be assessed"; the node is then unscored.
    """

    kind: ClassVar[str]

    def __init__(self, *, abstain: bool = False) -> None:
        if not isinstance(abstain, bool):
            raise JudgeConfigError(f"{type(self).__name__}: abstain is True or False, not {abstain!r}")
        self.abstain = abstain

    @property
    @abstractmethod
    def wording(self) -> str:
        """What the score may be, in few words: small models follow an example better than a description."""

    @property
    @abstractmethod
    def value_schema(self) -> dict[str, Any]:
        """JSON Schema of a score, abstention left out."""

    @abstractmethod
    def check(self, value: Any) -> Any:
        """The label that a decoded JSON value stands for.

        Raises:
            ReadError: of kind `format` (another type) or `out_of_scale`.
        """

    @abstractmethod
    def normalise(self, label: Any) -> float:
        """A label's place in [0, 1]."""

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels, where they are few enough to be told apart by their tokens; empty for a continuous scale."""
        return ()

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of a score."""
        schema = self.value_schema
        return {"anyOf": [schema, {"type": "null"}]} if self.abstain else schema

    @property
    def example(self) -> str:
        """What stands in the place of the score in the form a model is shown."""
        shown = self.wording if self.labels else f"<{self.wording}>"
        return f"{shown} or null" if self.abstain else shown

    @property
    def explained(self) -> str:
        """What the labels mean, in words for the model; empty where nothing was said of them."""
        said = [*self._meanings(), *(["null: it cannot be assessed"] if self.abstain else [])]
        return "; ".join(said)

    def _meanings(self) -> list[str]:
        return []

    def read(self, value: Any) -> Any:
        """The label that a decoded JSON value stands for; None for an abstention.

        Raises:
            ReadError: of kind `format` or `out_of_scale`.
        """
        if value is None:
            if self.abstain:
                return None
            raise ReadError("format", f"the score is null; it must be {self.wording}")
        return self.check(value)

    def score(self, label: Any) -> float | None:
        """A label's place in [0, 1]; None for an abstention."""
        return None if label is None else self.normalise(label)

    def to_dict(self) -> dict[str, Any]:
        """The scale as data, which `scale_from` reads."""
        return {"type": self.kind, **self._fields(), **({"abstain": True} if self.abstain else {})}

    @abstractmethod
    def _fields(self) -> dict[str, Any]: ...

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        fields = {**self._fields(), **({"abstain": True} if self.abstain else {})}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


class Binary(Scale):
    """Yes or no: a JSON boolean. True is 1, False is 0.

    Args:
        true, false: what the two mean, in words for the model.
        abstain: whether `null` may be answered.
    """

    kind = "binary"

    def __init__(self, true: str | None = None, false: str | None = None, *, abstain: bool = False) -> None:
        super().__init__(abstain=abstain)
        for text in (true, false):
            if text is not None and not isinstance(text, str):
                raise JudgeConfigError(f"Binary: true and false are said in words, not {text!r}")
        self.true, self.false = true, false

    @property
    def wording(self) -> str:
        return "true or false"

    def _meanings(self) -> list[str]:
        return [f"{label}: {text}" for label, text in (("true", self.true), ("false", self.false)) if text]

    @property
    def value_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    @property
    def labels(self) -> tuple[bool, ...]:
        return (True, False)

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ReadError("format", f"the score is {_shown(value)}; it must be the JSON value true or false")
        return value

    def normalise(self, label: bool) -> float:
        return 1.0 if label else 0.0

    def _fields(self) -> dict[str, Any]:
        return {name: text for name, text in (("true", self.true), ("false", self.false)) if text is not None}


class Likert(Scale):
    """Whole numbers from `low` to `high`, spaced evenly over [0, 1].

    Args:
        low, high: the ends, low < high.
        anchors: what some of the numbers mean, in words for the model; the keys may be texts, as JSON has them.
        abstain: whether `null` may be answered.
    """

    kind = "likert"

    def __init__(
        self, low: int = 1, high: int = 5, anchors: Mapping[int, str] | None = None, *, abstain: bool = False
    ) -> None:
        super().__init__(abstain=abstain)
        for name, value in (("low", low), ("high", high)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise JudgeConfigError(f"Likert: {name} is a whole number, not {value!r}")
        if low >= high:
            raise JudgeConfigError(f"Likert: low must be below high, got {low} and {high}")
        self.low, self.high = low, high
        found: dict[int, str] = {}
        key: Any
        for key, meaning in _texts(anchors, "Likert: anchors").items():
            number = int(key) if isinstance(key, str) and re.fullmatch("-?[0-9]+", key) else key
            if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
                raise JudgeConfigError(f"Likert: an anchor for {key!r}, which is not on the scale {low} to {high}")
            found[number] = meaning
        self.anchors = dict(sorted(found.items()))

    @property
    def wording(self) -> str:
        if self.high - self.low < _SPELLED:
            return _either([str(label) for label in self.labels])
        return f"a whole number from {self.low} to {self.high}"

    def _meanings(self) -> list[str]:
        anchors = self.anchors or {self.low: "lowest", self.high: "highest"}
        return [f"{number}: {meaning}" for number, meaning in sorted(anchors.items())]

    @property
    def value_schema(self) -> dict[str, Any]:
        if self.high - self.low < _ENUM:
            return {"type": "integer", "enum": list(self.labels)}
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    @property
    def labels(self) -> tuple[int, ...]:
        return tuple(range(self.low, self.high + 1)) if self.high - self.low < _FEW else ()

    def check(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ReadError("format", f"the score is {_shown(value)}; it must be {self.wording}")
        if not isfinite_number(value) or value != int(value) or not self.low <= value <= self.high:
            raise ReadError("out_of_scale", f"the score is {_shown(value)}; it must be {self.wording}")
        return int(value)

    def normalise(self, label: int) -> float:
        return (label - self.low) / (self.high - self.low)

    def _fields(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high, **({"anchors": self.anchors} if self.anchors else {})}


class Numeric(Scale):
    """A number from `low` to `high`.

    Args:
        low, high: the ends, low < high.
        abstain: whether `null` may be answered.
    """

    kind = "numeric"

    def __init__(self, low: float = 0.0, high: float = 1.0, *, abstain: bool = False) -> None:
        super().__init__(abstain=abstain)
        for name, value in (("low", low), ("high", high)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite_number(value):
                raise JudgeConfigError(f"Numeric: {name} is a finite number, not {value!r}")
        if low >= high:
            raise JudgeConfigError(f"Numeric: low must be below high, got {low} and {high}")
        self.low, self.high = float(low), float(high)
        if not isfinite(self.high - self.low):
            raise JudgeConfigError(f"Numeric: {low} and {high} are too far apart")

    @property
    def wording(self) -> str:
        low, high = (repr(end).removesuffix(".0") for end in (self.low, self.high))
        return f"a number from {low} (lowest) to {high} (highest)"

    @property
    def value_schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.low, "maximum": self.high}

    def check(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ReadError("format", f"the score is {_shown(value)}; it must be {self.wording}")
        if not isfinite_number(value) or not self.low <= value <= self.high:
            raise ReadError("out_of_scale", f"the score is {_shown(value)}; it must be {self.wording}")
        return value

    def normalise(self, label: float) -> float:
        return min(max(0.0, (label - self.low) / (self.high - self.low)), 1.0)

    def _fields(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}


class Choice(Scale):
    """One of several labels, compared after NFKC, strip and casefold.

    Args:
        options: each label's score in [0, 1].
        meanings: what some of the labels mean, in words for the model.
        abstain: whether `null` may be answered.
    """

    kind = "choice"

    def __init__(
        self, options: Mapping[str, float], meanings: Mapping[str, str] | None = None, *, abstain: bool = False
    ) -> None:
        super().__init__(abstain=abstain)
        if not isinstance(options, Mapping) or len(options) < 2:
            raise JudgeConfigError(f"Choice takes a mapping of two or more labels to scores, not {options!r}")
        self.options: dict[str, float] = {}
        self._by_folded: dict[str, str] = {}
        for label, score in options.items():
            if not isinstance(label, str) or not folded(label):
                raise JudgeConfigError(f"Choice: a label is a text with something in it, not {label!r}")
            if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0.0 <= score <= 1.0:
                raise JudgeConfigError(f"Choice: the score of {label!r} must be in [0, 1], got {score!r}")
            if folded(label) in self._by_folded:
                other = self._by_folded[folded(label)]
                raise JudgeConfigError(f"Choice: {label!r} and {other!r} are one label: letter case does not count")
            self.options[label] = float(score)
            self._by_folded[folded(label)] = label
        meanings = _texts(meanings, "Choice: meanings")
        if unknown := [label for label in meanings if label not in self.options]:
            raise JudgeConfigError(f"Choice: meanings of labels that are not options: {unknown}")
        self.meanings = {label: meanings[label] for label in self.options if label in meanings}

    @property
    def wording(self) -> str:
        return _either([json.dumps(label, ensure_ascii=False) for label in self.options])

    def _meanings(self) -> list[str]:
        return [f"{json.dumps(label, ensure_ascii=False)}: {meaning}" for label, meaning in self.meanings.items()]

    @property
    def value_schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.options)}

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.options)

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ReadError("format", f"the score is {_shown(value)}; it must be {self.wording}")
        label = self._by_folded.get(folded(value))
        if label is None:
            raise ReadError("out_of_scale", f"the score is {_shown(value)}; it must be {self.wording}")
        return label

    def normalise(self, label: str) -> float:
        return self.options[label]

    def _fields(self) -> dict[str, Any]:
        return {"options": self.options, **({"meanings": self.meanings} if self.meanings else {})}


SCALES: dict[str, type[Scale]] = {scale.kind: scale for scale in (Binary, Likert, Numeric, Choice)}


def scale_from(data: Any) -> Scale:
    """A scale out of data: `{"type": "likert", "low": 1, "high": 5}`, or a type alone, such as `"binary"`.

    Raises:
        JudgeConfigError: there is no such scale, or its fields do not fit.
    """
    if isinstance(data, Scale):
        return data
    fields = {"type": data} if isinstance(data, str) else data
    if not isinstance(fields, Mapping) or fields.get("type") not in list(SCALES):
        raise JudgeConfigError(f"a scale is one of {', '.join(SCALES)}, as {{type: …, and its fields}}; got {data!r}")
    scale = SCALES[fields["type"]]
    try:
        # A bare `true:` is a boolean in YAML, also as a key.
        named = {json.dumps(name) if isinstance(name, bool) else str(name): value for name, value in fields.items()}
        made: Scale = scale(**{name: value for name, value in named.items() if name != "type"})  # type: ignore[arg-type]
        return made
    except (TypeError, AttributeError) as error:
        raise JudgeConfigError(f"scale {fields['type']}: {error}") from None


def _texts(given: Any, what: str) -> Mapping[Any, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise JudgeConfigError(f"{what} are a mapping of labels to texts, not {given!r}")
    return given


def _either(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def folded(text: str) -> str:
    """A label as it is compared."""
    return unicodedata.normalize("NFKC", text).strip().casefold()


def isfinite_number(value: float) -> bool:
    """Whether a number is finite as a float; a whole number may be too large for one."""
    try:
        return isfinite(value)
    except OverflowError:
        return False


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."
