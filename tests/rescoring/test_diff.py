"""What moved between two runs."""

import math
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from scipy.stats import kendalltau

from rubrics.formats import FormatError
from rubrics.rescoring import DiffError, Row, RowFile, compare, compare_recorded
from rubrics.rescoring.diff import WAYS
from tests.rescoring.runs import row, tree


def write(path: Path, *rows: Row) -> Path:
    path.write_bytes(b"".join(each.to_json() for each in rows))
    return path


def test_every_trajectory_moved_in_one_way() -> None:
    old = [row("a", 0.5), row("b", 0.5), row("c", 0.5), row("d", 0.5), row("e", None), row("f", None), row("g", 1.0)]
    new = [row("a", 0.7), row("b", 0.2), row("c", 0.5), row("d", None), row("e", 0.1), row("f", None), row("h", 1.0)]
    diff = compare(old, new)
    assert {change.id: change.way for change in diff.changes} == {
        "a": "up",
        "b": "down",
        "c": "unchanged",
        "d": "newly_unscored",
        "e": "newly_scored",
        "f": "unscored",
        "h": "added",
        "g": "removed",
    }
    assert diff.counts.total() == 8
    assert [change.id for change in diff.changes] == ["a", "b", "c", "d", "e", "f", "h", "g"]
    assert [change.id for change in diff.most_moved(5)] == ["b", "a"]
    assert diff.most_moved(1)[0].difference == pytest.approx(-0.3)
    assert diff.reward.n == 3
    assert diff.reward.old == pytest.approx(0.5)
    assert diff.reward.new == pytest.approx(1.4 / 3)
    assert diff.moved_share == pytest.approx(5 / 7)  # of the old run: a, b, d, e moved and g is gone


def test_equal_within_rounding_is_unchanged() -> None:
    assert compare([row("a", 0.1 + 0.2), row("b", 0.0)], [row("a", 0.3), row("b", 1e-13)]).counts == {"unchanged": 2}
    assert compare([row("a", 0.3)], [row("a", 0.3 + 1e-8)]).counts == {"up": 1}


def test_no_reward_has_its_status() -> None:
    statuses = ["unscored", "unfinished", "error"]
    old = [row(str(n), None if n % 2 else 0.5, status=status) for n, status in enumerate(statuses)]
    diff = compare(old, [row(str(n), 0.5) for n in range(3)])
    assert diff.statuses == {("unscored", "scored"): 1, ("unfinished", "scored"): 1, ("error", "scored"): 1}


def test_the_same_id_with_another_content_is_not_compared() -> None:
    old, new = [row("a", 0.0, {"x": 0.0}, content="1", group="g")], [row("a", 1.0, {"x": 1.0}, content="2", group="g")]
    diff = compare([*old, row("b", 0.0, group="g")], [*new, row("b", 0.0, group="g")])
    assert diff.counts == {"other_content": 1, "unchanged": 1}
    assert diff.nodes["x"].n == 0
    assert diff.reward.n == 1
    assert diff.groups == {}
    assert diff.moved_share == 0.5
    assert compare(old, [row("a", 1.0, content=None)]).counts == {"up": 1}  # an old run that recorded no hash


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_nodes_are_counted_one_by_one() -> None:
    old = [
        row("a", 0.5, {"x": 0.0, "y": 1.0, "gone": 1.0}),
        row("b", 0.5, {"x": 0.5, "y": 0.5, "gone": 1.0}),
        row("c", 0.5, {"x": 1.0, "y": "skipped", "gone": 1.0}),
        row("d", 0.5, {"x": 1.0, "y": "unscored", "gone": 1.0}),
    ]
    new = [
        row("a", 0.5, {"x": 0.5, "y": "error", "here": 1.0}),
        row("b", 0.5, {"x": 0.25, "y": "unscored", "here": 1.0}),
        row("c", 0.5, {"x": 1.0, "y": 1.0, "here": 1.0}),
        row("d", 0.5, {"x": "pending", "y": "skipped", "here": 1.0}),
    ]
    diff = compare(old, new)
    x, y = diff.nodes["x"], diff.nodes["y"]
    assert (x.up, x.down, x.unchanged, x.n) == (1, 1, 1, 3)
    assert x.old_mean == pytest.approx(0.5)
    assert x.new_mean == pytest.approx(1.75 / 3)
    assert x.difference == pytest.approx(0.25 / 3)
    assert x.newly_unscored == {"pending": 1}
    assert (y.n, y.old_mean, y.difference) == (0, None, None)
    assert y.newly_unscored == {"error": 1, "unscored": 1}
    assert y.newly_scored == {"skipped": 1}
    assert (diff.nodes["gone"].only, diff.nodes["here"].only, x.only) == ("old", "new", None)
    assert [change.nodes for change in diff.changes] == [("x", "y"), ("x", "y"), ("y",), ("x",)]


