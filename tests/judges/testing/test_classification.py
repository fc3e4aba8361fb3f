"""Accuracy, precision, recall, TPR, TNR and the confusion matrix; rates and costs."""

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, strategies as st

from judges import JudgeFailure, Verdict
from judges.testing.metrics import (
    MetricError,
    Rate,
    accuracy,
    accuracy_of_parsed,
    answer_rates,
    confusion,
    precision,
    recall,
    summarise,
    true_negative_rate,
    true_positive_rate,
)
from judges.verdict import FailureKind

GOLD = [True, True, True, True, False, False, False, False, False, None]
JUDGED = [True, True, False, None, False, False, True, None, None, True]


def test_by_hand() -> None:
    assert (accuracy(GOLD, JUDGED).estimate, accuracy(GOLD, JUDGED).n) == (4 / 9, 9)
    assert (accuracy_of_parsed(GOLD, JUDGED).estimate, accuracy_of_parsed(GOLD, JUDGED).n) == (4 / 6, 6)
    assert (true_positive_rate(GOLD, JUDGED).estimate, true_positive_rate(GOLD, JUDGED).n) == (2 / 4, 4)
    assert (true_negative_rate(GOLD, JUDGED).estimate, true_negative_rate(GOLD, JUDGED).n) == (2 / 5, 5)
    assert (precision(GOLD, JUDGED, True).estimate, precision(GOLD, JUDGED, True).n) == (2 / 3, 3)
    assert (recall(GOLD, JUDGED, False).estimate, recall(GOLD, JUDGED, False).n) == (2 / 5, 5)


def test_a_judge_without_verdicts_is_never_right() -> None:
    """And is not said to reject what it did not judge."""
    nothing = [None] * len(GOLD)
    assert accuracy(GOLD, nothing).estimate == 0.0
    assert true_negative_rate(GOLD, nothing).estimate == 0.0
    assert accuracy_of_parsed(GOLD, nothing).estimate is None
    assert precision(GOLD, nothing, True).estimate is None
    assert recall(GOLD, JUDGED, "no such label").estimate is None


def test_true_negatives_of_a_scale() -> None:
    gold, judged = ["good", "fair", "bad", "bad"], ["good", "bad", "fair", "good"]
    assert true_negative_rate(gold, judged, "good").estimate == pytest.approx(2 / 3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=30))
def test_as_scikit_learn_has_them(pairs: list[tuple[str, str]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    gold, judged = ([pair[side] for pair in pairs] for side in (0, 1))
    labels = ["a", "b", "c"]
    assert accuracy(gold, judged).estimate == pytest.approx(metrics.accuracy_score(gold, judged))
    precisions, recalls, _, _ = metrics.precision_recall_fscore_support(
        gold, judged, labels=labels, zero_division=np.nan
    )
    for place, label in enumerate(labels):
        for found, expected in ((precision, precisions[place]), (recall, recalls[place])):
            value = found(gold, judged, label).estimate
            assert (value is None and math.isnan(expected)) or value == pytest.approx(expected)
    table = confusion(gold, judged, labels)
    assert table.labels == tuple(labels)
    assert table.counts == tuple(map(tuple, metrics.confusion_matrix(gold, judged, labels=labels).tolist()))
    assert table.unjudged == (0, 0, 0)


def test_the_confusion_matrix_counts_every_row() -> None:
    table = confusion(GOLD, JUDGED)
    assert table.labels == (False, True)
    assert table.counts == ((2, 1), (1, 2))
    assert table.unjudged == (2, 1)
    assert confusion([], []).counts == ()
    with pytest.raises(MetricError, match="entry 0 is 'c'"):
        confusion(["c"], ["a"], ["a", "b"])


def test_clusters_widen() -> None:
    gold, judged = [True] * 100, ([True] * 4 + [False]) * 20
    judged.sort()
    plain, clustered = accuracy(gold, judged), accuracy(gold, judged, clusters=[row // 5 for row in range(100)])
    assert (clustered.n, clustered.clusters) == (100, 20)
    assert clustered.low is not None and plain.low is not None and clustered.low < plain.low


def test_yes_is_not_one() -> None:
    with pytest.raises(MetricError, match="labels of one scale"):
        accuracy([1, 0], [True, False])
    assert recall([1, 0], [1, 0], True).estimate is None
    assert accuracy(np.array([True, False]), [True, False]).estimate == 1.0


# -- rates ------------------------------------------------------------------------------------------------------------


def test_what_became_of_the_questions() -> None:
    failures: list[FailureKind] = ["format", "out_of_scale", "ambiguous", "refused", "truncated", "timeout", "budget"]
    answers = [Verdict(0.0, False), Verdict(1.0, True), Verdict(None), *(JudgeFailure(kind, "") for kind in failures)]
    found = answer_rates(answers)
    assert {rate: figure.estimate for rate, figure in found.items()} == {
        "verdict": 0.2,
        "abstention": 0.1,
        "format": 0.3,
        "refusal": 0.1,
        "truncation": 0.1,
        "unreached": 0.2,
    }
    assert all(figure.n == 10 and figure.low is not None for figure in found.values())
    assert all(figure.estimate is None for figure in answer_rates([]).values())
    clustered = answer_rates(answers, clusters=[place // 2 for place in range(10)])
    assert clustered["verdict"].clusters == 5


def test_every_kind_of_failure_has_its_rate() -> None:
    for kind in get_args(FailureKind):
        found = answer_rates([JudgeFailure(kind, "")])
        assert sum(figure.estimate or 0.0 for figure in found.values()) == 1.0
        assert found["verdict"].estimate == found["abstention"].estimate == 0.0
    assert set(found) == set(get_args(Rate))


# -- costs ------------------------------------------------------------------------------------------------------------


def test_costs_are_summed_up() -> None:
    found = summarise([0.01 * place for place in range(1, 101)] + [None])
    assert (found.n, found.highest) == (100, 1.0)
    assert found.total == pytest.approx(50.5)
    assert found.mean.estimate == pytest.approx(0.505)
    assert found.median.estimate == pytest.approx(0.5)
    assert found.p95.estimate == pytest.approx(0.95)
    for figure in (found.mean, found.median, found.p95):
        assert figure.estimate is not None and figure.low is not None and figure.high is not None
        assert figure.low < figure.estimate < figure.high


def test_nothing_spent_and_nothing_measured() -> None:
    free = summarise([0.0] * 20)
    assert (free.total, free.mean.estimate, free.mean.low) == (0.0, 0.0, None)
    nothing = summarise([None])
    assert (nothing.n, nothing.total, nothing.mean.estimate, nothing.highest) == (0, 0.0, None, None)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60))
def test_quantiles_as_numpy_has_them(values: list[Any]) -> None:
    found = summarise(values)
    assert found.median.estimate == np.quantile(values, 0.5, method="inverted_cdf")
    assert found.p95.estimate == np.quantile(values, 0.95, method="inverted_cdf")
