"""Trees whose leaves score many rows at once: the rows of a rescoring are those of the loop."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rubrics import Fallback, Gate, Rubric, Score, Sequential, Step, Trajectory, Unscored, Usage, WeightedSum, add_usage
from rubrics.formats import write_jsonl
from rubrics.formats.parsing import FormatProblem
from rubrics.rescoring import batched, prepared, read_rows, rescore, rescore_files
from rubrics.rescoring.engines.worker import Worker
from tests.leaves import Boom, Fixed


class Said(Rubric):
    """The number that the action is, with a reason; unscored, or an error, for some words. Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = 0
        self.batches: list[int] = []

    def judged(self, action: Any, task: Any) -> Score:
        if action == "boom":
            raise Boom("the action is boom")
        if action is None:
            raise Unscored("there is no action")
        return Score(action / task, f"{action} of {task}")

    def forward(self, action: Any, observation: Any) -> Score:
        self.alone += 1
        return self.judged(action, self.task)

    def forward_batch(self, actions: Sequence[Any], observations: Sequence[Any]) -> Any:
        self.batches.append(len(actions))
        found = []
        for action, task in zip(actions, self.tasks, strict=True):
            try:
                found.append(float(self.judged(action, task)))
            except Unscored:
                found.append(np.nan)
        return np.array(found)


def tree() -> Rubric:
    said = WeightedSum([Said(), Said()], [0.3, 0.7], on_unscored="renormalize")
    return Sequential(Gate(Said(), -1.0), Fallback(said, 0.1))


def trajectories() -> list[Trajectory | FormatProblem]:
    def run(name: str, *actions: Any, unpaid: Sequence[int] = (), **more: Any) -> Trajectory:
        steps = [Step(action, {"done": i == len(actions) - 1}) for i, action in enumerate(actions)]
        for index in unpaid:
            steps[index].metadata["unpaid"] = True
        return Trajectory(name, task=8, steps=steps, **{"end": "terminated", **more})

    return [
        run("plain", 1, 2, 3, 4),
        run("one step", 5),
        run("negative", -1, 2, -3, 1),
        run("unscored in the middle", 1, None, 3),
        run("unscored at the end", 1, 2, None),
        run("last", 1, None, 3, reduction="last"),
        FormatProblem("runs.jsonl", 7, "no JSON"),
        run("an error in the middle", 1, 2, "boom", 4),
        run("an error at the end", 1, 2, "boom"),
        run("no steps"),
        run("abandoned", 1, 2, end="abandoned"),
        run("unpaid", 1, 2, 3, 4, unpaid=[0, 2]),
        run("unpaid at the end", 1, 2, 3, unpaid=[2]),
        run("many", *range(1, 60)),
    ]


def compared(rows: Any) -> list[dict[str, Any]]:
    def timeless(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: timeless(value) for key, value in node.items() if key != "duration"}
        return [timeless(item) for item in node] if isinstance(node, list) else node

    return [timeless(row.to_dict()) for row in rows]


def looped(monkeypatch: pytest.MonkeyPatch, rubric: Rubric, **options: Any) -> list[dict[str, Any]]:
    with monkeypatch.context() as patch:
        patch.setattr("rubrics.rescoring.run.gains", lambda method: False)
        return compared(rescore(trajectories(), rubric, **options))


def asked(rubric: Rubric) -> list[Said]:
    return [node for node in rubric.rubrics() if isinstance(node, Said)]


@pytest.mark.parametrize("steps", [1, 5, 2048])
def test_rows_are_those_of_the_loop(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(batched, "_STEPS", steps)
    rubric = tree()
    rows = compared(rescore(trajectories(), rubric))
    assert all(leaf.batches for leaf in asked(rubric))
    assert rows == looped(monkeypatch, tree())
    assert [row["status"] for row in rows].count("error") == 3  # one of them: a step that ends the episode is unpaid


def test_steps_before_the_last_are_scored_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "_STEPS", 100)
    rubric = WeightedSum([Said()], [1.0])
    runs = [Trajectory(str(i), task=8, steps=[Step(1, {})] * 20, end="terminated") for i in range(10)]
    rows = list(rescore(runs, rubric))
    assert {row.reward for row in rows} == {20 / 8}
    assert {row.evaluation["rubric_0"].reason for row in rows if row.evaluation} == {"1 of 8"}
    (leaf,) = asked(rubric)
    assert (leaf.batches, leaf.alone) == ([95, 95], 10)  # of five trajectories each


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (tree, {"record": "steps"}),
        (lambda: WeightedSum([Said(), Fixed(0.5)], [0.5, 0.5]), {}),
    ],
    ids=["all steps are recorded", "a leaf without a batch"],
)
def test_what_needs_each_step_is_replayed(monkeypatch: pytest.MonkeyPatch, make: Any, options: dict[str, Any]) -> None:
    rubric = make()
    rows = compared(rescore(trajectories(), rubric, **options))
    assert all(not leaf.batches for leaf in asked(rubric))
    assert rows == looped(monkeypatch, make(), **options)


def test_what_a_batch_spends_is_of_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the steps are replayed, and each row has its own."""

    class Billed(Said):
        def forward(self, action: Any, observation: Any) -> Score:
            add_usage(Usage(calls=1))
            return super().forward(action, observation)

        def forward_batch(self, actions: Sequence[Any], observations: Sequence[Any]) -> Any:
            add_usage(Usage(calls=1))
            return super().forward_batch(actions, observations)

    rows = compared(rescore(trajectories(), WeightedSum([Billed()], [1.0])))
    assert rows == looped(monkeypatch, WeightedSum([Billed()], [1.0]))
    assert rows[0]["usage"]["calls"] == 4


def test_a_batch_that_cannot_be_is_told_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Said):
        def forward_batch(self, actions: Sequence[Any], observations: Sequence[Any]) -> Any:
            return np.zeros(1)

    with pytest.warns(RuntimeWarning, match="steps are scored one by one"):
        rows = compared(rescore(trajectories(), Wrong()))
    assert rows == looped(monkeypatch, Wrong())


def test_files_and_workers_give_the_same_rows(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "runs.jsonl"
    write_jsonl(source, [run for run in trajectories() if isinstance(run, Trajectory)])
    finished = rescore_files(source, tree(), tmp_path / "out.jsonl")
    assert finished.written == 13
    rows = [row.to_dict() for row in read_rows(tmp_path / "out.jsonl")]
    expected = [row for row in looped(monkeypatch, tree()) if row["status"] != "unreadable"]
    assert [(row["id"], row["status"], row["reward"]) for row in rows] == [
        (row["id"], row["status"], row["reward"]) for row in expected
    ]
    worker = Worker.__new__(Worker)
    worker.method, worker.budget = prepared(tree()), None
    answer = worker.score(pickle.dumps([(i, run, None) for i, run in enumerate(trajectories())]))
    assert len(answer.lines) == 14
