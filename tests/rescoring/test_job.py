"""A run from files to a file: resumed, limited, filtered, stopped; and nothing is ever lost, repeated or paid twice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from judges import Binary, ChatReply, JudgeError, Jury, LLMJudge, Price, ScriptedClient, Usage
from rubrics import Fallback, Gate, Rubric, Sequential, TrajectoryRubric, WeightedSum
from rubrics.formats import read, write_jsonl
from rubrics.rescoring import ConditionError, OutputError, Row, read_rows, rescore, rescore_files
from rubrics.rescoring.types import Types
from rubrics.trajectory import Step, Trajectory


class Reads(Rubric):
    def __init__(self, times: float = 1.0) -> None:
        super().__init__()
        self.times = times

    def forward(self, action: Any, observation: Any) -> Any:
        if action.number == "bad":
            raise LookupError("no number")
        return action.number * self.times


class Waits(Reads):
    """The later ones are done first."""

    async def forward(self, action: Any, observation: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(action.wait)
        return super().forward(action, observation)


def trajectory(id: str, number: Any, wait: float = 0.0, **fields: Any) -> Trajectory:
    step = Step({"number": number, "wait": wait, "text": f"{id} says {number}"}, {"text": "x"}, 0.5)
    return Trajectory(id, **{"steps": [step], "end": "terminated", "reward": 0.5, **fields})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Ten trajectories, of which the fourth fails."""
    path = tmp_path / "runs.jsonl"
    numbers: list[Any] = [1, 2, 3, "bad", 5, 6, 7, 8, 9, 10]
    write_jsonl(path, [trajectory(f"t{i}", number, (10 - i) / 500) for i, number in enumerate(numbers)])
    return path


class Mended(Reads):
    broken = True

    def forward(self, action: Any, observation: Any) -> Any:
        return super().forward(action, observation) if self.broken else 1.0


def ids(path: Path) -> list[Any]:
    return [row.id for row in read_rows(path)]


ALL = [f"t{i}" for i in range(10)]


@pytest.mark.parametrize("leaf", [Reads, Waits])
def test_rows_are_written_as_they_are_done_and_put_in_order_at_the_end(runs: Path, leaf: type[Rubric]) -> None:
    out = runs.with_name("out.jsonl")
    seen: list[Any] = []

    def note(row: Row) -> None:
        seen.append(row.id)
        assert ids(out) == seen  # it is in the file already

    finished = rescore_files(runs, leaf(), out, on_row=note)
    assert sorted(seen) == ids(out) == ALL
    assert (seen == ALL) == (leaf is Reads)
    assert (finished.written, finished.kept, finished.stopped, finished.others) == (10, 0, None, 0)
    assert finished.summary.statuses == {"scored": 9, "error": 1}
    assert not list(runs.parent.glob("*.tmp"))


@pytest.mark.parametrize("given", ["runs.jsonl", "."])
@pytest.mark.parametrize("written", ["out", "store"])
def test_nothing_is_written_where_recordings_are(
    runs: Path, monkeypatch: pytest.MonkeyPatch, given: str, written: str
) -> None:
    monkeypatch.chdir(runs.parent)
    before = runs.read_bytes()
    files = {"out": "../elsewhere.jsonl", "store": None, written: "runs.jsonl"}
    with pytest.raises(OutputError, match=r"is one of the inputs|lies in \., which is read: choose a place outside"):
        rescore_files([given], Reads(), **files, overwrite=True)  # type: ignore[arg-type]
    with pytest.raises(OutputError, match="lies in"):
        rescore_files(".", Reads(), "new.jsonl")
    assert runs.read_bytes() == before
    assert not Path("new.jsonl").exists()
    assert not Path("../elsewhere.jsonl").exists()


def test_a_link_to_the_output_stays_one(runs: Path) -> None:
    real, link = runs.parent / "far" / "real.jsonl", runs.with_name("out.jsonl")
    real.parent.mkdir()
    link.symlink_to(real)
    rescore_files(runs, Waits(), link)
    assert link.is_symlink()
    assert ids(real) == ALL
    aside = rescore_files(runs, Waits(2.0), link, resume=True).aside
    assert link.is_symlink()
    assert aside is not None
    assert ids(aside) == ids(real) == ALL


