"""Harbor: a tree as the verifier of a task, in the task's own container.

`tests/test.sh`, with the tree beside it in `tests/rubric.py`:

    python -m rubrics.integrations.harbor /tests/rubric.py --unscored raise

reads `/logs/agent/trajectory.json` and writes, under `/logs/verifier`,

    reward.json           {"reward": 0.75}: Harbor makes a metric of every key, so there are no others unless asked for
    reward-details.json   scores and reasons by path, the whole record, and what it cost, as Harbor's viewer shows them

Harbor has no reward that says "none": where there is no `reward.json`, the trial has failed and is left out of means.
That is what becomes of a rollout that is unscored, unless a number was chosen for it. A tree written by hand into a
script calls `verify`. To score outside of the container, see `rubrics.integrations.harbor_verifier`.

Harbor itself is not imported here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from rubrics.formats import FormatError, FormatProblem, read
from rubrics.hosting.report import plain_values
from rubrics.modules import LoadError
from rubrics.rescoring.load import load_rubric
from rubrics.rescoring.rows import step_rewards_dict
from rubrics.rollouts.scoring import Fill, Scored, Scorer, checked_fill, filled
from rubrics.rubric import Rubric
from rubrics.score import RubricError
from rubrics.trajectory import Trajectory

VERIFIER_DIR = Path("/logs/verifier")
TRAJECTORY = Path("/logs/agent/trajectory.json")


def verify(
    rubric: Rubric,
    trajectory: Trajectory,
    *,
    unscored: Fill,
    metrics: Iterable[str] = (),
    directory: str | PathLike[str] = VERIFIER_DIR,
) -> dict[str, float]:
    """Score a rollout and write `reward.json` and `reward-details.json`.

    Args:
        rubric: the tree.
        trajectory: the rollout.
        unscored: `"raise"`, or the number for a rollout (or one of `metrics`) without a score.
        metrics: paths of nodes whose scores are to stand beside the reward. Harbor counts one that a trial lacks as 0
            and, with more than one key, has no pass@k.
        directory: where the files go.

    Returns:
        What `reward.json` holds.

    Raises:
        RubricError: there is no reward, and `unscored` is `"raise"`. The details say why; there is no `reward.json`.
        ValueError: `metrics` names a node that there is not, or `unscored` is something else.
    """
    unscored, metrics = checked_fill(unscored), tuple(metrics)
    folder = Path(directory)
    forget_reward(folder)
    scored = Scorer(rubric, record=True).score(trajectory)
    return write_rewards(scored, unscored, metrics, folder)


def forget_reward(folder: Path) -> None:
    """Make the folder and remove an old reward from it, which would stand where what follows fails."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reward.json").unlink(missing_ok=True)


def write_rewards(scored: Scored, unscored: Fill, metrics: Sequence[str], folder: Path) -> dict[str, float]:
    """Write the two files of a rollout that was scored with its record; as `verify`."""
    (folder / "reward-details.json").write_text(json.dumps(details_of(scored), indent=2), encoding="utf-8")
    rewards = {"reward": filled(scored, unscored)}
    for path in metrics:
        score = scored.scores.get(path)
        if path == "reward" or (scored.scores and path not in scored.scores):
            raise ValueError(f"no metric can be made of {path!r}; there are: {', '.join(scored.scores)}")
        if score is None and unscored == "raise":
            raise RubricError(f"{path} has no score: {scored.reasons.get(path) or 'it was not reached'}")
        rewards[path] = float(unscored if score is None else score)
    (folder / "reward.json").write_text(json.dumps(rewards), encoding="utf-8")
    return rewards


def details_of(scored: Scored) -> dict[str, Any]:
    """What `reward-details.json` holds: the form of Harbor's rewardkit, which its viewer knows, and all we know."""
    steps = scored.rewards()
    reward: dict[str, Any] = {
        "kind": "rubric",
        "score": scored.reward,
        "criteria": [
            {"name": path, "value": score, "raw": score, "weight": 1.0, "reasoning": scored.reasons.get(path)}
            for path, score in scored.scores.items()
            if score is not None
        ],
        "warnings": [
            f"{path}: {scored.reasons.get(path) or 'not reached'}"
            for path, score in scored.scores.items()
            if score is None
        ],
        "status": scored.status,
        "reason": scored.reason,
        "usage": scored.usage.to_dict(),
        "step_rewards": None if steps is None else step_rewards_dict(steps),
        "evaluation": None if scored.evaluation is None else scored.evaluation.to_dict(),
    }
    return {"reward": plain_values(reward)}


def read_one(path: str | PathLike[str], format: str | None = None) -> Trajectory:
    """The one trajectory of a file.

    Raises:
        FormatError: it cannot be read, or there is not exactly one.
    """
    items = list(read(Path(path), format))
    for item in items:
        if isinstance(item, FormatProblem):
            raise FormatError(str(item))
    if len(items) != 1 or not isinstance(items[0], Trajectory):
        raise FormatError(f"{path}: expected one trajectory, found {len(items)}")
    return items[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """What `python -m rubrics.integrations.harbor` does.

    Returns:
        0; 1 where there is no reward; 2 where something cannot be loaded or read.
    """
    parser = argparse.ArgumentParser(
        prog="python -m rubrics.integrations.harbor",
        description="Score the rollout of a Harbor trial and write reward.json and reward-details.json.",
    )
    parser.add_argument("rubric", metavar="PATH_OR_MODULE:FACTORY", help="the tree, or a function that returns it")
    parser.add_argument("trajectory", nargs="?", default=TRAJECTORY, help=f"the rollout's file; {TRAJECTORY}")
    parser.add_argument("--unscored", required=True, help="'raise', or the reward of a rollout without one")
    parser.add_argument(
        "--metric", action="append", default=[], metavar="PATH", help="a node's score beside the reward"
    )
    parser.add_argument(
        "--assume-end", choices=("terminated", "truncated"), help="if the file does not say how it ended"
    )
    parser.add_argument("--format", help="the file's format; by default its content tells")
    parser.add_argument("--out", default=VERIFIER_DIR, metavar="DIR", help=f"where the files go; {VERIFIER_DIR}")
    given = parser.parse_args(arguments)
    try:
        forget_reward(Path(given.out))
        unscored = checked_fill(_number(given.unscored))
        trajectory = read_one(given.trajectory, given.format)
        trajectory.end = trajectory.end or given.assume_end
        rubric = load_rubric(given.rubric)
        rewards = verify(rubric, trajectory, unscored=unscored, metrics=given.metric, directory=given.out)
    except RubricError as error:
        unusable = isinstance(error, LoadError | FormatError)
        print(f"rubrics: {'' if unusable else 'no reward: '}{error}", file=sys.stderr)
        return 2 if unusable else 1
    except (ValueError, OSError) as error:
        print(f"rubrics: {error}", file=sys.stderr)
        return 2
    print(json.dumps(rewards))
    return 0


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


if __name__ == "__main__":
    sys.exit(main())