def test_nodes_come_in_the_order_of_the_tree() -> None:
    old = [row("a", 0.0, {"z": 1.0, "z.one": 1.0, "a": 1.0}), row("b", 0.0, {"z": 1.0, "z.late": 1.0, "a": 1.0})]
    diff = compare(old, [row("a", 0.0, {"z": 1.0, "z.new": 1.0, "a": 1.0})])
    assert list(diff.nodes) == ["", "z", "z.new", "z.one", "z.late", "a"]


def test_a_node_that_is_missing_in_one_row_lost_its_score() -> None:
    diff = compare([row("a", 0.0, {"x": 1.0}), row("b", 0.0, {"x": 1.0})], [row("a", 0.0, {"x": 1.0}), row("b", 0.0)])
    assert diff.nodes["x"].newly_unscored == {"absent": 1}


def test_all_steps_count_where_both_runs_have_them() -> None:
    def steps(*scores: float | str | None) -> dict[str, Any]:
        records = [None if score is None else tree({"": 0.0, "x": score}) for score in scores]
        return {"evaluations": records, "evaluation": records[-1], "steps": len(records)}

    old, new = row("a", 0.5, **steps(0.0, None, "skipped", 1.0)), row("a", 0.5, **steps(1.0, None, 1.0, 1.0))
    diff = compare([old], [new])
    assert (diff.nodes["x"].up, diff.nodes["x"].unchanged, diff.nodes["x"].newly_scored) == (1, 1, {"skipped": 1})
    assert diff.changes[0].nodes == ("x",)
    assert compare([old], [row("a", 0.5, {"x": 0.0})]).nodes["x"].down == 1  # else the last step


def test_what_a_tree_had_scored_before_it_raised_is_not_compared() -> None:
    old = row("a", 0.5, {"x": 0.5, "y": 0.5, "z": 0.5})
    new = row("a", None, {"x": 1.0, "y": "error", "z": "skipped"}, status="error")
    diff = compare([old], [new])
    assert (diff.nodes["x"].n, diff.nodes["x"].newly_unscored) == (0, {})
    assert diff.nodes["y"].newly_unscored == {"error": 1}
    assert diff.nodes["z"].newly_unscored == {"skipped": 1}
    assert diff.changes[0].nodes == ("", "y", "z")


# --- what the runs are of --------------------------------------------------------------------------------------------


def test_the_same_tree_with_another_number_is_unstable() -> None:
    old = [row("a", 0.5, {"x": 0.5}, rubric="r"), row("b", 0.5, rubric="r"), row("c", 0.5, rubric="r", end="truncated")]
    new = [row("a", 0.7, {"x": 0.7}, rubric="r"), row("b", None, rubric="r"), row("c", 0.7, rubric="r")]
    diff = compare(old, new)
    assert diff.same_rubric is True
    assert [change.unstable for change in diff.changes] == [True, False, False]
    assert (diff.unstable, diff.nodes["x"].unstable) == (1, 1)
    other = compare(old, [row("a", 0.7, {"x": 0.7}, rubric="s")])
    assert (other.same_rubric, other.unstable, other.nodes["x"].unstable) == (False, 0, 0)
    assert compare([row("a", 0.5)], [row("a", 0.7)]).same_rubric is None
    assert compare([row("a", 0.5)], [row("a", 0.7)]).unstable == 0