def test_a_finished_run_is_resumed_without_scoring_anything(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    first = rescore_files(runs, Reads(), out)
    before = out.read_bytes()
    again = rescore_files(runs, Reads(), out, resume=True)
    assert (again.written, again.kept) == (0, 10)
    assert out.read_bytes() == before
    assert again.summary.statuses == first.summary.statuses
    assert again.summary.describe() == first.summary.describe()


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 20_000), leaf=st.sampled_from([Reads, Waits]))
def test_a_run_that_was_killed_goes_on(tmp_path_factory: pytest.TempPathFactory, cut: int, leaf: type[Rubric]) -> None:
    """A kill leaves the file cut at any byte."""
    folder = tmp_path_factory.mktemp("run")
    runs, whole, out = folder / "runs.jsonl", folder / "whole.jsonl", folder / "out.jsonl"
    write_jsonl(runs, [trajectory(f"t{i}", i if i != 3 else "bad", (4 - i) / 2000) for i in range(5)])
    rescore_files(runs, leaf(), whole)
    out.write_bytes(whole.read_bytes()[:cut])
    complete = out.read_bytes().count(b"\n")
    finished = rescore_files(runs, leaf(), out, resume=True)
    assert (finished.kept, finished.written) == (complete, 5 - complete)
    assert [row.to_dict() | {"evaluation": None, "evaluations": None} for row in read_rows(out)] == [
        row.to_dict() | {"evaluation": None, "evaluations": None} for row in read_rows(whole)
    ]


