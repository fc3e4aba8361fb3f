"""Rescoring by a group rubric: whole groups, or it is said that they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from judges import GroupJudge, PairwiseJudge, Price, ScriptedClient
from rubrics import GroupRubric, GroupScores, Usage
from rubrics.cli.app import app
from rubrics.formats import write_jsonl
from rubrics.rescoring import ConditionError, Row, plan_files, read_rows, rescore_files
from rubrics.trajectory import Step, Trajectory

judged: list[list[str]] = []


class Ranks(GroupRubric):
    """The place of a candidate's number among those of its group, from 0 to 1."""

    def __init__(self, wait: float = 0.0) -> None:
        self.wait = wait

    async def score_group(self, group: Sequence[Trajectory], task: Any = None) -> Any:
        judged.append([each.id for each in group])
        await asyncio.sleep(self.wait)
        numbers = [each.steps[-1].action.number for each in group]
        if "bad" in numbers:
            raise ValueError("a bad number")
        if "exit" in numbers:
            raise SystemExit(3)
        ranks = [sum(number > other for other in numbers) / (len(numbers) - 1) for number in numbers]
        return GroupScores(tuple(ranks), ("why",) * len(ranks), Usage(calls=1, cost=0.5), {"best": max(numbers)})


def trajectory(id: str, number: Any, group: Any = "g", **fields: Any) -> Trajectory:
    step = Step({"number": number}, {"text": "x"})
    metadata = {} if group is None else {"group": group}
    return Trajectory(id, **{"steps": [step], "end": "terminated", "metadata": metadata, "task": {"id": 7}, **fields})


def run(folder: Path, trajectories: list[Trajectory], rubric: GroupRubric | None = None, **options: Any) -> list[Row]:
    (folder / "runs.jsonl").unlink(missing_ok=True)
    write_jsonl(folder / "runs.jsonl", trajectories)
    options.setdefault("overwrite", not options.get("resume"))
    rescore_files(folder / "runs.jsonl", rubric or Ranks(), folder / "out.jsonl", **options)
    return list(read_rows(folder / "out.jsonl"))


def rewards(rows: list[Row]) -> dict[Any, float | None]:
    return {row.id: row.reward for row in rows}


def test_members_are_found_wherever_they_stand(tmp_path: Path) -> None:
    rows = run(
        tmp_path,
        [trajectory("a", 1, 1), trajectory("x", 9, 2), trajectory("b", 3, 1), trajectory("y", 8, 2)],
    )
    assert [row.id for row in rows] == ["a", "x", "b", "y"]
    assert rewards(rows) == {"a": 0.0, "x": 1.0, "b": 1.0, "y": 0.0}
    assert [row.group for row in rows] == [1, 2, 1, 2]
    assert {row.status for row in rows} == {"scored"}
    first, second = rows[0], rows[2]
    assert first.evaluation is not None
    assert second.evaluation is not None
    assert (first.evaluation.reason, first.evaluation.metadata) == ("why", {"best": 3})
    assert (first.usage and first.usage["cost"], second.usage) == (0.5, None)  # it is the group's, once
    assert first.rubric == second.rubric is not None


def test_incomplete_groups_are_reported_and_others_scored(tmp_path: Path) -> None:
    rows = run(
        tmp_path,
        [trajectory("a", 1, 1), trajectory("b", 2, 1), trajectory("c", 3, 2), trajectory("alone", 1, None)],
        group_size=2,
    )
    assert [row.status for row in rows] == ["scored", "scored", "unscored", "unscored"]
    assert rows[2].reason == "its group has 1 members and should have 2"
    assert "nothing says which group it belongs to" in (rows[3].reason or "")


def test_a_group_is_judged_as_soon_as_it_has_its_size(tmp_path: Path) -> None:
    order: list[Any] = []
    many = [trajectory(f"{g}{m}", m, g) for g in range(5) for m in range(2)]
    run(tmp_path, many, group_size=2, on_row=lambda row: order.append(row.id), concurrency=1)
    assert order[:2] == ["00", "01"]