def test_the_same_judge_with_another_number_is_unstable_in_another_tree() -> None:
    old = [row("a", 0.5, {"x": 0.5, "y": 0.5}, rubric="r", judges={"x": "1", "y": "2"})]
    new = [row("a", 0.7, {"x": 0.7, "y": 0.7}, rubric="s", judges={"x": "1", "y": "3"})]
    diff = compare(old, new)
    assert (diff.nodes["x"].unstable, diff.nodes["y"].unstable) == (1, 0)
    assert diff.changed_judges == ["y"]


def test_recorded_rewards_and_components_against_the_new_ones() -> None:
    run = [
        row("a", 0.5, {"db": 1.0, "said": 1.0}, recorded_reward=1.0, components={"db": 1.0, "said": 0.0, "x": 1.0}),
        row("b", 0.5, {"db": 1.0, "said": 1.0}, recorded_reward=None, components={"db": None, "said": 1.0}),
        row("c", None, {"db": "error"}, recorded_reward=0.0, status="error", rubric="r"),
    ]
    diff = compare_recorded(run)
    assert [change.way for change in diff.changes] == ["down", "newly_scored", "newly_unscored"]
    assert diff.nodes["db"].unchanged == 1
    assert diff.nodes["db"].newly_scored == {"unscored": 1}
    assert (diff.nodes["said"].up, diff.nodes["said"].unchanged) == (1, 1)
    assert {path: node.only for path, node in diff.nodes.items()} == {"": "new", "db": None, "said": None, "x": "old"}
    assert diff.unstable == 0
    assert diff.old.name == "recorded"


# --- ranks -----------------------------------------------------------------------------------------------------------


def grouped(*rewards: float | None, group: str | int = "g") -> list[Row]:
    return [row(f"{group}-{n}", reward, group=group) for n, reward in enumerate(rewards)]


def test_ranks_within_a_group() -> None:
    diff = compare(grouped(0.1, 0.5, 0.5, 0.9, 0.3), grouped(0.5, 0.4, 0.6, 0.6, None))
    (group,) = diff.groups.values()
    assert (group.n, group.pairs) == (4, 6)
    assert (group.discordant, group.tied, group.untied) == (1, 1, 1)
    assert group.best_changed is False
    assert (group.old_mean, group.new_mean) == (pytest.approx(0.5), pytest.approx(0.525))
    assert group.tau == pytest.approx(kendalltau([0.1, 0.5, 0.5, 0.9], [0.5, 0.4, 0.6, 0.6]).statistic)


def test_the_best_rollout_changed() -> None:
    def changed(old: tuple[float, ...], new: tuple[float, ...]) -> bool:
        return compare(grouped(*old), grouped(*new)).groups["g"].best_changed

    assert changed((1.0, 0.5), (0.2, 0.5))
    assert not changed((1.0, 1.0, 0.0), (1.0, 0.5, 0.0))
    assert not changed((0.1 + 0.2, 0.3), (0.3, 0.2))
    assert changed((1.0, 1.0, 0.0), (0.0, 0.0, 0.5))


def test_flat_groups_have_no_tau() -> None:
    group = compare(grouped(1.0, 1.0), grouped(0.1 + 0.2, 0.3)).groups["g"]
    assert (group.old_flat, group.new_flat, group.tau) == (True, True, None)
    group = compare(grouped(1.0, 1.0), grouped(0.5, 0.3)).groups["g"]
    assert (group.old_flat, group.new_flat, group.tau) == (True, False, None)


def test_groups_of_one_and_rows_without_a_group_are_in_none() -> None:
    diff = compare([*grouped(1.0, group=1), row("x", 1.0), row("y", 1.0)], [*grouped(0.5, group=1), row("x", 0.5)])
    assert diff.groups == {}


