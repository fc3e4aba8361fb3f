"""`rank_group`, `bradley_terry` and `GroupJudge`: rankings out of comparisons."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from judges import (
    ChatReply,
    ChatRequest,
    GroupJudge,
    GroupwiseJudge,
    JudgeConfigError,
    JudgeError,
    JudgeFailure,
    PairwiseJudge,
    PromptError,
    Ranking,
    ScriptedClient,
    Usage,
    bradley_terry,
    rank_group,
)
from judges.ranking import By, Method
from rubrics.trajectory import Step, Trajectory
from tests.judges.fenced import inside

ONE_CALL = Usage(1, 10, 0, 2, 12, 0.5)


def shown(request: ChatRequest) -> list[str]:
    return inside(request.messages[1]["content"])


def reply(score: Any) -> ChatReply:
    return ChatReply(json.dumps({"reason": "so", "score": score}), "stop", usage=ONE_CALL, model="m")


def by(prefer: Callable[[str, str], float], **options: Any) -> PairwiseJudge:
    """A judge that prefers the first where the function is positive, the second where it is negative."""

    def script(request: ChatRequest) -> ChatReply:
        difference = prefer(*shown(request)[-2:])
        return reply("A" if difference > 0 else "B" if difference < 0 else "tie")

    return PairwiseJudge(client=ScriptedClient(script), model="m", max_wait=0.0, **options)


def by_number(first: str, second: str) -> float:
    return float(first.split()[0]) - float(second.split()[0])


def calls_of(judge: PairwiseJudge) -> int:
    return len(judge.judge.asker.exchanger.client.requests)  # type: ignore[attr-defined]


async def ranked(candidates: Sequence[Any], judge: PairwiseJudge | None = None, **options: Any) -> Ranking:
    found = await rank_group(candidates, judge or by(by_number), **options)
    assert isinstance(found, Ranking), found
    return found


NUMBERS = st.lists(st.integers(0, 9), min_size=2, max_size=7)
METHODS: list[Method] = ["round_robin", "knockout"]
SCORES: list[By] = ["win_rate", "rank", "bradley_terry"]


def distinct(numbers: list[int]) -> list[str]:
    """Texts of which no two are the same, whatever the numbers."""
    return [f"{number} of {i}" for i, number in enumerate(numbers)]


async def test_a_round_robin_by_hand() -> None:
    judge = by(by_number)
    found = await ranked(["2", "3", "1", "2 too"], judge)
    assert found.wins == ((0, 0, 1, 0.5), (1, 0, 1, 1), (0, 0, 0, 0), (0.5, 0, 1, 0))
    assert found.scores == pytest.approx((1.5 / 3, 1.0, 0.0, 1.5 / 3)) and found.order == (1, 0, 3, 2)
    assert sorted(found.comparisons) == list(combinations(range(4), 2)) and found.strengths is None
    assert calls_of(judge) == 12 and found.usage == Usage(12, 120, 0, 24, 144, 6.0)
    places = await ranked(["2", "3", "1", "2 too"], by="rank")
    assert places.scores == (0.5, 1.0, 0.0, 0.5)


@given(NUMBERS)
@settings(max_examples=20)
async def test_a_transitive_judge_gives_the_order(numbers: list[int]) -> None:
    for score in SCORES:
        found = await ranked(distinct(numbers), by=score)
        for i, j in combinations(range(len(numbers)), 2):
            sign = (numbers[i] > numbers[j]) - (numbers[i] < numbers[j])
            difference = found.scores[i] - found.scores[j]
            assert (abs(difference) < 1e-7) if not sign else (difference * sign > 1e-7)
        assert all(0.0 <= each <= 1.0 for each in found.scores)
        assert [numbers[i] for i in found.order] == sorted(numbers, reverse=True)


@given(NUMBERS, st.randoms(use_true_random=False), st.sampled_from(SCORES))
@settings(max_examples=40)
async def test_candidates_in_another_order_have_the_same_scores(numbers: list[int], random: Any, score: By) -> None:
    places = list(range(len(numbers)))
    random.shuffle(places)
    candidates = distinct(numbers)
    plain = await ranked(candidates, by=score)
    moved = await ranked([candidates[place] for place in places], by=score)
    assert moved.scores == pytest.approx([plain.scores[place] for place in places], abs=1e-7)


@given(st.lists(st.sampled_from(["A", "B", "tie"]), min_size=12, max_size=12))
@settings(max_examples=40)
async def test_wins_and_places_add_up_whatever_is_answered(answers: list[str]) -> None:
    rest = iter(answers)
    judge = PairwiseJudge(client=ScriptedClient(lambda request: reply(next(rest))), model="m")
    found = await ranked(["a", "b", "c", "d"], judge)
    assert sum(map(sum, found.wins)) == 6.0
    for i, j in combinations(range(4), 2):
        assert found.wins[i][j] + found.wins[j][i] == 1.0
    assert sum(found.scores) == pytest.approx(2.0)
    rest = iter(answers)
    places = await ranked(["a", "b", "c", "d"], judge, by="rank")
    assert sum(places.scores) == pytest.approx(2.0)


async def test_identical_candidates_share_everything() -> None:
    for score in SCORES:
        for method in METHODS[:1]:
            found = await ranked(["same"] * 4, by(lambda a, b: 0), by=score, method=method)
            assert found.scores == pytest.approx([0.5] * 4) and found.order == (0, 1, 2, 3)


# -- knockouts --------------------------------------------------------------------------------------------------------


@given(st.integers(2, 13), st.integers(0, 50))
@settings(max_examples=60)
async def test_a_knockout_takes_one_game_less_than_candidates_and_the_best_wins(n: int, seed: int) -> None:
    judge = by(by_number, orders="given")
    found = await ranked([str(i) for i in range(n)], judge, method="knockout", by="rank", seed=seed)
    assert calls_of(judge) == len(found.comparisons) == n - 1
    assert found.order[0] == n - 1 and found.scores[n - 1] == 1.0
    assert [score for score in found.scores if score == 1.0] == [1.0]  # it alone
    assert sum(found.scores) == pytest.approx(n / 2)
    assert all(sum(i in pair for pair in found.comparisons) >= 1 for i in range(n))  # nobody gets by without a game
    rates = await ranked([str(i) for i in range(n)], judge, method="knockout", seed=seed)
    assert rates.scores[n - 1] == 1.0 and rates.order[0] == n - 1


async def test_who_goes_on_without_a_game_has_one_in_the_next_round() -> None:
    for seed in range(10):
        found = await ranked([str(i) for i in range(5)], method="knockout", by="rank", seed=seed)
        games = Counter(index for pair in found.comparisons for index in pair)
        assert max(games.values()) <= 3 and min(games.values()) >= 1
        champion = found.order[0]
        assert games[champion] >= 2  # of the three rounds, one may be without a game


async def test_the_draw_depends_on_the_seed() -> None:
    candidates = [str(i) for i in range(8)]
    draws = {tuple((await ranked(candidates, method="knockout", seed=seed)).comparisons) for seed in range(20)}
    assert len(draws) > 10
    again = [tuple((await ranked(candidates, method="knockout", seed=3)).comparisons) for _ in range(2)]
    assert again[0] == again[1]


async def test_a_tie_in_a_knockout_sends_the_first_of_the_pair_on() -> None:
    found = await ranked(["1 a", "1 b", "1 c", "1 d"], method="knockout", by="rank")
    *first_round, final = found.comparisons
    assert final == tuple(pair[0] for pair in first_round)
    assert found.order[0] == final[0] and found.scores[final[0]] == 1.0


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
async def test_one_failure_is_the_answer_charged_with_all(method: Method) -> None:
    def script(request: ChatRequest) -> Any:
        texts = shown(request)
        if set(texts) == {"3", "2"}:  # in a knockout, only the best two of their halves meet late
            return JudgeFailure("auth", "no key")
        return reply("A" if texts[0] > texts[1] else "B")

    client = ScriptedClient(script)
    judge = PairwiseJudge(client=client, model="m", max_wait=0.0)
    for seed in range(10):
        before = len(client.requests)
        found = await rank_group(["0", "1", "2", "3"], judge, method=method, seed=seed)
        if isinstance(found, JudgeFailure):
            assert found.kind == "auth"
            assert found.usage.calls == len(client.requests) - before
            break
    else:
        raise AssertionError("they never met")


async def test_mistakes_are_known_before_anything_is_paid() -> None:
    judge = by(by_number)
    for options in (
        {"method": "swiss"},
        {"by": "elo"},
        {"by": "bradley_terry", "prior": -1.0},
        {"by": "bradley_terry", "prior": float("nan")},
        {"by": "bradley_terry", "prior": float("inf")},
        {"by": "bradley_terry", "prior": True},
        {"by": "bradley_terry", "prior": "0.5"},
    ):
        with pytest.raises(JudgeConfigError):
            await rank_group(["1", "2"], judge, **options)  # type: ignore[arg-type]
    for candidates in ([], ["1"], "12"):
        with pytest.raises(JudgeConfigError, match="nothing to compare"):
            await rank_group(candidates, judge)
    for method in METHODS:
        with pytest.raises(PromptError, match="bytes"):
            await rank_group([b"1", b"2"], judge, method=method)
    assert calls_of(judge) == 0


# -- Bradley and Terry ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("won", "lost"), [(3, 1), (1, 1), (0.5, 7.5), (1e6, 1), (20, 19)])
def test_two_candidates(won: float, lost: float) -> None:
    assert bradley_terry([[0, won], [lost, 0]]) == pytest.approx([log(won / lost) / 2, -log(won / lost) / 2], abs=1e-7)


def test_a_prior_is_wins_beforehand() -> None:
    assert bradley_terry([[0, 3], [0, 0]], prior=0.5) == pytest.approx([log(7) / 2, -log(7) / 2])
    assert bradley_terry([[0, 0], [0, 0]], prior=2) == pytest.approx([0.0, 0.0])
    assert bradley_terry([[9, 3], [1, 9]]) == pytest.approx([log(3) / 2, -log(3) / 2])  # the diagonal counts nothing
    shrunk = [bradley_terry([[0, 3], [1, 0]], prior)[0] for prior in (0.0, 0.5, 5.0)]
    assert shrunk == sorted(shrunk, reverse=True)


@given(st.integers(2, 6), st.data())
@settings(max_examples=60)
def test_expected_wins_are_the_wins(n: int, data: st.DataObject) -> None:
    cells = st.lists(st.integers(0, 20), min_size=n * n, max_size=n * n)
    wins = np.array(data.draw(cells), dtype=float).reshape(n, n)
    np.fill_diagonal(wins, 0.0)
    strengths = bradley_terry(wins, prior=0.5)
    assert strengths.shape == (n,) and strengths.mean() == pytest.approx(0.0, abs=1e-9)
    games = wins + wins.T + 1.0
    np.fill_diagonal(games, 0.0)
    expected = (games / (1.0 + np.exp(strengths[None, :] - strengths[:, None]))).sum(axis=1)
    assert expected == pytest.approx(wins.sum(axis=1) + 0.5 * (n - 1), abs=1e-5)  # the score equations of the model


@given(st.lists(st.integers(1, 9), min_size=12, max_size=12), st.permutations(range(4)))
@settings(max_examples=30)
def test_strengths_follow_their_candidates(cells: list[int], places: list[int]) -> None:
    wins = np.zeros((4, 4))
    wins[~np.eye(4, dtype=bool)] = cells
    moved = wins[np.ix_(places, places)]
    assert bradley_terry(moved) == pytest.approx(bradley_terry(wins)[places], abs=1e-6)
    assert bradley_terry(wins.T) == pytest.approx(-bradley_terry(wins), abs=1e-6)
    assert bradley_terry(wins * 3) == pytest.approx(bradley_terry(wins), abs=1e-6)


@pytest.mark.parametrize(
    ("wins", "groups"),
    [
        ([[0, 1], [0, 0]], ["[0]", "[1]"]),
        ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], ["[0, 1]", "[2]"]),
        ([[0, 1, 1], [1, 0, 1], [0, 0, 0]], ["[0, 1]", "[2]"]),
        ([[0, 0], [0, 0]], ["[0]", "[1]"]),
    ],
)
def test_maximum_likelihood_needs_a_strongly_connected_graph(wins: Any, groups: list[str]) -> None:
    with pytest.raises(JudgeConfigError, match=r"not strongly connected") as caught:
        bradley_terry(wins)
    assert all(group in str(caught.value) for group in groups) and "prior" in str(caught.value)
    assert np.isfinite(bradley_terry(wins, prior=0.1)).all()


@pytest.mark.parametrize(
    "wins",
    [
        [],
        [[0]],
        [[0, 1]],
        [[0, 1], [1]],
        [[[0, 1], [1, 0]]],
        [["a", "b"], ["c", "d"]],
        [[0, -1], [1, 0]],
        [[0, float("nan")], [1, 0]],
        [[0, float("inf")], [1, 0]],
        None,
    ],
)
def test_what_is_no_matrix_of_wins_is_refused(wins: Any) -> None:
    with pytest.raises(JudgeConfigError):
        bradley_terry(wins, prior=0.5)


def test_wins_that_floats_cannot_tell_apart_are_an_error_and_no_warning() -> None:
    n = 64
    wins = np.tril(np.ones((n, n)), -1)
    with pytest.raises(JudgeConfigError, match="prior"):
        bradley_terry(wins, prior=1e-9)
    chain = np.zeros((3, 3))
    chain[0, 1], chain[1, 0], chain[1, 2], chain[2, 1] = 5e-324, 1, 1, 1
    with pytest.raises(JudgeConfigError, match="prior"):
        bradley_terry(chain)


def test_the_matrix_given_is_left_alone() -> None:
    wins = np.array([[5.0, 2.0], [1.0, 5.0]])
    bradley_terry(wins, prior=1.0)
    assert wins.tolist() == [[5.0, 2.0], [1.0, 5.0]]


async def test_a_ranking_by_strength() -> None:
    found = await ranked(["1", "2"], by="bradley_terry")
    assert found.strengths == pytest.approx((-log(3) / 2, log(3) / 2))  # (1 + 0.5) to 0.5 wins
    assert found.scores == pytest.approx([1 / (1 + exp(log(3) / 2)), 1 / (1 + exp(-log(3) / 2))])
    with pytest.raises(JudgeConfigError, match="strongly connected"):
        await rank_group(["1", "2"], by(by_number), by="bradley_terry", prior=0)
    level = await ranked(["1 a", "1 b"], by="bradley_terry", prior=0)
    assert level.scores == pytest.approx([0.5, 0.5])


def test_strengths_of_real_models_by_people(shared_data: Path) -> None:
    rows = json.loads((shared_data / "judging" / "pandalm_testset_v1.json").read_text())
    pairs = [row["cmp_key"].split("_") for row in rows]
    names = sorted({name for pair in pairs for name in pair})
    wins = np.zeros((len(names), len(names)))
    for row, (first, second) in zip(rows, pairs, strict=True):
        label, votes = Counter(int(row[f"annotator{i}"]) for i in (1, 2, 3)).most_common(1)[0]
        share = {1: 1.0, 2: 0.0, 0: 0.5}[label if votes > 1 else 0]
        wins[names.index(first), names.index(second)] += share
        wins[names.index(second), names.index(first)] += 1.0 - share
    strengths = dict(zip(names, bradley_terry(wins), strict=True))
    expected = {
        "llama-7b": 0.7243,
        "pythia-6.9b": 0.0736,
        "bloom-7b": -0.0182,
        "opt-7b": -0.2430,
        "cerebras-gpt-6.7B": -0.5368,
    }
    assert strengths == pytest.approx(expected, abs=5e-5)


# -- imports ----------------------------------------------------------------------------------------------------------


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_heavy_is_imported_for_it() -> None:
    heavy = "[name for name in ('litellm', 'numpy', 'scipy', 'choix', 'aiohttp') if name in sys.modules]"
    assert python(f"import sys, judges; print({heavy})").strip() == "[]"
    everything = (
        "Checklist, Jury, PairwiseJudge, GroupwiseJudge, rank_group, GroupJudge, TrajectoryJudge, ScriptedClient"
    )
    used = (
        f"import sys; from judges import {everything}\n"
        "from rubrics.trajectory import Step, Trajectory\n"
        "client = ScriptedClient({'reason': '', 'score': 'A'})\n"
        "group = [Trajectory('a', steps=[Step('x', 'y')]), Trajectory('b', steps=[Step('z', 'y')])]\n"
        "GroupJudge(PairwiseJudge(client=client, model='m')).score_sync(group)\n"
        f"print({heavy})"
    )
    assert python(used).strip() == "[]"


def test_without_choix_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['choix'] = None\n"
        "import asyncio\n"
        "from judges import JudgeConfigError, PairwiseJudge, ScriptedClient, bradley_terry, rank_group\n"
        "client = ScriptedClient({'reason': '', 'score': 'A'})\n"
        "judge = PairwiseJudge(client=client, model='m')\n"
        "for ask in (lambda: bradley_terry([[0, 1], [1, 0]]),\n"
        "            lambda: asyncio.run(rank_group(['a', 'b'], judge, by='bradley_terry'))):\n"
        "    try: ask()\n"
        "    except JudgeConfigError as error: print(error)\n"
        "print(len(client.requests), asyncio.run(rank_group(['a', 'b'], judge)).scores)\n"
    )
    said = python(code).splitlines()
    assert said[:2] == ["Bradley-Terry needs choix: pip install 'rubrics[stats]'"] * 2
    assert said[2] == "0 (0.5, 0.5)"


# -- groups of trajectories -------------------------------------------------------------------------------------------


def group_of(*actions: str) -> list[Trajectory]:
    return [Trajectory(action, task="the task", steps=[Step(action, "seen")], initial="begin") for action in actions]


def by_action(first: str, second: str) -> float:
    return len(first) - len(second)


async def test_a_ranking_as_the_reward_of_a_group() -> None:
    def prefer(request: ChatRequest) -> ChatReply:
        texts = request.messages[1]["content"].split("Answer B:")
        counts = [text.count("good") for text in texts]
        return reply("A" if counts[0] > counts[1] else "B" if counts[1] > counts[0] else "tie")

    client = ScriptedClient(prefer)
    rubric = GroupJudge(PairwiseJudge(client=client, model="m"))
    found = await rubric.score(group_of("good good", "bad", "good"))
    assert found.scores == (1.0, 0.0, 0.5) and found.complete and len(found) == 3
    assert found.reasons == ("2 won, 0 drawn, 0 lost", "0 won, 0 drawn, 2 lost", "1 won, 0 drawn, 1 lost")
    assert found.metadata["order"] == [0, 2, 1] and found.metadata["wins"][0] == [0.0, 1.0, 1.0]
    assert found.usage == Usage(6, 60, 0, 12, 72, 3.0)
    text = client.requests[0].messages[1]["content"]
    assert "the task" in text and "Before the first step:" in text and "Step 0:" in text
    json.dumps(found.metadata, allow_nan=False)
    strong = await GroupJudge(PairwiseJudge(client=client, model="m"), by="bradley_terry").score(group_of("good", "b"))
    assert strong.metadata["strengths"] == pytest.approx([log(3) / 2, -log(3) / 2])


async def test_a_group_in_one_call() -> None:
    grades = {f"candidate_{i}": {"reason": f"no. {i}", "score": 3 * i + 1} for i in (1, 2, 3)}
    rubric = GroupJudge(GroupwiseJudge(client=ScriptedClient(grades), model="m"))
    found = await rubric.score(group_of("a", "b", "c"))
    order = found.metadata["order"]
    assert [found.scores[i] for i in order] == pytest.approx([3 / 9, 6 / 9, 1.0])
    assert [found.reasons[i] for i in order] == ["no. 1", "no. 2", "no. 3"] and found.usage.calls == 1


async def test_a_failure_leaves_the_whole_group_without_a_score() -> None:
    down = ScriptedClient(JudgeFailure("auth", "no key"))
    for judge in (PairwiseJudge(client=down, model="m"), GroupwiseJudge(client=down, model="m")):
        with pytest.raises(JudgeError, match="auth: no key"):
            await GroupJudge(judge).score(group_of("a", "b"))
        found = await GroupJudge(judge, on_failure="unscored").score(group_of("a", "b"))
        assert found.scores == (None, None) and found.reasons == ("auth: no key",) * 2
        assert found.metadata == {"failure": "auth"} and not found.complete and found.usage.calls


async def test_what_is_compared_can_be_chosen_and_is_within_the_budget() -> None:
    client = ScriptedClient(reply("A"))
    judge = PairwiseJudge(client=client, model="m")
    await GroupJudge(judge, show=lambda trajectory: trajectory.steps[-1].action).score(group_of("alpha", "beta"))
    assert sorted(shown(client.requests[0])) == ["alpha", "beta", "the task"]
    await GroupJudge(judge, token_budget=400).score(group_of("a" * 9000, "b" * 9000))
    assert len(client.requests[-1].messages[1]["content"]) < 3 * 2 * 400 + 600


@pytest.mark.parametrize(
    "options",
    [
        {"judge": object()},
        {"method": "swiss"},
        {"by": "elo"},
        {"prior": -1},
        {"token_budget": 99},
        {"token_budget": True},
        {"on_failure": "zero"},
    ],
)
def test_what_cannot_judge_a_group_is_refused(options: dict[str, Any]) -> None:
    judge = options.pop("judge", None) or PairwiseJudge(client=ScriptedClient({}), model="m")
    with pytest.raises(JudgeConfigError):
        GroupJudge(judge, **options)