def test_another_rubric_needs_to_be_told_and_keeps_the_old_rows(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    rescore_files(runs, Reads(), out)
    before = out.read_bytes()
    with pytest.raises(OutputError, match=r"out.jsonl holds a run of another rubric: choose another file, or give"):
        rescore_files(runs, Reads(2.0), out)
    with pytest.raises(OutputError, match=r"out.jsonl holds a run of this rubric: give --resume"):
        rescore_files(runs, Reads(), out)
    assert out.read_bytes() == before
    finished = rescore_files(runs, Reads(2.0), out, resume=True)
    assert (finished.written, finished.kept) == (10, 0)
    assert finished.aside is not None
    assert finished.aside.name == "out.before1.jsonl"
    assert finished.aside.read_bytes() == before
    assert next(read_rows(out)).reward == 2.0
    assert rescore_files(runs, Reads(3.0), out, resume=True).aside == out.with_name("out.before2.jsonl")


def test_overwriting_replaces(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    rescore_files(runs, Reads(), out)
    finished = rescore_files(runs, Reads(2.0), out, overwrite=True)
    assert (finished.written, finished.aside) == (10, None)
    assert next(read_rows(out)).reward == 2.0


def test_a_trajectory_that_changed_is_scored_again_and_one_that_is_gone_stays(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    rescore_files(runs, Reads(), out)
    runs.unlink()
    write_jsonl(runs, [trajectory("new", 4), trajectory("t1", 7), trajectory("t0", 1, 10 / 500)])
    finished = rescore_files(runs, Reads(), out, resume=True)
    assert (finished.written, finished.others) == (2, 9)
    rows = list(read_rows(out))
    assert [(row.id, row.reward) for row in rows[:3]] == [("new", 4.0), ("t1", 7.0), ("t0", 1.0)]
    assert [row.id for row in rows[3:]] == ALL[1:]  # nothing that was there is lost


def test_failures_alone_are_repeated(runs: Path) -> None:
    Mended.broken = True
    out = runs.with_name("out.jsonl")
    rescore_files(runs, Mended(), out, limit=5)
    Mended.broken = False
    seen: list[Any] = []
    finished = rescore_files(runs, Mended(), out, only_failed=True, on_row=lambda row: seen.append(row.id))
    assert (seen, finished.kept) == (["t3"], 4)
    assert [(row.id, row.status) for row in read_rows(out)] == [(f"t{i}", "scored") for i in range(5)]


def test_failed_rows_stay_until_they_are_made_again(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    runs.unlink()
    write_jsonl(runs, [trajectory(f"t{i}", "bad" if i % 2 else i) for i in range(6)])
    Mended.broken = True
    rescore_files(runs, Mended(), out)
    Mended.broken = False
    finished = rescore_files(runs, Mended(), out, only_failed=True, where="id == 't3'")
    assert (finished.kept, finished.written, finished.summary.statuses) == (5, 1, {"scored": 4, "error": 2})
    assert sorted(ids(out)) == ALL[:6]
    finished = rescore_files(runs, Mended(), out, only_failed=True)
    assert (finished.written, finished.summary.statuses) == (2, {"scored": 6})
    assert ids(out) == ALL[:6]


def test_failed_rows_of_another_rubric_are_not_made_again(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    rescore_files(runs, Reads(), out)
    before = out.read_bytes()
    with pytest.raises(OutputError, match=r"out.jsonl holds a run of another rubric"):
        rescore_files(runs, Reads(2.0), out, only_failed=True)
    assert out.read_bytes() == before


def test_unfinished_trajectories_are_scored_once_their_end_is_assumed(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    runs.unlink()
    write_jsonl(runs, [trajectory(f"t{i}", i, end=None if i % 2 else "terminated") for i in range(6)])
    assert rescore_files(runs, Reads(), out).summary.statuses == {"scored": 3, "unfinished": 3}
    finished = rescore_files(runs, Reads(), out, resume=True, assume_end="truncated")
    assert (finished.kept, finished.written, finished.summary.statuses) == (3, 3, {"scored": 6})
    assert ids(out) == ALL[:6]


def test_steps_that_were_not_recorded_are_once_they_are_asked_for(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    step = Step({"number": 1}, {"text": "x"})
    runs.unlink()
    write_jsonl(runs, [Trajectory("t", steps=[step, step], end="terminated"), trajectory("u", 1)])
    rescore_files(runs, Reads(), out)
    finished = rescore_files(runs, Reads(), out, resume=True, record="steps")
    assert (finished.kept, finished.written) == (1, 1)
    assert [row.evaluations is not None for row in read_rows(out)] == [True, False]


def test_an_interrupted_run_does_not_say_what_is_in_the_input(runs: Path) -> None:
    out, stop = runs.with_name("out.jsonl"), threading.Event()
    rescore_files(runs, Reads(), out, where="id != 't0'")
    finished = rescore_files(runs, Reads(), out, resume=True, stop=stop, on_row=lambda row: stop.set())
    assert (finished.stopped, finished.others) == ("interrupted", 0)


def test_verdicts_that_failed_are_failures_too(runs: Path) -> None:
    failing = ScriptedClient(lambda request: "nonsense" if "t2" in request.messages[1]["content"] else {"score": True})
    tree = LLMJudge("{{ action.text | untrusted }}", Binary(), model="m", client=failing, reason=False)
    tree.on_failure = "unscored"
    out = runs.with_name("out.jsonl")
    assert rescore_files(runs, tree, out).summary.statuses == {"scored": 9, "unscored": 1}
    mended = LLMJudge(
        "{{ action.text | untrusted }}",
        Binary(),
        model="m",
        client=ScriptedClient({"score": True}),
        reason=False,
        on_failure="unscored",
    )
    finished = rescore_files(runs, mended, out, only_failed=True)
    assert (finished.written, finished.summary.statuses) == (1, {"scored": 10})
    assert ids(out) == ALL


def test_limits_and_conditions(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    rescore_files(runs, Reads(), out, limit=3)
    assert ids(out) == ALL[:3]
    assert rescore_files(runs, Reads(), out, limit=5, resume=True).written == 2
    rescore_files(runs, Reads(), out, where="id in ['t7', 't9'] or steps > 1", overwrite=True)
    assert ids(out) == ["t7", "t9"]
    with pytest.raises(ConditionError, match=r"names number; there are id, source, reward"):
        rescore_files(runs, Reads(), out, where="number > 1", overwrite=True)
    with pytest.raises(ConditionError, match=r"on the trajectory 't0': division"):
        rescore_files(runs, Reads(), out, where="1 / (steps - 1) > 1", overwrite=True)


def test_a_group_of_several_values_where_one_is_missing(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    rescore_files(runs, Reads(), out, limit=1, group_by="(id, task.id, [metadata.absent])")
    assert [row.group for row in read_rows(out)] == [["t0", None, [None]]]


def test_going_on_and_replacing_are_not_both_done(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    rescore_files(runs, Reads(), out)
    for how in ("resume", "only_failed"):
        going: dict[str, Any] = {how: True}
        with pytest.raises(ValueError, match=f"{how} goes on with a file, and overwrite replaces it"):
            rescore_files(runs, Reads(2.0), out, overwrite=True, **going)
    assert ids(out) == ALL


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("reward < 0.5", ["b"]),
        ("reward is none", ["c"]),
        ("end == 'truncated' and reward is not none", ["b"]),
        ("group in ('g', 'h')", ["a"]),
        ("source.path.endswith('runs.jsonl') and source.line == 3", ["c"]),
        ("metadata.model is defined and metadata.model|lower == 'x'", ["b"]),
        ("task.rank > 1", ["b"]),
        ("reward > 1 or reward is none", ["c"]),
        ("not reward < 1", ["c"]),
        ("metadata.missing > 1 or metadata.missing.deeper == 2", []),
        ("metadata.model < 1", []),
    ],
)
def test_what_a_condition_can_ask_for(tmp_path: Path, expression: str, expected: list[str]) -> None:
    runs, out = tmp_path / "runs.jsonl", tmp_path / "out.jsonl"
    task = {"rank": 1}
    write_jsonl(
        runs,
        [
            trajectory("a", 1, metadata={"group": "g"}, task=task),
            trajectory("b", 1, reward=0.25, end="truncated", metadata={"model": "X"}, task={"rank": 2}),
            trajectory("c", 1, reward=None, task=task),
        ],
    )
    rescore_files(runs, Reads(), out, where=expression)
    assert ids(out) == expected


@pytest.mark.parametrize("expression", ["''.__class__ is defined", "id.format.__globals__ is defined"])
def test_a_condition_sees_no_internals(runs: Path, expression: str) -> None:
    rescore_files(runs, Reads(), runs.with_name("out.jsonl"), where=expression)
    assert ids(runs.with_name("out.jsonl")) == []


def test_a_condition_changes_nothing(runs: Path) -> None:
    with pytest.raises(ConditionError, match="on the trajectory"):
        rescore_files(runs, Reads(), runs.with_name("out.jsonl"), where="metadata.update({'a': 1})")


@pytest.mark.parametrize("leaf", [Reads, Waits])
def test_a_run_is_stopped_from_outside(runs: Path, leaf: type[Rubric]) -> None:
    out, stop = runs.with_name("out.jsonl"), threading.Event()
    finished = rescore_files(runs, leaf(), out, concurrency=2, stop=stop, on_row=lambda row: stop.set())
    assert finished.stopped == "interrupted"
    assert 1 <= finished.written <= 3
    assert len(ids(out)) == finished.written
    assert rescore_files(runs, leaf(), out, resume=True).stopped is None
    assert ids(out) == ALL


def test_a_run_stops_at_the_first_error_where_that_is_wanted(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    finished = rescore_files(runs, Reads(), out, on_error="stop")
    assert finished.stopped == "error"
    assert finished.row is not None
    assert finished.row.id == "t3"
    assert ids(out) == ALL[:4]


def test_two_runs_do_not_write_one_file(runs: Path) -> None:
    out = runs.with_name("out.jsonl")

    def meanwhile(row: Row) -> None:
        with pytest.raises(OutputError, match=r"out.jsonl is being written by another process"):
            rescore_files(runs, Reads(), out, resume=True)

    rescore_files(runs, Reads(), out, on_row=meanwhile)
    rescore_files(runs, Reads(), out, resume=True)


def test_something_else_is_not_taken_for_a_run(runs: Path) -> None:
    other = runs.with_name("other.jsonl")
    other.write_bytes(before := runs.read_bytes())
    for options in ({}, {"resume": True}):
        with pytest.raises(OutputError, match=r"other.jsonl:1: no row of a rescoring run; choose another file"):
            rescore_files(runs, Reads(), other, **options)
    assert other.read_bytes() == before


def test_equal_ids_and_contents_have_a_row_each(tmp_path: Path) -> None:
    first, second, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "out.jsonl"
    for path in (first, second):
        write_jsonl(path, [trajectory("t", 1), trajectory("t", 1), trajectory("t", 2)])
    rescore_files([first, second], Reads(), out)
    assert ids(out) == ["t", "t#2", "t#3", "t#4", "t#5", "t#6"]
    assert rescore_files([first, second], Reads(), out, resume=True).written == 0


def test_what_cannot_be_read_has_a_row_and_keeps_it(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs.jsonl", tmp_path / "out.jsonl"
    write_jsonl(runs, [trajectory("a", 1), trajectory("b", 2)])
    lines = runs.read_bytes().splitlines(keepends=True)
    runs.write_bytes(lines[0] + b"{broken\n" + b'{"id": 1}\n' + lines[1][:40])
    finished = rescore_files(runs, Reads(), out)
    assert finished.summary.statuses == {"scored": 1, "unreadable": 3}
    assert rescore_files(runs, Reads(), out, resume=True).written == 0
    assert len(ids(out)) == 4


# -- judges -----------------------------------------------------------------------------------------------------------


def judged(client: ScriptedClient, polite: str = "Is it polite?", **options: Any) -> WeightedSum:
    def judge(words: str) -> LLMJudge:
        prompt = f"{words}\n{{{{ action.text | untrusted }}}}"
        return LLMJudge(prompt, Binary(), client=client, model="m", reason=False, **options)

    return WeightedSum({"polite": judge(polite), "short": judge("Is it short?")}, {"polite": 0.5, "short": 0.5})


def yes() -> ScriptedClient:
    return ScriptedClient({"score": True})


def test_nothing_is_asked_twice(runs: Path) -> None:
    out, client = runs.with_name("out.jsonl"), yes()
    rescore_files(runs, judged(client), out)
    assert len(client.requests) == 20
    out.unlink()  # as if it had been killed before the first row
    finished = rescore_files(runs, judged(client), out)
    assert len(client.requests) == 20
    assert finished.summary.statuses == {"scored": 10}
    assert (runs.parent / "out.verdicts.jsonl").exists()
    rescore_files(runs, judged(client), out, overwrite=True, ask_again=True)
    assert len(client.requests) == 40
    rescore_files(runs, judged(client), out, overwrite=True, store=None)
    assert len(client.requests) == 60


@pytest.mark.parametrize("turns", range(6))
def test_equal_questions_are_asked_once_whenever_they_come(tmp_path: Path, turns: int) -> None:
    class Late(Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            for _ in range(action.number):
                await asyncio.sleep(0)
            return 1.0

    async def answer(request: Any) -> dict[str, Any]:
        for _ in range(turns):
            await asyncio.sleep(0)
        return {"score": True}

    runs, client = tmp_path / "runs.jsonl", ScriptedClient(answer)
    steps = [[Step({"number": i, "text": "the same"}, {"text": "x"})] for i in range(30)]
    write_jsonl(runs, [Trajectory(f"t{i}", steps=step, end="terminated") for i, step in enumerate(steps)])
    rescore_files(runs, Sequential(Late(), polite(client)), tmp_path / "out.jsonl")
    assert len(client.requests) == 1


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="there is no /dev/null")
def test_rows_that_go_to_a_device_leave_no_store_beside_it(runs: Path) -> None:
    rescore_files(runs, judged(yes()), "/dev/null")
    assert not Path("/dev/null.verdicts.jsonl").exists()


def test_an_edited_criterion_is_asked_alone(runs: Path) -> None:
    out, client = runs.with_name("out.jsonl"), yes()
    rescore_files(runs, judged(client), out)
    first = next(read_rows(out))
    client.requests.clear()
    finished = rescore_files(runs, judged(client, "Is it kind?"), out, resume=True)
    assert (finished.written, len(client.requests)) == (10, 10)
    assert all("kind" in request.messages[-1]["content"] for request in client.requests)
    second = next(read_rows(out))
    assert first.judges is not None
    assert second.judges is not None
    assert first.judges["short"] == second.judges["short"]
    assert first.judges["polite"] != second.judges["polite"]
    assert first.rubric != second.rubric


def test_the_budget_ends_a_run_and_a_larger_one_goes_on(runs: Path) -> None:
    out, client = runs.with_name("out.jsonl"), yes()
    tree = judged(client, price=Price(1000.0, 1000.0), max_tokens=10)
    finished = rescore_files(runs, tree, out, budget_usd=2.0, concurrency=2)
    assert finished.stopped == "budget"
    assert 0 < finished.written < 10
    assert finished.summary.statuses == {"scored": finished.written}  # one that ran out of money has no row
    assert finished.summary.cost <= 2.0
    asked = len(client.requests)
    again = rescore_files(runs, tree, out, budget_usd=100.0, resume=True)
    assert (again.stopped, again.kept + again.written) == (None, 10)
    assert len(client.requests) == 20
    assert asked < 20
    assert ids(out) == ALL


def polite(client: ScriptedClient, **options: Any) -> LLMJudge:
    return LLMJudge(
        "Is it polite?\n{{ action.text | untrusted }}", Binary(), client=client, model="m", reason=False, **options
    )


class Shy(Rubric):
    """Makes a number of whatever its judge says."""

    def __init__(self, judge: LLMJudge) -> None:
        super().__init__()
        self.judge = judge

    async def forward(self, action: Any, observation: Any) -> Any:
        try:
            return await self.judge(action, observation) or 0.0
        except JudgeError:
            return 0.0


FORGIVING: dict[str, Callable[..., Rubric]] = {
    "fallback": lambda **options: Fallback(polite(on_failure="unscored", **options), 0.0),
    "error": lambda **options: Fallback(polite(**options), 0.0, on_error=True),
    "sum": lambda **options: WeightedSum(
        [polite(on_failure="unscored", **options), Reads()], [1, 1], normalize="total", on_unscored="renormalize"
    ),
    "jury": lambda **options: LLMJudge(Jury(polite(**options).judge, 3, quorum=1)),
    "own": lambda **options: Shy(polite(**options)),
}


@pytest.mark.parametrize("tree", FORGIVING.values(), ids=FORGIVING)
@pytest.mark.parametrize("money", [1.0, 1.5])
def test_no_tree_makes_a_reward_of_what_the_budget_refused(
    tmp_path: Path, tree: Callable[..., Rubric], money: float
) -> None:
    runs, out, client = tmp_path / "runs.jsonl", tmp_path / "out.jsonl", yes()
    write_jsonl(runs, [trajectory(f"t{i}", i) for i in range(10)])
    rubric = tree(client=client, price=Price(1000.0, 1000.0), max_tokens=10)
    finished = rescore_files(runs, rubric, out, budget_usd=money, concurrency=2)
    assert finished.stopped == "budget"
    assert finished.written < 10
    rescore_files(runs, rubric, out, resume=True)
    assert [row.reward for row in read_rows(out)] == [
        row.reward for row in rescore(read(runs), tree(client=yes(), max_tokens=10))
    ]
    assert len(client.requests) == (30 if isinstance(rubric, LLMJudge) else 10)


@pytest.mark.parametrize("own", [False, True])
def test_a_store_that_cannot_be_written_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    runs, out, client = tmp_path / "runs.jsonl", tmp_path / "out.jsonl", yes()
    write_jsonl(runs, [trajectory(f"t{i}", i) for i in range(10)])
    rubric = Fallback(polite(client, store=tmp_path / "own.jsonl" if own else None), 0.0, on_error=True)

    def full(*_: Any) -> None:
        raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("judges.store._Shard.write", full)
        with pytest.raises(OutputError, match=r"\.jsonl cannot be written: No space left on device"):
            rescore_files(runs, rubric, out, concurrency=2)
    assert len(client.requests) <= 4
    assert ids(out) == []
    assert rescore_files(runs, rubric, out, resume=True).written == 10


def test_verdicts_of_all_steps_are_in_the_row(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs.jsonl", tmp_path / "out.jsonl"
    steps = [Step({"text": f"step {i}"}, {"text": "x"}) for i in range(3)]
    steps[1].metadata["unpaid"] = True
    write_jsonl(runs, [Trajectory("t", steps=steps, end="terminated")])
    rescore_files(runs, judged(yes()), out)
    (row,) = read_rows(out)
    assert row.evaluations is not None
    assert [each and each["polite"].score for each in row.evaluations] == [1.0, None, 1.0]
    assert row.evaluation == row.evaluations[-1]
    assert row.usage is not None
    assert row.usage["calls"] == 4
    rescore_files(runs, judged(yes()), out, record="last", overwrite=True)
    (row,) = read_rows(out)
    assert (row.evaluations, row.reward) == (None, 2.0)


def test_a_delayed_judge_behind_a_gate_is_asked_once_it_is_reached(runs: Path) -> None:
    class AtEnd(TrajectoryRubric):
        async def score_trajectory(self, trajectory: Any) -> Any:
            return 1.0

    out = runs.with_name("out.jsonl")
    tree = WeightedSum({"gate": Gate(Waits(), 5.0), "end": AtEnd()}, {"gate": 0.5, "end": 0.5})
    rescore_files(runs, tree, out)
    rows = {row.id: row for row in read_rows(out)}
    assert rows["t0"].reward == 0.5
    assert rows["t9"].reward == 5.5
    assert rows["t3"].status == "error"


def test_a_running_loop_is_told_to_use_a_thread(runs: Path) -> None:
    async def inside() -> None:
        rescore_files(runs, Waits(), runs.with_name("out.jsonl"))

    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(inside())


def test_rows_say_what_they_were_made_of(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs.jsonl", tmp_path / "out.jsonl"
    metadata = {"group": "g", "components": {"a": 1.0, "b": None}}
    write_jsonl(runs, [trajectory("t", 1, metadata=metadata)])
    rescore_files(runs, Reads(), out)
    data = json.loads(out.read_text())
    assert (data["group"], data["components"], data["recorded_reward"]) == ("g", {"a": 1.0, "b": None}, 0.5)
    assert len(data["content"]) == len(data["rubric"]) == 32


def test_a_cost_that_nobody_knows_is_null_in_rows_and_the_summary(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    reply = ChatReply('{"score": true}', usage=Usage(1, 10, 0, 5, 15))
    finished = rescore_files(runs, judged(ScriptedClient(reply)), out)
    assert finished.summary.cost is None
    assert [row.usage and row.usage["cost"] for row in read_rows(out)] == [None] * 10
    finished = rescore_files(runs, judged(ScriptedClient(reply)), out, overwrite=True, price=(1.0, 2.0), store=None)
    assert finished.summary.cost == pytest.approx(20 * 20 / 1e6)


def test_rows_and_verdicts_do_not_share_a_file(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "runs.jsonl", [Trajectory("t1", end="terminated")])
    out = tmp_path / "out.jsonl"
    with pytest.raises(OutputError, match="give each a file of its own"):
        rescore_files(tmp_path / "runs.jsonl", Sequential(), out, store=out)
    assert not out.exists()


class Doubled:
    """An action as an environment has it, of twice the number."""

    def __init__(self, number: int, **others: Any) -> None:
        self.number = 2 * number


def test_other_types_of_actions_are_another_way_of_scoring(runs: Path) -> None:
    out = runs.with_name("out.jsonl")
    runs.unlink()
    write_jsonl(runs, [trajectory(f"t{i}", i) for i in range(4)])
    rescore_files(runs, Reads(), out)
    finished = rescore_files(runs, Reads(), out, resume=True, types=Types(Doubled))
    assert (finished.kept, finished.written) == (0, 4)
    assert [row.reward for row in read_rows(out)] == [0.0, 2.0, 4.0, 6.0]
    assert rescore_files(runs, Reads(), out, resume=True, types=Types(Doubled)).kept == 4


def test_a_verdict_that_failed_on_a_step_that_was_not_recorded_is_asked_for_again(runs: Path) -> None:
    def judging(client: ScriptedClient) -> LLMJudge:
        prompt = "{{ action.text | untrusted }}"
        return LLMJudge(prompt, Binary(), model="m", client=client, reason=False, on_failure="unscored")

    runs.unlink()
    steps = [Step({"text": "first"}, {"text": "x"}), Step({"text": "second"}, {"text": "x"})]
    write_jsonl(runs, [Trajectory(f"t{i}", steps=steps, end="terminated") for i in range(2)])
    out = runs.with_name("out.jsonl")
    failing = ScriptedClient(lambda request: "?" if "first" in request.messages[1]["content"] else {"score": True})
    rescore_files(runs, judging(failing), out, record="last", store=None)
    assert [row.status for row in read_rows(out)] == ["unscored"] * 2
    mended = judging(ScriptedClient({"score": True}))
    assert rescore_files(runs, mended, out, only_failed=True, record="last", store=None).written == 2
    assert [row.status for row in read_rows(out)] == ["scored"] * 2
