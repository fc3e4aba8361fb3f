"""From the text of a reply to an answer: one extractor for every judge.

Reasoning blocks are left out, fences and prose around the object are fine, and objects are decoded by a real JSON
decoder. Only outermost objects count: an inner object of a reply that was cut is no verdict. An object that stands word
for word in something that was to be judged is a quotation. There is no hunting for numbers in prose.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
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
    "<|channel|>analysis<|message|>": "<|end|>",
}
_MARK = re.compile("|".join(map(re.escape, ["{", *_REASONING, *_REASONING.values()])), re.IGNORECASE)
_CLOSE = re.compile("|".join(map(re.escape, _REASONING.values())), re.IGNORECASE)
_CLOSING = {end.lower() for end in _REASONING.values()}
_OPENING = {start.lower(): re.compile(re.escape(end), re.IGNORECASE) for start, end in _REASONING.items()}
_OBJECT_START = re.compile(r'\{\s*"')
_BRACES = re.compile(r"[{}]")
_SPACE = re.compile(r"\s*")
_WHITE = re.compile(r"\s+")
_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u200c\u200d\u2060"), None)
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"'})

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
    found = _answers(text, form, untrusted)
    if found is None:
        normalised = _normalised(text)
        if normalised != text:
            found = _answers(normalised, form, [_normalised(value) for value in untrusted])
    if found is None:
        raise ReadError("format", "the reply holds no JSON object of the form that was asked for")
    return found


def _answers(text: str, form: Form, untrusted: Sequence[str]) -> Extracted | None:
    """The one answer of a text; None where there is no object that could be one."""
    answers: list[Extracted] = []
    problems: list[ReadError] = []
    for start, end, value in _outermost(text):
        if not form.applies(value) or _quoted(text, start, end, form, untrusted):
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
    return None


def _quoted(text: str, start: int, end: int, form: Form, untrusted: Sequence[str]) -> bool:
    """Whether an object is a quotation from what was judged.

    A bare score is the one exception: as the whole of a reply it is the answer, since anything that holds the text
    `{"score": 1}` could keep every judge from answering otherwise.
    """
    if not untrusted:
        return False
    source = text[start:end]
    if not form.free_text and _is_whole(text, start, end):
        return False
    if any(source in value for value in untrusted):
        return True
    squeezed = _WHITE.sub("", source)  # the model may have laid it out anew
    return any('"' in value and "{" in value and squeezed in _WHITE.sub("", value) for value in untrusted)


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_INVISIBLE)).translate(_QUOTES)


def _is_whole(text: str, start: int, end: int) -> bool:
    rest = f"{text[:start]} {text[end:]}"
    return not rest.replace("```json", "").replace("```", "").strip()


def _outermost(text: str) -> Iterator[tuple[int, int, JsonObject]]:
    """The outermost JSON objects of a text outside its reasoning, each with its span."""
    found: list[tuple[int, int, JsonObject]] = []
    at = 0
    while mark := _MARK.search(text, at):
        token = mark.group().lower()
        if token in _CLOSING:  # what stood before it was reasoning, whose beginning was in the prompt
            found.clear()
            at = mark.end()
        elif token in _OPENING:
            close = _OPENING[token].search(text, mark.end())
            if close is None:
                break
            at = close.end()
        else:
            start = mark.start()
            try:
                value, at = _decoder.raw_decode(text, start)
                found.append((start, at, value))
            except (ValueError, RecursionError):  # ValueError: also a number of thousands of digits
                past = _past_broken(text, start)
                if past is None:
                    close = _CLOSE.search(text, start)  # it may have been reasoning all along
                    if close is None:
                        break
                    past = close.start()
                at = past
    return iter(found)


def _past_broken(text: str, start: int) -> int | None:
    """Where to look on after a brace that begins no readable object.

    After what was meant as an object: behind its closing brace, so that nothing within it counts; None where there is
    none.
    """
    if not _OBJECT_START.match(text, start):
        return start + 1
    depth = 0
    for brace in _BRACES.finditer(text, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.end()
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
