"""Episodes recorded by the server and scored again offline."""

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv")


from rubrics import (
    Evaluation,
)
from rubrics.formats import read
from rubrics.rescoring import Types, rescore
from tests.integrations.board import (
    SESSIONS,
    Move,
    MoveClient,
    RubricWired,
    Seen,
    ToldEnv,
    make_and_reset,
    make_tree,
    numbers_of,
    serving,
)

ROOT = Path(__file__).resolve().parents[2]


def test_online_and_offline_numbers_are_equal(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "games.jsonl"

    class Recorded(RubricWired):
        record_to = path

    online: dict[str, Any] = {}

    def play(session: int) -> None:
        with MoveClient(base_url=url).sync() as client:
            for episode in range(3):
                name = f"{session}-{episode}"
                client.reset(episode_id=name, task={"session": session})
                numbers = numbers_of(session, episode)
                results = [client.step(Move(number=n, last=t == len(numbers) - 1)) for t, n in enumerate(numbers)]
                online[name] = [result.reward for result in results], results[-1].metadata["rubric"]

    with serving(Recorded, SESSIONS) as url:
        threads = [threading.Thread(target=play, args=(session,)) for session in range(SESSIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trajectories = list(read([path]))
    assert sorted(item.id for item in trajectories) == sorted(online)
    for types in (None, Types(Move, Seen)):  # over Records, and over the environment's own classes again
        rows = list(rescore(trajectories, make_tree(), types=types))
        for row, trajectory in zip(rows, trajectories, strict=True):
            rewards, report = online[row.id]
            assert row.status == "scored"
            assert row.reward == row.recorded_reward == report["step_rewards"]["total"]
            assert row.step_rewards == report["step_rewards"]
            assert row.step_rewards["emitted"] == rewards == [step.reward for step in trajectory.steps]
            assert {path: score for path, score in row.evaluation.flatten().items() if path} == report["scores"]
            recorded = [Evaluation.from_dict(step.metadata["evaluation"]) for step in trajectory.steps]
            assert recorded[-1].flatten() == row.evaluation.flatten()
            assert [evaluation.score for evaluation in recorded] == rewards
            assert trajectory.task == {"session": int(row.id.split("-")[0])}
    episode, first = make_tree().episode(), trajectories[0]
    assert [episode.step(step.action, step.observation) for step in first.steps] == online[first.id][0]


def test_a_recording_can_be_rescored_from_the_command_line(tmp_path: Path) -> None:
    class Recorded(ToldEnv):
        record_to = tmp_path / "runs.jsonl"

    environment = Recorded()
    for moves in ([Move(), Move(last=True)], [Move(say="fail"), Move(last=True)], [Move()]):
        environment.reset()
        for move in moves:
            environment.step(move)
    environment.close()
    environment.close()
    (tmp_path / "fixed.py").write_text(
        "from rubrics import Gate, Rubric, TrajectoryRubric, WeightedSum\n"
        "class Told(Rubric):\n    def forward(self, action, observation): return 1.0\n"
        "class Length(TrajectoryRubric):\n    def score_trajectory(self, trajectory): return len(trajectory) / 10\n"
        "def make_rubric():\n"
        "    return WeightedSum({'legal': Gate(Told()), 'length': Length()}, {'legal': .5, 'length': .5})\n"
    )
    command = [sys.executable, "-c", "from rubrics.cli import main; main()", "rescore", "runs.jsonl"]
    command += ["--rubric", "fixed.py", "--out", "o.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [(row["status"], row["end"]) for row in rows] == [
        ("scored", "terminated"),
        ("scored", "terminated"),
        ("unscored", "abandoned"),
    ]
    assert [row["recorded_reward"] for row in rows] == [pytest.approx(1.1), None, None]
    assert [row["reward"] for row in rows] == [pytest.approx(1.1), pytest.approx(1.1), None]


def test_what_cannot_be_written_is_logged_and_the_reward_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Env(ToldEnv):
        record_to = tmp_path  # a folder

    environment = make_and_reset(Env)
    assert environment.step(Move(last=True)).reward == pytest.approx(0.55)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "could not be recorded" in record.message
    assert str(tmp_path) in record.message


def test_an_author_may_override_close_without_super(tmp_path: Path) -> None:
    class Env(ToldEnv):
        record_to = tmp_path / "runs.jsonl"

        def close(self):
            self.closed = True

    environment = make_and_reset(Env)
    environment.reset()  # an episode without steps leaves nothing to write
    environment.step(Move())
    environment.reset()
    environment.step(Move())
    environment.close()
    assert environment.closed
    assert [item.end for item in read([Env.record_to])] == ["abandoned"] * 2
