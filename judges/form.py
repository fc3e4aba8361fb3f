"""Forms: the JSON object a judge is asked for, in words and as a schema, and how it is read.

On the wire the reason comes first and the score after it, so that the score can follow from the reason.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from judges.fence import printable
from judges.scale import ReadError, Scale


class JsonObject(dict[str, Any]):
    """A decoded JSON object that remembers which of its keys stood there more than once."""

    __slots__ = ("repeated",)

    repeated: tuple[str, ...]


def json_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    """`object_pairs_hook` of the decoder."""
    found = JsonObject(pairs)
    counts = Counter(key for key, _ in pairs) if len(pairs) != len(found) else {}
    found.repeated = tuple(key for key, count in counts.items() if count > 1)
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    """What one object says: a label (None for an abstention), the reason, and the steps it cites."""

    label: Any
    reason: str | None = None
    evidence: tuple[int, ...] | None = None


class Form(ABC):
    """The object a reply must hold."""

    schema: dict[str, Any]
    """JSON Schema of the whole reply."""
    instruction: str
    """The same in words. It ends every prompt, so that a model without structured output is told, too; a small model
    follows a form only where it is told last."""
    free_text: bool
    """Whether the object holds words of the judge's own, by which a quotation can be told from an answer."""

    @abstractmethod
    def applies(self, found: JsonObject) -> bool:
        """Whether an object in a reply is meant as the answer at all."""

    @abstractmethod
    def read(self, found: JsonObject) -> Any:
        """The answer that an object gives.

        Raises:
            ReadError: of kind `format`, `out_of_scale` or `ambiguous`.
        """

    @abstractmethod
    def judgement(self, answer: Any) -> Any:
        """The part of an answer in which two objects of one reply must agree."""


class SingleForm(Form):
    """`{"reason": …, "evidence": […], "score": …}`.

    Args:
        scale: what the score may be.
        reason: whether a reason is asked for.
        evidence: the step indexes that may be cited; None where no evidence is asked for.
    """

    def __init__(self, scale: Scale, reason: bool, evidence: Collection[int] | None = None) -> None:
        self.scale, self.reason = scale, reason
        self.evidence = None if evidence is None else frozenset(evidence)
        self.free_text = reason
        example = ['"reason": "<one to three sentences>"'] if reason else []
        example += ['"evidence": [<indexes of the steps that decide it>]'] if evidence is not None else []
        example += [f'"score": {scale.example}']
        meaning = f"The score means: {scale.explained}.\n" if scale.explained else ""
        self.instruction = f"{meaning}Reply with JSON: {{{', '.join(example)}}}"
        properties: dict[str, Any] = {"reason": {"type": "string"}} if reason else {}
        if evidence is not None:
            properties["evidence"] = {"type": "array", "items": {"type": "integer"}}
        self.schema = object_schema({**properties, "score": scale.schema})

    def applies(self, found: JsonObject) -> bool:
        return "score" in found

    def read(self, found: JsonObject) -> Answer:
        if doubled := [key for key in ("reason", "evidence", "score") if key in found.repeated]:
            raise ReadError("ambiguous", f"the key {doubled[0]!r} stands there more than once")
        reason = None
        if self.reason:
            reason = text_of(found, "reason")
        label = self.scale.read(found["score"])
        return Answer(label, reason, None if self.evidence is None else self._cited(found))

    def _cited(self, found: JsonObject) -> tuple[int, ...]:
        assert self.evidence is not None
        cited = found.get("evidence")
        if not isinstance(cited, list):
            raise ReadError("format", 'there is no list "evidence" of step indexes')
        for index in cited:
            if isinstance(index, bool) or not isinstance(index, (int, float)):
                raise ReadError("format", f'"evidence" holds {index!r}, which is no step index')
            if index not in self.evidence:
                raise ReadError("format", f'"evidence" cites step {index}, which is not shown')
        return tuple(dict.fromkeys(map(int, cited)))

    def judgement(self, answer: Answer) -> Any:
        return answer.label, answer.evidence


class KeyedForm(Form):
    """`{"city": {"reason": …, "score": …}, "date": {…}}`: one answer for each of several questions, keyed by id.

    Args:
        scales: what each score may be, by id.
        reason: whether reasons are asked for.
    """

    def __init__(self, scales: Mapping[str, Scale], reason: bool) -> None:
        self.scales, self.reason = dict(scales), reason
        self.free_text = reason
        reasons = '"reason": "<one sentence>", ' if reason else ""
        explained = {key: scale.explained for key, scale in self.scales.items() if scale.explained}
        if len(explained) == len(self.scales) and len(set(explained.values())) == 1:
            meaning = f"Each score means: {next(iter(explained.values()))}.\n"
        else:
            meaning = "".join(f"The score of {_said(key)} means: {text}.\n" for key, text in explained.items())
        example = ", ".join(
            f'{_said(key)}: {{{reasons}"score": {scale.example}}}' for key, scale in self.scales.items()
        )
        self.instruction = f"{meaning}Reply with JSON that has exactly these keys, one answer each: {{{example}}}"
        self.schema = object_schema(
            {
                key: object_schema({**({"reason": {"type": "string"}} if reason else {}), "score": scale.schema})
                for key, scale in self.scales.items()
            }
        )

    def applies(self, found: JsonObject) -> bool:
        return any(key in found for key in self.scales)

    def read(self, found: JsonObject) -> dict[str, Answer]:
        if found.repeated:
            raise ReadError("ambiguous", f"the key {found.repeated[0]!r} stands there more than once")
        missing = [key for key in self.scales if key not in found]
        unknown = [key for key in found if key not in self.scales]
        if missing or unknown:
            told = [f"without an answer: {', '.join(missing)}"] if missing else []
            told += [f"not asked for: {', '.join(unknown)}"] if unknown else []
            raise ReadError("format", f"the keys are not exactly those asked for ({'; '.join(told)})")
        return {key: self._one(key, found[key], scale) for key, scale in self.scales.items()}

    def _one(self, key: str, value: Any, scale: Scale) -> Answer:
        if not isinstance(value, JsonObject) or "score" not in value:
            raise ReadError("format", f'the answer to "{key}" is no object with a score')
        if doubled := [name for name in ("reason", "score") if name in value.repeated]:
            raise ReadError("ambiguous", f'in the answer to "{key}" the key {doubled[0]!r} stands more than once')
        try:
            return Answer(scale.read(value["score"]), text_of(value, "reason") if self.reason else None)
        except ReadError as error:
            raise ReadError(error.kind, f'the answer to "{key}": {error.message}') from None

    def judgement(self, answer: Mapping[str, Answer]) -> Any:
        return {key: one.label for key, one in answer.items()}


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with just these properties, all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def text_of(found: Mapping[str, Any], key: str) -> str:
    """A text under a key."""
    value = found.get(key)
    if not isinstance(value, str):
        raise ReadError("format", f'there is no text "{key}"')
    return printable(value)


def _said(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