def test_groups_by_another_field() -> None:
    old = [row("t", 0.1), row("t#2", 0.2)]
    diff = compare(old, old, group_by=lambda row: (row.id or "").partition("#")[0])
    assert list(diff.groups) == ["t"]


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, -3.0])] * 2), min_size=2, max_size=30))
def test_ranks_are_those_of_the_definition(rewards: list[tuple[float, float]]) -> None:
    old, new = ([a for a, _ in rewards], [b for _, b in rewards])
    group = compare(grouped(*old), grouped(*new)).groups["g"]
    pairs = list(combinations(rewards, 2))
    assert group.pairs == len(pairs)
    assert group.discordant == sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in pairs)
    assert group.tied == sum(a[0] != b[0] and a[1] == b[1] for a, b in pairs)
    assert group.untied == sum(a[0] == b[0] and a[1] != b[1] for a, b in pairs)
    expected = kendalltau(old, new).statistic
    assert (group.tau is None) == math.isnan(expected)
    assert group.tau is None or group.tau == pytest.approx(expected)


# --- the mean difference ---------------------------------------------------------------------------------------------


def test_the_interval_is_that_of_the_mean_difference() -> None:
    old = [row(str(n), 0.0) for n in range(4)]
    means = compare(old, [row(str(n), value) for n, value in enumerate([0.1, 0.2, 0.3, 0.4])]).reward
    error = 1.96 * math.sqrt(0.05 / 3) / 2  # sample deviation over the root of 4
    assert means.difference == pytest.approx(0.25)
    assert (means.low, means.high) == (pytest.approx(0.25 - error), pytest.approx(0.25 + error))
    single = compare(old[:1], [row("0", 1.0)]).reward
    assert (single.n, single.difference, single.low) == (1, 1.0, None)
    assert compare([row("a", None)], [row("a", None)]).reward.n == 0


def test_the_interval_of_enormous_rewards() -> None:
    old, new = ([row(str(n), sign * n * 1e300) for n in range(4)] for sign in (1, -1))
    means = compare(old, new).reward
    assert means.low is not None and means.high is not None
    assert means.low < means.difference == -3e300 < means.high


def test_rollouts_of_one_task_are_not_independent() -> None:
    values = {"a": 0.1, "b": 0.2}
    old = [row(f"{g}{n}", 0.0, group=g) for g in values for n in range(50)]
    new = [row(f"{g}{n}", value, group=g) for g, value in values.items() for n in range(50)]
    means = compare(old, new).reward
    assert means.high is not None and means.low is not None
    assert means.high - means.low == pytest.approx(2 * 1.96 * 0.05)  # that of two observations, not of a hundred
    assert compare(old[:50], new[:50]).reward.low is None


# --- laws ------------------------------------------------------------------------------------------------------------

SCORE = st.sampled_from([0.0, 0.25, 0.5, 1.0, -2.0])
NODES = st.dictionaries(
    st.sampled_from(["x", "x.y", "x.z", "w"]), SCORE | st.sampled_from(["skipped", "unscored", "error", "pending"])
)
ROW = st.builds(
    lambda reward, nodes, status, **more: row(
        "?", reward, nodes, status="scored" if reward is not None else status, **more
    ),
    st.none() | SCORE,
    NODES,
    st.sampled_from(["unscored", "unfinished", "error"]),
    content=st.sampled_from([None, "1", "2"]),
    group=st.sampled_from([None, "g", "h", 3]),
    rubric=st.sampled_from([None, "r", "s"]),
    recorded_reward=st.none() | SCORE,
    components=st.none() | st.dictionaries(st.sampled_from(["x", "v"]), st.none() | SCORE),
)
RUN = st.dictionaries(st.sampled_from("abcdefgh"), ROW)


