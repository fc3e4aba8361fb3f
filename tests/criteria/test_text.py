"""Criteria of texts: what is right, what is not, and what hostile texts do."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rouge_score.rouge_scorer import RougeScorer

from rubrics import Evaluation, Record, Rubric, StructureError
from rubrics.criteria import (
    Bleu,
    Chrf,
    Citations,
    Contains,
    Exact,
    Fuzzy,
    Language,
    Length,
    Overlong,
    Regex,
    Repetition,
    Rouge,
    Tags,
    TokenOverlap,
)


def scored(leaf: Rubric, action: Any, observation: Any = None, task: Any = None) -> Evaluation:
    return leaf.evaluate_sync(action, observation, leaf.episode(task=task))


def score(leaf: Rubric, action: Any, observation: Any = None, task: Any = None) -> Any:
    found = scored(leaf, action, observation, task)
    return found.score if found.status == "scored" else found.status


@pytest.mark.parametrize(
    ("leaf", "text", "expected"),
    [
        (Exact("Paris"), " Paris\n", 1.0),
        (Exact("Paris"), "paris", 0.0),
        (Exact("Paris", ignore_case=True), "PARIS", 1.0),
        (Exact(["Rome", "Paris"]), "Paris", 1.0),
        (Exact("Paris", normalize="none"), "Paris ", 0.0),
        (Exact("the Eiffel Tower", normalize="squad"), "Eiffel tower!", 1.0),
        (Exact("ﬁne"), "fine", 1.0),  # NFKC
        (Exact("e\u0301"), "é", 1.0),
        (Exact("102"), "10²", 0.0),  # NFKC alone would have it
        (Exact("11/2"), "1½", 0.0),
        (Exact("42", within="answer"), "<think>41</think><answer> 42 </answer>", 1.0),
        (Exact("42", within="answer"), "42", 0.0),
        (Exact("42", within="answer"), "<answer>41</answer> no, <answer>42</answer>", 1.0),
        (Contains("please"), "Please wait", 1.0),
        (Contains(["a", "z"]), "abc", 0.0),
        (Contains(["a", "z"], partial=True), "abc", 0.5),
        (Contains(["a", "z"], need="any"), "abc", 1.0),
        (Contains(["y", "z"], need="any"), "abc", 0.0),
        (Contains(["stupid"], need="none"), "not stupid", 0.0),
        (Contains(["stupid"], need="none"), "fine", 1.0),
        (Contains("cat", whole=True), "concatenate", 0.0),
        (Contains("cat", whole=True), "a cat.", 1.0),
        (Contains("C++", whole=True), "in C++, it is", 1.0),
        (Contains("X", ignore_case=False), "x", 0.0),
        (Regex("^Answer: \\d+$", multiline=True), "so\nAnswer: 42\n", 1.0),
        (Regex("\\d+", match="full"), "42", 1.0),
        (Regex("\\d+", match="full"), "42!", 0.0),
        (Regex("secret", match="none", ignore_case=True), "a SECRET", 0.0),
        (Regex("a.b", dotall=True), "a\nb", 1.0),
        (Regex("a.b"), "a\nb", 0.0),
        (Length(2, 4), "abc", 1.0),
        (Length(2, 4), "abcde", 0.0),
        (Length(3, unit="words"), "one two  three", 1.0),
        (Length(0, 1, unit="lines"), "one\ntwo", 0.0),
        # Overlong, equation 13 of DAPO, with L_max 10 and L_cache 4: 6 words free, 8 half way, 10 and more -1.
        (Overlong(10, 4), "w " * 6, 0.0),
        (Overlong(10, 4), "w " * 7, -0.25),
        (Overlong(10, 4), "w " * 8, -0.5),
        (Overlong(10, 4), "w " * 10, -1.0),
        (Overlong(10, 4), "w " * 50, -1.0),
        (Overlong(10, 4, within="answer"), "w " * 50, -1.0),  # what is asked for and not there is no way out
        (Repetition(within="answer"), "w " * 50, -1.0),
        # 5 trigrams of "a b c a b c a", of which 3 are distinct: 1 - 3/5.
        (Repetition(3), "a b c a b c a", -0.4),
        (Repetition(3, weight=-0.5), "a b c a b c a", -0.2),
        (Repetition(3), "a b", 0.0),
        (Repetition(1), "one two three", 0.0),
        (Tags(), "<think>a</think>\n<answer>b</answer>", 1.0),
        (Tags(), "<think>a</think><answer>b</answer> and", 0.0),
        (Tags(outside=True), "so <think>a</think> and <answer>b</answer>.", 1.0),
        (Tags(), "<answer>b</answer><think>a</think>", 0.0),
        (Tags(), "<think>a<answer>b</answer></think>", 0.0),
        (Tags(), "<think>a</think><answer>b</answer><answer>c</answer>", 0.0),
        (Tags(), "<think></think><answer>b</answer>", 0.0),
        (Tags(empty=True), "<think></think><answer>b</answer>", 1.0),
        (Tags(), "<think>a<answer>b</answer>", 0.0),
        (Tags(opened=True), "a</think><answer>b</answer>", 1.0),
        (Tags(opened=True), "<think>a</think><answer>b</answer>", 0.0),
        (Citations(), "As shown [1] and [2, 4-5].", 1.0),
        (Citations(), "As shown.", 0.0),
        (Citations(least=0), "As shown.", 1.0),
        (Citations("author-year"), "It is so (Smith et al., 2020), says Jones (2019a).", 1.0),
        (Citations("author-year", least=3), "As shown (see Smith, 2020; Lee & Wu, 2019a) by Díaz et al. (2001).", 1.0),
        (Citations("author-year"), "Since (May 2020) and (n = 2020), (1999) is over.", 0.0),
        (Citations(), "It is `x[1]`, or\n```\ny[2]\n```", 0.0),
        (Citations(within="answer"), "[1] <answer>none</answer>", 0.0),
        # rapidfuzz: 2 · 3 common / (4 + 3) letters.
        (Fuzzy("abcd"), "abc", pytest.approx(6 / 7)),
        (Fuzzy("abcd", by="levenshtein"), "abc", 0.75),
        (Fuzzy("abcd", threshold=0.9), "abc", 0.0),
        (Fuzzy("b a", by="sorted"), "A B", 1.0),
        (Fuzzy("needle", by="partial"), "hay needle hay", 1.0),
        (TokenOverlap("the cat sat"), "a cat sat down", pytest.approx(2 * (2 / 3) * 1 / (2 / 3 + 1))),
        (TokenOverlap("cat sat", measure="precision"), "cat sat down", pytest.approx(2 / 3)),
        (TokenOverlap("cat sat", measure="recall"), "cat", 0.5),
        (TokenOverlap("cat sat", measure="jaccard"), "cat ran", pytest.approx(1 / 3)),
        (TokenOverlap("the"), "an", 1.0),
        (Bleu("the cat sat on the mat"), "the cat sat on the mat", pytest.approx(1.0)),
        (Bleu("the cat sat on the mat"), "dogs", 0.0),
        (Chrf("the cat"), "the cat", pytest.approx(1.0)),
        # LCS "cat sat": 2 of 3 words said, 2 of 2 expected.
        (Rouge("cat sat"), "cat down sat", pytest.approx(2 * (2 / 3) * 1 / (2 / 3 + 1))),
        (Rouge("cat sat", variant="rouge2"), "cat down sat", 0.0),
        (Rouge("cat sat", variant="rouge1", measure="recall"), "sat", 0.5),
    ],
)
def test_what_a_text_is_worth(leaf: Rubric, text: str, expected: float) -> None:
    assert score(leaf, text) == expected
    assert score(leaf, Record(role="assistant", content=text)) == expected  # a message is its content
    low, high = leaf.range
    assert low <= score(leaf, text) <= high


def test_a_language() -> None:
    english, french = "The weather is lovely today, is it not?", "Il fait très beau aujourd'hui, n'est-ce pas ?"
    assert score(Language("en"), english) > 0.9 and score(Language("en"), french) < 0.1
    assert scored(Language("en"), french).reason == "it seems to be fr"
    assert scored(Language("en"), "ok").reason == "it has 2 letters, too few to tell its language"
    assert score(Language("en"), "ok") == "unscored"
    with pytest.raises(StructureError, match="there is no language 'english'; there are "):
        Language("english")


def test_what_a_text_is_held_against_may_stand_in_the_step() -> None:
    leaf = Exact(expected_from="task.answers", of="observation.said")
    assert score(leaf, "x", {"said": "b"}, {"answers": ["a", "b"]}) == 1.0
    assert score(leaf, "x", {"said": "c"}, {"answers": "b"}) == 0.0
    assert score(Exact(expected_from="task"), "4", None, 4) == 1.0
    assert scored(leaf, "x", {"said": "b"}, {}).reason == "there is no task.answers"
    assert scored(leaf, "x", {"said": "b"}, {"answers": [None]}).reason == "task.answers is no text"
    assert scored(leaf, "x", {}, {"answers": "b"}).reason == "there is no observation.said"


def test_citations_point_to_sources() -> None:
    sources = ["Smith, J. and Lee, K. (2020). On rubrics.", "Jones 2019"]
    leaf = Citations(sources_from="task.sources")
    assert score(leaf, "So [1], [2] and [7].", None, {"sources": sources}) == pytest.approx(2 / 3)
    named = Citations("author-year", sources_from="task.sources")
    assert score(named, "So (Smith & Lee, 2020) and (Nobody, 1999).", None, {"sources": sources}) == 0.5
    assert scored(named, "So (Nobody, 1999).", None, {"sources": sources}).reason == "no source for 'Nobody 1999'"
    assert scored(leaf, "[1]", None, {"sources": "text"}).reason == "task.sources is no list"
    kept = {"sources": [{"author": "Lee, C.", "year": 2019}]}
    assert score(named, "So (Lee, 2019), but not (Le, 2019).", None, kept) == 0.5


def test_a_number_of_tokens_may_be_counted_elsewhere() -> None:
    leaf = Overlong(100, 20, tokens_from="action.usage.tokens")
    assert score(leaf, {"content": "x", "usage": {"tokens": 90}}) == -0.5
    assert scored(leaf, {"content": "x", "usage": {"tokens": None}}).reason == "action.usage.tokens is no number"


def test_why_is_said() -> None:
    assert scored(Contains(["a", "z"]), "abc").reason == "it does not say 'z'"
    assert scored(Length(5), "abc").reason == "it has 3 characters"
    assert scored(Tags(), "x").reason == "<think> must stand there once, opened and closed"
    assert scored(Exact("x", within="answer"), "x").reason == "there is no <answer>"
    assert len(str(scored(Regex("secret.*", match="none"), "secret" + "x" * 999).reason)) < 230


def test_an_argument_that_is_set_anew_counts() -> None:
    leaf = Regex("a")
    assert score(leaf, "a") == 1.0
    leaf.pattern = "b"
    assert score(leaf, "a") == 0.0
    assert repr(leaf) == "Regex(pattern='b')"


LEAVES = [
    Exact("a"),
    Contains("a"),
    Regex("(a+)+$"),
    Length(0, 5),
    Overlong(10, 5),
    Repetition(),
    Tags(),
    Citations(),
    Citations("author-year"),
    Language("en"),
    Fuzzy("a"),
    Fuzzy("ab" * 500, by="partial"),
    TokenOverlap("a"),
    Bleu("a b c d"),
    Chrf("a"),
    Rouge("a " * 9_000),
    Rouge("a " * 9_000, variant="rougeLsum"),
]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: type(leaf).__name__)
def test_leaves_can_be_copied_and_pickled(leaf: Rubric) -> None:
    before = score(leaf, "a b a b, this is a longer text of some words")
    for again in (copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf))):
        assert score(again, "a b a b, this is a longer text of some words") == before


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: type(leaf).__name__)
@given(text=st.text(st.characters(), max_size=60))
def test_no_text_makes_them_raise(leaf: Rubric, text: str) -> None:
    found = scored(leaf, text)
    low, high = leaf.range
    assert found.status == "unscored" or low <= float(found.score or 0.0) <= high


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: type(leaf).__name__)
@pytest.mark.parametrize(
    "text", ["a" * 100_000 + "!", "\0", "\ud800", "<think>" * 5_000, "[1" * 20_000, " " * 100_000, "(" + "a" * 390]
)
def test_hostile_texts_hang_nothing(leaf: Rubric, text: str) -> None:
    assert scored(leaf, text).status in ("scored", "unscored")


def test_lengths_that_would_take_long_are_not_compared() -> None:
    leaf = Fuzzy(expected_from="task", longest=10)
    assert score(leaf, "a" * 10, None, "a" * 10) == 1.0
    assert scored(leaf, "a" * 11, None, "a").reason == "it has 11 characters; 10 are compared at most"
    assert score(leaf, "a" * 11, None, "a") == 0.0
    found = scored(leaf, "a", None, "a" * 11)  # it is the task's fault
    assert (found.status, found.reason) == ("unscored", "the expected text has 11 characters; 10 are compared at most")
    assert score(Fuzzy("a" * 1_001, by="partial"), "a") == "unscored"
    assert score(Rouge("a " * 2_000, variant="rougeLsum"), "a " * 2_001) == 0.0
    assert score(Rouge("a " * 2_001, variant="rougeLsum"), "a " * 2_000) == "unscored"
    told = "there are 20000 words and 300 expected, too many for rougeLsum"
    assert scored(Rouge("a " * 300, variant="rougeLsum"), "[1" * 20_000).reason == told


@given(st.lists(st.sampled_from(["the", "cats", "Sat", "on", "é", "x-y"]), max_size=9), st.booleans())
def test_rouge_is_that_of_rouge_score(words: list[str], stem: bool) -> None:
    text, reference = " ".join(words), "the cat sat on the mats"
    theirs = RougeScorer(["rougeL"], use_stemmer=stem).score(reference, text)["rougeL"]
    for measure in ("precision", "recall", "fmeasure"):
        assert score(Rouge(reference, measure=measure, stem=stem), text) == pytest.approx(getattr(theirs, measure))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Exact(), "give either expected or expected_from"),
        (lambda: Exact("a", "task"), "give either expected or expected_from"),
        (lambda: Exact([]), "expected is a text or a list of texts"),
        (lambda: Exact("a", of="answer"), "a path into the step begins with"),
        (lambda: Exact("a", within="<x>"), "within is the name of a tag"),
        (lambda: Exact("a", normalize="all"), "normalize is 'none', 'spaces' or 'squad'"),  # type: ignore[arg-type]
        (lambda: Contains([]), "words is a text, or a list of some"),
        (lambda: Contains("a", need="some"), "need is 'all', 'any' or 'none'"),  # type: ignore[arg-type]
        (lambda: Contains("a", need="any", partial=True), "partial goes with 'all'"),
        (lambda: Regex("(a"), "is no pattern of RE2"),
        (lambda: Regex("(?=a)b"), "is no pattern of RE2"),
        (lambda: Regex("a", match="some"), "match is 'search', 'full' or 'none'"),  # type: ignore[arg-type]
        (lambda: Length(4, 2), "most .2. is below least .4."),
        (lambda: Length(unit="tokens"), "unit is 'characters', 'words' or 'lines'"),  # type: ignore[arg-type]
        (lambda: Overlong(10, 0), "cushion is above 0 and at most longest"),
        (lambda: Repetition(0), "n is at least 1"),
        (lambda: Repetition(weight=0.5), "weight below 0"),
        (lambda: Tags([]), "tags is a list of names"),
        (lambda: Citations("apa"), "style is 'numeric' or 'author-year'"),  # type: ignore[arg-type]
        (lambda: Fuzzy("a", by="x"), "by is one of ratio"),  # type: ignore[arg-type]
        (lambda: TokenOverlap("a", measure="x"), "measure is f1"),  # type: ignore[arg-type]
        (lambda: Rouge("a", longest=0), "longest is a number of characters"),
        (lambda: Rouge("a", variant="rouge9"), "variant is rouge1"),  # type: ignore[arg-type]
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        make()
