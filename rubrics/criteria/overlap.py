"""How like a text is to a reference: by edits, by words, and as translations and summaries are measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from rubrics.criteria.base import ReferenceCheck, clean, library
from rubrics.criteria.text import Normalize, normalised
from rubrics.score import StructureError


class Fuzzy(ReferenceCheck):
    """How like a text is to the expected one, in [0, 1], by edits.

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.
        by: `ratio`: 1 - (insertions and deletions) / (both lengths); `partial`: the best part of the longer text;
            `sorted`, `set`: the same of the words, sorted or as sets; `levenshtein`, `jaro_winkler`: these.
        threshold: what is below it scores 0.
        ignore_case: whether case does not count.

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
    ) -> None:
        super().__init__(expected, expected_from, of, within)
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

    def score_pair(self, text: str, reference: str) -> float:
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


class _Sacre(ReferenceCheck):
    """A measure of sacrebleu, in [0, 1]."""

    extra: ClassVar[str | None] = "text"
    measure: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}

    def _require(self) -> None:
        library("sacrebleu", "text", self)

    @cached_property
    def _metric(self) -> Any:
        return getattr(library("sacrebleu.metrics", "text", self), self.measure)(**self.options)

    def score_pair(self, text: str, reference: str) -> float:
        return float(min(max(self._metric.sentence_score(clean(text), [clean(reference)]).score / 100.0, 0.0), 1.0))


class Bleu(_Sacre):
    """BLEU of a text against the expected one, in [0, 1]: exponential smoothing, effective order; the best reference
    counts.

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.

    Source: Papineni et al. 2002, by sacrebleu.
    """

    measure = "BLEU"
    options: ClassVar[dict[str, Any]] = {"effective_order": True}


class Chrf(_Sacre):
    """chrF of a text against the expected one, in [0, 1]: n-grams of characters up to 6, beta 2.

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.

    Source: Popović 2015, by sacrebleu.
    """

    measure = "CHRF"


class Rouge(ReferenceCheck):
    """ROUGE of a text against the expected one, in [0, 1].

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.
        variant: `rouge1`, `rouge2` (n-grams), `rougeL` (longest common subsequence), `rougeLsum` (of lines).
        measure: `fmeasure`, `precision` or `recall`.
        stem: whether words are stemmed (English).

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
    ) -> None:
        super().__init__(expected, expected_from, of, within)
        if variant not in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
            raise StructureError(f"Rouge: variant is rouge1, rouge2, rougeL or rougeLsum, not {variant!r}")
        if measure not in ("fmeasure", "precision", "recall"):
            raise StructureError(f"Rouge: measure is fmeasure, precision or recall, not {measure!r}")
        self.variant, self.measure, self.stem = variant, measure, stem

    def _require(self) -> None:
        library("rouge_score", "text", self)

    @cached_property
    def _scorer(self) -> Any:
        return library("rouge_score.rouge_scorer", "text", self).RougeScorer([self.variant], use_stemmer=self.stem)

    def score_pair(self, text: str, reference: str) -> float:
        return float(getattr(self._scorer.score(reference, text)[self.variant], self.measure))
