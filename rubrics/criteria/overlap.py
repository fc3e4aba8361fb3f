"""How like a text is to a reference: by edits, by words, and as translations and summaries are measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from rubrics.criteria.base import ReferenceCheck, clean, library
from rubrics.criteria.text import Normalize, normalised
from rubrics.score import Score, StructureError, Unscored

LONGEST = 50_000


class Likeness(ReferenceCheck):
    """A measure whose time grows with both texts' lengths multiplied, so that their length is limited.

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.
        longest: a text of more characters scores 0; where the expected text has more, the node is unscored.
    """

    def __init__(
        self,
        expected: str | Sequence[str] | None = None,
        expected_from: str | None = None,
        of: str = "action",
        within: str | None = None,
        longest: int = LONGEST,
    ) -> None:
        super().__init__(expected, expected_from, of, within)
        if longest < 1:
            raise StructureError(f"{type(self).__name__}: longest is a number of characters, not {longest}")
        self.longest = longest

    def references(self, action: Any, observation: Any, task: Any) -> list[str]:
        found = super().references(action, observation, task)
        if (most := max(map(len, found))) > self.longest_expected:
            raise Unscored(f"the expected text has {most} characters; {self.longest_expected} are compared at most")
        return found

    @property
    def longest_expected(self) -> int:
        """The most characters of an expected text."""
        return self.longest

    def score_pair(self, text: str, reference: str) -> float | Score:
        if len(text) > self.longest:
            return Score(0.0, f"it has {len(text)} characters; {self.longest} are compared at most")
        return self.likeness(text, reference)

    def likeness(self, text: str, reference: str) -> float | Score:
        """The measure, in [0, 1]."""
        raise NotImplementedError


class Fuzzy(Likeness):
    """How like a text is to the expected one, in [0, 1], by edits.

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.
        by: `ratio`: 1 - (insertions and deletions) / (both lengths); `partial`: the best part of the longer text;
            `sorted`, `set`: the same of the words, sorted or as sets; `levenshtein`, `jaro_winkler`: these.
        threshold: what is below it scores 0.
        ignore_case: whether case does not count.
        longest: a text of more characters scores 0, since comparing takes long; where the expected text has more, or
            with `partial` more than 1,000, the node is unscored.

    Source: rapidfuzz.
    """

    extra: ClassVar[str | None] = "text"

    def __init__(
        self,
        expected: str | Sequence[str] | None = None,
        expected_from: str | None = None,
        by: Literal["ratio", "partial", "sorted", "set", "levenshtein", "jaro_winkler"] = "ratio",
        threshold: float = 0.0,
        ignore_case: bool = True,
        of: str = "action",
        within: str | None = None,
        longest: int = LONGEST,
    ) -> None:
        super().__init__(expected, expected_from, of, within, longest)
        if by not in _FUZZY:
            raise StructureError(f"Fuzzy: by is one of {', '.join(_FUZZY)}, not {by!r}")
        self.by, self.threshold, self.ignore_case = by, threshold, ignore_case

    def _require(self) -> None:
        library("rapidfuzz", "text", self)

    @cached_property
    def _measure(self) -> Any:
        module, name, scale = _FUZZY[self.by]
        measure = getattr(library(f"rapidfuzz.{module}", "text", self), name)
        return (lambda a, b: measure(a, b) / scale) if scale != 1 else measure.normalized_similarity

    @property
    def longest_expected(self) -> int:
        return min(self.longest, 1_000) if self.by == "partial" else self.longest

    def likeness(self, text: str, reference: str) -> float:
        said, meant = (normalised(each, "spaces", self.ignore_case) for each in (text, reference))
        value = float(self._measure(said, meant))
        return value if value >= self.threshold else 0.0


_FUZZY: dict[str, tuple[str, str, int]] = {
    "ratio": ("fuzz", "ratio", 100),
    "partial": ("fuzz", "partial_ratio", 100),
    "sorted": ("fuzz", "token_sort_ratio", 100),
    "set": ("fuzz", "token_set_ratio", 100),
    "levenshtein": ("distance", "Levenshtein", 1),
    "jaro_winkler": ("distance", "JaroWinkler", 1),
}


class TokenOverlap(ReferenceCheck):
    """The words that a text shares with the expected one.

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.
        measure: `f1`, `precision` (of the words said), `recall` (of the words expected), or `jaccard` of the sets.
        normalize: see `rubrics.criteria.text.normalised`; by default as SQuAD's F1 does it.

    Two empty texts score 1. Source: Rajpurkar et al. 2016, "SQuAD".
    """

    def __init__(
        self,
        expected: str | Sequence[str] | None = None,
        expected_from: str | None = None,
        measure: Literal["f1", "precision", "recall", "jaccard"] = "f1",
        normalize: Normalize = "squad",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(expected, expected_from, of, within)
        if measure not in ("f1", "precision", "recall", "jaccard"):
            raise StructureError(f"TokenOverlap: measure is f1, precision, recall or jaccard, not {measure!r}")
        self.measure, self.normalize = measure, normalize

    def score_pair(self, text: str, reference: str) -> float:
        said, meant = (normalised(each, self.normalize).split() for each in (text, reference))
        if not said or not meant:
            return float(said == meant)
        if self.measure == "jaccard":
            return len(set(said) & set(meant)) / len(set(said) | set(meant))
        shared = (Counter(said) & Counter(meant)).total()
        precision, recall = shared / len(said), shared / len(meant)
        if self.measure != "f1":
            return precision if self.measure == "precision" else recall
        return 2 * precision * recall / (precision + recall) if shared else 0.0


class _Sacre(Likeness):
    """A measure of sacrebleu, in [0, 1]."""

    extra: ClassVar[str | None] = "text"
    measure: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}

    def _require(self) -> None:
        library("sacrebleu", "text", self)

    @cached_property
    def _metric(self) -> Any:
        return getattr(library("sacrebleu.metrics", "text", self), self.measure)(**self.options)

    def likeness(self, text: str, reference: str) -> float:
        return float(min(max(self._metric.sentence_score(clean(text), [clean(reference)]).score / 100.0, 0.0), 1.0))


class Bleu(_Sacre):
    """BLEU of a text against the expected one, in [0, 1]: exponential smoothing, effective order; the best reference
    counts.

    Args:
        expected, expected_from, of, within, longest: see `Likeness`.

    Source: Papineni et al. 2002, by sacrebleu.
    """

    measure = "BLEU"
    options: ClassVar[dict[str, Any]] = {"effective_order": True}


class Chrf(_Sacre):
    """chrF of a text against the expected one, in [0, 1]: n-grams of characters up to 6, beta 2.

    Args:
        expected, expected_from, of, within, longest: see `Likeness`.

    Source: Popović 2015, by sacrebleu.
    """

    measure = "CHRF"


class Rouge(Likeness):
    """ROUGE of a text against the expected one, in [0, 1].

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.
        variant: `rouge1`, `rouge2` (n-grams), `rougeL` (longest common subsequence), `rougeLsum` (of lines).
        measure: `fmeasure`, `precision` or `recall`.
        stem: whether words are stemmed (English).
        longest: a text of more characters scores 0; where the expected text has more, the node is unscored.

    Source: Lin 2004, by rouge-score.
    """

    extra: ClassVar[str | None] = "text"

    def __init__(
        self,
        expected: str | Sequence[str] | None = None,
        expected_from: str | None = None,
        variant: Literal["rouge1", "rouge2", "rougeL", "rougeLsum"] = "rougeL",
        measure: Literal["fmeasure", "precision", "recall"] = "fmeasure",
        stem: bool = False,
        of: str = "action",
        within: str | None = None,
        longest: int = LONGEST,
    ) -> None:
        super().__init__(expected, expected_from, of, within, longest)
        if variant not in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
            raise StructureError(f"Rouge: variant is rouge1, rouge2, rougeL or rougeLsum, not {variant!r}")
        if measure not in ("fmeasure", "precision", "recall"):
            raise StructureError(f"Rouge: measure is fmeasure, precision or recall, not {measure!r}")
        self.variant, self.measure, self.stem = variant, measure, stem

    def _require(self) -> None:
        library("rouge_score", "text", self)
        library("rapidfuzz", "text", self)

    @cached_property
    def _scorer(self) -> Any:
        return library("rouge_score.rouge_scorer", "text", self).RougeScorer([self.variant], use_stemmer=self.stem)

    def likeness(self, text: str, reference: str) -> float | Score:
        words = library("rouge_score.tokenizers", "text", self).DefaultTokenizer(self.stem).tokenize
        if self.variant == "rougeL":  # by rouge-score itself it would take a hundred times as long
            text_words, reference_words = words(text), words(reference)
            common = library("rapidfuzz.distance.LCSseq", "text", self).similarity(text_words, reference_words)
            return _share(self.measure, common, len(text_words), len(reference_words))
        if self.variant == "rougeLsum":
            said, meant = len(words(text)), len(words(reference))
            if said * meant > _MOST_PAIRS:
                told = f"there are {said} words and {meant} expected, too many for rougeLsum"
                if said > meant:
                    return Score(0.0, told)
                raise Unscored(told)
        return float(getattr(self._scorer.score(reference, text)[self.variant], self.measure))


_MOST_PAIRS = 4_000_000  # of words, about a second


def _share(measure: str, common: int, said: int, meant: int) -> float:
    if not common:
        return 0.0
    return {"precision": common / said, "recall": common / meant, "fmeasure": 2 * common / (said + meant)}[measure]
