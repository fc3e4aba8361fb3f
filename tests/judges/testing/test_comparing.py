"""Two reports over the same rows: which verdicts changed, and whether one judge is right more often."""

import json
import math
from datetime import date

import pytest

from judges import Likert
from judges.testing.comparing import baseline_of, changes
from judges.testing.golden import GoldenError
from judges.testing.results import Answer, Case, SuiteReport
from tests.judges.testing.suites import case, suite


def test_a_verdict_that_changed_is_named_with_both_reasons() -> None:
    old = suite(case("x", True, True), case("y", True, False), case("z", False, False))
    new = suite(case("x", True, False), case("y", True, True), case("z", False, False))
    found = changes(old, new)
    assert [each.id for each in found.changed] == ["x", "y"]
    one = found.changed[0]
    assert (one.old.label, one.old.reason, one.old.right) == (True, "x says True", True)
    assert (one.new.label, one.new.reason, one.new.right) == (False, "x says False", False)
    assert [each.id for each in found.worse] == ["x"]
    assert [each.id for each in found.better] == ["y"]
    assert found.compared == 3


def test_one_answer_a_row_is_mcnemars_test() -> None:
    """Of 20 rows the new judge is right on 8 where the old is not, and wrong on 1 where it is right.

    p = 2 · (C(9,0) + C(9,1)) / 2⁹ = 20 / 512.
    """
    pairs = [(False, True)] * 8 + [(True, False)] + [(True, True)] * 11
    old, new = (suite(*(case(str(n), True, pair[side]) for n, pair in enumerate(pairs))) for side in (0, 1))
    paired = changes(old, new).paired
    assert (paired.test, paired.a_better, paired.b_better) == ("mcnemar", 8, 1)
    assert paired.p_value == pytest.approx(20 / 512)
    assert paired.difference.estimate == pytest.approx(7 / 20)
    assert paired.detectable is not None


def test_samples_and_orders_are_a_sign_flip_test_over_rows() -> None:
    """A row's difference is the mean over its orders of the share of samples that is right: 1/2 and 1 of 12 rows."""
    row = [case("0", True, True, True)] + [case(str(n), True, True, True) for n in range(1, 12)]
    worse = [case("0", True, True, False), case("1", True, False, False)]
    paired = changes(suite(*row, samples=2), suite(*worse, *row[2:], samples=2)).paired
    assert (paired.test, paired.a_better, paired.b_better) == ("sign-flip", 0, 2)
    assert paired.difference.estimate == pytest.approx(-1.5 / 12)
    assert paired.p_value == 0.5  # of four assignments of signs, two are as far from 0


def test_each_order_of_a_pair_is_a_verdict() -> None:
    def pair(given: str, swapped: str) -> Case:
        answers = Answer(label=given), Answer(label=swapped, order="swapped")
        return case("p", "a", *answers, inputs={"a": "one", "b": "two"})

    old, new = (suite(pair("a", swapped), kind="pairs") for swapped in ("a", "b"))
    found = changes(old, new)
    assert [(each.id, each.order, each.old.label, each.new.label) for each in found.changed] == [
        ("p", "swapped", "a", "b")
    ]
    assert found.compared == 2
    assert found.paired.test == "sign-flip"


def test_no_verdict_is_not_an_abstention() -> None:
    failed, silent = Answer(failure="format", message="no JSON"), Answer()
    old = suite(case("x", True, True), case("y", True, silent), case("z", True, failed))
    new = suite(case("x", True, failed), case("y", True, failed), case("z", True, failed))
    found = changes(old, new)
    assert [(each.id, each.old.failure, each.new.failure) for each in found.changed] == [
        ("x", None, "format"),
        ("y", None, "format"),
    ]
    assert found.paired.b_better == 1  # no verdict is not right


def test_rows_that_are_not_the_same_are_not_compared() -> None:
    old = suite(case("gone", True, True), case("x", True, True), case("stale", True, True))
    stale = Case(row=old["stale"].row, place="", stale=True)
    new = suite(case("x", True, False, inputs={"reply": "another text"}), case("new", True, True), stale)
    found = changes(old, new)
    assert (found.only_old, found.only_new, found.other, found.stale) == (("gone",), ("new",), ("x",), ("stale",))
    assert (found.changed, found.compared, found.paired.p_value) == ((), 0, None)


def test_a_report_that_was_read_has_the_same_rows() -> None:
    one = suite(case("x", True, True, inputs={"day": date(2026, 1, 2), "share": math.nan}))
    read = SuiteReport.model_validate(json.loads(json.dumps(one.to_dict(), allow_nan=False)))
    assert (changes(read, one).other, changes(read, one).compared) == ((), 1)


def test_another_gold_label_holds_for_both_sides() -> None:
    found = changes(suite(case("x", True, True)), suite(case("x", False, False)))
    assert found.regraded == ("x",)
    assert (found.changed[0].old.right, found.changed[0].new.right) == (False, True)


def test_a_label_and_a_number_are_compared_as_labels_are() -> None:
    scale = Likert(1, 5).to_dict()
    old, new = (suite(*(case(str(n), 4, said) for n in range(3)), scale=scale) for said in (4, 4.0))
    assert changes(old, new).changed == ()


def test_figures_that_differ() -> None:
    rows = [case(str(n), n % 2 == 0, n % 2 == 0) for n in range(20)]
    found = changes(suite(*rows), suite(case("0", True, False), *rows[1:]))
    figures = {each.name: each for each in found.figures}
    assert figures["accuracy"].old is not None and figures["accuracy"].old.estimate == 1.0
    assert figures["accuracy"].new is not None and figures["accuracy"].new.estimate == 0.95
    assert "true_negative_rate" not in figures
    assert changes(suite(*rows), suite(*rows)).figures == ()


def test_other_kinds_and_scales_are_refused() -> None:
    labels = suite(case("x", True, True))
    pairs = suite(case("x", "a", "a", inputs={"a": "1", "b": "2"}), kind="pairs")
    with pytest.raises(GoldenError, match=r"tone asks for labels, and tone for pairs: nothing can be compared"):
        changes(labels, pairs)
    five, ten = (suite(case("x", 4, 4), scale=Likert(1, high).to_dict()) for high in (5, 10))
    with pytest.raises(GoldenError, match="different scales: Likert"):
        changes(five, ten)


def test_the_baseline_of_a_suite() -> None:
    rows = case("x", True, True)
    one, other = (suite(rows, model=model) for model in ("m-1", "m-2"))
    assert baseline_of(one, [other, one]) is one
    assert baseline_of(one, [other]) is other  # another model is what is compared
    assert baseline_of(suite(rows, model="m-3"), [one, other]) is None
    assert baseline_of(suite(rows, suite="else"), [one]) is None
    here, there = (suite(rows, path=path) for path in ("a/tone.judge.yaml", "b/tone.judge.yaml"))
    assert baseline_of(there, [here, there]) is there