@pytest.mark.parametrize("end", ["error", None])
def test_members_that_did_not_finish_are_left_out(tmp_path: Path, end: Any) -> None:
    rows = run(tmp_path, [trajectory("a", 1), trajectory("b", 5, end=end), trajectory("c", 3)])
    assert rewards(rows) == {"a": 0.0, "b": None, "c": 1.0}
    assert rows[1].status == ("unfinished" if end is None else "unscored")
    if end is None:
        rows = run(tmp_path, [trajectory("a", 1), trajectory("b", 5, end=end)], assume_end="truncated")
        assert rewards(rows) == {"a": 0.0, "b": 1.0}


@pytest.mark.parametrize(("bad", "reason"), [("bad", "ValueError: a bad number"), ("exit", "SystemExit: 3")])
def test_a_group_that_fails_fails_alone(tmp_path: Path, bad: str, reason: str) -> None:
    rows = run(
        tmp_path,
        [trajectory("a", 1, 1), trajectory("b", bad, 1), trajectory("c", 1, 2), trajectory("d", 2, 2)],
    )
    assert [row.status for row in rows] == ["error", "error", "scored", "scored"]
    assert rows[0].reason == reason


def test_a_group_is_scored_again_as_a_whole(tmp_path: Path) -> None:
    judged.clear()
    first = [trajectory("a", 1, 1), trajectory("b", 2, 1), trajectory("c", 1, 2), trajectory("d", 2, 2)]
    run(tmp_path, first)
    assert run(tmp_path, first, resume=True)
    assert len(judged) == 2
    rows = run(tmp_path, [*first, trajectory("e", 3, 2)], resume=True)
    assert judged[2:] == [["c", "d", "e"]]
    assert rewards(rows) == {"a": 0.0, "b": 1.0, "c": 0.0, "d": 0.5, "e": 1.0}
    whole = (tmp_path / "out.jsonl").read_bytes()
    for cut in range(0, len(whole), 211):  # killed at any byte
        (tmp_path / "out.jsonl").write_bytes(whole[:cut])
        rows = run(tmp_path, [*first, trajectory("e", 3, 2)], resume=True)
        assert rewards(rows) == {"a": 0.0, "b": 1.0, "c": 0.0, "d": 0.5, "e": 1.0}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("rows_before", range(1, 6))
def test_a_run_that_dies_while_groups_are_scored_again_leaves_one_row_each(tmp_path: Path, rows_before: int) -> None:
    members = [trajectory(f"{g}{m}", m, g) for g in range(3) for m in range(2)]
    run(tmp_path, members[::2])
    left = rows_before

    def die(row: Row) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Killed

    with pytest.raises(Killed):
        run(tmp_path, members, resume=True, on_row=die)
    rows = run(tmp_path, members, resume=True)
    assert rewards(rows) == {f"{g}{m}": float(m) for g in range(3) for m in range(2)}
    assert len(rows) == 6
    finished = rescore_files(tmp_path / "runs.jsonl", Ranks(), tmp_path / "out.jsonl", resume=True)
    assert (finished.kept, finished.written, finished.summary.statuses) == (6, 0, {"scored": 6})


def test_other_groups_are_judged_anew(tmp_path: Path) -> None:
    several = [trajectory("a", 1, None), trajectory("b", 2, None)]
    assert rewards(run(tmp_path, several)) == {"a": None, "b": None}
    assert rewards(run(tmp_path, several, resume=True, group_by="task.id")) == {"a": 0.0, "b": 1.0}
    assert rewards(run(tmp_path, several, resume=True, group_by="task.id", group_size=3)) == {"a": None, "b": None}


def test_what_members_share_can_be_said(tmp_path: Path) -> None:
    rows = run(
        tmp_path,
        [trajectory("a", 1, None), trajectory("b", 2, None), trajectory("c", 3, None, task={"id": 8})],
        group_by="task.id",
    )
    assert rewards(rows) == {"a": 0.0, "b": 1.0, "c": None}
    assert [row.group for row in rows] == [7, 7, 8]


