"""The trajectories that the repository ships, and the rubric for them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rubrics.formats import read
from rubrics.modules import load_module
from rubrics.rescoring import Summary, load_rubric, load_types, rescore
from rubrics.trajectory import Trajectory

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted((EXAMPLES / "trajectories").glob("*.jsonl"))


def test_the_files_are_what_the_script_writes(tmp_path: Path) -> None:
    script = [sys.executable, str(EXAMPLES / "make_trajectories.py"), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    subprocess.run(script, check=True, capture_output=True, env=environment)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {p.name: p.read_bytes() for p in FILES}


def test_there_is_one_of_everything() -> None:
    trajectories = [item for item in read(FILES) if isinstance(item, Trajectory)]
    assert len(trajectories) == 24
    assert {trajectory.end for trajectory in trajectories} == {"terminated", "truncated", None}
    assert {trajectory.reward for trajectory in trajectories} == {1.0, 0.0, None}


def test_the_rubric_scores_them() -> None:
    tree = load_rubric(f"{EXAMPLES / 'guessing.py'}:make_rubric")
    rows = list(rescore(read(FILES), tree))
    summary = Summary(rows)
    assert summary.statuses == {"scored": 22, "unfinished": 2}
    assert list(summary.components) == ["", "legal", "sensible", "result", "result.found", "result.quick"]
    assert all(row.step_rewards and row.step_rewards["kind"] == "credit" for row in rows if row.status == "scored")
    for row in rows:
        if row.recorded_reward == 1.0:
            assert row.evaluation is not None
            assert row.evaluation["result.found"].score == 1.0


def test_records_and_real_objects_get_equal_numbers() -> None:
    where = str(EXAMPLES / "guessing.py")
    tree, types = load_rubric(f"{where}:make_rubric"), load_types(f"{where}:Guess,Reply")
    with_records, with_objects = rescore(read(FILES), tree), rescore(read(FILES), tree, types=types)
    for a, b in zip(with_records, with_objects, strict=True):
        assert (a.status, a.reward, a.step_rewards) == (b.status, b.reward, b.step_rewards)


@pytest.mark.parametrize("secret", range(1, 21))
def test_live_and_offline_scores_are_equal(secret: int) -> None:
    where = str(EXAMPLES / "guessing.py")
    tree = load_rubric(f"{where}:make_rubric")
    types = load_types(f"{where}:Guess,Reply")
    assert types.action is not None
    game = load_module(where).Game(secret)
    episode = tree.episode(initial=game.start(), id="live")
    low, high = 1, 20
    while not episode.over:
        guess = types.action((low + high) // 2)
        episode.step(guess, game.guess(guess))
        low, high = game.low, game.high
    recorded = Trajectory.from_dict(episode.trajectory.to_dict())
    (row,) = rescore([recorded], tree)
    assert row.reward == row.recorded_reward == episode.rewards().total
    assert row.step_rewards is not None
    assert row.step_rewards["values"] == episode.rewards().values.tolist()
