"""What a task's own container needs of the Harbor adapter: two files and an exit code. For Harbor: test_harbor.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rubrics import RubricError, Unscored, WeightedSum
from rubrics.formats import write_jsonl
from rubrics.integrations.harbor import verify
from rubrics.rescoring import rescore_one
from rubrics.rollouts.conversations import trajectory_of
from tests.leaves import Fixed

ROOT = Path(__file__).resolve().parents[2]
TREE_FILE = """
from rubrics import TrajectoryRubric, Unscored

class Correct(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        if "?" in trajectory[-1][0].content:
            raise Unscored("it asks back")
        return float("42" in trajectory[-1][0].content)
"""


def test_the_reward_and_its_details(tmp_path: Path) -> None:
    tree = WeightedSum({"a": Fixed(1.0), "b": Fixed(0.5)}, {"a": 0.5, "b": 0.5})
    rollout = trajectory_of("6 * 7?", "42")
    rewards = verify(tree, rollout, unscored="raise", metrics=["b"], directory=tmp_path)
    assert rewards == json.loads((tmp_path / "reward.json").read_text()) == {"reward": 0.75, "b": 0.5}
    assert rewards["reward"] == rescore_one(rollout, tree).reward
    details = json.loads((tmp_path / "reward-details.json").read_text())["reward"]
    assert details["score"] == 0.75 and details["evaluation"]["status"] == "scored"
    assert [(one["name"], one["value"]) for one in details["criteria"]] == [("a", 1.0), ("b", 0.5)]


def test_without_a_reward_an_old_file_does_not_stand(tmp_path: Path) -> None:
    (tmp_path / "reward.json").write_text('{"reward": 1.0}')
    tree = WeightedSum({"a": Fixed(Unscored("who knows"))}, {"a": 1.0})
    with pytest.raises(RubricError, match="who knows"):
        verify(tree, trajectory_of("?", "42"), unscored="raise", directory=tmp_path)
    assert not (tmp_path / "reward.json").exists()
    assert verify(tree, trajectory_of("?", "42"), unscored=-1.0, directory=tmp_path) == {"reward": -1.0}


@pytest.mark.parametrize(("said", "code", "reward"), [("it is 42", 0, 1.0), ("which one?", 1, None)])
def test_the_command_of_a_tests_folder(said: str, code: int, reward: float | None, tmp_path: Path) -> None:
    (tmp_path / "rubric.py").write_text(TREE_FILE)
    write_jsonl(tmp_path / "trajectory.json", [trajectory_of("6 * 7?", said)])
    command = [sys.executable, "-m", "rubrics.integrations.harbor", f"{tmp_path / 'rubric.py'}:Correct"]
    command += [str(tmp_path / "trajectory.json"), "--unscored", "raise", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    found = tmp_path / "out" / "reward.json"
    assert (json.loads(found.read_text())["reward"] if found.exists() else None) == reward
    assert ("it asks back" in done.stderr) == (reward is None)