def test_what_cannot_be_read_is_a_row(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "runs.jsonl", [trajectory("a", 1), trajectory("b", 2)])
    with (tmp_path / "runs.jsonl").open("ab") as file:
        file.write(b"broken\n")
    for _ in range(2):
        rescore_files(tmp_path / "runs.jsonl", Ranks(), tmp_path / "out.jsonl", resume=True)
        rows = list(read_rows(tmp_path / "out.jsonl"))
        assert [row.status for row in rows] == ["scored", "scored", "unreadable"]


def test_judges_of_groups_are_planned_and_recorded(tmp_path: Path) -> None:
    def rubric(client: ScriptedClient) -> GroupJudge:
        return GroupJudge(PairwiseJudge(model="m", client=client, price=Price(1.0, 1.0)))

    client = ScriptedClient({"reason": "r", "winner": "A", "score": "A"})
    write_jsonl(tmp_path / "runs.jsonl", [trajectory(str(n), n) for n in range(3)])
    found = plan_files(tmp_path / "runs.jsonl", rubric(client))
    assert client.requests == []
    assert found.judges is not None
    assert found.judges.total.calls == 6  # three pairs, each in both orders
    assert found.judges.total.cost


def test_the_command_takes_group_rubrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl("runs.jsonl", [trajectory("a", 1, None), trajectory("b", 2, None)])
    Path("rubric.py").write_text(
        "from rubrics import GroupRubric\n"
        "class Ranks(GroupRubric):\n"
        "    async def score_group(self, group, task=None):\n"
        "        return [float(each.steps[-1].action.number) for each in group]\n"
    )
    command = ["rescore", "runs.jsonl", "--rubric", "rubric.py:Ranks", "--out", "out.jsonl", "--group-by", "task.id"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert rewards(list(read_rows("out.jsonl"))) == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize(
    ("group", "by", "expected", "split"),
    [
        (0, None, {"a0": 0.0, "b0": 1.0, "a1": 0.0, "b1": 1.0}, 1),  # each file numbers its tasks from 0
        ("0", None, {"a0": 0.0, "b0": 1.0, "a1": 0.0, "b1": 1.0}, 1),
        ("django-1", None, {"a0": 0.0, "b0": 1 / 3, "a1": 2 / 3, "b1": 1.0}, 0),  # a name is one over all shards
        (0, "group", {"a0": 0.0, "b0": 1 / 3, "a1": 2 / 3, "b1": 1.0}, 0),
    ],
)
def test_a_group_that_is_a_number_counts_within_its_file(
    tmp_path: Path, group: Any, by: str | None, expected: dict[str, float], split: int
) -> None:
    for shard in range(2):
        members = [trajectory(f"a{shard}", 10 * shard, group), trajectory(f"b{shard}", 10 * shard + 1, group)]
        write_jsonl(tmp_path / f"shard{shard}.jsonl", members)
    files = sorted(tmp_path.glob("shard*.jsonl"))
    finished = rescore_files(files, Ranks(), tmp_path / "out.jsonl", group_by=by)
    assert rewards(list(read_rows(tmp_path / "out.jsonl"))) == pytest.approx(expected)
    assert finished.split == split


def test_a_number_is_no_number_of_a_file_that_is_one_trajectory(tmp_path: Path) -> None:
    sources = [{"format": "harbor", "path": f"job/trial-{n}", "line": None} for n in range(2)]
    members = [trajectory(str(n), n, "42", source=sources[n]) for n in range(2)]
    assert rewards(run(tmp_path, members)) == {"0": 0.0, "1": 1.0}


def test_a_group_that_cannot_be_worked_out_is_told(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "runs.jsonl", [Trajectory("t1", task={"n": None}, end="terminated")])
    with pytest.raises(ConditionError, match=r"'task\.n \+ 1' on the trajectory 't1': unsupported operand"):
        rescore_files(tmp_path / "runs.jsonl", Ranks(), tmp_path / "out.jsonl", group_by="task.n + 1")
