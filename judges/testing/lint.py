"""Judge prompts, looked over before anybody is asked: what the file itself shows to be wrong or dear.

A finding is an `error` where a judge cannot be built or is told two different things, a `warning` where it will
probably work badly, and `info` where there is a choice to be made. Words are looked at in English only.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from judges.judge import Judge
from judges.prompt import Prompt, PromptWarning
from judges.scale import Choice, Likert, Numeric, Scale
from judges.testing.golden import GoldenError
from judges.testing.suite import ENDING, Suite, read_suite
from judges.verdict import JudgeConfigError, PromptError

Level = Literal["error", "warning", "info"]
_LONG = 200  # characters of fixed text after the first value that are worth moving
_I = re.IGNORECASE
_TAGS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_FENCED = re.compile(r"\{\{[^}]*\|\s*untrusted\b[^}]*\}\}")
_GRADING = re.compile(
    r"\b(scales?|scor(e|es|ed|ing)|rat(e|es|ed|ing|ings)|grad(e|es|ed|ing)|points?|stars?|marks?)\b", _I
)
_NUMBER = r"(\d+(?:\.\d+)?)"
_RANGE = re.compile(
    rf"\bbetween\s+{_NUMBER}\s+and\s+{_NUMBER}(?![\d.]*\d)|(?<![\d.]){_NUMBER}\s*(?:to|through|[-–—])\s*{_NUMBER}(?![\d.]*\d)",
    _I,
)
_TOP = re.compile(r"\bout\s+of\s+(?:a\s+possible\s+)?(\d+)\b|(?<=[\s\0xX_])/\s?(\d+)\b", _I)
_COUNTED = re.compile(
    r"\s*%|\s+(?:sentence|word|character|line|paragraph|item|step|example|minute|hour|day|year|token)", _I
)
_EITHER = re.compile(r"\b(?:yes\s*(?:or|/)\s*no|true\s*(?:or|/)\s*false|pass\s*(?:or|/)\s*fail)\b", _I)
_FORMS = (
    re.compile(
        r"(?:^|[.!?:;,]\s+|\b(?:please|and|then|must|should)\s+)[^\w\n]*(?P<said>(?:answer|reply|respond|return|output|print)"
        r"(?:\s+(?:only|just|with|by|in|as|a|an|the|your|one|single))*\s+"
        r"(?:number|digit|integer|letter|word|score|rating|grade|label|yes|true|json|xml|markdown)\b[^.\n\0]*)",
        _I | re.MULTILINE,
    ),
    re.compile(r"(?P<said>\[\[\s*\w+\s*\]\])"),
    re.compile(
        r"^\W*(?P<said>(?:final\s+)?(?:score|rating|verdict|grade|answer|judge?ment)\W*:\s*[\[<{(][^\n\0]*)", _I | re.M
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a prompt.

    Attributes:
        path, line: where.
        level: how bad it is.
        what: is the matter.
        advice: what to do.
    """

    path: str
    line: int
    level: Level
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.level}: {self.what}. {self.advice}."


def lint(path: str | Path) -> list[Finding]:
    """Look over a prompt file, or the prompt of a suite (`*.judge.yaml`) with the suite's judge and golden set.

    Returns:
        The findings, by line and level. A prompt that cannot be read is one of them.

    Raises:
        GoldenError: a suite or its golden set cannot be read, or the suite has no prompt.
    """
    path = Path(path)
    if not path.name.endswith(ENDING):
        return _looked_over(path, None)
    name = read_suite(path).prompt
    if name is None:
        raise GoldenError(f"{path}: the suite has no prompt")
    return _looked_over(path.parent / name, path)


def _looked_over(path: Path, suite_file: Path | None) -> list[Finding]:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", PromptWarning)
        try:
            prompt = Prompt.load(path)
            text = path.read_text(encoding="utf-8").removeprefix("\ufeff")
        except PromptError as error:
            return [_told(path, str(error), "error", "No judge can be built of it")]
    unfenced = "Without a fence the value can pose as a part of the prompt"
    found = [_told(path, str(each.message), "warning", unfenced) for each in warned]
    suite = None
    if suite_file is not None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PromptWarning)
                suite = Suite.load(suite_file)
        except (PromptError, JudgeConfigError) as error:
            found.append(Finding(str(path), 1, "error", str(error), f"The judge of {suite_file} cannot be built"))
    found += _Look(path, text, prompt, suite).found()
    return sorted(found, key=lambda each: (each.line, get_args(Level).index(each.level)))


