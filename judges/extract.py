"""From the text of a reply to an answer: one extractor for every judge.

Reasoning blocks are left out, fences and prose around the object are fine, and objects are decoded by a real JSON
decoder. Only outermost objects count: an inner object of a reply that was cut is no verdict. An object that stands word
for word in something that was to be judged is a quotation. There is no hunting for numbers in prose.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from judges.form import Form, JsonObject, json_object
from judges.scale import ReadError

_REASONING = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "◁think▷": "◁/think▷",
    "[THINK]": "[/THINK]",
    "<|start_thinking|>": "<|end_thinking|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|channel|>analysis<|message|>": "<|end|>",
}
_CLOSING = {end.lower() for end in _REASONING.values()} - {"<|end|>"}  # with which other models end every message
_OPENING = {start.lower(): re.compile(re.escape(end), re.IGNORECASE) for start, end in _REASONING.items()}
_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u200c\u200d\u2060"), None)
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"'})
# What was meant as an object, well written or not: a brace, then a key. A brace in prose or code is none.
_OBJECT = r"""\{[\s\ufeff\u200b\u200c\u200d\u2060]*+(?:["'“”„«»]|\w++\s*+:)"""
_MARK = re.compile("|".join([_OBJECT, *map(re.escape, [*_OPENING, *_CLOSING])]), re.IGNORECASE)
# A string, closed or not, a brace, or the end of reasoning.
_NESTING = re.compile("|".join([r'"(?:[^"\\]++|\\.?)*+"?|[{}]', *map(re.escape, _CLOSING)]), re.DOTALL | re.IGNORECASE)
_JSON_OBJECT = re.compile(r'\{\s*"')
_SPACE = re.compile(r"\s*")
_WHITE = re.compile(r"\s+")
_FENCE = re.compile(r"```\w*")
_LIMIT = 100  # so many objects that cannot be read, or that could be the answer, are no reply to a question

_decoder = json.JSONDecoder(object_pairs_hook=json_object, strict=False)


@dataclass(frozen=True, slots=True)
class Extracted:
    """An answer and where it stood: `source[start:end]` is the object, in the reply or in its normalised form."""

    answer: Any
    source: str
    start: int
    end: int


def extract(text: str, form: Form, untrusted: Sequence[str] = ()) -> Extracted:
    """Read the answer out of a reply.

    Args:
        text: the reply.
        form: what it was asked to be.
        untrusted: the values that were to be judged, as they stood in the prompt.

    Raises:
        ReadError: of kind `empty`, `format`, `out_of_scale` or `ambiguous`.
    """
    if not text.strip():
        raise ReadError("empty", "the reply is empty")
    values = [value for value in untrusted if "{" in value]
    found = _answers(text, form, values)
    if found is None:
        normalised = _normalised(text)
        if normalised != text:
            found = _answers(normalised, form, list(map(_normalised, values)))
    if found is None:
        raise ReadError("format", "the reply holds no JSON object of the form that was asked for")
    return found


def _answers(text: str, form: Form, untrusted: Sequence[str]) -> Extracted | None:
    """The one answer of a text; None where there is no object that could be one."""
    answers: list[Extracted] = []
    problems: list[ReadError] = []
    quotations = 0
    objects, begin = _outermost(text)
    candidates = [found for found in objects if form.applies(found[2])]
    if len(candidates) > _LIMIT:
        raise ReadError("ambiguous", f"the reply gives more than {_LIMIT} answers")
    squeezed = [_WHITE.sub("", value) for value in untrusted] if candidates else []
    for start, end, value in candidates:
        if _quoted(text, start, end, squeezed) and (form.free_text or not _is_whole(text, begin, start, end)):
            quotations += 1
            continue
        try:
            answers.append(Extracted(form.read(value), text, start, end))
        except ReadError as problem:
            problems.append(problem)
    telling = [problem for problem in problems if problem.kind != "format"]
    if answers and not telling:
        judgements = [form.judgement(found.answer) for found in answers]
        if any(judgement != judgements[0] for judgement in judgements[1:]):
            raise ReadError("ambiguous", f"the reply gives {len(answers)} answers that differ")
        return answers[-1]
    if answers or len(telling) > 1:
        raise ReadError("ambiguous", "the reply gives several answers, and not all of them can be read")
    if problems:
        raise (telling or problems)[0]
    if quotations:
        raise ReadError("format", "the reply only repeats an object from what was to be judged")
    return None


def _quoted(text: str, start: int, end: int, squeezed: Sequence[str]) -> bool:
    """Whether an object stands in one of these values, which have no white space: the model may lay it out anew."""
    source = _WHITE.sub("", text[start:end])
    return any(source in value for value in squeezed)


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_INVISIBLE)).translate(_QUOTES)


def _is_whole(text: str, begin: int, start: int, end: int) -> bool:
    """Whether an object is all of a reply but its reasoning, which ends at `begin`.

    A bare score is then the answer, also where it could be a quotation: anything that holds the text `{"score": 1}`
    could keep every judge from answering otherwise.
    """
    return not _FENCE.sub("", f"{text[begin:start]} {text[end:]}").strip()


def _outermost(text: str) -> tuple[list[tuple[int, int, JsonObject]], int]:
    """The outermost JSON objects of a text outside its reasoning, each with its span, and where the reasoning ends.

    Where the text ends within an object or within reasoning, it was cut, and what stood before it is no answer either.
    """
    found: list[tuple[int, int, JsonObject]] = []
    at = begin = broken = 0
    while mark := _MARK.search(text, at):
        token = mark.group().lower()
        if token in _CLOSING:  # what stood before it was reasoning, whose beginning was in the prompt
            found.clear()
            at = begin = mark.end()
        elif token in _OPENING:
            close = _OPENING[token].search(text, mark.end())
            if close is None:
                return [], begin
            at = begin = close.end()
        else:
            start = mark.start()
            try:
                value, at = _decoder.raw_decode(text, start)
                found.append((start, at, value))
            except (ValueError, RecursionError):  # ValueError: also a number of thousands of digits
                broken += 1
                if broken > _LIMIT:
                    raise ReadError("format", "the reply holds too many objects that cannot be read") from None
                past = _past(text, start)
                if past is not None:
                    at = past
                elif _JSON_OBJECT.match(text, start):
                    raise ReadError("format", "the reply ends within a JSON object") from None
                else:
                    return [], begin
    return found, begin


def _past(text: str, start: int) -> int | None:
    """Where to look on after an object one cannot read: nothing within it counts. None where the text ends before."""
    depth = 0
    for part in _NESTING.finditer(text, start):
        if part[0] in "{}":
            depth += 1 if part[0] == "{" else -1
            if depth == 0:
                return part.end()
        elif part[0][0] != '"':
            return part.start()  # it was reasoning all along
    return None


def value_offset(source: str, start: int, key: str) -> int:
    """Where in a JSON object, which begins at `start`, the value of a key begins.

    Args:
        source: text that holds a valid object.
        start: the index of its opening brace.
        key: one of its keys.

    Returns:
        An index into `source`.
    """
    at = _skip(source, start + 1)
    while source[at] == '"':
        name, at = scanstring(source, at + 1, False)
        at = _skip(source, _skip(source, at) + 1)  # past the colon
        if name == key:
            return at
        _, at = _decoder.raw_decode(source, at)
        at = _skip(source, at)
        at = _skip(source, at + 1) if source[at] == "," else at
    raise KeyError(key)


def _skip(source: str, at: int) -> int:
    match = _SPACE.match(source, at)
    return at if match is None else match.end()
