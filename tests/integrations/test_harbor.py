"""A tree as the verifier of Harbor's trials: whole trials, run by Harbor without a container."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("harbor")

from harbor.metrics.mean import Mean
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.paths import TrialPaths
from harbor.trial.trial import Trial
from harbor.verifier.verifier import Verifier, VerifierOutputParseError
from harbor.viewer.artifacts import verifier_output

from rubrics import Evaluation, RubricError, WeightedSum
from rubrics.formats import write_jsonl
from rubrics.integrations.harbor import main, verify
from rubrics.rescoring import rescore_one
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Scorer
from tests.leaves import AsyncFixed, Fixed

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:harbor", "ignore::DeprecationWarning:litellm", "ignore::UserWarning:harbor"
)

TREE_FILE = """
from rubrics import Rubric, Score, TrajectoryRubric, Unscored, WeightedSum

class Polite(Rubric):
    def forward(self, action, observation):
        if "boom" in action.content:
            raise ValueError("boom")
        if "?" in action.content:
            raise Unscored("a question")
        return Score(float("please" in action.content), reason="says please or not")

class Correct(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        return float("42" in trajectory[-1][0].content)

def make_rubric():
    return WeightedSum({"polite": Polite(), "correct": Correct()}, {"polite": 0.25, "correct": 0.75})
"""

TEST_SH = """#!/bin/bash
"$PYTHON" -m rubrics.integrations.harbor "$ROOT/tests/rubric.py" "$ROOT/logs/agent/trajectory.json" \\
    --unscored {unscored} --out "$ROOT/logs/verifier"
"""


def make_task(folder: Path, unscored: Any = "raise") -> Path:
    task = folder / "task"
    for name, text in {
        "instruction.md": "What is 6 * 7?",
        "task.toml": 'schema_version = "1.0"\n',
        "environment/Dockerfile": "FROM scratch\n",
        "tests/test.sh": TEST_SH.format(unscored=unscored),
        "tests/rubric.py": TREE_FILE,
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    return task


async def trial_of(folder: Path, said: str, verifier: dict[str, Any] | None = None, **task: Any) -> tuple[Any, Path]:
    """Run a trial; its result, and the folder of its verifier."""
    config = TrialConfig.model_validate(
        {
            "task": {"path": str(make_task(folder, **task))},
            "trials_dir": str(folder / "trials"),
            "trial_name": "trial",
            "agent": {"import_path": "tests.integrations.harbor_here:Writes", "kwargs": {"said": said}},
            "environment": {"import_path": "tests.integrations.harbor_here:Here"},
            "verifier": verifier or {},
        }
    )
    trial = await Trial.create(config)
    return await trial.run(), folder / "trials" / "trial" / "verifier"


def on_host(**kwargs: Any) -> dict[str, Any]:
    return {
        "import_path": "rubrics.integrations.harbor_verifier:RubricVerifier",
        "kwargs": {"rubric": "rubric.py", "unscored": "raise", **kwargs},
    }


WHERE = pytest.mark.parametrize("verifier", [None, on_host()], ids=["container", "host"])


# -- whole trials -----------------------------------------------------------------------------------------------------


@WHERE
async def test_a_trial_gets_the_trees_reward_and_the_viewer_its_details(tmp_path: Path, verifier: Any) -> None:
    result, folder = await trial_of(tmp_path, "please, 42", verifier)
    assert result.exception_info is None
    assert result.verifier_result.rewards == {"reward": 1.0}
    shown = verifier_output({file.name: file.read_text() for file in folder.iterdir() if file.is_file()})
    assert shown["reward"] == {"reward": 1.0}
    details = shown["reward_details"]["reward"]
    assert details["score"] == 1.0
    assert details["status"] == "scored"
    assert [(one["name"], one["value"], one["reasoning"]) for one in details["criteria"]] == [
        ("polite", 1.0, "says please or not"),
        ("correct", 1.0, None),
    ]
    assert details["step_rewards"]["total"] == 1.0
    assert Evaluation.from_dict(details["evaluation"]).flatten() == {"": 1.0, "polite": 1.0, "correct": 1.0}


@WHERE
@pytest.mark.parametrize(("said", "why"), [("42?", "a question"), ("boom 42", "ValueError: boom")])
async def test_a_trial_without_a_reward_fails_and_says_why(tmp_path: Path, verifier: Any, said: str, why: str) -> None:
    result, folder = await trial_of(tmp_path, said, verifier)
    assert result.verifier_result is None
    assert result.exception_info is not None
    assert not (folder / "reward.json").exists()
    details = json.loads((folder / "reward-details.json").read_text())["reward"]
    assert details["score"] is None
    assert details["status"] == ("unscored" if "question" in why else "error")
    assert why in details["reason"]
    where = (folder / "test-stdout.txt").read_text() if verifier is None else result.exception_info.exception_message
    assert why in where


@pytest.mark.parametrize("verifier", [None, on_host(unscored=-1)], ids=["container", "host"])
async def test_a_number_can_be_chosen(tmp_path: Path, verifier: Any) -> None:
    result, folder = await trial_of(tmp_path, "42?", verifier, unscored=-1)
    assert result.verifier_result.rewards == {"reward": -1.0}
    assert json.loads((folder / "reward-details.json").read_text())["reward"]["status"] == "unscored"


async def test_metrics_stand_beside_the_reward_where_they_are_asked_for(tmp_path: Path) -> None:
    result, _ = await trial_of(tmp_path, "please, 41", on_host(metrics=["polite", "correct"]))
    assert result.verifier_result.rewards == {"reward": 0.25, "polite": 1.0, "correct": 0.0}


# -- the function -----------------------------------------------------------------------------------------------------


def rollout(said: str = "42", **options: Any) -> Any:
    return trajectory_of("What is 6 * 7?", said, **options)


def parsed(folder: Path) -> Any:
    """What Harbor's own verifier reads."""
    verifier = Verifier.__new__(Verifier)
    verifier.trial_paths = TrialPaths(folder.parent)
    return verifier._parse_reward_json()


@pytest.mark.parametrize("leaf", [Fixed, AsyncFixed])
def test_the_reward_is_that_of_scoring_and_rescoring(tmp_path: Path, leaf: Any) -> None:
    tree = WeightedSum({"a": leaf(0.5), "b": leaf(1.0)}, {"a": 0.25, "b": 0.75})
    trajectory = rollout()
    rewards = verify(tree, trajectory, unscored="raise", directory=tmp_path / "verifier")
    assert rewards == parsed(tmp_path / "verifier") == {"reward": 0.875}
    assert rewards["reward"] == Scorer(tree).score(trajectory).reward == rescore_one(trajectory, tree).reward


def test_an_old_reward_does_not_outlive_a_failure(tmp_path: Path) -> None:
    folder = tmp_path / "verifier"
    verify(Fixed(1.0), rollout(), unscored="raise", directory=folder)
    with pytest.raises(RubricError, match="Fixed is unscored"):
        verify(Fixed(None), rollout(), unscored="raise", directory=folder)
    assert not (folder / "reward.json").exists()
    with pytest.raises(RubricError, match="the end of the rollout is 'error'"):
        verify(Fixed(1.0), rollout(end="error"), unscored="raise", directory=folder)


def test_a_metric_without_a_score_is_no_zero(tmp_path: Path) -> None:
    tree = WeightedSum({"a": Fixed(1.0), "b": Fixed(None)}, {"a": 0.5, "b": 0.5}, on_unscored="renormalize")
    assert verify(tree, rollout(), unscored="raise", directory=tmp_path) == {"reward": 1.0}
    with pytest.raises(RubricError, match="b has no score"):
        verify(tree, rollout(), unscored="raise", metrics=["b"], directory=tmp_path)
    assert not (tmp_path / "reward.json").exists()
    assert verify(tree, rollout(), unscored=-1, metrics=["b"], directory=tmp_path) == {"reward": 1.0, "b": -1.0}
    for wrong in ("c", "reward"):
        with pytest.raises(ValueError, match="no metric can be made of"):
            verify(tree, rollout(), unscored=-1, metrics=[wrong], directory=tmp_path)
    for wrong in (None, "drop", float("inf")):
        with pytest.raises(ValueError, match="unscored is 'raise' or a finite number"):
            verify(tree, rollout(), unscored=wrong, directory=tmp_path)  # type: ignore[arg-type]


def test_what_harbor_makes_of_keys_that_trials_lack() -> None:
    """Why there are no components in `reward.json` by default, and none left out of it."""
    assert Mean().compute([{"reward": 1.0, "b": 1.0}, {"reward": 1.0}]) == {"reward": 1.0, "b": 0.5}


def test_harbor_reads_no_null(tmp_path: Path) -> None:
    (tmp_path / "verifier").mkdir()
    (tmp_path / "verifier" / "reward.json").write_text('{"reward": null}')
    with pytest.raises(VerifierOutputParseError):
        parsed(tmp_path / "verifier")


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: Any) -> None:
    rubric = tmp_path / "rubric.py"
    rubric.write_text(TREE_FILE)
    runs, two, open_end = tmp_path / "run.jsonl", tmp_path / "two.jsonl", tmp_path / "open.jsonl"
    write_jsonl(runs, [rollout("please, 42")])
    write_jsonl(two, [rollout(id="a"), rollout(id="b")])
    unfinished = rollout()
    unfinished.end = None
    unfinished.steps[-1].observation = {}
    write_jsonl(open_end, [unfinished])
    out = ["--out", str(tmp_path / "out")]

    def run(*arguments: object) -> tuple[int, str]:
        code = main([str(argument) for argument in (*arguments, *out)])
        return code, capsys.readouterr().err

    assert run(f"{rubric}:make_rubric", runs, "--unscored", "raise") == (0, "")
    assert json.loads((tmp_path / "out" / "reward.json").read_text()) == {"reward": 1.0}
    for arguments, code, message in (
        ((rubric, runs, "--unscored", "nan"), 2, "unscored is 'raise' or a finite number"),
        ((rubric, tmp_path / "none.json", "--unscored", 0), 2, "none.json"),
        ((rubric, two, "--unscored", 0), 2, "expected one trajectory, found 2"),
        ((tmp_path / "no.py", runs, "--unscored", 0), 2, "there is no file"),
        ((rubric, runs, "--unscored", 0, "--metric", "nice"), 2, "'nice'"),
        ((rubric, open_end, "--unscored", "raise"), 1, "does not say how it ended"),
    ):
        found, error = run(*arguments)
        assert (found, message in error) == (code, True), error
        assert not (tmp_path / "out" / "reward.json").exists()
    assert run(rubric, open_end, "--unscored", "raise", "--assume-end", "terminated") == (0, "")
    with pytest.raises(SystemExit):
        main([str(rubric), str(runs)])
    assert "--unscored" in capsys.readouterr().err
