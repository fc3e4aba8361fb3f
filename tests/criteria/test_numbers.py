"""Criteria of numbers, choices and mathematics."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rubrics import Evaluation, Rubric, StructureError
from rubrics.criteria import InRange, MathEqual, MultipleChoice, NumericEqual, mathematics
from rubrics.criteria.quantities import Found, numbers_in


def scored(leaf: Rubric, action: Any, observation: Any = None, task: Any = None) -> Evaluation:
    return leaf.evaluate_sync(action, observation, leaf.episode(task=task))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("42", [42.0]),
        ("It is -3.5, I think.", [-3.5]),
        ("−3", [-3.0]),
        ("1,234.5", [1234.5]),
        ("1 234", [1.0, 234.0]),
        ("1\u202f234", [1234.0]),
        ("1'234'567", [1234567.0]),
        ("1e-3", [0.001]),
        (".5", [0.5]),
        ("½", [0.5]),
        ("7/10", []),
        ("12:30", []),
        ("on 2024-01-05", []),
        ("2½", [2.5]),
        ("2 ½ cups", [2.5]),
        ("12½ and ¾", [12.5, 0.75]),
        ("6.02 × 10²³", [6.02e23]),
        ("5*10^{-3}", [0.005]),
        ("3 m^-2", [3.0]),
        ("\u200e−3", [-3.0]),
        ("٣ and １２", [3.0, 12.0]),
        ("3-5", [3.0, 5.0]),
        ("① first", []),
        ("v1.2.3", []),
        ("1.234,5", []),
        ("1,23", []),
        ("x2", []),
        ("H2O", []),
        ("1e999", []),
        ("x²", []),
        ("", []),
    ],
)
def test_the_numbers_of_a_text(text: str, found: list[float]) -> None:
    assert [each.value for each in numbers_in(text)] == found


def test_with_a_decimal_comma() -> None:
    assert numbers_in("1.234,5 kg", ",") == [Found(1234.5, "kg")]
    assert numbers_in("3,14", ",") == [Found(3.14)]
    assert numbers_in("1.234", ",") == [Found(1234.0)]


@given(st.floats(-1e12, 1e12).map(lambda value: round(value, 3)))
def test_a_number_that_is_written_is_read(value: float) -> None:
    assert [each.value for each in numbers_in(f"It is {value!r}.")] == [value]
    assert [each.value for each in numbers_in(f"({value:,.3f})")] == [pytest.approx(value)]


@pytest.mark.parametrize(
    ("leaf", "text", "expected"),
    [
        (NumericEqual(42), "42", 1.0),
        (NumericEqual(42), "The answer is 42.", 1.0),
        (NumericEqual(42), "41", 0.0),
        (NumericEqual(42), "4 or 42", 0.0),  # a guess
        (NumericEqual(42), "42, that is 42.0", 1.0),
        (NumericEqual(42, pick="last"), "4, no: 42", 1.0),
        (NumericEqual(42, pick="first"), "4, no: 42", 0.0),
        (NumericEqual(100, relative=0.05), "104", 1.0),
        (NumericEqual(100, relative=0.05), "106", 0.0),
        (NumericEqual(0, absolute=0.1), "0.05", 1.0),
        (NumericEqual(0), "no idea", 0.0),
        (NumericEqual(10), "out of 10, I give 7", 0.0),
        (NumericEqual(0.5), "½", 1.0),
        (NumericEqual(1234.5), "1,234.5", 1.0),
        (NumericEqual(42, within="answer"), "1 <answer>42</answer> 3", 1.0),
        (NumericEqual(10, unit="km"), "10 km", 1.0),
        (NumericEqual(10, unit="km"), "10000 m", 1.0),
        (NumericEqual(10, unit="km"), "10", 1.0),
        (NumericEqual(10, unit="km", need_unit=True), "10", 0.0),
        (NumericEqual(10, unit="km"), "10 kg", 0.0),
        (NumericEqual(36, unit="km/h"), "10 m/s", 1.0),
        (NumericEqual(0.5, unit="dimensionless"), "50%", 1.0),
        (NumericEqual(20, unit="degC"), "68 °F", 1.0),
        (NumericEqual(3, unit="m^2"), "3 m²", 1.0),
        (NumericEqual(5, unit="km"), "5 apples", 1.0),  # a word that is no unit is not one
        (NumericEqual(5, unit="km"), "It is 5 in total.", 1.0),
        (NumericEqual(2.54, unit="cm"), "1 in", 1.0),
        (NumericEqual(10, unit="m/s^2"), "10 m/s²", 1.0),
        (NumericEqual(3, unit="m", pick="first"), "3 m^9^9^9^9", 1.0),  # which pint would work out
        (NumericEqual(1_000_000), "1000001", 0.0),
        (InRange(1, 5), "3", 1.0),
        (InRange(1, 5), "5", 1.0),
        (InRange(1, 5), "6", 0.0),
        (InRange(most=0), "−2", 1.0),
        (InRange(1, 5), "none", 0.0),
        (MultipleChoice("B"), "B", 1.0),
        (MultipleChoice("B"), " (b) ", 0.0),  # options are capital letters where they stand alone
        (MultipleChoice("B"), "B. Paris", 1.0),
        (MultipleChoice("B"), "Answer: B", 1.0),
        (MultipleChoice("B"), "The answer is (B).", 1.0),
        (MultipleChoice("B"), "the answer is **B**", 1.0),
        (MultipleChoice("B"), "First I thought the answer is A, but the answer is B.", 1.0),
        (MultipleChoice("B"), "\\boxed{B}", 1.0),
        (MultipleChoice("B"), "A is wrong. So \\boxed{\\text{B}}", 1.0),
        (MultipleChoice("B"), "Answer: A or B", 0.0),
        (MultipleChoice("B"), "Answer: A, B", 0.0),
        (MultipleChoice("B"), "(A) (B) (C) (D)", 0.0),
        (MultipleChoice("B"), "A", 0.0),
        (MultipleChoice("A"), "A good question. I do not know.", 0.0),
        (MultipleChoice("A"), "The answer is a matter of taste.", 0.0),
        (MultipleChoice("A"), "I choose a quiet life.", 0.0),
        (MultipleChoice("A"), "Answer: a", 1.0),
        (MultipleChoice("B"), "**Answer:** **B**", 1.0),
        (MultipleChoice("B"), "**Answer: (B)**", 1.0),
        (MultipleChoice("B"), "Because of that:\n\n**B**\n", 1.0),
        (MultipleChoice("B"), "**B** is the correct answer, and A is incorrect.", 1.0),
        (MultipleChoice("B"), "$\\boxed{\\textbf{(B)}}$", 1.0),
        (MultipleChoice("B"), "So the answer would be option B.", 1.0),
        (MultipleChoice("B"), "I choose B, because the answer A is wrong.", 1.0),
        (MultipleChoice("B"), "The answer is not B.", 0.0),
        (MultipleChoice("B"), "Do not choose B.", 0.0),
        (MultipleChoice("B"), "The best choice is both A and B.", 0.0),
        (MultipleChoice("B"), "A) Rome\nB) Paris\nC) Oslo", 0.0),
        (MultipleChoice("B"), "The answer is B's neighbour.", 0.0),
        (MultipleChoice("C"), "Answer: Cannot tell", 0.0),
        (MultipleChoice(["A", "B"]), "B", 1.0),
        (MultipleChoice("E", options="ABCDE"), "answer: E", 1.0),
        (MultipleChoice("E", options="ABCDE"), "", 0.0),
    ],
)
def test_what_an_answer_is_worth(leaf: Rubric, text: str, expected: float) -> None:
    found = scored(leaf, text)
    assert (found.status, found.score) == ("scored", expected), found.reason


def test_what_is_expected_may_stand_in_the_task() -> None:
    leaf = NumericEqual(expected_from="task.answer")
    assert scored(leaf, "7", None, {"answer": 7}).score == 1.0
    assert scored(leaf, "7", None, {"answer": "7.0"}).score == 1.0
    assert scored(leaf, "7", None, {"answer": "7 or 8"}).reason == "task.answer is no number"
    assert scored(leaf, "7", None, {"answer": True}).status == "unscored"
    for text, score in (("10000 m", 1.0), ("10 km", 1.0), ("10", 1.0), ("10 m", 0.0), ("10 kg", 0.0)):
        assert scored(leaf, text, None, {"answer": "10 km"}).score == score
    assert scored(leaf, "5", None, {"answer": "5 apples"}).score == 1.0
    assert scored(MultipleChoice(expected_from="task"), "B", None, "b").score == 1.0
    assert scored(MultipleChoice(expected_from="task"), "B", None, "E").reason == "'E' is not among the options ABCD"


@pytest.mark.parametrize(
    ("expected", "text", "score"),
    [
        ("1/2", "0.5", 1.0),
        ("\\frac{1}{2}", "$\\frac{2}{4}$", 1.0),
        ("$x^2+2x+1$", "$(x+1)^2$", 1.0),
        ("1/2", "The answer is $\\frac{1}{3}$", 0.0),
        ("$\\sqrt{2}$", "so it is \\boxed{\\sqrt{2}}", 1.0),
        ("1/2", "I do not know", 0.0),
    ],
)
def test_mathematics(expected: str, text: str, score: float) -> None:
    assert scored(MathEqual(expected), text).score == score


def test_an_expression_that_takes_for_ever_is_stopped_in_any_thread() -> None:
    leaf = MathEqual("$x$", seconds=1.0)
    assert scored(leaf, "$y$").score == 0.0  # the process has started
    hostile = "$" + "^".join(["9"] * 9) + "$"
    found: list[Evaluation] = []
    threads = [threading.Thread(target=lambda: found.append(scored(leaf, hostile))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [each.score for each in found] == [0.0, 0.0]
    assert scored(MathEqual("1/2"), "0.5").score == 1.0  # and the next one is compared


def test_a_slow_comparison_holds_up_no_other_thread_and_leaves_no_process() -> None:
    workers = mathematics._Workers()
    workers._free = threading.BoundedSemaphore(2)
    hostile = threading.Thread(target=workers.ask, args=(("$9^{9^{9^9}}$", "5"), 2.0))
    hostile.start()
    assert workers.ask(("0.5", "1/2"), 60.0) == "equal"
    hostile.join(120)
    running = [worker._process for worker in workers._idle if worker._process is not None]
    workers.stop()
    assert running and all(process.returncode is not None for process in running)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_after_a_fork_other_processes_compare() -> None:
    assert mathematics.equal("0.5", "1/2", 60.0) == "equal"
    child = os.fork()
    if not child:
        os._exit(0 if mathematics.equal("0.25", "1/4", 60.0) == "equal" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert mathematics.equal("0.125", "1/8", 60.0) == "equal"


def test_a_reference_that_is_no_mathematics() -> None:
    found = scored(MathEqual("a banana, perhaps?"), "$x + 1$")
    assert found.status in ("unscored", "scored") and found.score != 1.0


@pytest.mark.parametrize("text", ["answer:" + " " * 100_000, "(" * 10**6, "answer is " * 10**5, "B\n" * 10**5])
def test_no_text_hangs_a_choice(text: str) -> None:
    assert scored(MultipleChoice("A"), text).score == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NumericEqual(), "give either expected or expected_from"),
        (lambda: NumericEqual(float("nan")), "expected is a finite number"),
        (lambda: NumericEqual(1, relative=-1), "tolerances are 0 or more"),
        (lambda: NumericEqual(1, unit="bananas"), "'bananas' is no unit"),
        (lambda: NumericEqual(1, pick="some"), "pick is 'only', 'first' or 'last'"),  # type: ignore[arg-type]
        (lambda: NumericEqual(1, decimal=";"), "decimal is '.' or ','"),  # type: ignore[arg-type]
        (lambda: InRange(), "give least, most or both"),
        (lambda: InRange(2, 1), "least .2. is above most .1."),
        (lambda: MultipleChoice("F"), "'F' is not among the options ABCD"),
        (lambda: MultipleChoice("A", options="abc"), "options are capital letters"),
        (lambda: MathEqual("1", seconds=0), "seconds is above 0"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        make()
