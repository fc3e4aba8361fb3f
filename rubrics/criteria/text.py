"""Criteria of texts by their letters: equal, containing, matching, long, repetitive, tagged, citing, in a language."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from rubrics.criteria.base import ReferenceCheck, TextCheck, clean, library
from rubrics.criteria.values import Value, quoted
from rubrics.score import Score, StructureError, Unscored

Normalize = Literal["none", "spaces", "squad"]
Unit = Literal["characters", "words", "lines"]
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_RAISED = re.compile("([¹²³¼½¾⁰-₎⅐-⅟↉]+)")  # powers, indices and fractions, which NFKC makes plain digits of
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str, how: Normalize = "spaces", ignore_case: bool = False) -> str:
    """A text as it is compared.

    Args:
        how: `spaces`: in Unicode's form NFKC, but for powers, indices and fractions (10² is not 102, nor 1½ 11/2); runs
            of white space as one space, none at the ends. `squad`: in addition in lower case, without punctuation and
            English articles (Rajpurkar et al. 2016). `none`: as it is.
    """
    if how != "none" and not text.isascii():
        text = "".join(
            part if _RAISED.fullmatch(part) else unicodedata.normalize("NFKC", part) for part in _RAISED.split(text)
        )
    if how == "squad":
        text = _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))
    if how != "none":
        text = " ".join(text.split())
    return text.casefold() if ignore_case else text


class Exact(ReferenceCheck):
    """Whether a text is the expected one.

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.
        normalize: what does not count: see `normalised`.
        ignore_case: whether case does not count either.
    """

    def __init__(
        self,
        expected: str | Sequence[str] | None = None,
        expected_from: str | None = None,
        of: str = "action",
        within: str | None = None,
        normalize: Normalize = "spaces",
        ignore_case: bool = False,
    ) -> None:
        super().__init__(expected, expected_from, of, within)
        if normalize not in ("none", "spaces", "squad"):
            raise StructureError(f"Exact: normalize is 'none', 'spaces' or 'squad', not {normalize!r}")
        self.normalize: Normalize = normalize
        self.ignore_case = ignore_case

    def score_pair(self, text: str, reference: str) -> float:
        said, meant = (normalised(each, self.normalize, self.ignore_case) for each in (text, reference))
        return float(said == meant)


class Contains(TextCheck):
    """Whether a text contains words.

    Args:
        words: texts to look for.
        need: `all`: each must be there; `any`: one will do; `none`: none may be.
        partial: with `all`, score the share that is there.
        ignore_case: whether case does not count.
        whole: whether each must stand for itself, not within a longer word.
        of, within: see `TextCheck`.
    """

    def __init__(
        self,
        words: str | Sequence[str],
        need: Literal["all", "any", "none"] = "all",
        partial: bool = False,
        ignore_case: bool = True,
        whole: bool = False,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        each = [words] if isinstance(words, str) else list(words)
        if not each or not all(isinstance(word, str) and word for word in each):
            raise StructureError(f"Contains: words is a text, or a list of some, not {words!r:.80}")
        if need not in ("all", "any", "none") or (partial and need != "all"):
            raise StructureError(f"Contains: need is 'all', 'any' or 'none', and partial goes with 'all'; not {need!r}")
        self.words, self.need, self.partial = words, need, partial
        self.ignore_case, self.whole = ignore_case, whole

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        flags = re.IGNORECASE if self.ignore_case else 0
        each = [self.words] if isinstance(self.words, str) else self.words
        edges = (r"(?<!\w)", r"(?!\w)") if self.whole else ("", "")
        return [(word, re.compile(re.escape(word).join(edges), flags)) for word in each]

    def score_text(self, text: str) -> Score:
        found = [word for word, pattern in self._patterns if pattern.search(text)]
        missing = [word for word, _ in self._patterns if word not in found]
        if self.need == "none":
            return Score(float(not found), f"it says {quoted(', '.join(found))}" if found else None)
        if self.need == "any":
            return Score(float(bool(found)), None if found else "it says none of them")
        share = len(found) / len(self._patterns) if self.partial else float(not missing)
        return Score(share, f"it does not say {quoted(', '.join(missing))}" if missing else None)


class Regex(TextCheck):
    """Whether a text matches a pattern.

    The engine is RE2, whose time grows with the length of the text, whatever the pattern: no text hangs a step. It has
    no look-around and no back-references; a pattern with them is refused.

    Args:
        pattern: in the syntax of RE2, which is Python's for most patterns.
        match: `search`: anywhere; `full`: the whole text; `none`: nowhere.
        ignore_case, multiline, dotall: flags, as in Python.
        of, within: see `TextCheck`.

    Source: https://github.com/google/re2
    """

    extra: ClassVar[str | None] = "text"

    def __init__(
        self,
        pattern: str,
        match: Literal["search", "full", "none"] = "search",
        ignore_case: bool = False,
        multiline: bool = False,
        dotall: bool = False,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        if match not in ("search", "full", "none"):
            raise StructureError(f"Regex: match is 'search', 'full' or 'none', not {match!r}")
        self.pattern, self.match = pattern, match
        self.ignore_case, self.multiline, self.dotall = ignore_case, multiline, dotall
        self._compiled_pattern  # noqa: B018

    def _require(self) -> None:
        library("re2", "text", self)

    @cached_property
    def _compiled_pattern(self) -> Any:
        re2 = library("re2", "text", self)
        flags = "".join(flag for flag, on in (("i", self.ignore_case), ("m", self.multiline), ("s", self.dotall)) if on)
        options = re2.Options()
        options.log_errors = False
        try:
            return re2.compile(f"(?{flags}){self.pattern}" if flags else self.pattern, options)
        except re2.error as error:
            told = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
            raise StructureError(f"Regex: {self.pattern!r} is no pattern of RE2: {told}") from None

    def score_text(self, text: str) -> Score:
        look = self._compiled_pattern.fullmatch if self.match == "full" else self._compiled_pattern.search
        found = look(clean(text))
        if self.match == "none":
            return Score(float(found is None), None if found is None else f"it says {quoted(found.group())}")
        return Score(float(found is not None), None if found else f"nothing matches {quoted(self.pattern)}")


def length(text: str, unit: Unit) -> int:
    """The length of a text."""
    if unit == "characters":
        return len(text)
    return len(text.split()) if unit == "words" else len(text.splitlines())


def _check_unit(unit: str, who: str) -> None:
    if unit not in ("characters", "words", "lines"):
        raise StructureError(f"{who}: unit is 'characters', 'words' or 'lines', not {unit!r}")


class Length(TextCheck):
    """Whether the length of a text lies between bounds.

    Args:
        least, most: the bounds, both allowed; None for no upper one.
        unit: what is counted: characters (code points), words (between white space), or lines.
        of, within: see `TextCheck`.
    """

    def __init__(
        self,
        least: int = 0,
        most: int | None = None,
        unit: Unit = "characters",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        _check_unit(unit, "Length")
        if most is not None and most < least:
            raise StructureError(f"Length: most ({most}) is below least ({least})")
        self.least, self.most = least, most
        self.unit: Unit = unit

    def score_text(self, text: str) -> Score:
        found = length(text, self.unit)
        fits = found >= self.least and (self.most is None or found <= self.most)
        return Score(float(fits), None if fits else f"it has {found} {self.unit}")


class Overlong(TextCheck):
    """A penalty that begins before a text is too long: DAPO's soft overlong punishment.

    0 up to `longest - cushion`; then (longest - cushion - length) / cushion, down to -1 at `longest`; -1 beyond.

    Args:
        longest: L_max.
        cushion: L_cache, the length over which the penalty grows.
        unit: what is counted, see `Length`.
        tokens_from: a path to a number of tokens, such as `action.usage.completion_tokens`, to count in place of the
            text's length.
        of, within: see `TextCheck`.

    Range -1 to 0. Source: Yu et al. 2025, "DAPO", equation 13.
    """

    range = (-1.0, 0.0)

    def __init__(
        self,
        longest: int,
        cushion: int,
        unit: Unit = "words",
        tokens_from: str | None = None,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        _check_unit(unit, "Overlong")
        if not 0 < cushion <= longest:
            raise StructureError(f"Overlong: cushion is above 0 and at most longest ({longest}), not {cushion}")
        self.longest, self.cushion, self.tokens_from = longest, cushion, tokens_from
        self.unit: Unit = unit
        self._tokens  # noqa: B018

    @cached_property
    def _tokens(self) -> Value | None:
        return None if self.tokens_from is None else Value(self.tokens_from)

    def score_step(self, action: Any, observation: Any, task: Any) -> float | Score:
        if self._tokens is None:
            return super().score_step(action, observation, task)
        count = self._tokens.read(action, observation, task)
        if isinstance(count, bool) or not isinstance(count, int | float) or count != count:
            raise Unscored(f"{self.tokens_from} is no number")
        return self._penalty(float(count), "tokens")

    def score_text(self, text: str) -> Score:
        return self._penalty(length(text, self.unit), self.unit)

    def _penalty(self, found: float, unit: str) -> Score:
        over = found - (self.longest - self.cushion)
        value = -min(max(over / self.cushion, 0.0), 1.0)
        return Score(value + 0.0, f"it has {found:g} {unit}" if value else None)


class Repetition(TextCheck):
    """A penalty for saying the same again: the share of n-grams of words that were said before, times `weight`.

    Args:
        n: words of an n-gram.
        weight: the penalty where all but one n-gram are repetitions, below 0.
        of, within: see `TextCheck`.

    Range `weight` to 0; a text of fewer than n words gets 0. Source: Yeo et al. 2025, "Demystifying Long
    Chain-of-Thought Reasoning in LLMs", appendix C, and the reward functions of open-r1.
    """

    def __init__(self, n: int = 3, weight: float = -1.0, of: str = "action", within: str | None = None) -> None:
        super().__init__(of, within)
        if n < 1 or weight >= 0.0:
            raise StructureError(f"Repetition: n is at least 1 and weight below 0, not {n} and {weight}")
        self.n, self.weight = n, weight

    @property
    def range(self) -> tuple[float, float]:
        return (float(self.weight), 0.0)

    def score_text(self, text: str) -> Score:
        words = text.casefold().split()
        total = len(words) - self.n + 1
        if total < 1:
            return Score(0.0)
        distinct = len(set(zip(*(words[start:] for start in range(self.n)), strict=False)))
        share = 1.0 - distinct / total
        return Score(
            share * self.weight + 0.0, f"{100 * share:.0f} % of its {self.n}-grams are repetitions" if share else None
        )


class Tags(TextCheck):
    """Whether a text has the form `<think>…</think><answer>…</answer>`: each tag once, in order, none within another.

    Args:
        tags: their names.
        outside: whether there may be other text than white space outside of them.
        empty: whether there may be nothing in one.
        opened: whether the prompt opened the first one, as chat templates of reasoning models do, so that the text
            begins in it.
        of, within: see `TextCheck`.
    """

    def __init__(
        self,
        tags: Sequence[str] = ("think", "answer"),
        outside: bool = False,
        empty: bool = False,
        opened: bool = False,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        if not tags or isinstance(tags, str) or not all(re.fullmatch(r"[A-Za-z][\w-]*", tag) for tag in tags):
            raise StructureError(f"Tags: tags is a list of names, such as ['think', 'answer'], not {tags!r:.80}")
        self.tags, self.outside, self.empty, self.opened = list(tags), outside, empty, opened

    def score_text(self, text: str) -> Score:
        if self.opened:
            text = f"<{self.tags[0]}>{text}"
        at = 0
        for tag in self.tags:
            opening, closing = f"<{tag}>", f"</{tag}>"
            if text.count(opening) != 1 or text.count(closing) != 1:
                return Score(0.0, f"<{tag}> must stand there once, opened and closed")
            start, end = text.find(opening, at), text.find(closing, at)
            if not at <= start < end:
                return Score(0.0, f"<{tag}> does not stand where it should")
            if not self.outside and text[at:start].strip():
                return Score(0.0, f"there is text outside of the tags: {quoted(text[at:start].strip(), 60)}")
            if not self.empty and not text[start + len(opening) : end].strip():
                return Score(0.0, f"there is nothing in <{tag}>")
            at = end + len(closing)
        if not self.outside and text[at:].strip():
            return Score(0.0, f"there is text outside of the tags: {quoted(text[at:].strip(), 60)}")
        return Score(1.0)


class Language(TextCheck):
    """Whether a text is in a language: the probability that a model of letter sequences gives it.

    Args:
        language: by its ISO 639-1 code, such as `en`.
        least: letters below which nothing can be said, and the node is unscored.
        of, within: see `TextCheck`.

    Source: py3langid, whose model is part of the package.
    """

    extra: ClassVar[str | None] = "text"

    def __init__(self, language: str, least: int = 20, of: str = "action", within: str | None = None) -> None:
        super().__init__(of, within)
        if language not in self._identifier.labels:
            known = ", ".join(sorted(map(str, self._identifier.labels)))
            raise StructureError(f"Language: there is no language {language!r}; there are {known}")
        self.language, self.least = language, least

    @property
    def _identifier(self) -> Any:
        return _identifier(self)

    def score_text(self, text: str) -> Score:
        letters = sum(map(str.isalpha, text))
        if letters < self.least:
            raise Unscored(f"it has {letters} letters, too few to tell its language")
        said = clean(text[:20_000])
        probabilities = {str(name): float(value) for name, value in self._identifier.rank(said)}
        best = max(probabilities, key=lambda name: probabilities[name])
        return Score(probabilities[self.language], None if best == self.language else f"it seems to be {best}")


_identifiers: list[Any] = []


def _identifier(who: object) -> Any:
    if not _identifiers:
        langid = library("py3langid.langid", "text", who)
        _identifiers.append(langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True))
    return _identifiers[0]
