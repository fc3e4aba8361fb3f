"""Rows as JSON, and what a run comes to."""

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from rubrics import Evaluation, Gate, Rubric, Score, Unscored, WeightedSum
from rubrics.formats import FormatError
from rubrics.rescoring import Row, Summary, read_rows, rescore
from rubrics.trajectory import Record, Step, Trajectory


def written(row: Row) -> dict[str, Any]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in a row")

    line = row.to_json()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line, parse_constant=refuse)  # type: ignore[no-any-return]


@given(
    st.builds(
        Row,
        id=st.none() | st.text(st.characters(codec=None)),
        status=st.sampled_from(["scored", "unscored", "unfinished", "error", "unreadable"]),
        reward=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        recorded_reward=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        end=st.sampled_from(["terminated", "truncated", "error", "abandoned", None]),
        steps=st.integers(0, 100),
        reason=st.none() | st.text(),
        source=st.none() | st.dictionaries(st.text(), st.integers()),
    )
)
def test_rows_round_trip(row: Row) -> None:
    back = Row.from_dict(written(row))
    assert back == row
    assert repr(back) == repr(row)


def test_metadata_is_written_as_well_as_json_can() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    metadata: dict[Any, Any] = {
        "nan": math.nan,
        "array": np.array([1.0, math.inf]),
        "odd": Odd(),
        "bytes": b"\xff",
        "set": {1},
        3: "x",
    }
    metadata["record"] = Record(a=1)
    row = Row("t", "scored", 1.0, evaluation=Evaluation("", "Leaf", "scored", 1.0, metadata=metadata))
    assert written(row)["evaluation"]["metadata"] == {
        "nan": None,
        "array": [1.0, None],
        "odd": "<odd>",
        "bytes": "b'\\xff'",
        "set": [1],
        "3": "x",
        "record": {"a": 1},
    }


def test_rows_are_read_back_as_a_stream(tmp_path: Path) -> None:
    rows = [Row("a", "scored", 1.0, evaluation=Evaluation("", "Leaf", "scored", 1.0)), Row("b", "unfinished")]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(row.to_json() for row in rows))
    assert list(read_rows(path)) == rows


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('"reward": "1.0"', "a score is a number or null, not '1.0'"),
        ('"reward": 1, "other": 1', "unexpected keyword argument 'other'"),
        ('"reward": 1, "evaluation": {"x": 1}', "KeyError"),
        ('"reward": 1, "step_rewards": [1]', r"step_rewards is an object or null, not \[1\]"),
    ],
)
def test_a_line_that_is_no_row_is_named(tmp_path: Path, more: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "status": "scored", ' + more + "}\n")
    with pytest.raises(FormatError, match=rf"rows\.jsonl:1: no row of a rescoring run: .*{message}"):
        list(read_rows(path))


# --- the summary -----------------------------------------------------------------------------------------------------


class Reads(Rubric):
    def forward(self, action: Any, observation: Any) -> Any:
        if action == "?":
            raise Unscored("unclear")
        return Score(action, reason="[bold]as read[/bold]")


def rows(*runs: tuple[Any, float | None]) -> list[Row]:
    tree = WeightedSum({"gate": Gate(Reads(), 0.5), "raw": Reads()}, {"gate": 0.5, "raw": 0.5})
    recordings = [
        Trajectory(str(i), steps=[Step(value, None)], end="terminated" if value is not None else None, reward=recorded)
        for i, (value, recorded) in enumerate(runs)
    ]
    return list(rescore(recordings, tree))


def test_means_are_over_what_was_scored() -> None:
    summary = Summary(rows((1.0, 0.5), (0.4, 0.2), (0.8, 1.0), ("?", 1.0), (None, 0.0), ("bad", None)))
    assert summary.statuses == {"scored": 3, "unscored": 1, "unfinished": 1, "error": 1}
    assert list(summary.components)[:2] == ["", "gate"]
    raw = summary.components["raw"]
    assert raw.outcomes == {"scored": 3, "unscored": 1}
    assert raw.mean == pytest.approx(2.2 / 3)
    assert (raw.low, raw.high) == (0.4, 1.0)
    assert summary.components["gate"].low == 0.0
    assert summary.components["gate"].outcomes["error"] == 1
    assert summary.rewards.mean == pytest.approx((1.0 + 0.2 + 0.8) / 3)
    assert summary.moved == {"up": 1, "same": 1, "down": 1}
    assert summary.recorded_mean == pytest.approx(1.7 / 3)
    assert summary.new_mean == pytest.approx(2.0 / 3)
    assert summary.describe().splitlines() == [
        "6 trajectories: 3 scored, 1 unscored, 1 unfinished, 1 error",
        "episode reward: recorded mean 0.567, new mean 0.667 (1 up, 1 down, 1 same)",
    ]


def test_nothing_scored_has_no_mean() -> None:
    summary = Summary(rows(("?", None), (None, None)))
    assert summary.components["raw"].mean is None
    assert summary.rewards.mean is None
    assert summary.recorded_mean is None
    assert summary.new_mean is None
    assert summary.describe() == "2 trajectories: 1 unscored, 1 unfinished"
    assert Summary().describe() == "0 trajectories: none"
    assert "none was recorded" in Summary(rows((1.0, None))).describe()


def test_the_table_has_a_line_for_every_node_and_reads_no_markup() -> None:
    summary = Summary([Row("a", "scored", 1.0, evaluation=Evaluation("", "[red]Kind[/red]", "scored", 1.0))])
    summary.add(*rows((0.75, None)))
    console = Console(width=100, file=io.StringIO())
    console.print(summary.table())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "(root)" in text
    assert "[red]Kind[/red]" in text
    assert "gate" in text
    assert "0.750" in text
    assert "skipped" not in text