@given(RUN)
def test_a_run_and_itself_are_unchanged(run: dict[str, Row]) -> None:
    diff = compare(run, run)
    assert set(diff.counts) <= {"unchanged", "unscored"}
    assert diff.moved_share == (0.0 if run else None)
    assert diff.unstable == 0
    assert diff.reward.difference in (None, 0.0)
    for node in diff.nodes.values():
        assert (node.up, node.down, node.newly_unscored, node.newly_scored, node.only) == (0, 0, {}, {}, None)
    for group in diff.groups.values():
        assert (group.discordant, group.tied, group.untied, group.best_changed) == (0, 0, 0, False)
        assert group.tau is None or group.tau == pytest.approx(1.0)


MIRROR = {"up": "down", "newly_unscored": "newly_scored", "added": "removed"}
MIRROR = {way: way for way in WAYS} | MIRROR | {other: way for way, other in MIRROR.items()}


@given(RUN, RUN)
def test_the_other_way_round_is_the_mirror_image(old: dict[str, Row], new: dict[str, Row]) -> None:
    there, back = compare(old, new), compare(new, old)
    assert {c.id: MIRROR[c.way] for c in there.changes} == {c.id: c.way for c in back.changes}
    assert there.unstable == back.unstable
    assert there.statuses == Counter({(b, a): n for (a, b), n in back.statuses.items()})
    assert there.nodes.keys() == back.nodes.keys()
    for path, node in there.nodes.items():
        other = back.nodes[path]
        assert (node.up, node.down, node.unchanged) == (other.down, other.up, other.unchanged)
        assert (node.newly_unscored, node.newly_scored) == (other.newly_scored, other.newly_unscored)
        assert node.difference is None or node.difference == pytest.approx(-(other.difference or 0.0))
    shared = {change.id: change.group for change in there.changes} == {c.id: c.group for c in back.changes}
    for name, group in (there.groups if shared else {}).items():
        mirrored = back.groups[name]
        assert (group.discordant, group.tied, group.untied) == (mirrored.discordant, mirrored.untied, mirrored.tied)
        assert group.best_changed == mirrored.best_changed


@given(RUN, RUN)
def test_everything_is_counted_once(old: dict[str, Row], new: dict[str, Row]) -> None:
    diff = compare(old, new)
    assert sorted(change.id for change in diff.changes) == sorted(old.keys() | new.keys())
    assert diff.counts.total() == diff.statuses.total() == len(old.keys() | new.keys())
    compared = sum(change.way not in ("added", "removed", "other_content") for change in diff.changes)
    for node in diff.nodes.values():
        assert node.n + node.newly_unscored.total() + node.newly_scored.total() <= compared
    assert diff.reward.n == sum(diff.counts[way] for way in ("up", "down", "unchanged"))
    assert all(change.difference is not None for change in diff.most_moved(100))


@given(RUN, RUN)
def test_files_give_what_rows_give(tmp_path_factory: pytest.TempPathFactory, old: Any, new: Any) -> None:
    for run in (old, new):
        for id, each in run.items():
            each.id = id
    folder = tmp_path_factory.mktemp("runs")
    a, b = write(folder / "a.jsonl", *old.values()), write(folder / "b.jsonl", *new.values())
    read, held = compare(a, b).to_dict(), compare(old, new).to_dict()
    assert (read["old"].pop("name"), held["old"].pop("name")) == (str(a), "old")
    assert (read["new"].pop("name"), held["new"].pop("name")) == (str(b), "new")
    assert read == held
    assert compare_recorded(b).to_dict()["counts"] == compare_recorded(new).to_dict()["counts"]


# --- files -----------------------------------------------------------------------------------------------------------


def test_rows_of_a_file_are_read_when_asked_for(tmp_path: Path) -> None:
    rows = [row("a", 0.5), row("b", None), Row(None, "unreadable", reason="x:1: not JSON"), row("ü", 1.0)]
    path = write(tmp_path / "run.jsonl", *rows)
    file = RowFile(path)
    assert list(file) == ["a", "b", "ü"]
    assert file["ü"] == rows[3]
    assert ("a" in file, "z" in file, len(file), file.unreadable) == (True, False, 3, 1)
    with pytest.raises(KeyError):
        file["z"]
    assert compare(path, path).new.unreadable == 1
    path.write_bytes(path.read_bytes().replace(b'"id":"a"', b'"id":"c"'))
    with pytest.raises(FormatError, match=r"run\.jsonl:1: the file was changed while it was read"):
        file["a"]


