"""What makes a suite red, and what does not."""

from typing import Any

import pytest

from judges import Binary
from judges.testing.figures import figures_of
from judges.testing.golden import GoldenRow
from judges.testing.outcome import Problem, problems_of
from judges.testing.results import Answer, Case, Flip, Flips, SnapshotState, SuiteReport, Threshold


def case(id: str, gold: bool, *said: Any, must: bool = False, **fields: Any) -> Case:
    """A row and what was said of it, one sample each: a label, or a kind of failure."""
    row = GoldenRow.model_validate({"id": id, "inputs": {"reply": id}, "label": gold, "must": must})
    answers = tuple(
        Answer(sample=i, failure=each, message="oh") if isinstance(each, str) else Answer(sample=i, label=each)
        for i, each in enumerate(said)
    )
    return Case(row=row, place=f"golden.jsonl:{id[1:]}", answers=answers, **fields)


def report(*cases: Case, **fields: Any) -> SuiteReport:
    return SuiteReport(
        suite="tone", kind="labels", scale=Binary().to_dict(), cases=cases, **{"model": "m", "min_n": 1, **fields}
    )


def found(judged: SuiteReport, **options: Any) -> list[Problem]:
    return problems_of(judged, figures_of(judged), **options)


RIGHT = [case(f"r{i}", i % 2 == 0, i % 2 == 0) for i in range(40)]


def test_a_judge_that_disagrees_now_and_then_is_green() -> None:
    assert found(report(*RIGHT, case("r40", True, False), case("r41", True, None))) == []


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (case("r7", True, "format"), "there is no verdict: format: oh"),
        (case("r7", True), "there is no verdict, and none was asked for"),
        (case("r7", True, stale=True), "its prompt is not the one of the snapshot"),
        (
            case("r7", True, False, must=True),
            "this row must agree (golden.jsonl:7): people say true, the judge false",
        ),
        (case("r7", True, None, must=True), "people say true, the judge nothing"),
        (case("r7", True, True, False, must=True), "people say true, the judge nothing"),
    ],
    ids=["failure", "not asked", "stale", "must", "must and abstains", "must and a tie of samples"],
)
def test_a_row(odd: Case, message: str) -> None:
    (problem,) = found(report(*RIGHT[:5], odd))
    assert problem.what == "r7"
    assert message in problem.message


def test_one_sample_of_two_is_a_verdict() -> None:
    assert found(report(case("r7", True, "format", True), samples=2)) == []


def test_a_sample_that_no_model_was_asked_for_is_a_problem() -> None:
    """A verdict of three samples is none of one: the budget was spent, or two are not in the cassette."""
    (problem,) = found(report(case("r7", True, True, "budget", "budget"), samples=3))
    assert problem == ("r7", "2 of 3 questions have no reply (2 budget): oh")
    (problem,) = found(report(case("r7", True, False, "not_recorded"), samples=2))
    assert "1 of 2 questions have no reply (1 not_recorded): oh; to record what is missing" in problem.message


def test_a_changed_snapshot_shows_the_difference() -> None:
    changed = SnapshotState(state="changed", path="s.json", difference="-old\n+new", stale=["r1"])
    judged = report(*RIGHT[:1], case("r1", False, stale=True), snapshot=changed)
    snapshot, row = found(judged)
    assert snapshot.what == "snapshot"
    assert snapshot.message.endswith("-old\n+new") and "row r1 is not what s.json holds" in snapshot.message
    assert row.what == "r1"


def test_a_snapshot_that_is_not_there_yet() -> None:
    added = [f"r{i}" for i in range(7)]
    (problem,) = found(report(*RIGHT, snapshot=SnapshotState(state="new", path="s.json", added=added)))
    assert "s.json does not hold what is sent about rows r0, r1, r2, r3, r4 and 2 more" in problem.message


def test_thresholds_fail_and_are_undecided() -> None:
    wrong = [case(f"r{i}", True, False) for i in range(40)]
    (problem,) = found(report(*wrong, thresholds={"accuracy": Threshold(at_least=0.8)}))
    assert problem.what == "accuracy" and problem.message.startswith("FAIL: at least 0.8 was asked")
    undecided = report(*RIGHT[:5], thresholds={"accuracy": Threshold(at_least=0.8)})
    assert found(undecided) == []
    (problem,) = found(undecided, strict=True)
    assert problem.what == "accuracy" and problem.message.startswith("INCONCLUSIVE")


def test_a_changed_question_without_a_reply_is_no_flip_but_a_problem() -> None:
    tried = (
        Flip(id="r0", before=True, after=True),
        Flip(id="r1", before=False, failure="not_recorded"),
        Flip(id="r2", before=True, failure="format"),
    )
    flips = Flips(name="padding", description="words are added", verdicts=tried)
    (problem,) = found(report(*RIGHT, perturbations=(flips,)))
    assert problem.what == "flips[padding]"
    assert problem.message.startswith(
        "1 of 3 changed questions have no reply (1 not_recorded): row r1; to record what is missing"
    )


def test_verdicts_that_are_not_those_of_the_baseline() -> None:
    old = report(case("r0", True, True), case("r1", True, False), case("r2", True, "format"), case("r9", True, True))
    new = report(case("r0", True, None), case("r1", True, False), case("r2", True, True), case("r8", True, True))
    (problem,) = found(new, baseline=old)
    assert problem.what == "baseline"
    assert problem.message.splitlines() == [
        "2 verdicts are not those of the baseline",
        "  r0: true → nothing",
        "  r2: format → true",
    ]
    assert found(new, baseline=new) == []
