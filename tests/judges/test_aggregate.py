"""Several answers to one question, made into one verdict."""

from __future__ import annotations

from collections import Counter
from math import fsum
from statistics import median
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from judges import JudgeConfigError, JudgeFailure, Usage, Verdict
from judges.aggregate import Aggregate, aggregated, check_aggregate

ONE_CALL = Usage(1, 10, 0, 2, 12, 0.5)


def graded(label: int, reason: str | None = None, **fields: Any) -> Verdict:
    return Verdict((label - 1) / 4, label, reason or f"because {label}", ONE_CALL, "m", f"reply {label}", **fields)


def abstained(reason: str | None = None) -> Verdict:
    return Verdict(None, None, reason, ONE_CALL)


def failed(kind: Any = "timeout", message: str = "no reply", **fields: Any) -> JudgeFailure:
    return JudgeFailure(kind, message, ONE_CALL, **fields)


def verdict(answers: list[Verdict | JudgeFailure], how: Aggregate = "mean", quorum: int = 1) -> Verdict:
    found = aggregated(answers, how, quorum)
    assert isinstance(found, Verdict), found
    return found


def failure(answers: list[Verdict | JudgeFailure], how: Aggregate = "mean", quorum: int = 1) -> JudgeFailure:
    found = aggregated(answers, how, quorum)
    assert isinstance(found, JudgeFailure), found
    return found


@pytest.mark.parametrize(
    ("labels", "how", "score"),
    [
        ([1, 4, 5], "mean", 1.75 / 3),
        ([1, 4, 5], "median", 0.75),
        ([1, 5], "median", 0.5),
        ([4, 4, 1], "majority", 0.75),
        ([4, 4, 4], "mean", 0.75),
        ([3], "majority", 0.5),
    ],
)
def test_mean_median_and_majority(labels: list[int], how: Aggregate, score: float) -> None:
    assert verdict([graded(label) for label in labels], how).score == pytest.approx(score)


def test_without_a_majority_there_is_no_verdict() -> None:
    for labels in ([1, 5], [1, 3, 5], [4, 4, 1, 1], [4, 4, 1, 2]):
        found = failure([graded(label) for label in labels], "majority")
        assert (
            found.kind == "ambiguous"
            and "no label has a majority" in found.message
            and len(found.samples) == len(labels)
        )
        assert found.usage.calls == len(labels)


def test_failures_and_abstentions_have_no_score_and_take_no_part() -> None:
    found = verdict([graded(5), failed(), abstained(), graded(3)], quorum=2)
    assert found.score == pytest.approx(0.75) and found.agreement == 0.5


def test_all_answers_stay_in_their_order_and_their_cost_is_summed() -> None:
    answers = [graded(5), failed(), abstained(), graded(3)]
    found = verdict(answers, quorum=2)
    assert found.samples == tuple(answers) and found.usage == Usage(4, 40, 0, 8, 48, 2.0)
    lost = failure(answers, quorum=4)
    assert lost.samples == tuple(answers) and lost.usage == found.usage


def test_a_quorum_that_is_not_met_is_the_most_frequent_failure() -> None:
    answers = [graded(5), failed("auth", "first"), failed("timeout", "second", attempts=3), failed("timeout", "third")]
    found = failure(answers, quorum=2)
    assert (
        found.kind == "timeout" and "1 of 4 gave a score, and 2 must; second" in found.message and found.attempts == 3
    )


def test_enough_answers_of_which_some_abstain_are_an_abstention() -> None:
    found = verdict([graded(5), abstained(), abstained("cannot see the image")], quorum=2)
    assert found.abstained and found.reason == "cannot see the image"
    assert verdict([graded(5), abstained()], quorum=2).reason == "1 of 2 gave a score, and 2 must"
    assert failure([graded(5), abstained(), failed()], quorum=3).kind == "timeout"


def test_label_and_reason_are_those_of_one_answer() -> None:
    split = verdict([graded(1), graded(3), graded(5)])
    assert (split.label, split.reason, split.reply) == (3, "because 3", "reply 3")
    most = verdict([graded(5), graded(5), graded(5), graded(4), graded(1)])
    assert most.score == pytest.approx(0.75) and most.agreement == pytest.approx(0.6)
    assert (most.label, most.reason) == (5, "because 5")


def test_it_came_from_a_store_if_every_answer_did() -> None:
    assert verdict([graded(5, cached=True), graded(4, cached=True)]).cached
    assert not verdict([graded(5, cached=True), graded(4)]).cached
    assert failure([failed(cached=True)]).cached


ANSWERS = st.lists(
    st.one_of(st.integers(1, 5).map(graded), st.just(abstained()), st.sampled_from(["auth", "timeout"]).map(failed)),
    min_size=1,
    max_size=9,
)


@given(ANSWERS, st.sampled_from(get_args(Aggregate)), st.integers(1, 9), st.randoms())
def test_laws(answers: list[Verdict | JudgeFailure], how: Aggregate, quorum: int, random: Any) -> None:
    quorum = min(quorum, len(answers))
    found = aggregated(answers, how, quorum)
    assert found.usage == sum((answer.usage for answer in answers), Usage())
    scores = [a.score for a in answers if isinstance(a, Verdict) and a.score is not None]
    labels = Counter(a.label for a in answers if isinstance(a, Verdict) and a.score is not None)
    answered = sum(isinstance(answer, Verdict) for answer in answers)
    if len(scores) < quorum:
        assert isinstance(found, Verdict) == (answered >= quorum) and (
            isinstance(found, JudgeFailure) or found.abstained
        )
    elif isinstance(found, Verdict):
        votes = labels.most_common(1)[0][1]
        assert found.score is not None and min(scores) - 1e-12 <= found.score <= max(scores) + 1e-12
        assert found.agreement == votes / len(scores) and found.label in labels
        expected = {"mean": fsum(scores) / len(scores), "median": median(scores)}
        assert found.score == pytest.approx(expected.get(how, found.score))
    else:
        assert how == "majority" and 2 * max(labels.values()) <= len(scores)
    shuffled = random.sample(answers, len(answers))
    other = aggregated(shuffled, how, quorum)
    assert type(other) is type(found)
    if isinstance(found, Verdict) and isinstance(other, Verdict):
        assert other.score == pytest.approx(found.score) and other.agreement == found.agreement


def test_what_is_no_way_to_aggregate_is_refused() -> None:
    for how in get_args(Aggregate):
        check_aggregate(how)
    with pytest.raises(JudgeConfigError, match="mean, median, majority"):
        check_aggregate("mode")
