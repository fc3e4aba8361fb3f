"""What sways a judge: known biases are planted in scripted judges, and found."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from judges import Binary, ChatRequest, Judge, JudgeFailure, PairwiseJudge, ScriptedClient, Verdict
from judges.testing.metrics import (
    Interval,
    MetricError,
    accuracy_over_orders,
    answer_rates,
    both_orders_accuracy,
    consistency,
    decide,
    expected_calibration_error,
    first_position_rate,
    self_agreement,
    spearman,
    unanimity,
    verbosity,
)
from tests.judges.fenced import inside

picks = st.lists(st.tuples(*[st.sampled_from(["a", "b", "tie", None])] * 2), min_size=1, max_size=20)


def excludes(found: Interval, value: float) -> bool:
    assert found.low is not None and found.high is not None
    return not found.low <= value <= found.high


# -- by hand ----------------------------------------------------------------------------------------------------------

GOLD = ["a", "a", "b", "b", "a", None]
PICKS = [["a", "a"], ["a", "b"], ["b", "b"], ["a", "b"], ["a", None], ["b", "tie"]]


def test_orders_by_hand() -> None:
    over_orders = accuracy_over_orders(GOLD, PICKS)  # 2 + 1 + 2 + 1 + 1 of 10 games
    assert (over_orders.estimate, over_orders.n, over_orders.clusters) == (0.7, 10, 5)
    assert both_orders_accuracy(GOLD, PICKS).estimate == pytest.approx(2 / 5)
    assert (consistency(PICKS).estimate, consistency(PICKS).n) == (2 / 5, 5)
    first = first_position_rate(PICKS)  # decided are four items: the first position has 1, 2, 1 and 2 of their games
    assert (first.estimate, first.n) == (6 / 8, 4)


@given(picks)
def test_laws_of_orders(picks: list[tuple[Any, Any]]) -> None:
    first = first_position_rate(picks)
    swapped = first_position_rate([(b, a) for a, b in picks])
    decided = [pair for pair in picks if set(pair) <= {"a", "b"}]
    assert first.n == len(decided)
    if first.estimate is not None:
        shares = [((a == "a") + (b == "b")) / 2 for a, b in decided]
        assert first.estimate == pytest.approx(sum(shares) / len(shares))
        assert swapped.estimate == pytest.approx(1 - first.estimate)
    renamed = [[{"a": 1, "b": 2}.get(pick, pick) for pick in pair] for pair in picks]
    assert first_position_rate(renamed, (1, 2)) == first


def test_tables_that_are_none() -> None:
    for table in ([["a"]], ["ab"], [1, 2], [["a", "b", "a"]]):
        with pytest.raises(MetricError, match="picks are a table"):
            consistency(table)  # type: ignore[arg-type]
    with pytest.raises(MetricError, match="samples are a table"):
        unanimity(["abc"])
    with pytest.raises(MetricError, match="gold has 1, picks has 2"):
        accuracy_over_orders(["a"], [["a", "a"], ["b", "b"]])


def test_self_agreement_by_hand() -> None:
    samples = [[4, 4, 4], [4, 4, 5], [1, 2, 3], [4, None, None], [2, 2, None]]
    assert self_agreement(samples).estimate == pytest.approx((1 + 1 / 3 + 0 + 1) / 4)
    assert (unanimity(samples).estimate, unanimity(samples).n) == (2 / 4, 4)
    assert self_agreement([[1], [2]]).estimate is None
    perfect = self_agreement([[1, 1]] * 30)
    assert (perfect.estimate, perfect.high) == (1.0, 1.0)
    assert perfect.low == pytest.approx(30 / (30 + 1.959964**2))


def test_verbosity_as_the_formula_has_it() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    gold = rng.integers(1, 6, 100)
    lengths = gold * 20 + rng.integers(0, 100, 100)
    scores = np.clip(gold + rng.integers(-1, 2, 100), 1, 5)

    def free(values: Any) -> Any:
        """What is left of ranks by a regression on those of the gold labels."""
        ranks, given = stats.rankdata(values), stats.rankdata(gold)
        return ranks - np.polyval(np.polyfit(given, ranks, 1), given)

    found = verbosity(scores, lengths, gold)
    assert found.estimate == pytest.approx(stats.pearsonr(free(scores), free(lengths)).statistic)
    assert verbosity(gold, lengths, gold).estimate is None  # nothing of the scores is left to explain
    assert verbosity([*scores, 1], [*lengths, None], [*gold, 1]).n == 100
    constant = verbosity(scores, lengths, [1] * 100)
    assert constant.estimate == pytest.approx(spearman(scores, lengths).estimate)


# -- planted ----------------------------------------------------------------------------------------------------------


def pairwise(script: Callable[[str, str, random.Random], str]) -> PairwiseJudge:
    """A judge that reads two numbers and answers A, B or tie."""
    rng = random.Random(0)

    def reply(request: ChatRequest) -> dict[str, Any]:
        first, second = inside(request.messages[-1]["content"])[-2:]
        return {"reason": "so", "score": script(first, second, rng)}

    return PairwiseJudge(client=ScriptedClient(reply), model="m")


async def played(judge: PairwiseJudge, pairs: list[tuple[str, str]]) -> list[list[str]]:
    rows = []
    for a, b in pairs:
        comparison = await judge.compare(a, b)
        assert not isinstance(comparison, JudgeFailure)
        rows.append([
            "tie" if game.verdict.label == "tie" else "ab"[(game.verdict.label == "A") != (game.first == "a")]
            for game in comparison.games
        ])  # fmt: skip
    return rows


PAIRS = [(str(100 + place), str(200 + place)) for place in range(120)]  # b is always better


async def test_a_bias_of_position_is_found() -> None:
    def biased(first: str, second: str, rng: random.Random) -> str:
        return "A" if rng.random() < 0.3 or first > second else "B"

    found = await played(pairwise(biased), PAIRS)
    rate = first_position_rate(found)
    assert rate.estimate == pytest.approx(0.65, abs=0.06)  # three in ten of the games that would go to the second
    assert decide(rate, at_least=0.45, at_most=0.55).outcome == "FAIL"
    assert consistency(found).estimate == pytest.approx(0.7, abs=0.1)
    assert both_orders_accuracy(["b"] * 120, found).estimate == pytest.approx(0.7, abs=0.1)
    assert accuracy_over_orders(["b"] * 120, found).estimate == pytest.approx(0.85, abs=0.06)


async def test_where_there_is_no_bias_of_position_none_is_found() -> None:
    fair = await played(pairwise(lambda first, second, rng: "A" if first > second else "B"), PAIRS)
    rate = first_position_rate(fair)  # although the second candidate of each pair wins
    assert rate.estimate == 0.5
    assert decide(rate, at_least=0.45, at_most=0.55).outcome == "PASS"
    few = first_position_rate(fair[:12])
    assert decide(few, at_least=0.45, at_most=0.55).outcome == "INCONCLUSIVE"
    assert few.detectable() > 0.1 > rate.detectable()  # type: ignore[operator]


async def graded(script: Callable[[str, random.Random], Any], answers: list[str]) -> list[Verdict | JudgeFailure]:
    rng = random.Random(0)
    client = ScriptedClient(lambda request: script(inside(request.messages[1]["content"])[-1], rng))
    judge = Judge("{{ answer | untrusted }}", Binary(), client=client, model="m", reason=False, retries=0, max_wait=0.0)
    return [await judge.judge(answer=answer) for answer in answers]


@pytest.mark.parametrize("planted", [True, False])
async def test_a_bias_of_length_is_found(planted: bool) -> None:
    """Also where good answers are longer by themselves."""
    rng = random.Random(1)
    gold = [rng.random() < 0.5 for _ in range(300)]
    answers = [f"{'good' if good else 'bad'} {'x' * (rng.randrange(100) + 60 * good)}" for good in gold]

    def script(answer: str, rng: random.Random) -> dict[str, Any]:
        if planted and rng.random() < 0.4:
            return {"score": len(answer) > 85}
        return {"score": answer.startswith("good") if rng.random() < 0.9 else rng.random() < 0.5}

    verdicts = await graded(script, answers)
    scores = [verdict.score for verdict in verdicts if isinstance(verdict, Verdict)]
    lengths = [len(answer) for answer in answers]
    assert excludes(spearman(scores, lengths), 0.0)  # which says nothing
    assert excludes(verbosity(scores, lengths, gold), 0.0) == planted


async def test_a_judge_that_tosses_coins_does_not_agree_with_itself() -> None:
    answers = [str(place) for place in range(100) for _ in range(3)]
    doubtful = [
        verdict.label
        for verdict in await graded(
            lambda answer, rng: {"score": rng.random() < 0.5 if int(answer) < 40 else True}, answers
        )
        if isinstance(verdict, Verdict)
    ]
    table = np.array(doubtful).reshape(100, 3)
    assert self_agreement(table).estimate == pytest.approx(0.4 * 0.5 + 0.6, abs=0.06)
    assert unanimity(table).estimate == pytest.approx(0.4 * 0.25 + 0.6, abs=0.06)


async def test_failures_are_found() -> None:
    def script(answer: str, rng: random.Random) -> Any:
        return "I cannot say." if int(answer) % 5 == 0 else {"score": True}

    found = answer_rates(await graded(script, [str(place) for place in range(50)]))
    assert found["format"].estimate == 0.2
    assert found["verdict"].estimate == 0.8


def test_overconfidence_is_found() -> None:
    rng = np.random.default_rng(0)
    honest = rng.uniform(0.0, 1.0, 800)
    happened = rng.random(800) < honest
    boasted = np.where(honest > 0.5, 1 - (1 - honest) / 3, honest / 3)
    calibrated, bold = (expected_calibration_error(each, happened) for each in (honest, boasted))
    assert decide(calibrated, at_most=0.08).outcome == "PASS"
    assert decide(bold, at_most=0.08).outcome == "FAIL"
    assert bold.estimate == pytest.approx(1 / 6, abs=0.03)  # on average 2/3 of a quarter