def test_two_rows_of_one_id_name_both_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", row("a", 0.5), row("b", 0.5), row("a", 0.7))
    with pytest.raises(FormatError, match=r"run\.jsonl:3: the id 'a' has a row at line 1 already"):
        RowFile(path)
    with pytest.raises(DiffError, match="two rows of the old run have the id 'a'"):
        compare([row("a", 0.5), row("a", 0.5)], [])


def test_an_id_that_is_no_text() -> None:
    with pytest.raises(DiffError, match="an id is a text, not 7"):
        compare([row(7, 0.5)], [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": "b", "status": "scored", "rew', r":2: not JSON: .* the file ends in the middle of this line"),
        (b"nonsense\n", r":2: not JSON"),
        (b'{"id": "b", "steps": []}\n', r":2: no row of a rescoring run"),
        (b'{"id": 7, "status": "scored", "reward": 1.0}\n', r":2: an id is a text, not 7"),
        (b'{"id": "b", "status": "scored", "reward": 1.0, "other": 1}\n', r":2: no row of a rescoring run: TypeError"),
        (b'{"id": "b", "status": "scored", "reward": 1.0, "evaluation": {"path": ""}}\n', r":2: no row .* KeyError"),
        (
            b'{"id": "b", "status": "scored", "reward": "1.0"}\n',
            r":2: no row .*a score is a number or null, not '1.0'",
        ),
        (b"\xff\n", r":2: not JSON"),
    ],
)
def test_a_bad_line_names_file_and_line(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(row("a", 0.5).to_json() + line)
    with pytest.raises(FormatError, match=r"run\.jsonl" + message):
        compare(path, path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        compare(tmp_path / "none.jsonl", [])


@pytest.mark.slow
def test_ten_thousand_rows_are_compared_without_being_held(tmp_path: Path) -> None:
    import time
    import tracemalloc

    nodes = {f"part{n // 3}" + (f".leaf{n}" if n % 3 else ""): n / 11 for n in range(10)}
    line = row("ID", 0.5, nodes, reasons=dict.fromkeys(nodes, "because " * 30), group="GROUP").to_json()
    paths = [tmp_path / "old.jsonl", tmp_path / "new.jsonl"]
    for path in paths:
        with path.open("wb") as file:
            for n in range(10_000):
                file.write(line.replace(b'"ID"', b'"%d"' % n).replace(b'"GROUP"', b'"%d"' % (n // 8)))
    started = time.monotonic()
    diff = compare(*paths)
    assert time.monotonic() - started < 30
    assert diff.counts == {"unchanged": 10_000}
    assert len(diff.groups) == 1250
    tracemalloc.start()
    compare(*paths)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < sum(path.stat().st_size for path in paths) / 4


def test_group_numbers_count_within_their_file() -> None:
    def rows(*rewards: float) -> list[Row]:
        places = [("x.jsonl", 0), ("x.jsonl", 0), ("y.jsonl", 0), ("y.jsonl", 0), ("y.jsonl", 1), ("y.jsonl", 1)]
        return [
            row(f"{path}/{n}", reward, group=group, source={"path": path, "line": n + 1})
            for n, (reward, (path, group)) in enumerate(zip(rewards, places, strict=True))
        ]

    old, new = rows(0.1, 0.2, 0.3, 0.4, 0.5, 0.6), rows(0.2, 0.1, 0.3, 0.4, 0.5, 0.6)
    found = {name: (group.n, group.discordant) for name, group in compare(old, new).groups.items()}
    assert found == {"x.jsonl: 0": (2, 1), "y.jsonl: 0": (2, 0), "1": (2, 0)}  # a file is named where it must be
    joined = compare(old, new, group_by=lambda row: row.group).groups
    assert {name: group.n for name, group in joined.items()} == {"0": 4, "1": 2}