def _told(path: Path, message: str, level: Level, advice: str) -> Finding:
    """What a prompt says of itself: it begins with the file, and the line where there is one."""
    said = message.removeprefix(str(path))
    match = re.match(r", line (\d+): ", said)
    line, what = (int(match[1]), said[match.end() :]) if match else (1, said.removeprefix(": ").strip())
    return Finding(str(path), line, level, what, advice)


class _Look:
    """A prompt, its text, and the suite that uses it."""

    def __init__(self, path: Path, text: str, prompt: Prompt, suite: Suite | None) -> None:
        self.path, self.prompt, self.suite = path, prompt, suite
        self.head = text.removesuffix(prompt.template)
        self.fixed = _TAGS.sub(lambda tag: re.sub(r"[^\n]", "\0", tag[0]), prompt.template)
        """The template, its tags blanked out."""
        self.pairs = {"first", "second"} <= prompt.variables
        self.scale: Scale | None = prompt.scale
        if suite is not None:
            self.scale = suite.subject.scale
        elif "candidates" in prompt.variables:
            self.scale = prompt.scale or Likert(1, 10)

    def found(self) -> Iterator[Finding]:
        yield from self._names()
        yield from self._variables()
        yield from self._answers()
        yield from self._forms()
        yield from self._examples()
        yield from self._prefix()

    def _at(self, line: int, level: Level, what: str, advice: str) -> Finding:
        return Finding(str(self.path), line, level, what, advice)

    def _line(self, place: int) -> int:
        return self.prompt.line + self.prompt.template.count("\n", 0, place)

    def _field(self, name: str) -> int:
        """The line of a field of the front matter; 1 where it is not there."""
        match = re.search(rf"^{name}\s*:", self.head, re.MULTILINE)
        return 1 + self.head.count("\n", 0, match.start()) if match else 1

    def _matches(self, *patterns: re.Pattern[str]) -> Iterator[tuple[re.Match[str], int]]:
        """Where patterns occur in what is said to the model, with their lines."""
        texts = [(self.fixed, self.prompt.line)]
        if self.prompt.system:
            texts.append((self.prompt.system, self._field("system")))
        for text, begins in texts:
            for pattern in patterns:
                for match in pattern.finditer(text):
                    place = match.start("said") if "said" in pattern.groupindex else match.start()
                    yield match, begins + text.count("\n", 0, place)

    def _names(self) -> Iterator[Finding]:
        missing = [f"no {name}" for name in ("name", "version") if not getattr(self.prompt, name)]
        if missing:
            advice = "Reports cannot tell then which prompt they are about"
            yield self._at(1, "info", f"the front matter has {' and '.join(missing)}", advice)

    def _variables(self) -> Iterator[Finding]:
        """Names that the golden set gives no value."""
        if self.suite is None:
            return
        given = {name for row in self.suite.golden for name in row.inputs}
        given |= {"first", "second"} if {"a", "b"} <= given else set()
        for name in sorted(self.prompt.variables - given):
            match = re.search(rf"\{{[{{%][^}}]*\b{name}\b", self.prompt.template)
            yield self._at(
                self._line(match.start()) if match else self.prompt.line,
                "error",
                f"{name!r} is used, and no row of {self.suite.golden.path} has such an input",
                f"The inputs are {', '.join(sorted(given))}",
            )

    def _answers(self) -> Iterator[Finding]:
        """What the prompt says of the answers, beside what the scale says."""
        if self.scale is None:
            if not self.pairs:
                advice = "Write it there, as in `scale: binary`, or give each judge a scale"
                yield self._at(1, "info", "the front matter has no scale", advice)
            return
        if not self.scale.abstain and not self.pairs:
            advice = "Where a case cannot be judged it must guess; `abstain: true` in the scale lets it say so"
            yield self._at(self._field("scale"), "info", "the judge cannot abstain", advice)
        advice = "Say the same as the scale, or nothing: its wording is added to the prompt"
        for level, said, line in dict.fromkeys([*self._grades(), *self._words()]):
            told = f"{said!r} is not what the scale says, {self.scale.wording}"
            yield self._at(line, level, told, advice)

    def _grades(self) -> Iterator[tuple[Level, str, int]]:
        """Grades that are not those of the scale."""
        for match, line in self._matches(_RANGE):
            low, high = map(float, match.groups()[:2] if match[1] else match.groups()[2:])
            explained = _is_explained(match)
            if _is_of_grades(match, explained) and not self._are_grades(low, high, explained):
                yield "error", " ".join(match[0].split()), line
        for match, line in self._matches(_TOP):
            top = float(match[1] or match[2])
            if _is_of_grades(match) and (self._ends is None or top != self._ends[1]):
                yield "error", " ".join(match[0].split()), line

    @property
    def _ends(self) -> tuple[float, float] | None:
        """The lowest and the highest grade; None where answers are no numbers."""
        if isinstance(self.scale, (Likert, Numeric)):
            return float(self.scale.low), float(self.scale.high)
        if isinstance(self.scale, Choice) and all(re.fullmatch(r"\d+", label) for label in self.scale.options):
            return min(map(float, self.scale.options)), max(map(float, self.scale.options))
        return None

    def _are_grades(self, low: float, high: float, explained: bool) -> bool:
        if self._ends is None:
            return False
        within = self._ends[0] <= min(low, high) and max(low, high) <= self._ends[1]
        return (min(low, high), max(low, high)) == self._ends or (explained and within)

    def _words(self) -> Iterator[tuple[Level, str, int]]:
        if isinstance(self.scale, (Likert, Numeric)):
            for match, line in self._matches(_EITHER):
                yield "warning", match[0], line

    def _forms(self) -> Iterator[Finding]:
        """Requests for another form of reply than the one that is added to every prompt."""
        for match, line in self._matches(*_FORMS):
            told = f"{_short(match['said'])!r} asks for a form of reply, and the prompt ends with another"
            yield self._at(line, "warning", told, "Leave it out: a judge asks for its JSON object by itself")

    def _examples(self) -> Iterator[Finding]:
        examples, line = self.prompt.examples, self._field("examples")
        labels = [json.dumps(example["score"], default=str) for example in examples]
        if len(labels) > 1 and len(set(labels)) == 1:
            told = f"all {len(labels)} examples have the score {labels[0]}"
            yield self._at(line, "warning", told, "A model repeats what it sees: show other labels as well")
        if examples and self.scale is not None and self.suite is None and not self.pairs:
            reason = all(isinstance(example.get("reason"), str) for example in examples)
            try:
                Judge(self.prompt, self.scale, reason=reason, model="none")
            except (PromptError, JudgeConfigError) as error:
                yield replace(_told(self.path, str(error), "error", "No judge can be built of it"), line=line)

    def _prefix(self) -> Iterator[Finding]:
        first = _FENCED.search(self.prompt.template)
        after = self.fixed[first.end() :].replace("\0", "") if first else ""
        length = len(" ".join(after.split()))
        if first is not None and length >= _LONG:
            told = f"{length} characters of fixed text stand after the first value"
            advice = "Put them before it: providers keep a beginning that requests share, and charge less for it"
            yield self._at(self._line(first.start()), "info", told, advice)


def _sentence(match: re.Match[str]) -> str:
    """The sentence or the line of a list in which a match stands."""
    text = match.string
    ends = re.compile(r"[.!?](?=\s|\0)|\n\s*\n|\n\s*(?=[-*•]|\d+[.)])")
    begins = max((end.end() for end in ends.finditer(text, 0, match.start())), default=0)
    end = ends.search(text, match.end())
    return text[begins : end.start() if end else len(text)]


def _is_of_grades(match: re.Match[str], explained: bool = False) -> bool:
    """Whether numbers are grades: not a count of something, and where grading is spoken of."""
    near = match.string if explained else _sentence(match)
    return not _COUNTED.match(match.string, match.end()) and _GRADING.search(near) is not None


def _is_explained(match: re.Match[str]) -> bool:
    """Whether it is some of the grades whose meaning is said, as in `4-5: excellent`."""
    return re.match(r"\W{0,4}[:=–—-]", match.string[match.end() :]) is not None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"
